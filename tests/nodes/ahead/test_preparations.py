"""What a process remembers about the threads that it prepares summaries for, and when a preparation begins."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.nodes.ahead import preparations
from langgraph_compaction.nodes.ahead.preparations import USUAL_S, Preparations, is_working_on, working_on
from langgraph_compaction.nodes.ahead.prepare import _growth, _lead, _OffLoop
from langgraph_compaction.nodes.runtime.summarizer_call import SummaryAbandonedError
from tests.graph.harness import WORDS, filler
from tests.histories import asks, result

STEP = 14
"""Tokens of a result of five words and of a call."""


def test_the_threads_that_were_used_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pace of the thread that has not answered for the longest time is forgotten."""
    monkeypatch.setattr(preparations, "REMEMBERED", 2)
    known = Preparations()
    assert [known.pace((name, "")) is None for name in ("a", "b", "a", "c")] == [True, True, False, True]
    assert known.pace(("a", "")) is not None
    assert known.pace(("b", "")) is None


def lead(messages: list[AnyMessage], *, usual_s: float = 20.0, pace: float | None = None) -> int:
    """Return how many tokens before a trigger of 1,000 a preparation begins; a message costs its words and 4 more."""
    meter = SimpleNamespace(scaled=lambda tokens: tokens)
    context: Any = SimpleNamespace(
        messages=messages, sizes=SimpleNamespace(trigger=1_000), counter=WORDS, meter=meter
    )
    return _lead(context, _growth(context), usual_s, pace)


def talk(*tokens: int) -> list[AnyMessage]:
    """Return answered rounds of so many tokens."""
    sizes = [one - 5 for one in tokens]
    return [one for size in sizes for one in (HumanMessage(filler(size - 4)), AIMessage("ok"))]


@pytest.mark.parametrize(
    ("tokens", "expected"), [((90, 40, 30), 40), ((90, 30, 40), 40), ((10,), 10), ((9,), 10), ((400,), 250)]
)
def test_a_preparation_begins_as_far_from_the_trigger_as_the_larger_of_the_last_two_rounds(
    tokens: tuple[int, ...], expected: int
) -> None:
    """But not nearer than a hundredth of the trigger, and not farther than a quarter."""
    assert lead(talk(*tokens)) == expected


@pytest.mark.parametrize(("pace", "steps"), [(None, 1), (10.0, 3), (11.0, 3), (20.0, 2), (2.0, 8), (1.0, 8)])
def test_in_a_loop_of_tool_calls_it_begins_as_many_steps_ahead_as_the_summary_takes(
    pace: float | None, steps: int
) -> None:
    """One step more than fit into the usual time, and eight at most; a step is a result and the next call."""
    loop = [HumanMessage(filler(100)), asks("a"), result("a", filler(5)), asks("b")]
    assert lead(loop, pace=pace) == steps * STEP


@pytest.mark.parametrize(("words", "expected"), [((90, 50, 30), 59), ((90, 30, 50), 66), ((30, 50, 90), 106)])
def test_a_step_is_as_large_as_the_larger_of_the_last_two(words: tuple[int, ...], expected: int) -> None:
    """A step consists of a result, which takes 4 tokens plus its number of words, and the next call.

    The last call takes 12 tokens, and every other call takes 5 tokens.
    """
    loop: list[AnyMessage] = [HumanMessage(filler(100)), asks("call-0")]
    for number, size in enumerate(words):
        loop += [result(f"call-{number}", filler(size)), asks(f"call-{number + 1}")]
    loop[-1].content = filler(7)
    assert lead(loop) == expected


def test_a_loop_that_is_closed_while_a_summarizer_is_handed_to_it_ends_the_preparation() -> None:
    """It is no failure of the summarizer."""

    def closed(*_: Any, **__: Any) -> None:
        raise RuntimeError("Event loop is closed")

    async def asummarize(_: Any) -> None: ...

    def summarize(_: Any) -> None:
        raise NotImplementedError

    summarizer: Any = SimpleNamespace(name="own", summarize=summarize, asummarize=asummarize)
    loop: Any = SimpleNamespace(is_running=lambda: True, call_soon_threadsafe=closed)
    request: Any = None
    with pytest.raises(SummaryAbandonedError):
        _OffLoop(summarizer, loop).summarize(request)


def done(known: Preparations, place: tuple[str, str], work: Any, epoch: int) -> None:
    """Start a preparation and wait for its end."""
    known.start(place, work, epoch)
    for one in threading.enumerate():
        if one.name == "compaction-ahead":
            one.join(60)


def test_a_thread_has_one_preparation_for_each_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a preparation works, no other begins for its thread, and no more begin than may work at once."""
    monkeypatch.setattr(preparations, "MOST_AT_ONCE", 1)
    known, go_on, one, other = Preparations(), threading.Event(), ("a", ""), ("b", "")
    assert known.may_start(one, 0)
    known.start(one, lambda: go_on.wait(60), 0)
    (worker,) = [each for each in threading.enumerate() if each.name == "compaction-ahead"]
    assert worker.daemon
    assert [known.may_start(*each) for each in ((one, 0), (one, 1), (other, 0))] == [False] * 3
    go_on.set()
    worker.join(60)
    assert [known.may_start(*each) for each in ((one, 0), (one, 1), (other, 0))] == [False, True, True]
    monkeypatch.setattr(preparations, "MOST_AT_ONCE", 2)
    go_on.clear()
    known.start(one, lambda: go_on.wait(60), 1)
    assert [known.may_start(*each) for each in ((one, 2), (other, 0))] == [False, True]
    go_on.set()


def test_a_preparation_that_finds_nothing_may_be_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """Only a preparation that found nothing may be repeated before the next commit; a failed one is logged."""
    known, place = Preparations(), ("a", "")

    def failing() -> bool:
        raise ValueError("no database")

    assert (known.usual_s, known.is_promising(place)) == (USUAL_S, True)
    done(known, place, lambda: False, 0)
    assert (known.usual_s, known.is_promising(place), known.may_start(place, 0)) == (USUAL_S, False, True)
    done(known, place, lambda: True, 0)
    assert 1 <= known.usual_s < USUAL_S
    assert (known.is_promising(place), known.may_start(place, 0)) == (True, False)
    assert "could not be prepared" not in caplog.text
    done(known, place, failing, 1)
    assert "A summary could not be prepared for thread 'a'" in caplog.text
    assert (known.is_promising(place), known.may_start(place, 1), known.may_start(place, 2)) == (True, False, True)


def test_turns_know_which_preparation_this_process_works_on() -> None:
    """A preparation counts as worked on until its work ends, also if the work raises."""
    with pytest.raises(ValueError, match="no"), working_on("one"):  # noqa: PT012 - what is known inside is tested
        assert (is_working_on("one"), is_working_on("two")) == (True, False)
        raise ValueError("no")
    assert not is_working_on("one")
