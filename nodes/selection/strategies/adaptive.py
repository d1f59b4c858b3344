"""`adaptive`: apply the first strategy that drops anything, in an order that depends on the type of the task."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from langchain_core.messages import AIMessage, AnyMessage

from langgraph_compaction.checkpoint.patterns import Pattern

from ...config.policies import ProgressivePolicy, ProgressiveStrategy, TaskType
from ...conversation.message_marks import is_real_user
from ...conversation.transcript import calls_of
from ..selector import Choice, Demand, Selector
from .importance import importance
from .incremental import incremental
from .key_events import key_events
from .keywords import ANALYSIS, ANALYSIS_TOOLS, CODE, CODE_TOOLS, Words, searchable_text
from .sliding_window import sliding_window

PROGRESSIVE: Mapping[ProgressiveStrategy, Callable[[Selector, Demand], Iterator[Choice]]] = {
    "sliding_window": sliding_window,
    "importance": importance,
    "key_events": key_events,
    "incremental": incremental,
}

SHORT_INPUT = 200
"""Number of characters below which a user message counts for the type `conversation`."""

_PART = Pattern(r"[a-z]+|[A-Z][a-z]*")


def adaptive(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Yield at most one choice; if it is not enough, the kept messages go to the strategies of `adaptive_then`."""
    settings = selector.settings.of(ProgressivePolicy)
    kind = settings.adaptive_task_type or task_type(selector.view.messages)
    applying = (
        replace(choice, name=name, then=settings.adaptive_then)
        for name in settings.adaptive_orders.of(kind)
        if name not in demand.left_out
        for choice in PROGRESSIVE[name](selector, demand)
        if selector.resolve(demand, choice).drop
    )
    yield from islice(applying, 1)


def task_type(messages: Sequence[AnyMessage]) -> TaskType:
    """Return the type that most messages indicate; `mixed` for a tie of types, `unknown` if no message indicates one.

    A message counts at most once for each type: by the tool names of its calls, or by keywords in the text of a user
    or of the model.
    """
    counts: dict[TaskType, int] = {
        "code": sum(_is(message, CODE_TOOLS, CODE) for message in messages),
        "analysis": sum(_is(message, ANALYSIS_TOOLS, ANALYSIS) for message in messages),
        "conversation": sum(is_real_user(message) and len(message.text) < SHORT_INPUT for message in messages),
    }
    most = max(counts.values())
    leading: list[TaskType] = [kind for kind, count in counts.items() if count == most]
    if not most:
        return "unknown"
    return leading[0] if len(leading) == 1 else "mixed"


def _is(message: AnyMessage, tools: Words, words: Words) -> bool:
    if any(tools.within(_parts(name)) for _, name in calls_of(message)):
        return True
    speaks = is_real_user(message) or isinstance(message, AIMessage)
    return speaks and words.within(searchable_text(message))


def _parts(name: str) -> str:
    """Return the words of a tool's name separated by spaces: `edit file` for `edit_file` and `editFile`."""
    return " ".join(_PART.findall(name)).lower()
