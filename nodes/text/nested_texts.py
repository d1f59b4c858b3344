"""The texts inside JSON-like values: arguments of calls, blocks of content."""

from collections.abc import Callable, Collection, Mapping
from typing import Any


def nested_texts(value: Any) -> list[str]:
    """Every text inside a value, in order; keys are none."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in nested_texts(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in nested_texts(item)]
    return []


def map_texts(value: Any, change: Callable[[str], str], *, but: Collection[str] = ()) -> Any:
    """A copy of a value with every text changed, but for what stands under these keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: item if key in but else map_texts(item, change, but=but) for key, item in value.items()}
    if isinstance(value, list):
        return [map_texts(item, change, but=but) for item in value]
    return value
