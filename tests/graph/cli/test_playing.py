"""How a recording is played: what counts as a valid request, and how the stand-in model counts."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.graph.lab.recordings import Recording
from langgraph_compaction.graph.lab.replay.openai_json import to_openai
from langgraph_compaction.graph.lab.replay.recorded_run import Options, Player, is_paired
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.conversation.tokens import TokenCounter
from langgraph_compaction.nodes.state import view
from tests.graph.cli.replaying import READ
from tests.histories import asks, result, user
from tests.recount import unpaired

WORDS = TokenCounter("words", lambda text: len(text.split()))

REQUESTS: dict[str, tuple[list[AnyMessage], bool]] = {
    "no calls": ([user("u"), AIMessage("done")], True),
    "parallel calls, answered in another order": ([asks("a", "b"), result("b"), result("a")], True),
    "a reused id": ([asks("a"), result("a"), asks("a"), result("a")], True),
    "one id twice": ([asks("a", "a"), result("a"), result("a")], True),
    "an unanswered call": ([asks("a"), user("u")], False),
    "an unanswered call at the end": ([asks("a", "b"), result("a")], False),
    "a late result": ([asks("a"), user("u"), result("a")], False),
    "a result of no call": ([user("u"), result("a")], False),
    "a second result": ([asks("a"), result("a"), result("a")], False),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_paired_by_position(name: str) -> None:
    """A request is valid where each call is answered directly behind its message; the recount agrees."""
    messages, valid = REQUESTS[name]
    assert is_paired(messages) == valid == (unpaired(to_openai(messages)) == [])


def told(count: int, words: int) -> tuple[AnyMessage, ...]:
    """Return a system message and `count` rounds of a question, a call, a result of `words` words, and an answer."""
    said: list[AnyMessage] = [SystemMessage("You read files.")]
    for number in range(count):
        found = " ".join(f"word-{number}-{word}" for word in range(words))
        said += [HumanMessage(f"What stands in file-{number}.txt?"), asks(f"c{number}", path=f"file-{number}.txt")]
        said += [result(f"c{number}", found), AIMessage(f"It begins with word-{number}-0.")]
    return tuple(said)


@pytest.fixture
def player() -> Iterator[Callable[..., Player]]:
    """Return a function that makes a player for a recording; the player counts words instead of tokens."""
    with Database.open("memory") as database:
        database.setup()

        def made(recording: Recording, observe: Any = None, **options: Any) -> Player:
            return Player(recording, Options(database=database, counter=WORDS, **options), observe=observe)

        yield made


SIZES = (15, 65, 81, 131, 147, 197)
"""These are the sizes of the requests of `told(3, 40)`: the number of words, and 4 for each message.

The system prompt and the first question take 15 tokens. Each call with its result adds 50 tokens, and each answer
with the next question adds 16 tokens.
"""


@pytest.mark.parametrize(("tools", "schema"), [((), 0), ((READ,), 10)], ids=["no tools", "a tool of ten words"])
def test_a_conversation_as_large_as_the_window_is_reported_whole(
    player: Callable[..., Player], tools: tuple[Any, ...], schema: int
) -> None:
    """The largest request has exactly the size of the limit, and the report counts no request over the limit."""
    recording = Recording(name="r", messages=told(3, 40), tools=tools)
    played = player(recording, window=str(197 + schema), settings=CompactionSettings(enabled=False))
    sent: list[dict[str, Any]] = []
    played.on_request = sent.append
    assert list(played.steps()) == [5, 9, 13]
    assert json.loads(played.report.as_json()) == {
        "file": "r",
        "preset": "selective",
        "turns": 3,
        "requests": 6,
        "limit": 197 + schema,
        "max_request_tokens": 197 + schema,
        "invalid_requests": 0,
        "over_window_requests": 0,
        "refused_turns": 0,
        "lost_messages": 0,
        "trigger": int(0.8 * (197 + schema)),
        "tokens_sent": sum(SIZES) + 6 * schema,
        "messages": 13,
        "rounds": 3,
        "compactions": [],
    }
    assert played.report.sizes == [size + schema for size in SIZES]
    assert (played.report.recorded, played.report.archived, played.report.flawless) == (13, 0, True)
    about = {"file": "r", "limit": 197 + schema, "tools": list(tools)}
    expected = [to_openai(recording.messages[:answer]) for answer in (2, 4, 6, 8, 10, 12)]
    assert sent == [{**about, "request": n, "messages": messages} for n, messages in enumerate(expected, 1)]


def test_a_refused_input_is_followed_by_its_recorded_answer(player: Callable[..., Player]) -> None:
    """The recorded answer replaces the graph's own answer to the refused input, and the conversation continues."""
    refused = HumanMessage("and so on " * 300)
    messages: tuple[AnyMessage, ...] = (SystemMessage("be brief"), HumanMessage("go"), AIMessage("ok"), refused)
    messages += (asks("c"), result("c", "x y"), AIMessage("done"), HumanMessage("next"), AIMessage("fine"))
    states: list[dict[str, Any]] = []
    played = player(Recording(name="r", messages=messages), states.append, window="100")
    assert list(played.steps()) == [3, 4, 7, 9]
    assert to_openai(states[-1]["messages"]) == to_openai(messages)
    notice, *others = [one for one in view(states[-1]) if one.text.startswith("[This message was not")]
    assert others == []
    assert to_openai(view(states[-1])) == to_openai([*messages[:3], notice, *messages[4:]])
    report = played.report
    assert (report.turns, report.requests, report.refused_turns, report.lost_messages) == (3, 4, 1, 0)
    assert (report.messages, report.rounds) == (9, 3)


@pytest.mark.parametrize(
    ("messages", "places"),
    [
        ([user("u"), asks("a"), result("a"), result("z"), AIMessage("b"), user("v"), AIMessage("c")], (3, 4)),
        ([user("u"), asks("a"), result("a"), result("a"), AIMessage("b"), user("v"), AIMessage("c")], (3, 4)),
        ([user("u"), AIMessage("b"), result("z"), user("v"), AIMessage("c")], (2, 2)),
        ([user("u"), asks("a"), user("v"), result("a"), AIMessage("c")], (3, 3)),
    ],
    ids=["of no call", "a second one", "behind an answer", "a late one"],
)
def test_a_result_that_no_call_waits_for_is_said_with_the_next_input(
    player: Callable[..., Player], messages: list[AnyMessage], places: tuple[int, int]
) -> None:
    """The player sends a result that no call waits for together with the next user message.

    No message is lost, and no request is invalid.
    """
    states: list[dict[str, Any]] = []
    report = player(Recording(name="r", messages=tuple(messages)), states.append, window="1000").play()
    before, after = places
    stray = messages.pop(before)
    messages.insert(after, stray)
    assert to_openai(states[-1]["messages"]) == to_openai(messages)
    assert (report.turns, report.lost_messages, report.invalid_requests) == (2, 0, 0)
