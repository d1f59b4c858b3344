"""Settings from arguments, the environment and YAML, in that order; nothing else reads the last two."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import PositiveInt, TypeAdapter, ValidationError
from yaml import MarkedYAMLError, YAMLError, safe_load

from ..errors import SettingsError
from .base_model import nearest
from .settings import CompactionOverrides, CompactionSettings

PREFIX = "LANGGRAPH_COMPACTION_"
"""How the environment variable of a setting begins; its name in capitals follows."""

DATABASE_URL = f"{PREFIX}DATABASE_URL"
"""The server's database, which is a connection and no setting."""

CONFIG = f"{PREFIX}CONFIG"
"""The server's YAML file of settings."""

KEY = "context_compaction"
"""The key of a YAML file under which the settings stand; what else the file holds is the application's."""

ALIASES: Mapping[str, str] = {
    "max_context_tokens": "context_window",
    "keep_recent_rounds": "recent_rounds_keep",
    "summary_max_length": "summary_max_chars",
}
"""Names of settings as the configuration of the `recent_rounds` system spells them."""

TURNS = "conversation_turn_threshold"
"""The limit of the trigger that counts turns."""

COMPUTED = "summary_remaining_token_threshold"
"""A quarter of the window that must be left."""

_TEXT = re.compile(rf"\n|{KEY}[\"']?\s*:")
_SHOWN = 60


@dataclass(frozen=True)
class _Layer:
    """What one source sets: values by our names, and where each of them stands."""

    values: dict[str, Any]
    places: dict[str, str]


def load_settings(
    yaml: str | Path | None = None, env: Mapping[str, str] | None = None, **given: Any
) -> CompactionSettings:
    """The settings of arguments over environment variables over YAML over the preset that the first of them names.

    `yaml` is a file or its text, with the settings under `context_compaction:`. `env`, such as `os.environ`, is
    searched for `LANGGRAPH_COMPACTION_<SETTING>`; a variable that is empty counts as not set, `null` is `None`,
    and lists and objects are JSON. Beside the names of the settings, `max_context_tokens`, `keep_recent_rounds`,
    `summary_max_length` and `conversation_turn_threshold` are understood. Raises `SettingsError`, which names
    the file and key, the variable or the argument.
    """
    layers = [_from_yaml(yaml), _from_env(env or {}), _layer(given, "", str)]
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    preset = next((layer.values["preset"] for layer in reversed(layers) if "preset" in layer.values), None)
    if preset is not None:
        values["preset"] = preset
    for layer in layers:
        own = dict(layer.values)
        turns = own.pop(TURNS, None)
        values |= {name: value for name, value in own.items() if name != "preset"}
        places |= layer.places
        if turns is not None:
            values["triggers"] = _with_turns(values, turns)
    try:
        return CompactionSettings.model_validate(values)
    except ValidationError as error:
        raise _told(error, places) from None


def _layer(raw: Mapping[str, Any], place: str, spell: Callable[[str], str]) -> _Layer:
    """Values under the names that a source spells so, each valid by itself."""
    fields = list(CompactionSettings.model_fields)
    known = {spell(name): name for name in (*fields, *ALIASES, TURNS)}
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for key, value in raw.items():
        if key == spell(COMPUTED):
            raise SettingsError(
                f"{place}{key}: this is computed, 25 % of the window; another share is a trigger of its own: "
                f'{spell("triggers")} with {{"kind": "remaining_ratio", "ratio": 0.25}}'
            )
        if key not in known:
            raise SettingsError(f"{place}{key}: there is no such setting; {nearest(key, known)}")
        name = ALIASES.get(known[key], known[key])
        if name in values:
            raise SettingsError(f"{place}{key} and {places[name]} are the same setting: give one of them")
        values[name], places[name] = value, f"{place}{key}"
    try:
        turns = {TURNS: _TURNS.validate_python(values.pop(TURNS))} if TURNS in values else {}
    except ValidationError as error:
        raise _told(error, {"": places[TURNS]}) from None
    _no_switches(values, places)
    try:
        plain = CompactionOverrides.model_validate(values).model_dump(include=set(values))
    except ValidationError as error:
        raise _told(error, places) from None
    return _Layer({**plain, **turns}, places)


_TURNS: TypeAdapter[int] = TypeAdapter(PositiveInt)


