import asyncio
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    trim_messages,
)
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.prompts import ChatPromptTemplate

from langgraph_compaction.checkpoint.messages.message_codec import fingerprint_all
from langgraph_compaction.nodes import (
    CompactionSettings,
    ContextExhaustedError,
    InvalidMessagesError,
    SettingsError,
    acompact_messages,
    compact_messages,
    render,
    should_compact,
)
from langgraph_compaction.nodes.config.policies import Preset
from langgraph_compaction.nodes.digest.render import OWN_WORDS
from tests.histories import IMAGE, asks, numbered, pinned, result, text_rounds, tool_blocks, user
from tests.invariants import check_request, is_summary, pairs
from tests.nodes.compacting import LONG, Compact, both, compacted, count


@both
def test_a_list_that_fits_comes_back_as_it_is(compact: Compact) -> None:
    """The very same messages, no summary, nothing saved."""
    messages = numbered(text_rounds(3))
    size = count(messages)
    found = compact(messages, max_tokens=size)
    assert found.new_messages == messages
    assert all(new is old for new, old in zip(found.new_messages, messages, strict=True))
    assert (found.verdict, found.summary, found.saved_ratio) == ("noop", None, 0.0)
    assert (found.original_token_count, found.new_token_count) == (size, size)
    assert compact([], max_tokens=1).new_messages == []
    assert compact([], max_tokens=1).saved_ratio == 0.0


@both
def test_one_token_too_many_is_compacted(compact: Compact) -> None:
    """The result says what became of the list."""
    messages = numbered(text_rounds(30, say=LONG))
    size = count(messages)
    found = compact(messages, max_tokens=size - 1)
    assert found.verdict == "committed"
    assert found.new_token_count == count(found.new_messages) < found.original_token_count == size
    assert found.saved_ratio == 1 - found.new_token_count / size
    left = {message.id for message in found.new_messages}
    gone = [message for message in messages if message.id not in left]
    assert found.compacted_messages == len(gone) > 0
    assert found.compacted_rounds == sum(isinstance(message, HumanMessage) for message in gone)
    summary = next(filter(is_summary, found.new_messages))
    assert found.summary
    assert found.summary in summary.text


def test_a_list_is_returned_unless_the_result_is_asked_for() -> None:
    """As `trim_messages` does."""
    messages = numbered(text_rounds(30, say=LONG))
    plain = compact_messages(messages, max_tokens=1_000)
    assert isinstance(plain, list)
    assert count(plain) <= 1_000
    assert isinstance(asyncio.run(acompact_messages(messages, max_tokens=1_000)), list)


def test_messages_without_ids_get_one_and_yours_are_not_changed() -> None:
    """Everything else stays as it was given, in kept messages and in dropped ones."""
    messages = [*text_rounds(20, say=LONG), user("u"), *tool_blocks(2, content=LONG * 9), AIMessage("done")]
    before = fingerprint_all(messages)
    found = compact_messages(messages, max_tokens=1_500)
    assert fingerprint_all(messages) == before
    assert all(message.id for message in found)
    assert len({message.id for message in found}) == len(found)
    again = compact_messages(found, max_tokens=1_500)
    assert again == found


@pytest.mark.parametrize(("blocks", "rounds"), [(5, 12), (8, 15)])
def test_the_seeds_own_numbers_leave_no_orphan(blocks: int, rounds: int) -> None:
    """At every size at which something has to go."""
    messages = [user("task"), *tool_blocks(blocks, content=LONG), AIMessage("found it"), *text_rounds(rounds)]
    settings = CompactionSettings(tool_blocks_keep_recent=blocks, dialogue_rounds_keep_min=rounds)
    size = count(numbered(messages))
    for max_tokens in range(100, size, 50):
        compacted(messages, max_tokens, settings=settings)


def test_an_open_call_waits_for_its_results() -> None:
    """Between the first result and the second nothing of the block goes, and the second finds its call."""
    messages = [*text_rounds(20, say=LONG), user("u"), asks("a", "b"), result("a")]
    found = compacted(messages, 1_000)
    later = [*found.new_messages, result("b", id="later")]
    assert pairs(later)[1] == []
    check_request(render(later))


def test_clipped_arguments_stay_a_dict() -> None:
    """Providers parse them again."""
    messages = [user("u"), asks("a", code=LONG * 30, path="app.py"), result("a"), user("next")]
    found = compacted(messages, 600)
    call = next(m for m in found.new_messages if isinstance(m, AIMessage)).tool_calls[0]
    assert call["args"]["path"] == "app.py"
    assert "[TRUNCATED original~3000 tokens]" in call["args"]["code"]


