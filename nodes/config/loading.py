"""Load settings from arguments, environment variables and YAML.

Arguments override environment variables, and environment variables override YAML. Only this module reads
YAML and environment variables.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, PositiveInt, TypeAdapter, ValidationError
from yaml import MarkedYAMLError, YAMLError, safe_load

from langgraph_compaction.checkpoint.patterns import Pattern

from ..errors import SettingsError
from .base_model import nearest
from .presets import Preset
from .settings import CompactionOverrides, CompactionSettings
from .triggers import SINCE_COMPACTION

PREFIX = "LANGGRAPH_COMPACTION_"
"""Prefix of the environment variable of a setting; the setting's name in capital letters follows the prefix."""

DATABASE_URL = f"{PREFIX}DATABASE_URL"
"""Environment variable that holds the URL of the server's database, which is not a setting."""

CONFIG = f"{PREFIX}CONFIG"
"""Environment variable that holds the path of a YAML file of settings."""

ALLOW = f"{PREFIX}ALLOW"
"""Environment variable that names the classes which the server's checkpointer may store, as `module:Class`, separated
by commas."""

_NO_SETTINGS = frozenset({DATABASE_URL, CONFIG, ALLOW})

KEY = "context_compaction"
"""Key of the YAML file that holds the settings; other keys belong to the application and are ignored."""

ALIASES: Mapping[str, str] = {
    "max_context_tokens": "context_window",
    "keep_recent_rounds": "recent_rounds_keep",
    "summary_max_length": "summary_max_chars",
}
"""Other names of settings, from the configuration file of the system that the preset `recent_rounds` reproduces."""

IMPLIED: Mapping[str, Preset] = {"keep_recent_rounds": "recent_rounds"}
"""Names of settings that have an effect in one preset only: if no source names a preset, such a name selects that
preset."""

TURNS = "conversation_turn_threshold"
"""Another name for the limit of the trigger that counts turns or calls of the model."""

COMPUTED = "summary_remaining_token_threshold"
"""Name of a setting that other systems have and this package refuses: the share of the window to keep free is set by
a trigger."""

_TEXT = Pattern(rf"\n|{KEY}[\"']?\s*+:")
_SHOWN = 60


@dataclass(frozen=True)
class _Layer:
    """The settings of one source."""

    values: dict[str, Any]
    """The value of each setting, by the setting's name."""
    places: dict[str, str]
    """For each setting, the place that error messages name: the file and key, the environment variable, or the
    argument."""
    implied: Mapping[str, Preset] = field(default_factory=dict[str, Preset])
    """For each name in the source that has an effect in one preset only, by its place, this preset."""


def allowed_classes(text: str) -> list[tuple[str, str]]:
    """Return (module, name) of each class in the text of `LANGGRAPH_COMPACTION_ALLOW`; no module is imported."""
    named = [one.strip() for one in text.split(",") if one.strip()]
    found = [(module, name) for module, _, name in (one.partition(":") for one in named)]
    for one, (module, name) in zip(named, found, strict=True):
        if not module or not name.isidentifier():
            raise SettingsError(f"{ALLOW}: {one!r} names no class; write module:Class, separated by commas")
    return found


def load_settings(
    yaml: str | Path | None = None, env: Mapping[str, str] | None = None, **given: Any
) -> CompactionSettings:
    """Return the settings of arguments, environment variables and YAML, in this order of precedence.

    Settings that no source gives take the values of the preset: the first `preset` that a source gives, in
    the order of precedence; else `recent_rounds` if a source gives `keep_recent_rounds`, else `selective`. With a
    preset in which `keep_recent_rounds` has no effect, this name is an error.

    `yaml` is a file or its text, with the settings under the key `context_compaction`; without it, the file is the
    one that the variable `LANGGRAPH_COMPACTION_CONFIG` of `env` names, if any. From `env`, for example `os.environ`,
    the variables `LANGGRAPH_COMPACTION_<SETTING>` are read: an empty variable counts as not set, `null` is `None`,
    and lists and objects are JSON. Besides the names of the settings, `max_context_tokens`,
    `keep_recent_rounds`, `summary_max_length` and `conversation_turn_threshold` are understood.

    Raise `SettingsError` for a wrong setting; the error names the file and key, the variable or the argument.
    """
    variables = env or {}
    source = _named_file(variables) if yaml is None else yaml
    layers = [_from_yaml(source), _from_env(variables), _layer(given, "", str)]
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    named = [layer.values["preset"] for layer in reversed(layers) if "preset" in layer.values]
    implied: dict[str, Preset] = {}
    for layer in reversed(layers):
        implied |= layer.implied
    preset = next(iter([*named, *implied.values()]), None)
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
        found = CompactionSettings.model_validate(values)
    except ValidationError as error:
        raise _settings_error(error, places) from None
    _no_inert_names(found, implied)
    return found


