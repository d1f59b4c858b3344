"""The whole conversation, from what is in the view now and what compactions took out of it. Pure."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile

from langchain_core.messages import BaseMessage

from ..checkpoints.checkpoint_rows import follow_parents
from ..errors import MessageError

SUMMARY_KIND = "compaction_summary"
RECALL = "recall"
"""The tool of that name gives back archived messages, each under a line with its handle."""
_HEADLINE = re.compile(r"\[[0-9a-f]{12} \w")


def chain(parents: Mapping[str, str | None], head: str | None, thread_id: str) -> list[str]:
    """Return the compactions that `head` builds on and `head` itself, oldest first; one that is gone ends it.

    RowError where the parents of the thread's ledger rows lead in a circle.
    """
    found = follow_parents(head, parents.get, lambda name: f"ledger row {name} of thread {thread_id!r}")
    return list(takewhile(parents.__contains__, found))[::-1]


def join(
    messages: Sequence[BaseMessage],
    snapshots: Iterable[Sequence[BaseMessage]],
    archived: Iterable[BaseMessage],
    refused: Iterable[BaseMessage],
) -> list[BaseMessage]:
    """Return every message once, in the order of the conversation, in its original form.

    `snapshots` and `archived` are those of the compactions `messages` rests on, oldest first; `refused` holds
    the originals that were archived without a compaction. A message is there if it is in `messages` or was
    archived; one that is only in an old snapshot was deleted by the application and stays out. Where the
    archive holds an id, its oldest form stands (a clipped or refused message), else the form it has now.
    Summaries stand for others and are left out.
    """
    left = list(archived)
    now = {_id(message): message for message in messages}
    originals: dict[str, BaseMessage] = {}
    for message in (*refused, *left):
        originals.setdefault(_id(message), message)
    kept = now.keys() | {_id(message) for message in left}
    order: list[str] = []
    for stretch in (*snapshots, left, messages):
        order = _merge(order, [_id(message) for message in stretch])
    found = (originals[key] if key in originals else now[key] for key in order if key in kept)
    return [message for message in found if not is_summary(message)]


def restored(
    messages: Sequence[BaseMessage],
    snapshots: Sequence[Sequence[BaseMessage]],
    archived: Iterable[BaseMessage],
    clipped: Collection[str],
    undone: Collection[str],
) -> list[BaseMessage]:
    """Return the conversation as it would stand now if these compactions had never been.

    `snapshots` and `archived` are what they began with and took out of view, oldest first; `clipped` names the
    messages that they only shortened. What they dropped stands again in its place and form; what the application
    deleted since, a clipped message too, stays deleted; what was said or changed since stays as it is.
    """
    now = {_id(message): message for message in messages}
    left: dict[str, BaseMessage] = {}
    for message in archived:
        left.setdefault(_id(message), message)
    order: list[str] = []
    for stretch in (*snapshots, list(left.values()), messages):
        order = _merge(order, [_id(message) for message in stretch])
    back = (left.get(key, now.get(key)) for key in order if key in now or (key in left and key not in clipped))
    return [message for message in back if message is not None and summarized_by(message) not in undone]


def summarized_by(message: BaseMessage) -> str | None:
    """Return the compaction whose summary a message carries, or None where it carries none."""
    marks = message.additional_kwargs.get("compaction")
    return str(marks.get("compaction")) if isinstance(marks, Mapping) and is_summary(message) else None


def is_summary(message: BaseMessage) -> bool:
    """Say whether a message stands for others that were taken out of the view."""
    marks = message.additional_kwargs.get("compaction")
    return isinstance(marks, Mapping) and marks.get("kind") == SUMMARY_KIND


def clipped_from(message: BaseMessage) -> str | None:
    """Return the handle of the longer message that a clipped one was; None where it is not clipped."""
    marks = message.additional_kwargs.get("compaction")
    return str(marks.get("handle")) if isinstance(marks, Mapping) and marks.get("clipped") else None


def retells(message: BaseMessage) -> bool:
    """Say whether a message holds what others said: a summary, what `recall` gave back, or a call of it."""
    given_back = message.name == RECALL and bool(_HEADLINE.match(message.text))
    calls = getattr(message, "tool_calls", ())
    asks = bool(calls) and not message.text and all(call["name"] == RECALL for call in calls)
    return is_summary(message) or given_back or asks


def is_original(message: BaseMessage) -> bool:
    """Say whether a message is as somebody said it: it retells nothing, and is not clipped."""
    return not retells(message) and clipped_from(message) is None


def _merge(order: list[str], later: Sequence[str]) -> list[str]:
    """Join two orders: what is new in `later` comes before the next id that both have, else at the end."""
    known = set(order)
    before: dict[str, list[str]] = {}
    new: list[str] = []
    for key in dict.fromkeys(later):
        if key in known:
            before[key] = new
            new = []
        else:
            new.append(key)
    return [key for old in order for key in (*before.get(old, ()), old)] + new


def _id(message: BaseMessage) -> str:
    if not message.id:
        raise MessageError(f"a {message.type} message has no id; a transcript is joined by ids")
    return message.id
