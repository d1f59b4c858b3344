"""Collect or change the texts inside JSON-like values such as call arguments and content blocks."""

from collections.abc import Callable, Collection, Mapping
from typing import Any


def nested_texts(value: Any) -> list[str]:
    """Return every text inside a value, at any depth and in order; mapping keys are not included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in nested_texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in nested_texts(item)]
    return []


def map_texts(value: Any, change: Callable[[str], str], *, except_keys: Collection[str] = ()) -> Any:
    """Return a copy of a value with `change` applied to every text, except to the values under `except_keys`."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {
            key: item if key in except_keys else map_texts(item, change, except_keys=except_keys)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [map_texts(item, change, except_keys=except_keys) for item in value]
    return value
