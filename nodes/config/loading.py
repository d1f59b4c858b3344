"""Load settings from arguments, environment variables and YAML.

Arguments override environment variables, and environment variables override YAML. Only this module reads
YAML and environment variables.
"""

from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError, create_model
from yaml import MarkedYAMLError, YAMLError, safe_load

from langgraph_compaction.checkpoint import Keyring
from langgraph_compaction.checkpoint.db.row_codec import KEY_BYTES
from langgraph_compaction.checkpoint.patterns import Pattern

from ..errors import SettingsError
from .base_model import nearest
from .policies import POLICIES
from .settings import ALIASES, CompactionSettings, renamed

PREFIX = "LANGGRAPH_COMPACTION_"
"""Prefix of the environment variable of a setting; the setting's name in capital letters follows the prefix."""

DATABASE_URL = f"{PREFIX}DATABASE_URL"
"""Environment variable that holds the URL of the server's database, which is not a setting."""

CONFIG = f"{PREFIX}CONFIG"
"""Environment variable that holds the path of a YAML file of settings."""

ALLOW = f"{PREFIX}ALLOW"
"""Environment variable that names the classes which the server's checkpointer may store, as `module:Class`, separated
by commas."""

KEYS = f"{PREFIX}KEYS"
"""Environment variable that holds the keys of an encrypted database, as `ID=KEY` with the key in base64, separated by
commas, the current one first."""

_NO_SETTINGS = frozenset({DATABASE_URL, CONFIG, ALLOW, KEYS})

KEY = "context_compaction"
"""Key of the YAML file that holds the settings; other keys belong to the application and are ignored."""

COMPUTED = "summary_remaining_token_threshold"
"""Name of a setting that another system computes and this package refuses: a trigger sets the share to keep free."""

Place = Callable[[str], str]
"""How errors name a setting in its source."""

_TEXT = Pattern(rf"\n|{KEY}[\"']?\s*+:")
_SHOWN = 60

_FIELDS = {
    **CompactionSettings.model_fields,
    **{n: field for kind in POLICIES.values() for n, field in kind.model_fields.items() if n != "name"},
}
NAMES = (*_FIELDS, *ALIASES)
"""All flat names of settings."""

_create: Any = create_model  # its overloads know no fields given by name


def allowed_classes(text: str) -> list[tuple[str, str]]:
    """Return (module, name) of each class in the text of `LANGGRAPH_COMPACTION_ALLOW`; no module is imported."""
    named = [one.strip() for one in text.split(",") if one.strip()]
    found = [(module, name) for module, _, name in (one.partition(":") for one in named)]
    for one, (module, name) in zip(named, found, strict=True):
        if not module or not name.isidentifier():
            raise SettingsError(f"{ALLOW}: {one!r} names no class; write module:Class, separated by commas")
    return found


def keys_in(env: Mapping[str, str]) -> Keyring | None:
    """Return the keys in the variable `LANGGRAPH_COMPACTION_KEYS`, `None` without any; no error quotes a key."""
    items = [one.strip().partition("=") for one in env.get(KEYS, "").split(",") if one.strip()]
    if not items:
        return None
    try:
        keys = {name: b64decode(key, validate=True) for name, _, key in items if name}
    except ValueError:
        keys = {}
    if len(keys) < len(items) or any(len(key) != KEY_BYTES for key in keys.values()):
        raise SettingsError(f"{KEYS}: write ID=KEY, each key {KEY_BYTES} bytes in base64, separated by commas")
    return Keyring(keys, current=items[0][0])


def load_settings(
    yaml: str | Path | None = None, env: Mapping[str, str] | None = None, **given: Any
) -> CompactionSettings:
    """Return the settings of arguments, environment variables and YAML, in this order of precedence.

    Settings that no source gives take the values of the policy: that of `preset` or `policy`, else the first one that
    has all the given settings of policies, else `selective`.

    `yaml` is a file or its text, with the settings under the key `context_compaction`; without it, the file is the
    one that the variable `LANGGRAPH_COMPACTION_CONFIG` of `env` names, if any. From `env`, for example `os.environ`,
    the variables `LANGGRAPH_COMPACTION_<SETTING>` are read: an empty variable counts as not set, `null` is `None`,
    and lists and objects are JSON. Settings of policies stand beside the shared ones, by their flat names.

    Raise `SettingsError` for a wrong setting; the error names the file and key, the variable or the argument.
    """
    variables = {name: text for name, text in (env or {}).items() if text.strip()}
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for found, place in (_from_yaml(variables, yaml), _from_env(variables), (given, str)):
        _check(found, place)
        try:
            values |= renamed(found)
        except ValueError as error:
            raise SettingsError(f"{place(next(iter(found)))}: {error}") from None
        places |= {ALIASES.get(name, name): place(name) for name in found}
    try:
        return CompactionSettings.model_validate(values)
    except ValidationError as error:
        raise SettingsError("; ".join(_fault(places, **one) for one in error.errors())) from None


