from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.nodes.conversation.redaction import Redaction, masked

NEEDLE = "Mia Li"
REDACTION = Redaction(hook=lambda text: text.replace(NEEDLE, "[name]"))

KEYS = {
    "openai": "Incorrect API key provided: sk-proj-Ab12Cd34Ef56Gh78Ij90. You can find yours online.",
    "openai, masked by half": "Incorrect API key provided: sk-ab***********************wxYZ.",
    "anthropic": "invalid x-api-key sk-ant-api03-AbCdEfGh_ij-klMNop",
    "google": "API key not valid: AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "aws": "The security token AKIAIOSFODNN7EXAMPLE is invalid",
    "github": "Bad credentials ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "gitlab": "401 glpat-xY12zW34vU56tS78rQ90",
    "slack": "invalid_auth xoxb-1234567890-abcdefghij",
    "hugging face": "Invalid hf_AbCdEfGhIjKlMnOpQrStUvWxYz",
    "groq": "Invalid gsk_AbCdEfGhIjKlMnOpQrStUvWx",
    "langsmith": "403 lsv2_pt_0123456789abcdef0123456789abcdef_0123456789",
    "JWT": "expired eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4",
    "bearer": "headers: {'Authorization': 'Bearer 0123456789abcdefSECRET'}",
    "URL": "could not connect to postgresql://app:hunter2hunter2@db.example.org:5432/app",
    "assignment": "connection failed: password=hunter2hunter2 host=db",
    "JSON": '{"api_key": "0123456789abcdefSECRET", "model": "m"}',
    "header": "request with X-Auth: 1, api-key: 0123456789abcdefSECRET failed",
}
SECRET = (
    "Ab12Cd34", "wxYZ", "AbCdEfGh", "AIzaSy", "IOSFODNN7", "16C7e42F", "xY12zW34", "abcdefghij", "0123456789abcdef",
    "eyJzdWIi", "hunter2",
)  # fmt: skip
"""Parts of those keys, none of which may be told."""

PLAIN = [
    "connection reset by peer",
    "Rate limit reached: 30000 tokens per minute, requested 32000.",
    "the request holds 995 tokens and the limit is 800",
    "max_tokens must be at least 1; the tokens left are 12",
    "no such file: /srv/task-manager/disk-usage.txt at https://example.org/a?b=c",
    "风险：服务器繁忙，请稍后再试",
    "",
]


@pytest.mark.parametrize("name", KEYS)
def test_no_key_in_the_text_of_an_error_is_told(name: str) -> None:
    """Whatever form it has, it is masked, and the rest of the text stays readable."""
    shown = masked(KEYS[name])
    assert [part for part in SECRET if part in shown] == []
    assert "[secret]" in shown
    assert shown.split()[0] == KEYS[name].split()[0] or name == "JSON"


@pytest.mark.parametrize("text", PLAIN)
def test_other_texts_stay_as_they_are(text: str) -> None:
    """Nothing is masked that is no key."""
    assert masked(text) == text


@pytest.mark.parametrize("before", range(480, 520, 4))
def test_a_key_at_the_end_of_what_is_told_is_masked_before_the_cut(before: int) -> None:
    """A long text is cut to 500 characters, after its keys were masked."""
    shown = masked(f"{'x ' * (before // 2)}sk-proj-Ab12Cd34Ef56Gh78Ij90 and more {'y ' * 500}")
    assert len(shown) <= 500
    assert "Ab12" not in shown


def everywhere() -> list[AnyMessage]:
    """Messages that name the needle in every place that holds text."""
    blocks: list[str | dict[str, Any]] = [NEEDLE, {"type": "text", "text": f"I am {NEEDLE}", "id": NEEDLE}]
    call = {"name": "read", "args": {"who": NEEDLE, "of": [{"name": NEEDLE}]}, "id": "c"}
    broken = {"name": "read", "args": f"{{{NEEDLE}", "id": "d", "error": "no JSON"}
    return [
        HumanMessage(blocks, id="u"),
        AIMessage(
            NEEDLE,
            tool_calls=[call],
            invalid_tool_calls=[broken],
            additional_kwargs={"tool_calls": [{"function": {"arguments": NEEDLE}}], "reasoning_content": NEEDLE},
            id="a",
        ),
        ToolMessage(NEEDLE, artifact={"rows": [NEEDLE]}, tool_call_id="c", id="t", status="error"),
    ]


def test_every_text_of_a_message_is_redacted() -> None:
    """Content, blocks, arguments of calls and of malformed ones, reasoning, artifact; ids and structure stay."""
    given = everywhere()
    user, assistant, tool = map(REDACTION.message, given)
    assert user.content == ["[name]", {"type": "text", "text": "I am [name]", "id": NEEDLE}]
    assert isinstance(assistant, AIMessage)
    assert assistant.tool_calls[0]["args"] == {"who": "[name]", "of": [{"name": "[name]"}]}
    assert assistant.invalid_tool_calls[0]["args"] == "{[name]"
    assert assistant.additional_kwargs == {"reasoning_content": "[name]"}
    assert isinstance(tool, ToolMessage)
    assert (tool.content, tool.artifact) == ("[name]", {"rows": ["[name]"]})
    assert (tool.tool_call_id, tool.id, tool.status) == ("c", "t", "error")
    assert given == everywhere()
    mark = {"kind": "compaction_summary", "record": {"names": [NEEDLE]}}
    marked = HumanMessage(NEEDLE, additional_kwargs={"compaction": mark}, id="s")
    assert REDACTION.message(marked).additional_kwargs == {"compaction": mark}, "it must be read again"


def test_of_a_long_text_with_many_keys_2000_characters_are_read() -> None:
    """A mask is shorter than the key that it replaces, so the 500 characters to keep may need more than 500."""
    assert masked(f"sk-{'a' * 46} " * 50) == "[secret] " * 40
