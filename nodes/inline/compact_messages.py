"""`compact_messages`: compact a plain list of messages once, by the graph's own nodes; compare `trim_messages`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack, overload

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    BaseMessageChunk,
    MessageLikeRepresentation,
    convert_to_messages,
)
from langchain_core.prompt_values import PromptValue
from langgraph.runtime import Runtime

from ..config.policies import Preset
from ..config.settings import CompactionSettings, effective, settings_of
from ..conversation.bound_history import without_bound_parts
from ..conversation.message_marks import earlier_summary, is_summary, with_our_marks
from ..conversation.request import Meter
from ..conversation.transcript import Transcript, message_id
from ..conversation.view import changed
from ..errors import InvalidMessagesError, SettingsError
from ..events import saved_ratio
from ..runtime.dependencies import NO_RECORDS, Dependencies, counter_of, given_summarizer
from ..runtime.effects import Effects, arun, blocking, is_long, run
from ..runtime.node_context import NodeContext
from ..selection.strategies.registry import Strategy, with_own
from ..selection.trigger_evaluation import Reading, counted, firing
from ..state import with_ids
from .runner import run_nodes

Messages = Sequence[MessageLikeRepresentation] | PromptValue
"""What `trim_messages` takes: a list of items that stand for messages, or the result of a prompt template."""

SUMMARY_INPUT = 4_000
"""Minimum number of tokens shown to the summarizer in one call, however small `max_tokens` is."""


@dataclass(frozen=True, kw_only=True)
class CompactionResult:
    """A compacted list, with its sizes and its verdict."""

    new_messages: list[AnyMessage]
    summary: str | None
    original_token_count: int
    new_token_count: int
    compacted_rounds: int
    compacted_messages: int
    verdict: str = "noop"

    @property
    def saved_ratio(self) -> float:
        """Share of the tokens saved: 1 - new / original; 0 for an empty list."""
        return saved_ratio(self.original_token_count, self.new_token_count)


class Options(TypedDict, total=False):
    """The arguments of `compact_messages` that may be left out."""

    preset: Preset | None
    """A preset, in place of the one in `settings`."""
    settings: CompactionSettings | None
    summarizer: Any
    """Who writes the summary, as in `create_compacting_agent`; by default "digest"."""
    token_counter: Any
    """A function on a list of messages, as `trim_messages` takes it."""
    strategies: Mapping[str, Strategy] | None
    """Functions of the application, by the names that the settings use."""
    force: bool
    """Whether a list over `max_tokens` alone is compacted (true, the default), or the triggers decide (false)."""


@overload
def compact_messages(
    messages: Messages, *, max_tokens: int, return_result: Literal[False] = ..., **options: Unpack[Options]
) -> list[AnyMessage]: ...
@overload
def compact_messages(
    messages: Messages, *, max_tokens: int, return_result: Literal[True], **options: Unpack[Options]
) -> CompactionResult: ...
def compact_messages(
    messages: Messages, *, max_tokens: int, return_result: bool = False, **options: Unpack[Options]
) -> list[AnyMessage] | CompactionResult:
    """Compact a list to at most `max_tokens`; a list that fits is returned unchanged.

    With `force=False` the triggers of the settings decide, as in a graph whose window is `max_tokens`: the list is
    compacted if `should_compact` says so, to a size below the trigger, and is otherwise returned unchanged.

    `messages` are those that `trim_messages` takes: a list of messages, dicts with role and content, (role, content)
    tuples or texts, or the result of a prompt template; the result is a list of messages. The given messages are not
    changed; a message without an id gets an id in the result. System messages count and are kept. With
    `return_result=True` the result also holds the summary, the sizes and the verdict. `options` are those of
    `Options`: `preset`, `settings`, `summarizer`, `token_counter`, `strategies` and `force`.

    Raises `InvalidMessagesError` for items that are no messages or repeat an id, `SettingsError` if the system
    messages alone fill `max_tokens`, and `ContextExhaustedError` if the messages that must be kept do not fit.
    """
    result = run(_compact(messages, max_tokens, **options))
    return result if return_result else result.new_messages


async def acompact_messages(
    messages: Messages, *, max_tokens: int, return_result: bool = False, **options: Unpack[Options]
) -> list[AnyMessage] | CompactionResult:
    """Compact as `compact_messages` does, without blocking the event loop."""
    result = await arun(_compact(messages, max_tokens, **options), off_loop=is_long(_items(messages)))
    return result if return_result else result.new_messages


def _compact(
    messages: Messages,
    max_tokens: int,
    *,
    preset: Preset | None = None,
    settings: CompactionSettings | None = None,
    summarizer: Any = "digest",
    token_counter: Any = None,
    strategies: Mapping[str, Strategy] | None = None,
    force: bool = True,
) -> Effects[CompactionResult]:
    given, writer = _checked(messages), given_summarizer(summarizer)
    context = _context(
        given,
        summarizer=writer,
        summary_input=None if getattr(writer, "max_input_tokens", None) else max(SUMMARY_INPUT, max_tokens // 2),
        settings=_chosen(settings, preset, max_tokens),
        strategies=with_own(strategies),
        counter=counter_of(token_counter),
        fills_window=force,
    )
    if context.dependencies.due:
        yield from blocking(context.dependencies.settle)
    meter = Meter(context.counter, 0)
    size = meter.request(given)
    if size <= max_tokens and (force or not _fires(context, size)):
        return _result(given, given, None, meter, "noop")
    _ = context.sizes  # raises if the system messages leave no room
    context = yield from run_nodes(context, "selective_compaction")
    # the result is a request: what `render` would leave out for its changed history must not be sent
    after = [without_bound_parts(one) if isinstance(one, AIMessage) else one for one in context.messages]
    known = {message.id for message in given}
    summary = next((message for message in after if is_summary(message) and message.id not in known), None)
    text = None if summary is None else earlier_summary([summary]).body
    last = context.compaction.get("last") or {}
    return _result(given, after, text, meter, last.get("verdict", "noop"))


def should_compact(
    messages: Messages,
    *,
    max_tokens: int,
    preset: Preset | None = None,
    token_counter: Any = None,
    settings: CompactionSettings | None = None,
    strategies: Mapping[str, Strategy] | None = None,
) -> bool:
    """Whether a graph with these settings and a window of `max_tokens` would compact this list before it is sent.

    That is the case if the list exceeds `max_tokens`, or if a trigger of the settings fires. Counts are those of the
    list alone: a limit of turns is compared with its user messages, and a limit of calls of the model never fires.
    `strategies` are those of `compact_messages`. Raises what `compact_messages` raises for wrong messages and
    settings. Loads the vocabulary of the token counter at the first call, which reads a file.
    """
    context = _context(
        _checked(messages),
        settings=_chosen(settings, preset, max_tokens),
        strategies=with_own(strategies),
        counter=counter_of(token_counter),
    )
    return _fires(context, Meter(context.counter, 0).request(context.messages))


def _fires(context: NodeContext, size: int) -> bool:
    """Whether a list of `size` tokens exceeds the limit, or a trigger fires at one of the settings' hooks."""
    messages, turns = context.messages, counted(context.messages, "rounds")
    return size > context.sizes.limit or any(
        firing(Reading(hook=hook, size=size, sizes=context.sizes, messages=messages, turns=turns), context.settings)
        for hook in context.settings.policy.hooks
    )


