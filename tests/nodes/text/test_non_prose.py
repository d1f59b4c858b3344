"""Which replies cannot be a summary: transcripts, calls of tools, code, data, error pages and loops."""

import pytest

from langgraph_compaction.nodes.text.non_prose import is_call, is_data, is_repetitive, is_transcript


@pytest.mark.parametrize(
    "text",
    [
        "User: book it\nAssistant: booked\nUser: thanks",
        "Assistant: hello\n\n**User:** book it\n\nAssistant (10:02): booked",
        "用户：改到明天\n助手：好的\n用户：谢谢",
        "User: book it\nfor two\nAssistant: booked\nas asked\nUser: thanks\nbye",
        'Here it is.\n<message role="user">',
        "<|user|>book it",
    ],
)
def test_labeled_turns_and_quoting_tags_are_a_transcript(text: str) -> None:
    """Three turns of both sides that begin half of the lines, in either language, or one tag."""
    assert is_transcript(text)


@pytest.mark.parametrize(
    "text",
    [
        "The user asked for a booking; the assistant made it.",
        "User: wants a booking\nAssistant: has made it",
        "User: wants a booking\nUser: pays by card\nUser: leaves on Monday",
        "Assistant: made the booking\nTool: confirmed it\nAssistant: sent the receipt",
        "User: a booking\nTask\nAssistant: made it\nState\nUser: a receipt\nOpen points\nThe receipt is missing.",
    ],
)
def test_a_summary_that_names_the_sides_is_none(text: str) -> None:
    """Two labels, labels of one side only, or fewer than half of the lines."""
    assert not is_transcript(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "read", "arguments": {"path": "a.py"}}',
        '[{"name": "read", "parameters": {}}, {"name": "write", "input": {}}]',
        '```json\n{"name": "read", "args": {}}\n```',
        "tools.read(path='a.py')",
        "I look it up.\n<tool_call>read</tool_call>",
        "Thought: the file.\nAction Input: a.py",
    ],
)
def test_a_tool_call_is_no_summary(text: str) -> None:
    """The call is JSON, the call of a function, or in the notation of a model."""
    assert is_call(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Mia Li", "order": "#W1001"}',
        '{"arguments": {}}',
        "[]",
        "The order is open (see the mail)",
        "read(path)\nreturned three lines (all empty)",
        "The agent called read(path).",
    ],
)
def test_a_summary_that_tells_of_a_call_is_none(text: str) -> None:
    """A name alone, arguments alone, or prose that mentions a call are no call."""
    assert not is_call(text)


CODE = "import os\nreturn x\n"
"""Two lines of 17 characters that are code."""


@pytest.mark.parametrize(
    "text",
    [
        "\n<!DOCTYPE html><p>sorry</p>",
        "Error: 503, please retry later",
        '{"order": "#W1001"}',
        "```json\n[1, 2]\n```",
        "```python\nprint(total)\n```",
        "``` JS\nlet it be\n```  ",
        f"{CODE}eleven char",
        "if x:\n    y = f(x);\n",
        f"```\n{CODE}```",
    ],
)
def test_code_and_data_are_no_summary(text: str) -> None:
    """Data are a web page, an error, JSON, a block of code, or a text of which three fifths are code."""
    assert is_data(text)


@pytest.mark.parametrize(
    "text",
    [
        "import os was removed.",
        f"{CODE}twelve chars",
        "```markdown\nThe order is open.\n```",
        "```\nThe order is open.\n```",
        "```python\nprint(1)\n```\nThe order is open and nothing was paid.\n```python\nprint(2)\n```",
        "Next steps:\nThe open questions are:\n- the fee",
        "The error: none was found so far, and the order is open.",
    ],
)
def test_a_summary_with_some_code_is_none(text: str) -> None:
    """One line of code, less than three fifths of code, or a block of prose may be in a summary."""
    assert not is_data(text)


PROSE = "".join(f"{number}. Parcel {number * number + 7} went to shop {number * 37 % 101}. " for number in range(40))


@pytest.mark.parametrize("text", ["ha " * 100, f"{PROSE}{'and so on, ' * 40}", f"{'the end. ' * 100}{PROSE}"])
def test_a_loop_is_no_summary(text: str) -> None:
    """A loop is a text whose whole, beginning or end repeats itself."""
    assert is_repetitive(text)


@pytest.mark.parametrize("text", ["", "ok", PROSE, "The order is open."])
def test_a_list_of_similar_lines_is_no_loop(text: str) -> None:
    """Each line has other content."""
    assert not is_repetitive(text)


def test_a_short_text_is_judged_from_its_first_character() -> None:
    """A text of at most 400 characters is no loop if only the text behind its first character is one."""
    text = "Xq" + "ha " * 24
    assert is_repetitive(text[1:])
    assert not is_repetitive(text)
