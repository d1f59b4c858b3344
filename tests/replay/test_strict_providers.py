"""What is sent of every recorded conversation is what strict providers take, as their own packages build it."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.nodes import compact_messages
from langgraph_compaction.nodes.conversation.request import render
from tests.histories import result as answer
from tests.replay.payloads import PROVIDERS, refused
from tests.replay.plays import SIZES, let_pass, limit, recordings
from tests.replay.wire import tokens


@pytest.mark.parametrize("share", [None, 50, 25])
@pytest.mark.parametrize("file", SIZES)
def test_every_compacted_conversation_is_taken(file: str, share: int | None) -> None:
    """OpenAI's two APIs and Anthropic's take each, whole and compacted to a half and a quarter."""
    for recording in recordings(file):
        messages: Sequence[Any] = recording.messages
        if share is not None:
            most = limit(recording, share) - tokens((), recording.tools)
            result = compact_messages(messages, max_tokens=most, return_result=True)
            assert result.verdict != "noop"
            messages = result.new_messages
        found = refused(render(messages), recording.tools)
        assert let_pass([found], file), (recording.name, found)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_provider_package_sends_our_marks_on(provider: str) -> None:
    """What a message says of itself stays with us, whoever speaks."""
    mark = "MARKED-4711"
    marks = {
        "compaction": {"kind": mark, "is_meta": True, "pinned": True, "handle": mark, "compaction": mark},
        "lc_source": mark,
    }
    call = {"name": "read", "args": {}, "id": "a"}
    messages = [
        SystemMessage("s", additional_kwargs=marks),
        HumanMessage("u", additional_kwargs=marks),
        HumanMessage([{"type": "text", "text": "v"}], additional_kwargs=marks),
        AIMessage("looking", tool_calls=[call], additional_kwargs=marks),
        answer("a", additional_kwargs=marks),
        AIMessage([{"type": "text", "text": "done"}], additional_kwargs=marks),
    ]
    build, defects = PROVIDERS[provider]
    payload = build(render(messages))
    assert defects(payload) == []
    sent = json.dumps(payload)
    assert mark not in sent
    assert "compaction" not in sent
    assert all(message.text in sent for message in messages if not isinstance(message, ToolMessage))
