"""Fields of tool blocks, results and answers that are shortened: what is left of them, and what leads to the rest."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage

from langgraph_compaction.checkpoint.messages.message_codec import dumps, handle
from langgraph_compaction.nodes.conversation.clipping import (
    clip_at_sentence_end,
    clip_calls,
    clip_result,
    clipped_text,
    recall_line,
    with_clipped_text,
    with_recall_handle,
    without_clip_marker,
)
from langgraph_compaction.nodes.conversation.clipping import clip_text as clip_answer
from langgraph_compaction.nodes.conversation.tokens import approximate_counter, arguments_json, tiktoken_counter
from tests.graph.harness import WORDS
from tests.histories import IMAGE, result

COUNTER = tiktoken_counter()


def words(count: int) -> str:
    """Return a text of exactly so many tokens."""
    text = " one" * count
    assert COUNTER.text(text) == count
    return text


def calling(*args: Any, call_ids: tuple[str, ...] = ("a", "b", "c"), **fields: Any) -> AIMessage:
    """Return a message that calls `read` with each of these arguments."""
    made = [{"name": "read", "args": each, "id": call_id} for each, call_id in zip(args, call_ids, strict=False)]
    return AIMessage(fields.pop("content", ""), tool_calls=made, id="m1", **fields)


def clip(message: AIMessage, threshold: int = 500, keep: int = 200) -> AIMessage:
    """Clip calls with the seed's figures."""
    return clip_calls(message, threshold=threshold, keep=keep, counter=COUNTER)


def clip_text(message: ToolMessage, threshold: int = 600, keep: int = 200) -> ToolMessage:
    """Clip a result with the seed's figures."""
    return clip_result(message, threshold=threshold, keep=keep, counter=COUNTER)


def test_a_clipped_result_names_its_original() -> None:
    """The handle is that of the message as it was, also after a second clip; other marks and fields stay."""
    fields: dict[str, Any] = {
        "additional_kwargs": {"x": 1, "compaction": {"ephemeral": True}},
        "artifact": {"n": [1]},
    }
    message = result("a", words(700), id="m1", **fields)
    short = clip_text(message)
    mark = {"ephemeral": True, "clipped": True, "handle": handle(message)}
    assert short.content == words(200) + "\n[TRUNCATED original~700 tokens]"
    assert short.additional_kwargs == {"x": 1, "compaction": mark}
    assert (short.id, short.tool_call_id, short.name, short.artifact) == ("m1", "a", "read", {"n": [1]})
    assert clip_text(short) is short
    again = clip_text(short, threshold=50, keep=20)
    assert again.content == words(20) + "\n[TRUNCATED original~700 tokens]"
    assert again.additional_kwargs == short.additional_kwargs
    unstored = clip_text(result("a", words(700), id="m1", artifact=object()))
    assert unstored.additional_kwargs["compaction"] == {"clipped": True}, "no database can hold it"


def test_arguments_stay_a_dict_of_the_same_shape() -> None:
    """Only text is cut: keys, numbers, lists and short texts stand as they were."""
    given = {
        "path": "src/app.py",
        "lines": [1, 2.5, None, True],
        "edits": [{"old": words(800), "new": words(10)}],
        "": {"deep": {"er": words(400)}},
    }
    args = clip(calling(given)).tool_calls[0]["args"]
    assert args["path"] == "src/app.py"
    assert args["lines"] == [1, 2.5, None, True]
    assert args["edits"][0]["new"] == words(10)
    assert "[TRUNCATED original~800 tokens]" in args["edits"][0]["old"]
    assert "[TRUNCATED original~400 tokens]" in args[""]["deep"]["er"]
    assert COUNTER.text(arguments_json(args)) <= 500


@pytest.mark.parametrize(
    "given",
    [{"numbers": list(range(2_000))}, {f"key{n}": n for n in range(500)}, {"words": ["one two"] * 900}],
    ids=["numbers", "keys", "many short texts"],
)
def test_bulk_that_is_no_long_text_becomes_one(given: dict[str, Any]) -> None:
    """Where cutting texts does not help, the beginning of the JSON stands under one key."""
    args = clip(calling(given)).tool_calls[0]["args"]
    assert list(args) == ["clipped"]
    assert json.dumps(given).startswith(args["clipped"].split("\n[TRUNCATED")[0])
    assert COUNTER.text(arguments_json(args)) <= 500


