"""The work of a compaction follows the number of messages: the lines of this package that run are counted."""

import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionSettings, create_compacting_agent
from langgraph_compaction.nodes import ContextExhaustedError, compact_messages
from langgraph_compaction.nodes.conversation.request import render
from tests.fakes import ScriptedModel, usage

FEW, TIMES, MOST = 100, 4, 6.0
"""Messages of the small conversation, how many times more the large one has, and the most by which work may grow."""

LINES_A_MESSAGE = 36
"""The most lines of this package that a turn may run for each message before it, if it compacts nothing."""


def asks(number: int, count: int = 1) -> AIMessage:
    """An assistant message with so many calls."""
    calls = [{"name": "look", "args": {"x": f"AB{number}"}, "id": f"c{number}-{n}"} for n in range(count)]
    return AIMessage("", tool_calls=calls)


def result(number: int, place: int = 0) -> ToolMessage:
    """The result of one of these calls."""
    return ToolMessage(f"row OR-{number}{place} costs {number}", tool_call_id=f"c{number}-{place}")


def demand(number: int) -> HumanMessage:
    """A user message that holds a rule."""
    return HumanMessage(f"You must never do thing {number} without asking me.")


def rules(count: int) -> list[AnyMessage]:
    """Rules, each answered."""
    return [m for n in range(count // 2) for m in (demand(n), AIMessage(f"Done with AB-{n:05d} now."))]


def unanswered(count: int) -> list[AnyMessage]:
    """Rules that nobody has answered: each is an open request too."""
    return [demand(n) for n in range(count)]


def interrupted(count: int) -> list[AnyMessage]:
    """Calls without a result and without a later answer."""
    return [m for n in range(count // 2) for m in (asks(n), demand(n))]


def orphans(count: int) -> list[AnyMessage]:
    """Calls without results, then results of no call."""
    lost = [ToolMessage("row", tool_call_id=f"lost-{n}") for n in range(count // 2)]
    return [demand(0), *map(asks, range(count // 2)), *lost, AIMessage("Done."), demand(1)]


def one_block(count: int) -> list[AnyMessage]:
    """One message with all calls, and their results."""
    return [demand(0), asks(0, count), *(result(0, n) for n in range(count)), AIMessage("Done."), demand(1)]


SHAPES: tuple[Callable[[int], list[AnyMessage]], ...] = (rules, unanswered, interrupted, orphans, one_block)


def lines(work: Callable[[], object]) -> int:
    """How many lines of this package run, each turn of a loop counted."""
    count = 0

    def in_ours(_: FrameType, event: str, __: Any) -> Any:
        nonlocal count
        count += event == "line"
        return in_ours

    def trace(frame: FrameType, _: str, __: Any) -> Any:
        return in_ours if "langgraph_compaction" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def characters(messages: list[AnyMessage]) -> int:
    """A cheap counter: a token for four characters."""
    return sum(4 + (len(str(m.content)) + len(str(getattr(m, "tool_calls", "")))) // 4 for m in messages)


def growth(work: Callable[[int], Callable[[], object]]) -> float:
    """How many times more lines run for the large conversation than for the small one."""
    work(FEW)()  # what is set up once does not count
    return lines(work(FEW * TIMES)) / lines(work(FEW))


@pytest.mark.parametrize("preset", ["selective", "faithful", "progressive"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape.__name__))
def test_a_list_is_compacted_in_work_that_follows_its_length(shape: Any, preset: Any) -> None:
    """Four times the messages take about four times the work, whatever their shape."""

    def work(count: int) -> Callable[[], object]:
        messages = shape(count)
        room = characters(messages) * 2 // 3

        def compact() -> None:
            with suppress(ContextExhaustedError):  # calls without results cannot leave
                compact_messages(messages, max_tokens=room, preset=preset, token_counter=characters)

        return compact

    assert growth(work) < MOST


def test_adjacent_user_messages_are_joined_in_work_that_follows_their_number() -> None:
    """A request that joins them copies each message's content once."""

    def work(count: int) -> Callable[[], object]:
        messages = unanswered(count)
        return lambda: render(messages, join_user_messages=True)

    assert growth(work) < MOST


def test_a_turn_that_compacts_takes_work_that_follows_the_number_of_messages() -> None:
    """What is dropped is told from earlier summaries in one pass over the messages."""

    def work(count: int) -> Callable[[], object]:
        messages = rules(count)
        settings = CompactionSettings(context_window=characters(messages), output_reserve=0)
        agent = create_compacting_agent(
            ScriptedModel(),
            settings=settings,
            summarizer="digest",
            checkpointer=InMemorySaver(),
            token_counter=characters,
        )
        given: Any = {"messages": [*messages, demand(count)]}
        return lambda: agent.invoke(given, {"configurable": {"thread_id": "t"}})

    assert growth(work) < MOST


def test_a_turn_that_compacts_nothing_reads_each_earlier_message_a_few_times() -> None:
    """Its request is rendered, and its length compared; no message before the last answer is counted again."""
    counted: list[AnyMessage] = []

    def spy(messages: list[AnyMessage]) -> int:
        counted.extend(messages)
        return characters(messages)

    def plain(count: int) -> int:
        model = ScriptedModel(replies=[usage(AIMessage("ok"), 50) for _ in range(3)])
        settings = CompactionSettings(context_window=1_000_000)
        agent = create_compacting_agent(model, settings=settings, checkpointer=InMemorySaver(), token_counter=spy)
        config: Any = {"configurable": {"thread_id": "t"}}
        for given in (rules(count), [HumanMessage("more")]):
            agent.invoke({"messages": given}, config)
        counted.clear()
        return lines(lambda: agent.invoke({"messages": [HumanMessage("and now?")]}, config))

    plain(2)
    few = plain(FEW)
    assert (plain(FEW * TIMES) - few) / (FEW * (TIMES - 1)) < LINES_A_MESSAGE
    assert len(counted) < FEW