def test_a_system_message_inside_the_conversation_stays() -> None:
    """Byte for byte, in its place."""
    rule = SystemMessage("Never delete anything.")
    messages = [SystemMessage("s"), *text_rounds(10, say=LONG), rule, *text_rounds(10, say=LONG)]
    kept = [m.text for m in compacted(messages, 800).new_messages if isinstance(m, SystemMessage)]
    assert kept == ["s", "Never delete anything."]


def test_the_summary_stands_where_the_first_dropped_message_stood() -> None:
    """Between what is older and what is newer than it."""
    messages = [pinned("pinned"), *text_rounds(20, say=LONG), user("newest")]
    new = compacted(messages, 1_000).new_messages
    assert [is_summary(message) for message in new[:2]] == [False, True]
    assert (new[0].text, new[-1].text) == ("pinned", "newest")


INVALID: list[tuple[Any, str]] = [
    ([{"role": "user"}], "item 0 is a dict that is no message: give a message, a dict with role and content"),
    ([user("u"), ("human", "v", "w")], "item 1 is a tuple"),
    ([user("u"), 5], "item 1 is a int"),
    ("a text", "give a list of messages"),
    ([user("u"), AIMessageChunk(content="half")], "item 1 is a AIMessageChunk"),
    ([user("u", id="x"), user("v", id="x")], "message 1 has the id 'x'"),
]


@pytest.mark.parametrize(("messages", "words"), INVALID)
def test_what_is_no_conversation_is_refused(messages: Any, words: str) -> None:
    """At once, whatever its size, and the error says which item it is."""
    with pytest.raises(InvalidMessagesError, match=words):
        compact_messages(messages, max_tokens=10**6)


