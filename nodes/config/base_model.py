"""The base class of every settings value: frozen, JSON only, with an error that suggests the nearest known name."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, model_validator


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the nearest known name, or else all known names."""
    there = list(known)
    near = get_close_matches(name, there, 1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(there)}"


class Frozen(BaseModel):
    """Base class of settings: instances are immutable, and an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _known_names(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            for name, value in given.items():
                if name not in cls.model_fields:
                    raise ValueError(f"unknown {str(name)!r}: {nearest(str(name), cls.model_fields)}")
                if isinstance(value, bool) and bool not in _kinds(cls.model_fields[name].annotation):
                    raise ValueError(f"{name} = {str(value).lower()}: this is no switch")  # else it counts as 1 or 0
        return given


def _kinds(annotation: Any) -> tuple[Any, ...]:
    return (annotation, *get_args(annotation))
