from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langgraph_compaction.nodes.selection.compaction_marker import remove_marker

MARKER = "!!!SUMMARY!!!"


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("Done. !!!SUMMARY!!!", "Done."),
        ("!!!SUMMARY!!!\n\nNow to the next file.", "Now to the next file."),
        ("One !!!SUMMARY!!! two !!!SUMMARY!!!", "One  two"),
        (MARKER, ""),
        ("Said `x = 1`. !!!SUMMARY!!!", "Said `x = 1`."),
        ("```\ncode\n```\n!!!SUMMARY!!!", "```\ncode\n```"),
        ("It is `!!!SUMMARY!!!`, so: !!!SUMMARY!!!", "It is `!!!SUMMARY!!!`, so:"),
        ("> quoted\n!!!SUMMARY!!!", "> quoted"),
        ("it's mine!!!SUMMARY!!!", "it's mine"),
    ],
)
def test_the_marker_is_taken_out_of_the_answer(said: str, left: str) -> None:
    """What is said beside it stays, also what is quoted there."""
    answer = AIMessage(said, id="answer", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3})
    found = remove_marker(answer, MARKER)
    assert found == answer.model_copy(update={"content": left})
    assert answer.text == said, "the message given is not changed"


@pytest.mark.parametrize(
    "said",
    [
        "Done.",
        "",
        "!!!summary!!!",
        "The marker is `!!!SUMMARY!!!`.",
        "```\n!!!SUMMARY!!!\n```",
        "~~~text\n!!!SUMMARY!!!\n~~~",
        "```\n!!!SUMMARY!!!",
        "> !!!SUMMARY!!!",
        "  > he wrote !!!SUMMARY!!!",
        'The words "!!!SUMMARY!!!" mean that.',
        "The words “!!!SUMMARY!!!” mean that.",
    ],
)
def test_code_and_quotations_say_nothing(said: str) -> None:
    """Whoever explains the marker does not give it."""
    assert remove_marker(AIMessage(said), MARKER) is None


def test_only_text_blocks_speak() -> None:
    """Thoughts and other blocks stay as they are; a block that was nothing else goes; calls stay."""
    thought = {"type": "thinking", "thinking": MARKER, "signature": "s"}
    cited = {"type": "citation", "text": MARKER}
    done = {"type": "text", "text": f"Done. {MARKER}", "index": 1}
    blocks: list[str | dict[str, Any]] = [thought, cited, done, f"Next. {MARKER}", MARKER]
    call = {"name": "read", "args": {"text": MARKER}, "id": "1", "type": "tool_call"}
    found = remove_marker(AIMessage(blocks, tool_calls=[call]), MARKER)
    assert found is not None
    assert found.content == [thought, cited, {"type": "text", "text": "Done.", "index": 1}, "Next."]
    assert found.tool_calls == [call]
    assert remove_marker(AIMessage([thought, cited], tool_calls=[call]), MARKER) is None


def test_any_text_can_be_the_marker() -> None:
    """It is no pattern."""
    assert remove_marker(AIMessage("a (.*) b"), "(.*)") == AIMessage("a  b")
    assert remove_marker(AIMessage("abc"), "...") is None
