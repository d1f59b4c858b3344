"""The size of the next request: what the provider reported for the last answer, and our count of later messages."""

from collections.abc import Sequence
from typing import NamedTuple, NotRequired

from langchain_core.messages import AnyMessage
from typing_extensions import TypedDict  # below Python 3.12 pydantic makes schemas of no other

from langgraph_compaction.checkpoint.messages.message_codec import fingerprint

from .lengths import outlines
from .request import Meter, placeholder_results, render
from .tokens import total
from .transcript import Transcript


class Counted(TypedDict):
    """Our own count of a request that was answered, from which the count of a later request continues."""

    counter: str
    """Name of the counter."""
    tokens: int
    """Tokens of the request, without the correction by reported usage."""


class Usage(TypedDict):
    """The size of the conversation up to the last answer, as the provider reported and as we counted it.

    It is used to measure later requests as long as nothing before the answer changes.
    """

    message_id: str
    fingerprint: str
    before: str
    """Outline of the messages before the answer."""
    tokens: int | None
    """Input and output tokens as the provider reported them, without reasoning tokens; `None` if it reported none."""
    model: str
    epoch: int
    fixed: int
    """Tokens of system prompt and tool schemas at that call; if they have changed, the usage no longer holds."""
    counted: NotRequired[Counted]


class RequestSize(NamedTuple):
    """The size of a request."""

    tokens: int
    """Tokens as the provider counts them: of the reported usage and of the later messages, else of all messages."""
    counted: int
    """Tokens by our own count: continued from the last answer whose usage still holds, where it can be."""
    outline: str
    """Outline of the messages, by which a change of them is seen."""


def size_of(
    messages: Sequence[AnyMessage], usage: Usage | None, meter: Meter, *, model: str, epoch: int
) -> RequestSize:
    """Measure the next request.

    The usage holds for the same model, prompt, tools and number of commits (`epoch`) if neither its answer nor a
    message before it has changed. All is counted without such a usage; and for `counted` also if a later result
    belongs to an earlier call.
    """
    at = len(messages)
    if usage is not None:
        backwards = range(len(messages) - 1, -1, -1)
        at = next((index for index in backwards if messages[index].id == usage["message_id"]), at)
    before, outline = outlines(messages, at)
    now = (model, epoch, meter.overhead, before)
    usage = usage if usage and at < len(messages) and _holds(usage, messages[at], now) else None
    since, count = Transcript(messages[at:]), meter.counter
    held = usage.get("counted") if usage else None
    if held and held["counter"] == count.name and not since.orphans:
        counted = held["tokens"] + total(count, render(since.messages))
    else:
        counted = meter.overhead + total(count, render(messages))
    if usage is None or usage["tokens"] is None:
        return RequestSize(meter.scaled(counted), counted, outline)
    waiting = [stand_in for block in since.blocks for stand_in in placeholder_results(since.messages, block)]
    later = total(count, [*since.messages[1:], *waiting])
    return RequestSize(usage["tokens"] + meter.scaled(later), counted, outline)


def _holds(usage: Usage, answer: AnyMessage, now: tuple[str, int, int, str]) -> bool:
    """Whether model, number of commits, tokens of prompt and tools, and earlier messages are those of the usage."""
    then = (usage["model"], usage["epoch"], usage["fixed"], usage.get("before"))
    return then == now and usage["fingerprint"] == fingerprint(answer)
