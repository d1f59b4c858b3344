"""`CompactionSettings`: every setting a user may change, validated as a whole; and the overrides of one run."""

import json
from functools import cached_property
from typing import Any, Self

from pydantic import BaseModel, Field, create_model, model_validator

from ..errors import SettingsError
from .base_model import Frozen
from .presets import defaults_of
from .setting_groups import (
    BreakerSettings,
    ConfirmationSettings,
    EverydaySettings,
    FactSettings,
    KeyInformationSettings,
    RequestSettings,
    SummarySettings,
    TriggerSettings,
)
from .strategy_settings import StrategySettings
from .triggers import TokenTrigger, UsedRatio


class CompactionSettings(  # pydantic orders fields from the last base to the first
    RequestSettings,
    BreakerSettings,
    ConfirmationSettings,
    KeyInformationSettings,
    FactSettings,
    SummarySettings,
    StrategySettings,
    TriggerSettings,
    EverydaySettings,
):
    """Settings of a compaction: frozen, JSON only. Dependencies and connections go to the builder."""

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, given: Any) -> Any:
        """Fill in the preset's values for settings that are not given; the field reports an unknown preset."""
        if not isinstance(given, dict):
            return given
        return {**defaults_of(given.get("preset", "selective")), **given}

    @model_validator(mode="after")
    def _target_below_trigger(self) -> Self:
        if self.trigger_ratio is not None and self.target_ratio >= self.trigger_ratio:
            raise ValueError(
                f"target_ratio ({self.target_ratio}) must be below trigger_ratio ({self.trigger_ratio}): "
                "a compaction that ends where it starts runs at every turn"
            )
        return self

    @cached_property
    def token_triggers(self) -> tuple[TokenTrigger, ...]:
        """Return the triggers that compare tokens, `trigger_ratio` first."""
        first = () if self.trigger_ratio is None else (UsedRatio(ratio=self.trigger_ratio),)
        return (*first, *(trigger for trigger in self.triggers if isinstance(trigger, TokenTrigger)))


GROUPS: dict[str, type[BaseModel]] = {
    "Everyday settings": EverydaySettings,
    "Triggers": TriggerSettings,
    "Strategies": StrategySettings,
    "Summary": SummarySettings,
    "Facts": FactSettings,
    "Key information": KeyInformationSettings,
    "Confirmation": ConfirmationSettings,
    "Breaker": BreakerSettings,
    "Requests": RequestSettings,
}
"""The groups of settings by the heading that shows them, in the order of the fields."""


def _optional(name: str) -> tuple[Any, Any]:
    """Return a setting's type and field for the overrides: `None` by default, with its usual default in words."""
    field = CompactionSettings.model_fields[name]
    default = json.dumps(CompactionSettings().model_dump(mode="json")[name])
    shown = default if len(default) < _LONGEST_DEFAULT else "the usual table"
    described = f"{' '.join((field.description or '').split())} Default of the preset `selective`: {shown}."
    return (field.annotation | None, Field(None, title=field.title, description=described))  # type: ignore[operator] # a type


_LONGEST_DEFAULT = 60
"""Characters from which (inclusive) a default is not written out."""

_create: Any = create_model  # its overloads know no fields given by name

CompactionOverrides: type[BaseModel] = _create(
    "CompactionOverrides",
    __base__=Frozen,
    __doc__="Settings changed for one run (the graph's context schema). A field that is `None` changes nothing.",
    **{name: _optional(name) for name in CompactionSettings.model_fields},
)


def settings_of(given: CompactionSettings | None) -> CompactionSettings:
    """Return the settings that an application gave, or the default ones; raise `SettingsError` for anything else."""
    if given is None:
        return CompactionSettings()
    if not isinstance(given, CompactionSettings):  # pyright: ignore[reportUnnecessaryIsInstance] # callers err
        raise SettingsError(
            f"settings is a {type(given).__name__}: give settings=CompactionSettings(...), or load_settings(...)"
        )
    return given


def effective(settings: CompactionSettings, overrides: BaseModel | dict[str, Any] | None) -> CompactionSettings:
    """Return the builder's settings with a run's overrides applied, validated again as a whole."""
    if overrides is None:
        return settings
    given = overrides.model_dump() if isinstance(overrides, BaseModel) else overrides
    changed = {name: value for name, value in given.items() if value is not None}
    return CompactionSettings.model_validate({**chosen(settings), **changed}) if changed else settings


def chosen(settings: CompactionSettings) -> dict[str, Any]:
    """Return the preset and the values that differ from it: those that stay when another preset is chosen."""
    usual = CompactionSettings(preset=settings.preset).model_dump()
    changed = {name: value for name, value in settings.model_dump().items() if value != usual[name]}
    return {"preset": settings.preset, **changed}
