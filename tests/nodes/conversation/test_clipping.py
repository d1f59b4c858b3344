import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolMessage

from langgraph_compaction.checkpoint.messages.message_codec import dumps, handle
from langgraph_compaction.nodes.conversation.clipping import (
    clip_calls,
    clip_result,
    clipped_text,
    recall_line,
    with_clipped_text,
    with_recall_handle,
    without_clip_marker,
)
from langgraph_compaction.nodes.conversation.clipping import clip_text as clip_answer
from langgraph_compaction.nodes.conversation.tokens import arguments_json, tiktoken_counter
from tests.histories import IMAGE, asks, result

COUNTER = tiktoken_counter()


def words(count: int) -> str:
    """Return a text of exactly so many tokens."""
    text = " one" * count
    assert COUNTER.text(text) == count
    return text


def arguments(tokens: int) -> dict[str, Any]:
    """Return arguments whose JSON holds exactly so many tokens."""
    return next(
        args for n in range(tokens) if COUNTER.text(json.dumps(args := {"text": words(tokens - n)})) == tokens
    )


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


@pytest.mark.parametrize("tokens", [1, 499, 500])
def test_arguments_up_to_the_threshold_stay_byte_for_byte(tokens: int) -> None:
    """Exactly 500 tokens are kept: the very same message comes back."""
    message = calling(arguments(max(tokens, 10)))
    assert clip(message) is message


def test_arguments_over_the_threshold_keep_their_first_tokens() -> None:
    """501 tokens are over it: 200 are kept, and a line says how many there were."""
    message = calling(given := arguments(501))
    short = clip(message)
    assert short.tool_calls[0]["args"] == {
        "text": f"{words(200)}\n[TRUNCATED original~{COUNTER.text(given['text'])} tokens]"
    }
    assert message.tool_calls[0]["args"] == given


@pytest.mark.parametrize("tokens", [0, 599, 600])
def test_a_result_up_to_the_threshold_stays_byte_for_byte(tokens: int) -> None:
    """Exactly 600 tokens are kept: the very same message comes back."""
    message = result("a", words(tokens), id="m1", artifact={"rows": [1]})
    assert clip_text(message) is message


def test_a_result_over_the_threshold_keeps_its_first_tokens() -> None:
    """601 tokens are over it: 200 are kept, and the literal marker line follows."""
    short = clip_text(result("a", words(601), id="m1", artifact={"rows": [1]}))
    assert short.content == words(200) + "\n[TRUNCATED original~601 tokens]"
    assert (short.id, short.tool_call_id, short.name, short.artifact) == ("m1", "a", "read", {"rows": [1]})


def test_a_clipped_message_names_its_original() -> None:
    """The handle is that of the message as it was, and other marks stay."""
    message = result("a", words(601), id="m1", additional_kwargs={"x": 1, "compaction": {"ephemeral": True}})
    mark = {"ephemeral": True, "clipped": True, "handle": handle(message)}
    assert clip_text(message).additional_kwargs == {"x": 1, "compaction": mark}
    assert message.additional_kwargs == {"x": 1, "compaction": {"ephemeral": True}}


def test_a_second_clip_keeps_handle_and_size_of_the_original() -> None:
    """What is shortened twice still leads to what was said, and says how long that was."""
    first = clip_text(original := result("a", words(700), id="m1"))
    second = clip_text(first, threshold=50, keep=20)
    assert second.content == words(20) + "\n[TRUNCATED original~700 tokens]"
    assert second.additional_kwargs["compaction"]["handle"] == handle(original)
    calls = clip(clip(calling(arguments(600))), threshold=50, keep=20)
    assert calls.tool_calls[0]["args"]["text"].startswith(words(20) + "\n[TRUNCATED original~59")


def test_a_clip_is_stable() -> None:
    """The clipped form is under the threshold, so that a second pass changes nothing."""
    for message in (calling(arguments(5_000)), calling({"a": [words(300)] * 9, "b": {"c": words(900)}})):
        short = clip(message)
        assert clip(short) is short
    long = clip_text(result("a", words(5_000), id="m1"))
    assert clip_text(long) is long


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