def _no_inert_names(settings: CompactionSettings, implied: Mapping[str, Preset]) -> None:
    """Raise `SettingsError` for a name that belongs to one preset if the settings use none of its strategies."""
    for place, preset in implied.items():
        if not {*settings.strategies} & {*CompactionSettings(preset=preset).strategies}:
            raise SettingsError(
                f"{place}: it has an effect in the preset {preset} only, and here the preset {settings.preset} has "
                f"the strategies {', '.join(settings.strategies)}: choose preset {preset}, or leave the name out"
            )


def _layer(raw: Mapping[str, Any], place: str, spell: Callable[[str], str]) -> _Layer:
    """Read the settings of one source, and validate each separately.

    `spell` returns the name that a setting has in this source, for error messages.
    """
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
        raise _settings_error(error, {"": places[TURNS]}) from None
    _no_switches(values, places)
    try:
        plain = CompactionOverrides.model_validate(values).model_dump(include=set(values))
    except ValidationError as error:
        raise _settings_error(error, places) from None
    implied: dict[str, Preset] = {
        places[ALIASES[name]]: preset for name, preset in IMPLIED.items() if spell(name) in raw
    }
    return _Layer({**plain, **turns}, places, implied)


_TURNS: TypeAdapter[int] = TypeAdapter(PositiveInt)


def _no_switches(values: Mapping[str, Any], places: Mapping[str, str]) -> None:
    """Raise `SettingsError` for `true` or `false` if a number is expected: Python would accept them as 1 and 0."""
    for name, value in values.items():
        if isinstance(value, bool) and bool not in _kinds(name):
            raise SettingsError(f"{places[name]} = {json.dumps(value)}: this is no switch; {_meaning(name)}")


def _kinds(name: str) -> tuple[Any, ...]:
    """Return a setting's type, followed by the type's members if the type is a union."""
    annotation: Any = CompactionSettings.model_fields[name].annotation
    return (annotation, *get_args(annotation))


def _with_turns(values: Mapping[str, Any], limit: int) -> tuple[dict[str, Any], ...]:
    """Return the triggers with this limit for turns or calls of the model; add a trigger by turns if none counts."""
    there = CompactionSettings.model_validate(
        {name: values[name] for name in ("preset", "triggers") if name in values}
    )
    plain = [trigger.model_dump() for trigger in there.triggers]
    counted = [trigger for trigger in plain if trigger["kind"] == "count" and trigger["unit"] in SINCE_COMPACTION]
    for trigger in counted:
        trigger["limit"] = limit
    return (*plain, *([] if counted else [{"kind": "count", "unit": "turns", "limit": limit, "full": True}]))


def _from_env(env: Mapping[str, str]) -> _Layer:
    fields = {PREFIX + name.upper(): name for name in CompactionSettings.model_fields}
    raw: dict[str, Any] = {}
    for variable, text in env.items():
        if variable.startswith(PREFIX) and variable not in _NO_SETTINGS and text.strip():
            raw[variable] = _read(variable, fields.get(variable), text.strip())
    return _layer(raw, "", lambda name: PREFIX + name.upper())


def _read(variable: str, name: str | None, text: str) -> Any:
    """Return the value of a variable, parsed as JSON for a setting that is a list or an object."""
    if text == "null":
        return None
    if name is None or not any(map(_is_structured, _kinds(name))):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        usual = json.dumps(CompactionSettings().model_dump(mode="json")[name])
        raise SettingsError(f"{variable} = {_short(text)}: not JSON ({error}); the default is {usual}") from None


def _is_structured(kind: Any) -> bool:
    """Return whether a type is a list or an object."""
    return get_origin(kind) in (tuple, list, dict) or (isinstance(kind, type) and issubclass(kind, BaseModel))


def _named_file(env: Mapping[str, str]) -> Path | None:
    return Path(name) if (name := env.get(CONFIG, "").strip()) else None


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


def _settings_error(error: ValidationError, places: Mapping[str, str]) -> SettingsError:
    """Convert a validation error to a one-line error with each fault's place, value and accepted values."""
    return SettingsError("; ".join(_fault(places, **one) for one in error.errors()))


def _fault(places: Mapping[str, str], *, loc: Sequence[Any], msg: str, input: Any, **_: Any) -> str:  # noqa: A002 - pydantic names the argument
    said = msg.removeprefix("Value error, ")
    name = str(loc[0]) if loc else ""
    if name in places:
        meaning = f" ({told})" if (told := _meaning(name)) and not said.startswith("unknown") else ""
        return f"{places[name]}{_path(loc)} = {_short(input)}: {said}{meaning}"
    named = [place for field, place in places.items() if field in said]
    return f"{', '.join(named)}: {said}" if named else said


def _path(loc: Sequence[Any]) -> str:
    """Return the place inside a setting, such as `[1].limit`, without the kind of trigger that pydantic adds."""
    kept: Iterable[Any] = (part for at, part in enumerate(loc[1:], 1) if at != 2 or loc[0] != "triggers")  # noqa: PLR2004 - pydantic puts the kind of trigger second
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in kept)


def _meaning(name: str) -> str:
    field = CompactionSettings.model_fields.get(name)
    return " ".join((field.description or "").split()) if field else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
