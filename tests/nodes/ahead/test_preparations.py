"""What a process remembers about the threads that it prepares summaries for, and when a preparation begins."""

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.nodes.ahead import preparations
from langgraph_compaction.nodes.ahead.preparations import PREPARATIONS, Place, Preparations
from langgraph_compaction.nodes.ahead.prepare import _called, _is_due
from langgraph_compaction.nodes.runtime.effects import Effect
from langgraph_compaction.nodes.runtime.summarizer_call import SummaryAbandonedError
from tests.graph.harness import WORDS, at_work, filler
from tests.histories import asks, result
from tests.kill.children import exit_code

ONE, OTHER = ("memory", "a", ""), ("memory", "b", "")
PAID: Any = object()
"""Stands for a choice whose summary is recorded."""


def lead(messages: list[AnyMessage]) -> int:
    """Return how many tokens before a trigger of 1,000 a preparation begins; a message costs its words and 4 more."""
    context: Any = SimpleNamespace(
        messages=messages,
        sizes=SimpleNamespace(trigger=1_000, aim=0),
        counter=WORDS,
        meter=SimpleNamespace(scaled=lambda tokens: tokens),
    )
    return next(1_000 - size for size in range(1_000) if _is_due(context, size))


def talk(*tokens: int) -> list[AnyMessage]:
    """Return answered rounds of so many tokens."""
    sizes = [one - 5 for one in tokens]
    return [one for size in sizes for one in (HumanMessage(filler(size - 4)), AIMessage("ok"))]


@pytest.mark.parametrize("tokens", [(90, 40, 30), (90, 30, 40), (40,)])
def test_a_preparation_begins_as_far_from_the_trigger_as_the_larger_of_the_last_two_rounds(
    tokens: tuple[int, ...],
) -> None:
    """One more round may then reach the trigger."""
    assert lead(talk(*tokens)) == 40


@pytest.mark.parametrize(("words", "step"), [((90, 50, 30), 59), ((90, 30, 50), 66), ((30, 50, 90), 106)])
def test_in_a_loop_of_tool_calls_it_begins_four_steps_ahead(words: tuple[int, ...], step: int) -> None:
    """A step is as large as the larger of the last two: a result, 4 tokens and its words, and the next call.

    The last call takes 12 tokens, and every other call takes 5 tokens.
    """
    loop: list[AnyMessage] = [HumanMessage(filler(100)), asks("call-0")]
    for number, size in enumerate(words):
        loop += [result(f"call-{number}", filler(size)), asks(f"call-{number + 1}")]
    loop[-1].content = filler(7)
    assert lead(loop) == 4 * step


def test_a_loop_that_is_closed_while_a_summarizer_is_handed_to_it_ends_the_preparation() -> None:
    """It is no failure of the summarizer."""

    def closed(*_: Any, **__: Any) -> None:
        raise RuntimeError("Event loop is closed")

    async def asummarize() -> None: ...

    def summarize() -> None:
        raise NotImplementedError

    loop: Any = SimpleNamespace(is_running=lambda: True, call_soon_threadsafe=closed)
    with pytest.raises(SummaryAbandonedError):
        _called(loop, Effect(summarize, asummarize))


def done(known: Preparations, place: Place, work: Any, epoch: int) -> Any:
    """Start a preparation, wait for its end, and return what is known of it."""
    known.start(place, epoch, work)
    for worker in at_work():
        worker.join(60)
    return known.find(place)


def test_a_thread_has_one_preparation_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one works, no other begins for its thread, and no more begin than may work at once."""
    monkeypatch.setattr(preparations, "MOST_AT_ONCE", 1)
    known, go_on = Preparations(), threading.Event()
    assert known.may_start(ONE, 0)
    known.start(ONE, 0, lambda: go_on.wait(60) and None)
    (worker,) = at_work()
    assert worker.daemon
    assert [known.may_start(*each) for each in ((ONE, 0), (ONE, 9), (OTHER, 0))] == [False] * 3
    assert known.may_start(("another database", "a", ""), 0)
    monkeypatch.setattr(preparations, "MOST_AT_ONCE", 2)
    assert [known.may_start(*each) for each in ((ONE, 9), (OTHER, 0))] == [False, True]
    go_on.set()
    worker.join(60)


def test_the_more_are_not_used_the_rarer_they_begin() -> None:
    """One that is used makes the next one possible at the next commit."""
    known = Preparations()

    def earliest(epoch: int, *, used: bool) -> int:
        done(known, ONE, lambda: PAID, epoch).unused *= not used
        return next(after for after in range(99) if known.may_start(ONE, after)) - epoch

    assert [earliest(0, used=False), earliest(2, used=False), earliest(6, used=False)] == [2, 4, 8]
    assert [earliest(14, used=True), earliest(15, used=True), earliest(16, used=False)] == [1, 1, 2]


def test_what_finds_nothing_to_summarize_may_begin_again(caplog: pytest.LogCaptureFixture) -> None:
    """It has cost nothing; after an error, which is logged, another one begins as after an unused summary."""
    known = Preparations()

    def failing() -> None:
        raise ValueError("no database")

    assert done(known, ONE, lambda: None, 0) is None
    assert (known.may_start(ONE, 0), caplog.text) == (True, "")
    assert done(known, ONE, failing, 0).result.result() is None
    assert [known.may_start(ONE, epoch) for epoch in (0, 1, 2)] == [False, False, True]
    assert "A summary could not be prepared for thread 'a'" in caplog.text
    failed = known.find(ONE)
    assert done(known, ONE, lambda: None, 2) is failed


def test_the_threads_that_were_prepared_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread whose last preparation began the longest ago is forgotten."""
    monkeypatch.setattr(preparations, "REMEMBERED", 1)
    known = Preparations()
    done(known, ONE, lambda: PAID, 0)
    done(known, OTHER, lambda: PAID, 0)
    assert (known.find(ONE), known.find(OTHER) is None) == (None, False)


def test_a_forked_process_waits_for_no_preparation_of_its_parent() -> None:
    """The fork has none of the OS threads that work on them."""
    go_on = threading.Event()
    PREPARATIONS.start(ONE, 0, lambda: go_on.wait(60) and None)
    assert exit_code(lambda: sys.exit(PREPARATIONS.find(ONE) is not None)) == 0
    go_on.set()
