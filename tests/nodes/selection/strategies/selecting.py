"""What the tests of the strategies share: a conversation, and what a strategy makes of it."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.tokens import TokenCounter
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.selection.selector import Choice, Demand, Selection, Selector
from langgraph_compaction.nodes.selection.strategies.registry import BUILT_IN
from langgraph_compaction.nodes.selection.strategy_chain import choose
from tests.histories import numbered
from tests.settings import settings

WORDS = TokenCounter("words", lambda text: len(text.split()))
ANYTHING = Demand(before=10**9, ceiling=10**9, aim=10**9, summary=0)
"""A demand that every choice meets."""
LONG = " " + "x" * 60
"""Makes a text one of more than 50 characters."""


def selector(messages: Sequence[AnyMessage], **chosen: Any) -> Selector:
    """Return the selector of a conversation with these settings of `progressive`."""
    chosen_settings = settings(**{"preset": "progressive", **chosen})
    return Selector(Transcript(numbered(messages)), chosen_settings, Meter(WORDS, 0))


def choices(name: str, messages: Sequence[AnyMessage], **chosen: Any) -> list[Choice]:
    """Return what a strategy yields."""
    return list(BUILT_IN[name](selector(messages, **chosen), ANYTHING))


def selected(name: str, messages: Sequence[AnyMessage], **chosen: Any) -> Selection | None:
    """Return what a strategy's only choice comes to; `None` where it does not apply."""
    (choice, *more) = [*choices(name, messages, **chosen), None]
    assert more in ([], [None])
    return None if choice is None else selector(messages, **chosen).resolve(ANYTHING, choice)


def dropped(name: str, messages: Sequence[AnyMessage], **chosen: Any) -> list[int]:
    """Return the indexes of what leaves."""
    found = selected(name, messages, **chosen)
    return [] if found is None else sorted(found.drop)


def taken(messages: Sequence[AnyMessage], demand: Demand, **chosen: Any) -> Selection:
    """Return what all strategies of the settings come to."""
    found = choose(selector(messages, **chosen), demand)
    assert found is not None
    return found


def talk(count: int) -> list[AnyMessage]:
    """Return a system message and so many messages, of a person and of the model in turn."""
    said = [HumanMessage(f"say {n}") if n % 2 == 0 else AIMessage(f"reply {n}") for n in range(count)]
    return [SystemMessage("system"), *said]
