"""What later turns need stays: facts and rules in the digest, and as many newest messages as are worth it."""

import json

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.nodes import compact_messages
from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter, total
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.selection.selector import Demand, Selector
from langgraph_compaction.nodes.selection.strategies.faithful import faithful
from tests.histories import asks, numbered, result
from tests.nodes.compacting import compacted
from tests.nodes.selection.strategies.selecting import WORDS
from tests.settings import settings as chosen_of

COUNTER = tiktoken_counter()
FLIGHTS = json.dumps([{"flight": f"HAT{n:03}", "seats": "there are some left " * 3} for n in range(20)])


def conversation(rounds: int) -> list[AnyMessage]:
    """Return rounds with a call each, a rule in the first, and a result that the model has not read."""
    said: list[AnyMessage] = [HumanMessage("Find me a flight. Never book a seat next to a lavatory.")]
    for number in range(rounds):
        said += [
            asks(f"a{number}", booking_id=f"BK{number:03}Q"),
            result(
                f"a{number}", json.dumps({"booking_id": f"BK{number:03}Q", "notes": "nothing to tell of it " * 20})
            ),
            AIMessage(f"I looked at booking {number}."),
            HumanMessage("And the next one?"),
        ]
    return [*said, asks("last", origin="JFK"), result("last", FLIGHTS)]


def test_a_result_that_is_waited_for_stays_as_its_facts() -> None:
    """Each value with its key where its beginning alone would have lost the rest, and the line that says so."""
    messages = conversation(8)
    found = compacted(messages, total(COUNTER, messages) // 5, preset="faithful").new_messages
    last = found[-1]
    assert isinstance(last, ToolMessage)
    assert last.text.startswith("flight HAT")
    assert "JFK" not in last.text, "the call beside it says so"
    assert last.text.splitlines()[-1].startswith("[TRUNCATED original~")
    assert last.text.count("HAT") > 5


def test_a_result_that_is_waited_for_stays_whole_if_all_facts_fit_beside_it() -> None:
    """The words of the result are worth more than the old steps for which the summary then has no room."""
    summary, *_, last = compact_messages(conversation(12), max_tokens=820, preset="faithful")
    assert last.text == FLIGHTS
    assert all(f"- booking_id BK{number:03}Q" in summary.text for number in range(12))
    assert "I looked at booking 11." not in summary.text


def test_a_result_keeps_the_values_that_the_question_asks_about() -> None:
    """The row and the field that the user named stay where the result that the model waits for is shortened."""
    rows = [{"lamp": f"LMP{n:03}", "weight": 1_000 + n, "warranty": 3_000 + n} for n in range(60)]
    messages = [
        HumanMessage("What is the warranty of LMP033?"),
        asks("a", shelf="S-1"),
        result("a", json.dumps(rows)),
    ]
    left = compact_messages(messages, max_tokens=220, preset="faithful")
    shown = left[-1].text
    assert "LMP033" in shown
    assert "warranty 3033" in shown
    assert "LMP059" not in shown


def test_where_there_is_room_the_newest_messages_stay_word_for_word() -> None:
    """More of them, the more room there is; and a tool block stays whole."""
    messages = numbered(conversation(30))
    size = total(COUNTER, messages)
    kept = [
        len(compact_messages(messages, max_tokens=int(share * size), preset="faithful")) for share in (0.2, 0.6, 0.9)
    ]
    assert kept == sorted(kept)
    assert kept[0] < kept[-1]
    assert kept[-1] > 40


def test_at_last_only_what_must_stay_is_left_ever_longer() -> None:
    """The last three choices fill half of the aim and all of it beside a summary, and all of it without a summary."""
    messages = [*conversation(3)]
    chosen_settings = chosen_of(preset="faithful", tool_blocks_keep_unread=False)
    selector = Selector(Transcript(numbered(messages)), chosen_settings, Meter(WORDS, 0))
    demand = Demand(before=10**6, ceiling=200, aim=200, summary=40, least=40)
    *_, half, whole, alone = faithful(selector, demand)
    must = selector.untouchable
    assert {choice.drop for choice in (half, whole, alone)} == {frozenset(range(len(messages))) - must}
    sizes = [selector.tokens(choice.drop, choice.clip) for choice in (half, whole, alone)]
    assert sizes[0] <= 200 // 2 - 40 < sizes[1] <= 200 - 40 < sizes[2] <= 200
    assert [choice.summarize for choice in (half, whole, alone)] == [None, None, False]
    assert [choice.summary for choice in (half, whole, alone)] == [40, 40, None]