def test_short_texts_beside_a_long_one_are_not_paid_for_by_it() -> None:
    """The 200 tokens are shared out so that only what is longer than its share is cut."""
    args = clip(calling({"a": words(30), "b": words(60), "c": words(2_000)})).tool_calls[0]["args"]
    assert (args["a"], args["b"]) == (words(30), words(60))
    assert args["c"] == words(110) + "\n[TRUNCATED original~2000 tokens]"


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


def test_shortened_arguments_may_be_as_long_as_the_threshold() -> None:
    """Arguments that have one token more are replaced by the beginning of their JSON."""
    given = calling({"text": words(2_000), "numbers": list(range(60))})
    args = clip(given).tool_calls[0]["args"]
    size = COUNTER.text(arguments_json(args))
    assert args["numbers"] == list(range(60))
    assert clip(given, threshold=size).tool_calls[0]["args"] == args
    assert list(clip(given, threshold=size - 1).tool_calls[0]["args"]) == ["clipped"]


def test_each_call_of_a_message_is_measured_by_itself() -> None:
    """Parallel calls under the threshold stay as they are beside one over it; ids and names stay."""
    message = calling(arguments(300), arguments(900), arguments(400))
    short = clip(message)
    assert short.tool_calls[0] == message.tool_calls[0]
    assert short.tool_calls[2] == message.tool_calls[2]
    assert "[TRUNCATED" in short.tool_calls[1]["args"]["text"]
    assert [(call["id"], call["name"]) for call in short.tool_calls] == [("a", "read"), ("b", "read"), ("c", "read")]


def test_a_malformed_call_is_cut_as_the_text_it_is() -> None:
    """Providers are sent it too."""
    broken = [{"name": "read", "args": "{" + words(900), "id": "a", "error": "no JSON"}]
    short = clip(AIMessage("", invalid_tool_calls=broken, id="m1"))
    assert short.invalid_tool_calls[0]["args"] == "{" + words(199) + "\n[TRUNCATED original~901 tokens]"
    assert short.invalid_tool_calls[0]["id"] == "a"
    nothing = AIMessage("", invalid_tool_calls=[{"name": "read", "args": None, "id": "a", "error": None}], id="m1")
    assert clip(nothing) is nothing
    whole = [{**broken[0], "args": words(500)}]
    assert clip(AIMessage("", invalid_tool_calls=whole, id="m1")).invalid_tool_calls[0]["args"] == words(500)


def test_a_call_in_the_content_is_cut_with_the_call() -> None:
    """Blocks of every provider's form get the same arguments; text and thoughts stay."""
    given = arguments(900)
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    content = [
        thought,
        {"type": "text", "text": "looking"},
        {"type": "tool_use", "id": "a", "name": "read", "input": given},
        {"type": "tool_call", "id": "b", "name": "read", "args": given},
        {"type": "function_call", "call_id": "c", "name": "read", "arguments": json.dumps(given)},
        {"type": "tool_use", "id": "elsewhere", "name": "read", "input": {"x": 1}},
    ]
    short = clip(calling(given, given, given, content=content))
    blocks: list[Any] = list(short.content)
    args = short.tool_calls[0]["args"]
    assert "[TRUNCATED" in args["text"]
    assert blocks[:2] == content[:2]
    assert (blocks[2]["input"], blocks[3]["args"], json.loads(blocks[4]["arguments"])) == (args, args, args)
    assert blocks[5] == content[5]
    assert content[2]["input"] == given


def test_blocks_of_one_id_are_told_apart_by_position() -> None:
    """Two calls that share an id keep their own arguments in the content."""
    first, second = {"text": "short"}, arguments(900)
    content = [{"type": "tool_use", "id": "a", "name": "read", "input": each} for each in (first, second)]
    short = clip(calling(first, second, call_ids=("a", "a"), content=content))
    blocks: list[Any] = list(short.content)
    assert [block["input"] for block in blocks] == [call["args"] for call in short.tool_calls]
    assert blocks[0]["input"] == first


def test_the_providers_raw_copy_of_the_calls_goes() -> None:
    """Some packages would send it in place of the parsed calls; everything else stays."""
    raw = {"tool_calls": [{"id": "a"}], "function_call": {"name": "read"}, "signature": "s"}
    short = clip(calling(arguments(900), additional_kwargs=raw))
    assert set(short.additional_kwargs) == {"signature", "compaction"}


