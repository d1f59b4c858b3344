"""Rebuilds the whole conversation from the current messages and the messages that compactions removed."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import takewhile

from langchain_core.messages import BaseMessage

from ..checkpoints.checkpoint_rows import follow_parents
from ..errors import MessageError, RowError
from ..messages.sequence_runs import Runs, expand
from ..patterns import Anchored

SUMMARY_KIND = "compaction_summary"
RECALL = "recall"
"""Name of the tool that returns archived messages, each after a line with its handle."""
log = logging.getLogger("langgraph_compaction")
_HEADLINE = Anchored(r"\[[0-9a-f]{12} \w")


def chain(
    parents: Mapping[str, str | None],
    head: str | None,
    thread_id: str,
    *,
    stored: Callable[[], Collection[str]] = tuple,
) -> list[str]:
    """Return `head` and the compactions on which it builds, oldest first.

    The chain goes back until a compaction has no ledger row or no parent. A row that is missing is named in the log:
    an earlier database of the records may have held it. Raise `RowError` if this database held it, because `stored`
    returns the compaction among those with a snapshot or an archive row, and if the parents of the thread's ledger
    rows lead in a circle.
    """
    found = [*follow_parents(head, parents.get, lambda name: f"ledger row {name} of thread {thread_id!r}")]
    known = list(takewhile(parents.__contains__, found))
    if len(known) < len(found):
        if found[len(known)] in stored():
            raise RowError(f"the ledger row of compaction {found[len(known)]} of thread {thread_id!r} is missing")
        log.warning(
            "Thread %r builds on the compaction %s, which has no ledger row in this database: what it and earlier "
            "compactions archived is not found",
            thread_id,
            found[len(known)],
        )
    return known[::-1]


def check_complete(
    line: Iterable[str], snapshots: Collection[str], archived: Collection[str], thread_id: str
) -> None:
    """Raise `RowError` if a compaction has a snapshot and no archive row, or the other way round.

    A commit has written both, and retention erases both.
    """
    for name in line:
        if (name in snapshots) != (name in archived):
            missing = "archive row" if name in snapshots else "snapshot"
            raise RowError(f"the {missing} of compaction {name} of thread {thread_id!r} is missing")


def join(
    messages: Sequence[BaseMessage],
    line: Sequence[str],
    snapshots: Mapping[str, Runs],
    archived: Mapping[str, Runs],
    found: Mapping[int, BaseMessage],
) -> list[BaseMessage]:
    """Return every message once, in the order of the conversation, in its original form.

    `line` names the compactions that `messages` contains, oldest first. `snapshots` and `archived` have by
    compaction_id the numbers of stored messages, which are in `found`; what was archived without a snapshot are
    refused messages. The result holds the messages that are in `messages` or were archived by a compaction of `line`.
    A message that is only in a snapshot was deleted by the application and is left out. For a message that was
    removed, clipped or refused, the oldest archived form is returned; for any other message, the current form.
    Summaries are left out, because they replace other messages.
    """
    stretches = [[found[seq] for seq in expand(snapshots[name])] for name in line if name in snapshots]
    left = [found[seq] for name in line if name in archived for seq in expand(archived[name])]
    refused = [found[seq] for name, runs in archived.items() if name not in snapshots for seq in expand(runs)]
    now = {_id(message): message for message in messages}
    originals: dict[str, BaseMessage] = {}
    for message in (*refused, *left):
        originals.setdefault(_id(message), message)
    kept = now.keys() | {_id(message) for message in left}
    order: list[str] = []
    for stretch in (*stretches, left, messages):
        order = _merge(order, [_id(message) for message in stretch])
    whole = (originals[key] if key in originals else now[key] for key in order if key in kept)
    return [message for message in whole if not is_summary(message)]


def summarized_by(message: BaseMessage) -> str | None:
    """Return the compaction_id of the compaction that made a summary message; None for any other message."""
    marks = message.additional_kwargs.get("compaction")
    return str(marks.get("compaction")) if isinstance(marks, Mapping) and is_summary(message) else None


def is_summary(message: BaseMessage) -> bool:
    """Return whether a message is a summary of messages that a compaction removed."""
    marks = message.additional_kwargs.get("compaction")
    return isinstance(marks, Mapping) and marks.get("kind") == SUMMARY_KIND


def clipped_from(message: BaseMessage) -> str | None:
    """Return the handle of a clipped message's original; None for a message that is not clipped."""
    marks = message.additional_kwargs.get("compaction")
    return str(marks.get("handle")) if isinstance(marks, Mapping) and marks.get("clipped") else None


def retells(message: BaseMessage) -> bool:
    """Return whether a message repeats others: a summary, a result of the `recall` tool, or a call of that tool."""
    given_back = message.name == RECALL and bool(_HEADLINE.match(message.text))
    calls = getattr(message, "tool_calls", ())
    asks = bool(calls) and not message.text and all(call["name"] == RECALL for call in calls)
    return is_summary(message) or given_back or asks


def is_original(message: BaseMessage) -> bool:
    """Return whether a message is an original: it repeats no other message and is not clipped."""
    return not retells(message) and clipped_from(message) is None


def _merge(order: list[str], later: Sequence[str]) -> list[str]:
    """Merge two orders of ids: each id that only `later` contains goes before the next id in both, or at the end."""
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