def _check(names: Iterable[str], place: Place) -> None:
    """Raise `SettingsError` for a name that is no setting."""
    for name in names:
        if name == COMPUTED:
            raise SettingsError(
                f"{place(name)}: this is computed, 25 % of the window; another share is a trigger of its own: "
                f'{place("triggers")} with {{"kind": "remaining_ratio", "ratio": 0.25}}'
            )
        if name not in NAMES:
            spell = place if place is _variable else str
            raise SettingsError(f"{place(name)}: there is no such setting; {nearest(spell(name), map(spell, NAMES))}")


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _from_env(variables: Mapping[str, str]) -> tuple[dict[str, Any], Place]:
    """Return the settings in environment variables, with lists and objects read as JSON."""
    given = {
        name.removeprefix(PREFIX).lower(): text.strip()
        for name, text in variables.items()
        if name.startswith(PREFIX) and name not in _NO_SETTINGS
    }
    _check(given, _variable)
    if not given:
        return {}, _variable
    from pydantic_settings import BaseSettings, EnvSettingsSource  # noqa: PLC0415 - only the environment needs it
    from pydantic_settings import SettingsError as UnreadableVariable  # noqa: PLC0415

    kinds = {name: (_FIELDS[ALIASES.get(name, name)].annotation, None) for name in given}
    source = EnvSettingsSource(_create("Flat", __base__=BaseSettings, **kinds), env_prefix=PREFIX)
    source.env_vars = {_variable(name).lower(): text for name, text in given.items() if text != "null"}
    try:
        found = source()
    except UnreadableVariable as error:
        name = next(name for name in given if f'"{name}"' in str(error))
        raise SettingsError(f"{_variable(name)} = {_short(given[name])}: not JSON ({error.__cause__})") from None
    return {**found, **dict.fromkeys(name for name, text in given.items() if text == "null")}, _variable


def _from_yaml(variables: Mapping[str, str], yaml: str | Path | None) -> tuple[dict[str, Any], Place]:
    """Return the settings of a YAML file or text, and how errors name a key of it."""
    named = Path(variables[CONFIG].strip()) if CONFIG in variables else None
    source = named if yaml is None else yaml
    if source is None:
        return {}, str
    place, text = _text(source)
    try:
        whole = safe_load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise SettingsError(f"{place}: not YAML ({where}{error.problem})") from None
    except YAMLError as error:
        raise SettingsError(f"{place}: not YAML ({' '.join(str(error).split())})") from None
    if not isinstance(whole, dict) or KEY not in whole:
        near = get_close_matches(KEY, map(str, whole), 1) if isinstance(whole, dict) else []
        hint = f"; did you mean it by {near[0]}?" if near else ""
        raise SettingsError(f"{place}: the settings stand under a key {KEY}:, which is missing{hint}")
    section = whole[KEY]
    if section is not None and not isinstance(section, dict):
        raise SettingsError(f"{place}: {KEY} is {_short(section)}; it holds settings, one `name: value` a line")
    return {str(key): value for key, value in (section or {}).items()}, lambda name: f"{place}: {KEY}.{name}"


def _text(yaml: str | Path) -> tuple[str, str]:
    """Return the name of the YAML source in error messages, and the YAML text."""
    if isinstance(yaml, str) and _TEXT.search(yaml):
        return "YAML", yaml
    try:
        return str(yaml), Path(yaml).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SettingsError(f"{yaml}: not UTF-8 text") from None
    except OSError as error:
        hint = "" if isinstance(yaml, Path) else f"; as text it begins with {KEY}:"
        raise SettingsError(f"{yaml}: cannot be read ({error.strerror}){hint}") from None


def _fault(places: Mapping[str, str], *, loc: Sequence[Any], msg: str, input: Any, **_: Any) -> str:  # noqa: A002 - pydantic names the argument
    """Return one fault as a line: its place, the value, and what is accepted."""
    said = msg.removeprefix("Value error, ")
    inside = [part for part in loc if part not in POLICIES and part != "policy"]
    name = str(inside[0]) if inside else ""
    if name in places:
        meaning = " ".join((_FIELDS[name].description or "").split())
        path = inside[1:2] + inside[3:] if name == "triggers" else inside[1:]  # pydantic adds the kind of a trigger
        shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        told = "" if said.startswith("unknown") or not meaning else f" ({meaning})"
        return f"{places[name]}{shown} = {_short(input)}: {said}{told}"
    named = [place for field, place in places.items() if field in said]
    return f"{', '.join(named)}: {said}" if named else said


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