@both
def test_it_takes_the_result_of_a_prompt_template(compact: Compact) -> None:
    """As `trim_messages` does, whether it is compacted or fits."""
    template = ChatPromptTemplate([("system", "You help."), ("placeholder", "{said}")])
    prompt = template.invoke({"said": numbered(text_rounds(20))})
    tokens = count(prompt.to_messages())
    assert [m.text for m in compact(prompt, max_tokens=tokens).new_messages] == [m.text for m in prompt.to_messages()]
    found = compact(prompt, max_tokens=tokens // 2)
    assert found.verdict == "committed"
    assert found.new_token_count <= tokens // 2
    assert should_compact(prompt, max_tokens=tokens // 2)


def test_it_takes_what_trim_messages_takes() -> None:
    """Dicts, tuples and texts stand for messages, among which those that are messages stay the same objects."""
    given = [{"role": "user", "content": "u"}, ("ai", "v"), "w", (last := user("x", id="last"))]
    found = compact_messages(given, max_tokens=100)
    assert [(message.type, message.text) for message in found] == [
        ("human", "u"),
        ("ai", "v"),
        ("human", "w"),
        ("human", "x"),
    ]
    assert found[-1] is last
    assert should_compact(given, max_tokens=8)


def test_a_list_that_fills_the_limit_is_not_over_it() -> None:
    """Without a trigger by size, only a list over the limit has to be compacted."""
    messages, settings = numbered(text_rounds(3)), CompactionSettings(trigger_ratio=None)
    size = count(messages)
    assert not should_compact(messages, max_tokens=size, settings=settings, token_counter=count)
    assert should_compact(messages, max_tokens=size - 1, settings=settings, token_counter=count)


def test_missing_ids_are_no_repeated_ids() -> None:
    """Neither None nor an empty text is an id."""
    found = compact_messages([user("u"), user("v", id=""), user("w", id=""), user("x")], max_tokens=100)
    assert len({message.id for message in found}) == 4


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_a_size_of_nothing_is_refused(max_tokens: int) -> None:
    """By name, before anything is done."""
    with pytest.raises(SettingsError, match="max_tokens"):
        compact_messages([user("u")], max_tokens=max_tokens)


def test_system_messages_that_fill_the_size_are_an_error() -> None:
    """No compaction can help."""
    with pytest.raises(SettingsError, match="no room"):
        compact_messages([SystemMessage(LONG), user("u")], max_tokens=100)


def test_what_must_stay_and_does_not_fit_is_an_error() -> None:
    """It names the sizes and what stood in the way."""
    keep = CompactionSettings(long_input="keep")
    with pytest.raises(ContextExhaustedError, match=r"hold 104 tokens and at most 100 are wanted"):
        compact_messages([user(LONG)], max_tokens=100, settings=keep)
    with pytest.raises(ContextExhaustedError):
        compact_messages([pinned(LONG), AIMessage("a"), user("u")], max_tokens=100)


def test_an_unread_result_over_the_size_is_no_error() -> None:
    """Where no summary fits beside it, older messages leave without one, and the result is shortened."""
    rows = ", ".join(f"flight HAT{n} on 2024-05-{n % 28 + 1:02}" for n in range(100, 116))
    asked = user("Which of my flights can be moved to the next Sunday?")
    greeting = [user("Hello there."), AIMessage("Hello! How can I help?")]
    chat = [*greeting, asked, asks("a", number="EHGLP3"), result("a", rows)]
    found = compacted(chat, count(chat) // 4).new_messages
    assert found[0].text == asked.text
    assert found[-1].text.startswith("flight HAT100")


@pytest.mark.parametrize("preset", ["selective", "faithful"])
def test_a_long_input_that_the_model_has_not_read_is_shortened(preset: Preset) -> None:
    """The input keeps its beginning, its end, and the rules and identifiers from the middle.

    A digest summarizes the earlier messages.
    """
    lines = [f"line {n}: nothing of note is here at all" for n in range(100)]
    lines[50] = "You must never touch the file vendor/parser_v2.py in this repository."
    task = [user("Fix the failing test of the parser."), AIMessage("I open the file.")]
    seen = user("\n".join(lines))
    found = compacted([*task, seen], 400, preset=preset)
    assert (found.verdict, found.compacted_messages, found.compacted_rounds) == ("committed", 2, 1)
    assert found.summary == f'{OWN_WORDS}:\n- {task[0].text}\nAnswers:\n- "{task[1].text}"'
    text = found.new_messages[-1].text
    assert text.startswith("line 0:")
    assert "line 99: nothing" in text
    assert lines[50] in text
    assert "[TRUNCATED original~" in text
    with pytest.raises(ContextExhaustedError):
        compact_messages([*task, seen], max_tokens=400, settings=CompactionSettings(long_input="keep"))


def test_the_counter_is_that_of_trim_messages() -> None:
    """The same function serves both, and judges the result."""
    messages = numbered(text_rounds(30, say=LONG))
    found = compact_messages(messages, max_tokens=1_000, token_counter=count_tokens_approximately)
    assert count_tokens_approximately(found) <= 1_000
    assert trim_messages(messages, max_tokens=1_000, token_counter=count_tokens_approximately)
    with pytest.raises(SettingsError, match="token_counter"):
        compact_messages(messages, max_tokens=1_000, token_counter=3)


def test_each_message_is_counted_once() -> None:
    """However often the list is measured while plans are tried."""
    counted: list[tuple[str, str]] = []

    def mine(messages: list[Any]) -> int:
        counted.extend((message.id, message.text) for message in messages if message.id)
        return sum(len(message.text) // 4 + 4 for message in messages)

    given = [*text_rounds(40, say=LONG), user("u"), *tool_blocks(9, content=LONG), AIMessage("done")]
    messages = numbered([m.model_copy(update={"content": f"{i}{m.content}"}) for i, m in enumerate(given)])
    found = compact_messages(messages, max_tokens=800, token_counter=mine)
    assert len(set(counted)) == len(counted), "a message, or a clipped form of one, was counted twice"
    assert {(message.id, message.text) for message in messages} <= set(counted)
    counted.clear()
    compact_messages(found, max_tokens=800, token_counter=mine)
    assert sorted(counted) == sorted((message.id, message.text) for message in found if message.id)


@pytest.mark.parametrize(("max_tokens", "left"), [(14_000, 4), (10_000, 2), (6_000, 1)])
def test_the_oldest_pictures_leave_first(max_tokens: int, left: int) -> None:
    """Of the results that stay, the newest keep their pictures as far as there is room; all keep their texts."""
    messages: list[AnyMessage] = []
    for n in range(9):
        shown = result(f"c{n}", [{"type": "text", "text": f"screen {n}"}, IMAGE])
        messages += [user(f"look at {n}"), asks(f"c{n}"), shown, AIMessage(f"seen {n}")]
    found = compacted([*messages, user("and now?")], max_tokens)
    results = [message for message in found.new_messages if isinstance(message, ToolMessage)]
    assert [IMAGE in list(message.content) for message in results] == [False] * (5 - left) + [True] * left
    assert [f"screen {n}" in message.text for n, message in enumerate(results, 4)] == [True] * 5
