"""Refuse messages that can never be sent: show the model a line in the place of each, and answer for the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey

from ..conversation.item_types import without_pin_mark
from ..conversation.message_marks import MARK, NOT_SENT_ID, is_pinned, marks
from ..conversation.tokens import total
from ..conversation.transcript import message_id, system_messages
from ..errors import MessageRefusedError
from ..gate.invariants import Finding
from .admission import Ids, pinned_tokens, without_room_for_system
from .effects import Effects
from .finish_attempt import failure, finish_attempt
from .ledger_io import REFUSAL, note, store
from .node_context import NodeContext, Update

SYSTEM_REFUSED = "system_message_over_limit"
"""Reason of the verdict `refused` if new system messages left too little room."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Messages that cannot be sent to the model, and why."""

    messages: Sequence[AnyMessage]
    least: int
    """Tokens of the smallest request with them."""
    reason: str
    why: str
    """The reason as it is told to the user and to the model."""
    what: str

    @property
    def is_repeated(self) -> bool:
        """Whether a line stands in the place of these messages already, and the request exceeds the limit with it."""
        return any(marks(message).get("refused") for message in self.messages)


def refused_system(context: NodeContext, new: Ids) -> Refusal | None:
    """Return the refusal of new system messages that leave too little room; `new` are the ids of new messages."""
    refused = without_room_for_system(context, new)
    if not refused:
        return None
    held = context.meter.overhead + total(context.counter, system_messages(context.messages))
    needed = context.meter.scaled(held)
    why = f"with it, system messages, system prompt and tools take {needed} tokens"
    return Refusal(messages=refused, least=needed, reason=SYSTEM_REFUSED, why=why, what="system message")


def refused_input(context: NodeContext) -> Refusal | None:
    """Return the refusal of the newest user message if the smallest request with it exceeds the limit.

    That request also holds the pins, unless they hold more than half of the room, because the window became smaller,
    or unless the message may be shortened.
    """
    pending, sizes = context.seen.pending_user, context.sizes
    if pending is None:
        return None
    newest = context.messages[pending]
    least, why = sizes.fixed + context.meter.scaled(context.counter.message(newest)), "with the fixed part"
    if least <= sizes.limit and context.settings.long_input == "keep" and not is_pinned(newest, context.pins):
        pinned = pinned_tokens(context)
        least += pinned if pinned <= sizes.most_pinned else 0
        why = "with the fixed part and the pins"
    if least <= sizes.limit:
        return None
    return Refusal(
        messages=[newest],
        least=least,
        reason="message_over_limit",
        why=f"{why} it needs {least} tokens",
        what="message",
    )


def refuse(context: NodeContext, common: dict[str, Any], refusal: Refusal) -> Effects[Update]:
    """Archive refused messages, show a line in the place of each, answer with one that says so, and end the turn.

    Raises `MessageRefusedError` inside a parent with `on_refusal="raise"`. Raises the
    error also if the archive cannot be written: the messages then stay in the conversation, and the run can be
    resumed once the database works.
    """
    others = [message for message in context.messages if message not in refusal.messages]
    rest = context.after({}, others)
    limit, key = rest.sizes.limit, context.key(context.base_fingerprint(), 0, context.attempt_in_epoch(REFUSAL))
    said = {message_id(message): message for message in context.conversation}  # with the marks of pins without room
    try:
        names = yield from store(context, key, [said[message_id(message)] for message in refusal.messages])
    except Exception as error:
        yield from _tell(rest, key, failure(error, "archive"), refusal.least)
        raise MessageRefusedError(
            f"a {refusal.what} cannot be sent: {refusal.why} and the limit is {limit}. It could not "
            f"be archived ({type(error).__name__}) and stays in the conversation: mend the database, then run "
            "again, or send a shorter message"
        ) from error
    lines: dict[str, AnyMessage] = {
        message_id(message): _line(refusal, message, name, limit)
        for message, name in zip(refusal.messages, names, strict=True)
    }
    last = yield from _tell(rest, key, Finding("refused", refusal.reason), refusal.least)
    raises = context.settings.on_refusal == "raise"
    if raises and context.dependencies.embedded:
        raise MessageRefusedError(next(iter(lines.values())).text)  # no later node of this graph could raise
    step = "model" if raises else "end"
    answers: list[AnyMessage] = []
    answer = AIMessage(_sentences("A", refusal, ", ".join(names), limit), id=f"{NOT_SENT_ID}{key.compaction_id}")
    size = rest.sizes.fixed + context.meter.scaled(total(context.counter, [*lines.values(), answer]))
    if size <= limit and not raises and not context.dependencies.embedded:  # a parent answers itself
        answers.append(answer)
    return {
        "messages": answers,
        "compaction_view": context.with_forms(lines).view,
        "compaction": {**common, "step": step, "route": "end", "last": last},
    }


def _line(refusal: Refusal, message: AnyMessage, name: str, limit: int) -> HumanMessage:
    """Return the line in the place of a refused message, of which `name` is the handle."""
    text = f"[{_sentences('This', refusal, name, limit)}]"
    mark = {**marks(without_pin_mark(message)), "refused": True, "handle": name}
    if isinstance(message, SystemMessage):
        mark["is_meta"] = True
    kwargs = {**message.additional_kwargs, MARK: mark}
    return HumanMessage(text, id=message.id, additional_kwargs=kwargs, name=message.name)


def _sentences(article: str, refusal: Refusal, handles: str, limit: int) -> str:
    return (
        f"{article} {refusal.what} was not sent to the model: {refusal.why} and the limit is {limit}. It is kept in "
        f"the archive under {handles}. Send a shorter one."
    )


def _tell(context: NodeContext, key: AttemptKey, found: Finding, least: int) -> Effects[dict[str, Any]]:
    """Report refused messages in the ledger and as an event; return `compaction["last"]`."""
    yield from note(context, "precheck", found.verdict, least, reason=found.reason, key=key)
    limit = context.sizes.limit
    return finish_attempt(context, found.verdict, reason=found.reason, before=least, after=limit, limit=limit)
