"""Counters of tokens: of texts, of messages, offline, and those of an application."""

import datetime as dt
import math
import socket
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.graph.lab.replay.openai_json import to_openai
from langgraph_compaction.nodes.conversation.request import calibration_factor, render
from langgraph_compaction.nodes.conversation.tokens import (
    TokenCounter,
    approximate_counter,
    messages_counter,
    offline_encoding,
    tiktoken_counter,
    total,
)
from tests.fakes import chars
from tests.histories import asks, histories, user
from tests.recount import request_tokens

EXACT, APPROXIMATE = tiktoken_counter(), approximate_counter()

ENCODINGS = (
    ("gpt-4o", "tiktoken:o200k_base"),
    ("gpt-4", "tiktoken:cl100k_base"),
    ("claude-opus-4", "tiktoken:o200k_base"),
    ("", "tiktoken:o200k_base"),
    (None, "tiktoken:o200k_base"),
    ("text-davinci-003", "tiktoken:o200k_base"),
    ("gpt2", "tiktoken:o200k_base"),
    ("gpt-oss-120b", "tiktoken:o200k_base"),
)


@settings(max_examples=60, deadline=None)
@given(histories())
def test_another_tokenizer_counts_the_same_request(history: list[AnyMessage]) -> None:
    """The count is that of the OpenAI JSON in o200k_base: content, `name(arguments)`, 4 a message, media 1,600."""
    request = render(history)
    assert total(EXACT, request) == request_tokens(to_openai(request))


def test_counting_never_needs_the_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With no socket to open and an empty cache every model's counter works.

    A model that is unknown, or whose own ranks no package ships, is counted in o200k_base.
    """

    def no_network(*_: Any, **__: Any) -> None:
        raise OSError("no network in this sandbox")

    monkeypatch.setattr(socket, "socket", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    offline_encoding.cache_clear()
    assert tiktoken_counter("gpt-4o").text("hello world") == 2
    for model, name in ENCODINGS:
        assert tiktoken_counter(model).name == name
        assert tiktoken_counter(model).text("hello wide world " * 9) > 20
    assert list(tmp_path.iterdir()) == []


BROKEN: list[Any] = [{"name": "read", "args": "{oops", "id": "a", "error": "no"}]
CALL = asks("a", path="x" * 50)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (AIMessage(""), ""),
        (CALL, f'read({{"path": "{"x" * 50}"}})'),
        (AIMessage("", invalid_tool_calls=BROKEN), "read({oops)"),
        (asks("a", day=dt.date(2026, 11, 1)), 'read({"day": "2026-11-01"})'),
        (AIMessage([{"type": "thinking", "thinking": "hello world"}]), "hello world"),
        (AIMessage([{"type": "refusal", "refusal": "hello world"}]), "hello world"),
        (AIMessage([{"type": "odd", "hello": 1}]), '{"type": "odd", "hello": 1}'),
        *(
            (
                CALL.model_copy(update={"content": [{"type": kind, "id": "a", "input": {"path": "x" * 50}}]}),
                f'read({{"path": "{"x" * 50}"}})',
            )
            for kind in ("tool_use", "tool_call", "function_call", "custom_tool_call")
        ),
    ],
)
def test_everything_that_is_sent_counts_once(message: AIMessage, text: str) -> None:
    """Content, calls, malformed ones too, thoughts and refusals; a call that stands in the content too once."""
    assert EXACT.message(message) == 4 + EXACT.text(text)


def test_a_call_that_the_provider_itself_ran_counts() -> None:
    """It stands in the content alone."""
    block = {"type": "server_tool_call", "id": "a", "name": "web_search", "args": {"query": "x " * 50}}
    assert EXACT.message(AIMessage([block])) > 50


def test_the_approximation_knows_wide_scripts() -> None:
    """Four characters of an alphabet are a token, rounded up, and so is each character from U+2E80 on."""
    assert [APPROXIMATE.text(text) for text in ("", "a", "abcd", "abcde", "配置", "配置abcd")] == [0, 1, 1, 2, 2, 3]
    for code in (0x7F, 0x7FF, 0x1FFF, 0x2E7F, 0x2E80, 0x2FFF, 0xD800, 0xFFFF, 0x10FFFF):
        assert APPROXIMATE.text(chr(code) * 8) == (8 if code >= 0x2E80 else 2)
    mixed = "".join(map(chr, range(0, 0x30000, 7)))
    wide = sum(character >= "\u2e80" for character in mixed)
    assert APPROXIMATE.text(mixed) == wide + math.ceil((len(mixed) - wide) / 4)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([EXACT, APPROXIMATE, chars(2), chars(7)]), st.text(max_size=80), st.integers(0, 40))
def test_a_head_is_a_beginning_of_at_most_so_many_tokens(counter: TokenCounter, text: str, tokens: int) -> None:
    """It is the whole text where that fits, and no part of a character is left over."""
    head = counter.head(text, tokens)
    assert text.startswith(head)
    assert counter.text(head) <= tokens
    assert (head == text) == (counter.text(text) <= tokens)


def test_a_head_is_the_longest_that_fits() -> None:
    """Each word is one token. A text that fits is returned unchanged, even with half a surrogate pair."""
    assert EXACT.head(" one two three four", 3) == " one two three"
    assert APPROXIMATE.head("abcdefghij", 2) == "abcdefgh"
    for counter in (EXACT, APPROXIMATE):
        assert counter.head("one \ud83d", counter.text("one \ud83d")) == "one \ud83d"


@settings(max_examples=60, deadline=None)
@example(words=["0", "00000", "000000", "000000000", "00000000:", "/0000", "0", "0", "0"])
@given(
    words=st.lists(st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=9), min_size=9)
)
def test_a_long_text_is_counted_in_pieces_that_change_no_count(words: list[str]) -> None:
    """A piece ends before a space, or after a line break."""
    o200k = offline_encoding("o200k_base")
    assert o200k is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("langgraph_compaction.nodes.conversation.tokens._PIECE", 40)
        for text in (" ".join(words), "  ".join(words), "\n".join(words)):
            tokens = len(o200k.encode_ordinary(text))
            assert tiktoken_counter().text(text) == tokens
            assert tiktoken_counter().head(text, tokens) == text


@pytest.mark.parametrize("text", [" " * 1_100_000, "中" * 100_000, "\ud83d\ude00" * 50_000])
def test_no_piece_is_too_long_for_the_tokenizer(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets at most 64 kB at once, and no half of a surrogate pair: it panics at a million spaces."""
    pieces: list[bytes] = []
    encode = tiktoken.Encoding.encode_ordinary

    def spied(encoding: tiktoken.Encoding, piece: str) -> list[int]:
        pieces.append(piece.encode("utf-16", "surrogatepass").decode("utf-16").encode())
        return encode(encoding, piece)

    monkeypatch.setattr(tiktoken.Encoding, "encode_ordinary", spied)
    tokens = tiktoken_counter().text(text)
    assert 0 < tokens <= len(text)
    assert max(map(len, pieces)) <= 65_536
    assert b"".join(pieces).decode() == text.encode("utf-16", "surrogatepass").decode("utf-16")
    assert text.startswith(tiktoken_counter().head(text, 9))
    assert len(pieces) < len(text) / 8_000


