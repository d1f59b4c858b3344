from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint.messages.message_codec import (
    handle,
)
from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.tokens import approximate_counter
from langgraph_compaction.nodes.conversation.transcript import Transcript
from langgraph_compaction.nodes.selection.ephemeral_items import outdated
from langgraph_compaction.nodes.selection.selector import Choice, Selector
from tests.histories import applied, numbered, result, user

PAGE = "a page of many words " * 40


def call(*names: str, first: int = 0, results: int | None = None, **fields: Any) -> list[AnyMessage]:
    """A message that calls each of these tools, and their results."""
    asked = [{"name": name, "args": {}, "id": f"c{first + n}"} for n, name in enumerate(names)]
    answers = [ToolMessage(PAGE, tool_call_id=f"c{first + n}", **fields) for n in range(len(names))]
    return [AIMessage("", tool_calls=asked), *answers[:results]]


def marked(**more: Any) -> dict[str, Any]:
    """The mark of an ephemeral message."""
    return {"compaction": {"ephemeral": True, **more}}


def chosen(
    messages: Sequence[AnyMessage], tools: Mapping[str, int] | None = None, keep: int | None = None, **more: Any
) -> Choice:
    """What is outdated."""
    settings = CompactionSettings(ephemeral_keep=keep)
    selector = Selector(Transcript(numbered(messages)), settings, Meter(approximate_counter(), 0), **more)
    return outdated(selector, tools or {})


THREE_LOOKS: list[AnyMessage] = [user("u"), *call("look"), *call("look"), *call("look"), AIMessage("done")]
"""Results at 2, 4 and 6."""


@pytest.mark.parametrize(
    ("keep", "gone"), [(0, {2, 4, 6}), (1, {2, 4}), (2, {2}), (3, set[int]()), (4, set[int]()), (9, set[int]())]
)
def test_the_newest_results_of_a_tool_stay(keep: int, gone: set[int]) -> None:
    """So many as the tool says; the others become one line that tells where they are."""
    found = chosen(THREE_LOOKS, {"look": keep})
    assert found.clip.keys() == gone
    assert found.drop == frozenset()
    for index, short in found.clip.items():
        original = numbered(THREE_LOOKS)[index]
        assert (
            short.content == f"[an older result of look, no longer in view, in the archive under {handle(original)}]"
        )
        assert (short.id, short.type) == (original.id, "tool")
        assert short.additional_kwargs["compaction"]["clipped"]


def test_each_tool_counts_its_own_results() -> None:
    """A tool that says nothing keeps all of its results, and calls of several tools at once are told apart."""
    messages = [user("u"), *call("look", "read"), *call("read", "look", first=2), AIMessage("done")]
    assert chosen(messages, {"look": 1}).clip.keys() == {2}
    assert chosen(messages, {"look": 1, "read": 1}).clip.keys() == {2, 3}
    assert chosen(messages, {"look": 0, "read": 1}).clip.keys() == {2, 3, 6}


@pytest.mark.parametrize("messages", [THREE_LOOKS, []])
def test_nothing_is_ephemeral_by_itself(messages: list[AnyMessage]) -> None:
    """Neither a tool nor a message; not even where the setting would keep none."""
    assert chosen(messages) == Choice()
    assert chosen(messages, keep=0) == Choice()


@pytest.mark.parametrize(("keep", "gone"), [(None, set[int]()), (0, {2, 4}), (1, {2}), (2, set[int]())])
def test_marked_results_count_with_the_setting(keep: int | None, gone: set[int]) -> None:
    """Of each tool; without the setting all stay."""
    look = call("look", additional_kwargs=marked())
    messages = [user("u"), *look, *look, *call("read"), *call("look"), AIMessage("done")]
    assert chosen(messages, keep=keep).clip.keys() == gone


def test_a_tool_says_its_own_number() -> None:
    """Which counts before the mark."""
    look = call("look", additional_kwargs=marked())
    messages = [user("u"), *look, *look, *look, AIMessage("done")]
    assert chosen(messages, {"look": 2}, keep=0).clip.keys() == {2}


def test_marked_meta_messages_leave() -> None:
    """They belong to no block: the older ones are dropped. What a person says, an answer, a summary never is."""
    now = HumanMessage("it is now", additional_kwargs=marked(is_meta=True))
    said = HumanMessage("I say", additional_kwargs=marked())
    summary = HumanMessage("before", additional_kwargs=marked(is_meta=True, kind="compaction_summary"))
    answer = AIMessage("well", additional_kwargs=marked())
    messages = [summary, said, now, answer, now, answer, said, answer]
    assert chosen(messages, keep=1).drop == {2}
    assert chosen(messages, keep=0).drop == {2, 4}


def test_what_the_model_has_not_read_yet_stays() -> None:
    """Three looks at once, of which one may stay: all are read first."""
    messages = [user("u"), *call("look"), *call("look", "look", "look")]
    assert chosen(messages, {"look": 1}).clip.keys() == {2}
    assert chosen([*messages, AIMessage("done")], {"look": 1}).clip.keys() == {2, 4, 5}


def test_what_is_pinned_stays() -> None:
    """With the rest of its block."""
    assert chosen(THREE_LOOKS, {"look": 0}, pins=frozenset({"m3"})).clip.keys() == {2, 6}


def test_an_orphan_is_left_alone() -> None:
    """Nobody knows which tool it came from, and it is not sent anyway."""
    orphan = result("nobody", PAGE, additional_kwargs=marked())
    assert chosen([user("u"), orphan, AIMessage("done")], {"read": 0}, keep=0) == Choice()


def test_a_short_result_stays() -> None:
    """A line in its place would save nothing."""
    short: list[AnyMessage] = [call("look")[0], ToolMessage("ok", tool_call_id="c0")]
    assert chosen([user("u"), *short, AIMessage("done")], {"look": 0}) == Choice()


def test_what_has_become_a_line_stays_so() -> None:
    """Running again changes nothing."""
    found = chosen(THREE_LOOKS, {"look": 0})
    after = applied(numbered(THREE_LOOKS), found.drop, found.clip)
    assert chosen(after, {"look": 0}) == Choice()


def test_a_clipped_result_keeps_the_handle_of_its_original() -> None:
    """What the line names is in the archive."""
    looks = call("look", additional_kwargs={"compaction": {"clipped": True, "handle": "abc"}})
    found = chosen([user("u"), *looks, AIMessage("done")], {"look": 0})
    assert "in the archive under abc" in found.clip[2].text
