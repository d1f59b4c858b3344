"""Finds the classes whose objects may be stored, from the classes and state schemas that an application allows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from pydantic import BaseModel
from typing_extensions import is_typeddict

Name = tuple[str, ...]
"""The module and the name of a class."""


def classes_in(allowed: Iterable[Any]) -> set[Name]:
    """Return (module, name) of each given class and of the classes that its fields mention.

    The fields of pydantic models, dataclasses, typed dicts and named tuples are searched, through unions and
    containers. The models, dataclasses, enumerations and named tuples found in these fields are allowed. An item
    (module, name) allows only the class that it names.
    """
    given = list(allowed)
    found = {one for one in given if isinstance(one, tuple)}
    found.update(name_of(one) for one in given if isinstance(one, type) and not is_typeddict(one))
    todo, seen = [one for one in given if not isinstance(one, tuple)], list[Any]()
    while todo:
        kind = todo.pop()
        if any(kind is one for one in seen):
            continue
        seen.append(kind)
        todo.extend(_within(kind))
        if isinstance(kind, type) and _is_value(kind):
            found.add(name_of(kind))
    return found - SAFE_MSGPACK_TYPES


def _within(kind: Any) -> Iterator[Any]:
    """Yield the types that an annotation or the fields of a class mention."""
    yield from get_args(kind)
    for inside in (get_origin(kind), getattr(kind, "__supertype__", None), getattr(kind, "__value__", None)):
        if inside is not None:
            yield inside
    if isinstance(kind, type) and name_of(kind) not in SAFE_MSGPACK_TYPES:
        yield from _fields(kind).values()


def _fields(kind: type) -> Mapping[str, Any]:
    if issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    if not (is_typeddict(kind) or is_dataclass(kind) or is_named_tuple(kind)):
        return {}
    try:
        return get_type_hints(kind, include_extras=True)
    except (
        NameError,
        TypeError,
        AttributeError,
    ):  # an annotation uses a name that is imported only for type checkers
        return {}


def _is_value(kind: type) -> bool:
    return issubclass(kind, BaseModel | Enum) or is_dataclass(kind) or is_named_tuple(kind)


def is_named_tuple(kind: Any) -> bool:
    """Whether a class is a named tuple."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def name_of(kind: type) -> Name:
    """Return the module and the name of a class; the name of a class within a class begins with that class."""
    return kind.__module__, kind.__name__ if "<locals>" in kind.__qualname__ else kind.__qualname__