def _no_switches(values: Mapping[str, Any], places: Mapping[str, str]) -> None:
    """Raise for `true` and `false` where a number is meant: they would count as 1 and 0."""
    for name, value in values.items():
        if isinstance(value, bool) and bool not in _kinds(name):
            raise SettingsError(f"{places[name]} = {json.dumps(value)}: this is no switch; {_meaning(name)}")


def _kinds(name: str) -> tuple[Any, ...]:
    """A setting's type, and the types that it is made of."""
    annotation: Any = CompactionSettings.model_fields[name].annotation
    return (annotation, *get_args(annotation))


def _with_turns(values: Mapping[str, Any], limit: int) -> tuple[dict[str, Any], ...]:
    """The triggers so far, with this limit of turns; with a trigger that counts them where none did."""
    there = CompactionSettings.model_validate(
        {name: values[name] for name in ("preset", "triggers") if name in values}
    )
    plain = [trigger.model_dump() for trigger in there.triggers]
    counted = [trigger for trigger in plain if (trigger["kind"], trigger.get("unit")) == ("count", "turns")]
    for trigger in counted:
        trigger["limit"] = limit
    return (*plain, *([] if counted else [{"kind": "count", "unit": "turns", "limit": limit, "full": True}]))


def _from_env(env: Mapping[str, str]) -> _Layer:
    fields = {PREFIX + name.upper(): name for name in CompactionSettings.model_fields}
    raw: dict[str, Any] = {}
    for variable, text in env.items():
        if variable.startswith(PREFIX) and variable not in (DATABASE_URL, CONFIG) and text.strip():
            raw[variable] = _read(variable, fields.get(variable), text.strip())
    return _layer(raw, "", lambda name: PREFIX + name.upper())


def _read(variable: str, name: str | None, text: str) -> Any:
    """The value of a variable: JSON for a setting that is a list or an object."""
    if text == "null":
        return None
    if name is None or not any(get_origin(kind) in (tuple, list, dict) for kind in _kinds(name)):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        usual = json.dumps(CompactionSettings().model_dump(mode="json")[name])
        raise SettingsError(f"{variable} = {_short(text)}: not JSON ({error}); the default is {usual}") from None


def _from_yaml(yaml: str | Path | None) -> _Layer:
    if yaml is None:
        return _Layer({}, {})
    place, text = _text(yaml)
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
    return _layer({str(key): value for key, value in (section or {}).items()}, f"{place}: {KEY}.", str)


def _text(yaml: str | Path) -> tuple[str, str]:
    """A name for the source, and its text."""
    if isinstance(yaml, str) and _TEXT.search(yaml):
        return "YAML", yaml
    try:
        return str(yaml), Path(yaml).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SettingsError(f"{yaml}: not UTF-8 text") from None
    except OSError as error:
        hint = "" if isinstance(yaml, Path) else f"; as text it begins with {KEY}:"
        raise SettingsError(f"{yaml}: cannot be read ({error.strerror}){hint}") from None


def _told(error: ValidationError, places: Mapping[str, str]) -> SettingsError:
    """Every fault as one line: where it stands, the value, and what is accepted."""
    return SettingsError("; ".join(_fault(places, **one) for one in error.errors()))


def _fault(places: Mapping[str, str], *, loc: Sequence[Any], msg: str, input: Any, **_: Any) -> str:  # noqa: A002 - pydantic's names
    said = msg.removeprefix("Value error, ")
    name = str(loc[0]) if loc else ""
    if name in places:
        meaning = f" ({told})" if (told := _meaning(name)) and not said.startswith("unknown") else ""
        return f"{places[name]}{_path(loc)} = {_short(input)}: {said}{meaning}"
    named = [place for field, place in places.items() if field in said]
    return f"{', '.join(named)}: {said}" if named else said


def _path(loc: Sequence[Any]) -> str:
    """Where in a setting: `[1].limit`; the kind of a trigger, which pydantic names too, is no place."""
    kept: Iterable[Any] = (part for at, part in enumerate(loc[1:], 1) if at != 2 or loc[0] != "triggers")  # noqa: PLR2004 -- the model's own index
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in kept)


def _meaning(name: str) -> str:
    field = CompactionSettings.model_fields.get(name)
    return " ".join((field.description or "").split()) if field else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