def test_texts_of_a_list_are_one_text() -> None:
    """A result in parts counts as a whole and is cut as a whole."""
    parts = [{"type": "text", "text": words(400)}, {"type": "text", "text": words(400)}]
    short = clip_text(result("a", parts, id="m1"))
    assert str(short.content).startswith(words(200) + "\n[TRUNCATED original~80")
    small = result("a", [{"type": "text", "text": words(300)}] * 2, id="m1")
    assert clip_text(small, threshold=601) is small


def test_an_image_counts_with_the_text_of_a_result() -> None:
    """1,600 tokens each: what does not fit leaves a line that says so, and text that fits stays whole."""
    message = result("a", [{"type": "text", "text": words(100)}, IMAGE], id="m1")
    assert clip_text(message, threshold=1_700) is message
    assert clip_text(message, threshold=1_699).content == f"[1 media blocks are in the archive]\n{words(100)}"
    both = clip_text(result("a", [IMAGE, {"type": "text", "text": words(900)}, IMAGE], id="m1"))
    assert both.content == f"[2 media blocks are in the archive]\n{words(200)}\n[TRUNCATED original~900 tokens]"


def test_what_no_database_can_hold_is_clipped_without_a_handle() -> None:
    """A plain list of messages may carry any artifact."""
    short = clip_text(result("a", words(601), id="m1", artifact=object()))
    assert short.additional_kwargs["compaction"] == {"clipped": True}


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
    """They stay a dict that can be serialized, and small ones are not touched."""
    message = calling(given_arguments)
    short = clip(message)
    args = short.tool_calls[0]["args"]
    assert isinstance(args, dict)
    assert COUNTER.text(arguments_json(args)) <= 500
    assert (short is message) == (COUNTER.text(arguments_json(given_arguments)) <= 500)
    assert dumps(short)
    assert clip(short) is short


@given(text=st.text(max_size=200), keep=st.integers(1, 50))
def test_a_clipped_text_is_a_beginning_and_a_line(text: str, keep: int) -> None:
    """For every text."""
    body, _, line = clipped_text(text, keep, COUNTER).rpartition("\n")
    assert text.startswith(body)
    assert line == f"[TRUNCATED original~{COUNTER.text(text)} tokens]"


def test_fields_of_other_calls_are_not_shared_between_messages() -> None:
    """The message given is not changed, nor anything in it."""
    before = dumps(message := calling({"a": [{"b": words(900)}]}))
    clip(message)
    assert dumps(message) == before


def test_a_message_without_calls_is_left_alone() -> None:
    """Its text is no field of a block."""
    message = AIMessage(words(900), id="m1")
    assert clip(message) is message
    assert clip(spoken := asks("a", text=words(900))) is spoken


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
        (200, (20, 90, 300), (20, 90, 90)),
        (200, (66, 90, 90), (66, 67, 67)),
        (200, (1, 1, 400), (1, 1, 198)),
        (2, (90, 90, 90), (1, 1, 1)),
    ],
)
def test_the_kept_tokens_are_shared_out_evenly(keep: int, sizes: tuple[int, ...], kept: tuple[int, ...]) -> None:
    """Texts that are smaller than their share stay whole, and the longer texts share the remaining tokens.

    Each text keeps at least one token.
    """
    names = "abc"
    message = calling(dict(zip(names, map(words, sizes), strict=True)))
    args = clip(message, threshold=260, keep=keep).tool_calls[0]["args"]
    found = [args[name].partition("\n[TRUNCATED")[0] for name in names]
    assert found == [words(count) for count in kept]
    assert ["[TRUNCATED" in args[name] for name in names] == [
        size > left for size, left in zip(sizes, kept, strict=True)
    ]


def test_a_text_that_was_clipped_before_has_one_marker() -> None:
    """This also holds if nothing of the text was kept, or if the rest of it fits."""
    line = "\n[TRUNCATED original~50 tokens]"
    assert clipped_text(f"{words(10)}{line}", 40, COUNTER) == f"{words(10)}{line}"
    assert clipped_text(f"{words(10)}{line}", 0, COUNTER) == line
    assert clipped_text(line, 40, COUNTER) == line
    assert without_clip_marker(line) == ""