def test_a_counter_of_lists_counts_each_message_once() -> None:
    """It is named after the function, is given whole messages, and tells messages apart by all that it may count."""
    asked: list[Any] = []

    def mine(messages: list[Any]) -> int:
        asked.extend(messages)
        return 10 + len(messages[0].text)

    counter = messages_counter(mine)
    assert counter.name == "mine"
    assert [counter.text("abc"), counter.text("long " * 100), counter.text("abc")] == [3, 500, 3]
    assert [one.text for one in asked] == ["", "abc", "long " * 100]
    asked.clear()
    same = ToolMessage("abc", tool_call_id="a", id="m1")
    others = [
        ToolMessage("abc", tool_call_id="longer"),
        ToolMessage("abc", tool_call_id="a", name="read"),
        HumanMessage("abc"),
        SystemMessage("abc"),
        AIMessage("abc", tool_calls=asks("a").tool_calls),
        AIMessage("abc", tool_calls=asks("b").tool_calls),
    ]
    assert total(counter, [same, *others, same.model_copy(update={"id": "m2"}), *others]) == 14 * 13
    assert asked == [same, *others]


def test_caches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its bound a cache starts anew, and counts stay right."""
    monkeypatch.setattr("langgraph_compaction.nodes.conversation.tokens._CACHED_COUNTS", 3)
    counter: Any = messages_counter(lambda messages: len(messages[0].text))
    for n in range(10):
        assert counter.text("x" * n) == n
        assert counter.message(user("x" * n)) == n
        assert len(counter._counts) <= 3
        assert len(counter._messages) <= 3


@pytest.mark.parametrize(
    ("reported", "counted", "scale"), [(150, 100, 1.5), (80, 100, 1.0), (900, 100, 3.0), (10, 0, 1.0)]
)
def test_calibration_stays_within_bounds(reported: int, counted: int, scale: float) -> None:
    """A report below our count never makes requests larger, and one slip never shrinks them without end."""
    assert calibration_factor(reported, counted) == scale


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [
        (0, (0, 0)),
        (7, (7, 7)),
        (2.1, (3, 3)),
        *((wrong, (2, 6)) for wrong in (-1, True, float("inf"), float("nan"), "7", None)),
    ],
)
def test_what_is_no_number_of_tokens_is_replaced_by_an_approximate_count(
    answer: Any, tokens: tuple[int, int]
) -> None:
    """Of a text and of a message; parts of a token are rounded up."""
    of_texts, of_messages = TokenCounter("mine", lambda _: answer), messages_counter(lambda _: answer)
    assert (of_texts.text("abcde"), of_messages.message(HumanMessage("abcde"))) == tokens


def test_what_is_no_number_is_quoted_in_the_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Up to 40 characters of it, and once."""
    wrong: Any = "x" * 50
    counter = messages_counter(lambda _: wrong)
    assert [counter.message(HumanMessage(text)) for text in ("abcd", "abcde")] == [5, 6]
    assert [row.message.count("x" * 39) for row in caplog.records] == [1]
    assert "x" * 40 not in caplog.text