def test_a_malformed_call_is_cut_as_the_text_it_is() -> None:
    """Providers are sent it too."""
    broken: list[Any] = [{"name": "read", "args": "{" + words(900), "id": "a", "error": "no JSON"}]
    short = clip(AIMessage("", invalid_tool_calls=broken, id="m1"))
    assert short.invalid_tool_calls[0]["args"] == "{" + words(199) + "\n[TRUNCATED original~901 tokens]"
    assert short.invalid_tool_calls[0]["id"] == "a"
    for args in (None, words(500)):
        whole = AIMessage("", invalid_tool_calls=[{**broken[0], "args": args}], id="m1")
        assert clip(whole) is whole


def test_a_call_in_the_content_is_cut_with_the_call() -> None:
    """Blocks of every provider's form, by position where two share an id; the package's own raw copy goes."""
    long, small = {"text": words(900)}, {"text": "short"}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    content = [
        thought,
        {"type": "text", "text": "looking"},
        {"type": "tool_use", "id": "a", "name": "read", "input": small},
        {"type": "tool_use", "id": "a", "name": "read", "input": long},
        {"type": "tool_call", "id": "b", "name": "read", "args": long},
        {"type": "function_call", "call_id": "c", "name": "read", "arguments": json.dumps(long)},
        {"type": "tool_use", "id": "elsewhere", "name": "read", "input": {"x": 1}},
    ]
    raw = {"tool_calls": [{"id": "a"}], "function_call": {"name": "read"}, "signature": "s"}
    said = calling(
        small, long, long, long, call_ids=("a", "a", "b", "c"), content=content, additional_kwargs=dict(raw)
    )
    short = clip(said)
    blocks: list[Any] = list(short.content)
    args = [call["args"] for call in short.tool_calls]
    assert args[0] == small
    assert "[TRUNCATED" in args[1]["text"]
    assert blocks[:2] == content[:2]
    found = [blocks[2]["input"], blocks[3]["input"], blocks[4]["args"], json.loads(blocks[5]["arguments"])]
    assert found == args
    assert blocks[6] == content[6]
    assert set(short.additional_kwargs) == {"signature", "compaction"}


def test_texts_and_images_of_a_result_count_together() -> None:
    """1,600 tokens an image: what does not fit leaves a line that says so, and text that fits stays whole."""
    message = result("a", [{"type": "text", "text": words(100)}, IMAGE], id="m1")
    assert clip_text(message, threshold=1_700) is message
    assert clip_text(message, threshold=1_699).content == f"[1 media blocks are in the archive]\n{words(100)}"
    both = clip_text(result("a", [IMAGE, {"type": "text", "text": words(900)}, IMAGE], id="m1"))
    assert both.content == f"[2 media blocks are in the archive]\n{words(200)}\n[TRUNCATED original~900 tokens]"
    texts = result("a", [{"type": "text", "text": words(400)}] * 2, id="m1")
    assert str(clip_text(texts).content).startswith(words(200) + "\n[TRUNCATED original~80")


json_values: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text(max_size=30)
    | st.sampled_from([words(90), words(400), "配置" * 300]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None)
@given(given_arguments=st.dictionaries(st.text(max_size=8), json_values, max_size=5))
def test_whatever_the_arguments_they_end_under_the_threshold(given_arguments: dict[str, Any]) -> None:
    """They stay a dict that can be serialized; small ones, and the message given, are not touched."""
    before = dumps(message := calling(given_arguments, {"small": "x"}))
    short = clip(message)
    args = short.tool_calls[0]["args"]
    assert isinstance(args, dict)
    assert COUNTER.text(arguments_json(args)) <= 500
    assert short.tool_calls[1] == message.tool_calls[1]
    assert (short is message) == (COUNTER.text(arguments_json(given_arguments)) <= 500)
    assert clip(short) is short
    assert dumps(short)
    assert dumps(message) == before


def test_a_text_put_in_place_of_a_messages_text_tells_its_size() -> None:
    """With `recall`, one last line tells the handle of the original, also if the text is clipped again."""
    original = result("a", [{"type": "text", "text": words(40)}, IMAGE], id="m1")
    short = with_clipped_text(original, "the rows", COUNTER, recall=True)
    line = recall_line(handle(original))
    assert short.content == f"the rows\n[TRUNCATED original~40 tokens]\n{line}"
    assert len(line) == len("[recall: ]") + 12
    assert without_clip_marker(short.text) == "the rows"
    again = with_clipped_text(short, "fewer", COUNTER, recall=True)
    assert again.content == f"fewer\n[TRUNCATED original~40 tokens]\n{line}"
    assert with_clipped_text(original, "the rows", COUNTER).content == "the rows\n[TRUNCATED original~40 tokens]"
    assert with_recall_handle(short).content == short.content
    assert with_recall_handle(original) is original


