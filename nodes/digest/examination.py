"""Examine a summary that was prepared ahead: whether it is complete, and still holds, after what was said since."""

from collections.abc import Iterable, Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from ..conversation.message_marks import is_real_user
from ..conversation.tokens import texts_of
from ..text.identifiers import identifiers
from ..text.quoting import one_line
from .entry import Entry
from .facts import object_lookups, place_of, superseded
from .revisions import apply_revisions
from .rules_and_requests import earlier_lines, strength_of
from .value_extraction import extract_values

MOST_USED = 64
"""Maximum number of identifiers that are returned, the last ones."""

_QUOTED = 120


def used_since(body: str, old: Sequence[AnyMessage], since: Sequence[AnyMessage]) -> list[str]:
    """Return the identifiers from the messages `old` that `since` uses again and the summary `body` does not name.

    Used is what the user or the assistant writes, and what a call is given; results only bring new values.
    """
    spoken = (message for message in since if isinstance(message, AIMessage) or is_real_user(message))
    named = _identifiers(spoken)
    known = _identifiers(old) if named else {}
    return [one for one in named if one in known and one not in body][-MOST_USED:]


def _identifiers(messages: Iterable[AnyMessage]) -> dict[str, None]:
    return dict.fromkeys(one for message in messages for text in texts_of(message) for one in identifiers(text))


def contradiction(body: str, old: Sequence[AnyMessage], since: Sequence[AnyMessage]) -> str | None:
    """Return the line or value of the summary `body` that the messages `since` contradict, or `None`.

    A line is contradicted by a user's sentence that revises or revokes it; a value by a later look-up of the same
    object that gives another one.
    """
    return _revised(body, since) or _changed(body, old, since)


def _revised(body: str, since: Sequence[AnyMessage]) -> str | None:
    if not any(map(is_real_user, since)):
        return None
    lines = [
        Entry("Rules" if strength_of(line.value) else "Said", -1, line.worth, line.value)
        for line in earlier_lines(body, -1)
    ]
    left = {entry.value for entry in apply_revisions(lines, since, 0)}
    return next((one_line(line.value, _QUOTED) for line in lines if line.value not in left), None)


def _changed(body: str, old: Sequence[AnyMessage], since: Sequence[AnyMessage]) -> str | None:
    if not any(isinstance(message, ToolMessage) for message in since):
        return None
    told = object_lookups(list(extract_values([*old, *since])))
    before = [one for one in told if one.at < len(old)]
    fresh = superseded(told) - superseded(before)
    changed = (one for one in before if place_of(one) in fresh and one.value in body)
    return next((f"{one.key} {one.value}"[:_QUOTED] for one in changed), None)
