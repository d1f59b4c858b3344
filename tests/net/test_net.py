"""Every door, under every policy, through every kind of history: what is sent, what is stored, what a person sees.

Nothing here looks inside. What stands in a state's list is not asked for either: only requests, the ledger, the
transcript and the stream.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from langchain_core.messages import BaseMessage

from langgraph_compaction.graph import CompactionError
from tests.full import FULL, part
from tests.invariants import check_request
from tests.net.doors import (
    A_WORD,
    DOORS,
    POLICIES,
    SYSTEM,
    WINDOW,
    Agent,
    Died,
    Door,
    Middleware,
    OwnGraph,
    count,
    log_of,
)

COMMITTED = {"committed", "degraded_deterministic"}
MOST_ADDED = 3
"""A summary, key information, a quotation of the archive: what a request may hold beside what was said."""
HISTORIES = {"plain": ("say 90", 12), "long results": ("read 1 200", 6), "parallel calls": ("read 3 70", 6)}
"""What each input asks for, and the number of inputs."""
VARIANTS = {"progressive_chart", "progressive_pseudocode"}
"""Policies that differ from another only in the order of their strategies."""
SUMMARIZING = {"selective", "layered_defence", "recent_rounds", "reserve_tokens"}
"""The policies that ask for a summary at every compaction."""
FAULTS = part([ConnectionError("reset"), "", "I am done."], 3)

doors = pytest.mark.parametrize("make", DOORS.values(), ids=DOORS)
threads = pytest.mark.parametrize("make", [Agent, Middleware, OwnGraph], ids=lambda door: door.__name__)
policies = pytest.mark.parametrize("policy", [name for name in POLICIES if FULL or name not in VARIANTS])
Make = Callable[..., Door]


def talk(door: Door, turns: int, ask: str = "say 90", words: int = 40, kinds: Sequence[str] = ()) -> None:
    """Take so many turns, and check each request."""
    for _ in range(turns):
        number, first = len(door.script.said), len(door.requests)
        question = f"[q{number}] {ask} {log_of(f'q{number}', words)}".strip()
        door.say(question)
        for request in door.requests[first:]:
            assert question in told(request)
            check(door, request, kinds)


def told(request: Sequence[BaseMessage]) -> list[str]:
    """The texts of a request."""
    return [message.text for message in request]


def dumped(request: Sequence[BaseMessage]) -> list[dict[str, object]]:
    """A request, for a comparison to the byte."""
    return [message.model_dump() for message in request]


def check(door: Door, request: Sequence[BaseMessage], kinds: Sequence[str] = ()) -> None:
    """Calls are paired, the request fits, the system prompt stands, and the rest was said in this order.

    Beside what was said, messages of these kinds may stand there, too.
    """
    check_request(request)
    assert count(request) <= WINDOW
    assert SYSTEM in request[0].text
    places = {message: place for place, message in enumerate(door.script.said)}
    kept = [
        places[key] for message in request[1:] if message.text and (key := (message.type, message.text)) in places
    ]
    assert kept == sorted(kept)
    new = [message for message in request[1:] if (message.type, message.text) not in places]
    assert {message.type for message in new} <= {"human", "system", "tool", *kinds}
    assert sum(message.type != "tool" for message in new) <= MOST_ADDED + len(kinds)
    assert all(is_shortened(door, message) for message in new if message.type == "tool")


def is_shortened(door: Door, result: BaseMessage) -> bool:
    """Whether the text begins as a result does, and is shorter than it."""
    return any(
        kind == "tool" and text.startswith(result.text[:20]) and len(result.text) < len(text)
        for kind, text in door.script.said
    )


def check_stored(door: Door) -> list[str]:
    """Every attempt ended, a person was told of each, and every word is in the transcript; return the verdicts."""
    if not door.has_thread:
        return []
    rows = door.thread.history()
    assert all(row.ended_at and (row.tokens_after or 0) < row.tokens_before for row in rows)
    verdicts = [str(row.verdict) for row in rows]
    events = [event["verdict"] for event in door.events if event["event"] == "CompactionEvent"]
    assert events == [verdict for verdict in verdicts if not verdict.startswith("deferred")]
    assert [(message.type, message.text) for message in door.thread.transcript()] == door.script.said
    return verdicts


def shorter(requests: Sequence[Sequence[BaseMessage]]) -> bool:
    """Whether a request is shorter than the one before it."""
    return any(count(later) < count(earlier) for earlier, later in pairwise(requests))


@doors
@policies
@pytest.mark.parametrize("history", HISTORIES)
def test_a_long_conversation_stays_within_its_window(make: Make, policy: str, history: str) -> None:
    """It is compacted, each question is answered, and nothing is lost."""
    ask, turns = HISTORIES[history]
    door = make(policy)
    talk(door, turns, ask)
    assert shorter(door.requests)
    verdicts = check_stored(door)
    assert COMMITTED.intersection(verdicts) or not door.has_thread
    door.close()


@doors
@policies
def test_pins_stand_word_for_word(make: Make, policy: str) -> None:
    """A message that the application marks, and a text that a person pins."""
    door = make(policy)
    pinned = f"[pin] say 5 {log_of('pin', 20)}"
    door.say(pinned, pinned=True)
    if door.has_thread:
        door.thread.pin(text="Crate 4711 is mine.")
    first = len(door.requests)
    talk(door, 12)
    assert shorter(door.requests)
    for request in door.requests[first:]:
        assert pinned in told(request)
        assert any("Crate 4711 is mine." in text for text in told(request)) or not door.has_thread
    door.close()


@doors
@policies
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_summarizer_that_fails_changes_nothing(make: Make, policy: str, fault: object) -> None:
    """Each question is answered; where nothing was committed, the request before stands to the byte in the next."""
    door = make(policy, fault)
    known = [0, 0]
    """How many attempts there were after each turn: one after an answer changes the next request."""
    for _ in range(10):
        talk(door, 1)
        verdicts = check_stored(door)
        if door.has_thread and len(known) > 2 and not COMMITTED.intersection(verdicts[known[-2] :]):
            *_, earlier, later = map(dumped, door.requests)
            assert later[: len(earlier)] == earlier
        known.append(len(verdicts))
    failed = any(verdict.startswith(("failed", "rejected")) for verdict in check_stored(door))
    assert failed or policy not in SUMMARIZING or not door.has_thread
    door.close()


@doors
@policies
def test_an_input_over_the_limit_leaves_the_thread_usable(make: Make, policy: str) -> None:
    """The next short question is answered; what was said before is still known."""
    door = make(policy)
    talk(door, 4)
    before = list(door.script.said)
    with suppress(CompactionError):
        door.say(f"[huge] say 5 {log_of('huge', 2 * WINDOW // A_WORD)}")
    talk(door, 1, kinds=["ai"])
    if door.has_thread:
        assert [(m.type, m.text) for m in door.thread.transcript()][: len(before)] == before
    door.close()


@threads
@policies
def test_an_undo_brings_back_every_message(make: Make, policy: str) -> None:
    """The next request holds all that was said, to the word, and a compaction by hand shortens it again."""
    door = make(policy, messages_in_state=None)
    talk(door, 6, "read 1 20", words=10)
    assert check_stored(door) == []
    door.thread.compact(full=True)
    assert [row.verdict for row in door.thread.history()] == ["committed"]
    door.thread.undo()
    talk(door, 1, "say 0", words=0)
    whole = door.requests[-1]
    assert [(message.type, message.text) for message in whole[1:]] == door.script.said[:-1]
    door.thread.compact(full=True)
    talk(door, 1, "say 0", words=0)
    assert count(door.requests[-1]) < count(whole)
    assert [(message.type, message.text) for message in door.thread.transcript()] == door.script.said
    door.close()


@threads
@policies
def test_a_run_that_died_goes_on_in_another_process(make: Make, policy: str, tmp_path: Path) -> None:
    """With the same request, to the byte, and without paying for a summary again, unless the gate has refused it."""
    door = make(policy, url=f"sqlite:///{tmp_path / 'net.db'}")
    door.script.dies = True
    with pytest.raises(Died):
        talk(door, 20)
    paid = len(door.summarizer.received)
    door.close()
    door.open()
    door.run(None)
    died, resumed = map(dumped, door.requests[-2:])
    assert resumed == died
    refused = sum((row.summary_calls or 0) for row in door.thread.history() if "rejected" in str(row.verdict))
    assert len(door.summarizer.received) - paid <= refused
    talk(door, 2)
    assert all(row.ended_at for row in door.thread.history())
    assert [(message.type, message.text) for message in door.thread.transcript()] == door.script.said
    door.close()