def test_the_text_of_an_answer_is_cut_around_its_other_blocks() -> None:
    """The first block of text is shortened, the other blocks of text are removed, and all other blocks stay."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    said = AIMessage([thought, {"type": "text", "text": words(30)}, IMAGE, words(30)], id="m1")
    short = clip_answer(said, threshold=59, keep=10, counter=COUNTER)
    text = f"{words(10)}\n[TRUNCATED original~60 tokens]"
    assert short.content == [thought, {"type": "text", "text": text}, IMAGE]
    assert clip_answer(said, threshold=60, keep=10, counter=COUNTER) is said
    plain = clip_answer(AIMessage(words(30), id="m2"), threshold=9, keep=5, counter=COUNTER, recall=True)
    assert plain.text.startswith(f"{words(5)}\n[TRUNCATED original~30 tokens]\n[recall: ")


@pytest.mark.parametrize(
    ("keep", "sizes", "kept"),
    [
        (200, (90, 90, 90), (66, 66, 66)),
        (200, (20, 200, 200), (20, 90, 90)),
        (200, (1, 1, 400), (1, 1, 198)),
        (2, (90, 90, 90), (1, 1, 1)),
    ],
)
def test_the_kept_tokens_are_shared_out_evenly(keep: int, sizes: tuple[int, ...], kept: tuple[int, ...]) -> None:
    """Texts that are smaller than their share stay whole, and the longer ones share the rest; one token at least."""
    names = "abc"
    message = calling(dict(zip(names, map(words, sizes), strict=True)))
    args = clip(message, threshold=260, keep=keep).tool_calls[0]["args"]
    assert [args[name].partition("\n[TRUNCATED")[0] for name in names] == [words(count) for count in kept]


def test_a_text_that_was_clipped_before_has_one_marker() -> None:
    """This also holds if nothing of the text was kept, or if the rest of it fits."""
    line = "\n[TRUNCATED original~50 tokens]"
    assert clipped_text(f"{words(10)}{line}", 40, COUNTER) == f"{words(10)}{line}"
    assert clipped_text(f"{words(10)}{line}", 0, COUNTER) == line
    assert without_clip_marker(line) == ""


SAID = "The user asked for a fix. The tests were red.\nNow they are green; one is slow."
CHINESE = "用户要求修复登录。助手改动了文件！然后"


@pytest.mark.parametrize(
    ("text", "limits", "left"),
    [
        (SAID, {"characters": len(SAID)}, SAID),
        (SAID, {"characters": len(SAID) - 1}, "The user asked for a fix. The tests were red.\nNow they are green;"),
        (SAID, {"characters": 45}, "The user asked for a fix. The tests were red."),
        (SAID, {"characters": 44}, "The user asked for a fix."),
        (SAID, {"characters": 3}, "The"),
        ("Yes. It was a long way to the harbor.", {"characters": 20}, "Yes. It was a long w"),
        (SAID, {"tokens": 17}, SAID),
        (SAID, {"tokens": 9}, "The user asked for a fix."),
        (SAID, {"tokens": 2}, "The user"),
        (CHINESE, {"characters": 18}, "用户要求修复登录。助手改动了文件！"),
        ("see src/app.py at 3.14 now", {"characters": 24}, "see src/app.py at 3.14 n"),
    ],
)
def test_a_summary_over_its_limit_is_cut_where_something_ends(text: str, limits: dict[str, int], left: str) -> None:
    """A line, a sentence or a part of one; in its middle where no end comes in the second half."""
    assert clip_at_sentence_end(text, counter=WORDS, **limits) == left


@given(st.text(max_size=300), st.none() | st.integers(1, 200), st.none() | st.integers(1, 60))
def test_any_text_is_cut_to_its_own_beginning(text: str, characters: int | None, tokens: int | None) -> None:
    """What fits stays as it is, and a second cut changes nothing."""
    counter = approximate_counter()
    short = clip_at_sentence_end(text, counter=counter, tokens=tokens, characters=characters)
    assert text.startswith(short)
    assert characters is None or len(short) <= characters
    assert tokens is None or counter.text(short) <= tokens
    fits = (characters is None or len(text) <= characters) and (tokens is None or counter.text(text) <= tokens)
    assert (short == text) or not fits
    assert clip_at_sentence_end(short, counter=counter, tokens=tokens, characters=characters) == short
