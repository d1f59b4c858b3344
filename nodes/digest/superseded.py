"""Values that a later message replaced: the same field of the same thing, read again."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ..text.identifiers import identifiers, is_id_key
from .model import Entry
from .value_extraction import Sighting

MARK = " (superseded)"
"""What stands behind a value that is no longer true."""

Place = tuple[int, str, str, str]
"""Position of a message; path, row and key in it."""

Field = tuple[str, str, str, str, str]
"""Key and value that name the thing; path, row and key of the field."""


Stated = Entry | Sighting
"""A value of a field, as a message or an earlier digest states it."""


def superseded(stated: Sequence[Stated]) -> set[Place]:
    """Where each statement stands that a later one contradicts."""
    fields = list(_fields(stated))
    latest = {field: one for one, field in sorted(fields, key=lambda named: named[0].at)}
    return {place_of(one) for one, field in fields if _contradicts(latest[field], one)}


def _contradicts(later: Stated, earlier: Stated) -> bool:
    return later.at > earlier.at and later.value.removesuffix(MARK) != earlier.value.removesuffix(MARK)


def place_of(one: Stated) -> Place:
    """Where a statement stands."""
    return one.at, one.path, one.row, one.key


def _fields(stated: Sequence[Stated]) -> Iterator[tuple[Stated, Field]]:
    """The statements about things; what a message without an id of its own states is about nothing known."""
    groups: defaultdict[int, list[Stated]] = defaultdict(list)
    for one in stated:
        groups[one.at].append(one)
    for group in groups.values():
        named = next(filter(_names, group), None)
        if named is not None:
            about = (one for one in group if one.key and one.value != named.value)
            yield from ((one, (named.key, named.value, one.path, one.row, one.key)) for one in about)


def _names(one: Stated) -> bool:
    """Whether this is the id of the thing that a whole message is about."""
    return not one.path and not one.row and is_id_key(one.key) and bool(identifiers(one.value))