def _context(given: list[AnyMessage], **dependencies: Any) -> NodeContext:
    """Return the context in which the nodes work on a list without a thread, as before the model's call.

    The trigger `manual` allows a result up to the limit; the trigger `precheck` demands one below the token trigger.
    The marks of messages that an earlier compaction wrote are believed: a list has no channel that holds them.
    """
    known = Dependencies(records=NO_RECORDS, **dependencies)
    trigger = "manual" if known.fills_window else "precheck"
    marked = {message_id(message): message for message in with_our_marks(given)}
    view = changed(given, None, source="", clip=marked) if marked else None
    state = {"messages": given, "compaction": {"trigger": trigger}, "compaction_view": view}
    return NodeContext.of(state, {}, Runtime(), known)


def _chosen(settings: CompactionSettings | None, preset: Preset | None, max_tokens: int) -> CompactionSettings:
    """Return the settings for a plain list: no answer follows the list, so no room is reserved for an answer."""
    if max_tokens < 1:
        raise SettingsError(f"max_tokens={max_tokens} leaves no room: give the tokens that the result may hold")
    wanted = {"preset": preset, "context_window": max_tokens, "output_reserve": 0}
    return effective(settings_of(settings), wanted)


def _result(
    before: list[AnyMessage], after: list[AnyMessage], summary: str | None, meter: Meter, verdict: str
) -> CompactionResult:
    left = {message.id for message in after}
    gone = [index for index, message in enumerate(before) if message.id not in left]
    starts = set(Transcript(before).round_starts)
    return CompactionResult(
        new_messages=after,
        summary=summary,
        original_token_count=meter.request(before),
        new_token_count=meter.request(after),
        compacted_rounds=len(starts & set(gone)),
        compacted_messages=len(gone),
        verdict=verdict,
    )


def _checked(messages: Messages) -> list[AnyMessage]:
    seen: set[str] = set()
    if isinstance(messages, str):
        raise InvalidMessagesError("messages is a text: give a list of messages, as `trim_messages` takes it")
    whole: list[BaseMessage] = []
    for position, item in enumerate(_items(messages)):
        message = _message(item, position)
        if message.id and message.id in seen:
            raise InvalidMessagesError(f"message {position} has the id {message.id!r} of an earlier message")
        seen.add(message.id or "")
        whole.append(message)
    return with_ids(whole)


def _items(messages: Messages) -> Sequence[MessageLikeRepresentation]:
    return messages.to_messages() if isinstance(messages, PromptValue) else messages


def _message(item: Any, position: int) -> BaseMessage:
    """Return the message that an item of a list stands for: itself, or that of a dict, a tuple or a text."""
    if isinstance(item, BaseMessageChunk):
        raise InvalidMessagesError(f"item {position} is a {type(item).__name__}, not a whole message")
    try:
        [message] = convert_to_messages([item])
    except (ValueError, NotImplementedError, KeyError, TypeError) as error:
        raise InvalidMessagesError(
            f"item {position} is a {type(item).__name__} that is no message: give a message, a dict with role and "
            "content, a (role, content) tuple, or a text"
        ) from error
    return message
