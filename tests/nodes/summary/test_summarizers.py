"""Who may write a summary, what it is asked, and what its answer says."""

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph

from langgraph_compaction.nodes import Reply, SettingsError, SummaryRequest
from langgraph_compaction.nodes.config.prompts import FIVE_SECTIONS
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.gate.reply_checks import summary_text
from langgraph_compaction.nodes.summary.summarizers import (
    DigestSummarizer,
    NoticeSummarizer,
    RunnableSummarizer,
    Summarizer,
    summarizer_of,
)
from tests.fakes import ReplyingSummarizer, ScriptedModel, calls, usage
from tests.histories import numbered, text_rounds

COUNTER = tiktoken_counter()
MARK: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="unset")
GOOD = "<summary>text</summary>"

Ask = Callable[[Summarizer, SummaryRequest], Reply]


def ask_async(summarizer: Summarizer, request: SummaryRequest) -> Reply:
    """Ask on an event loop."""
    return asyncio.run(summarizer.asummarize(request))


def ask_sync(summarizer: Summarizer, request: SummaryRequest) -> Reply:
    """Ask and wait."""
    return summarizer.summarize(request)


both = pytest.mark.parametrize("ask", [ask_sync, ask_async], ids=["sync", "async"])


def request(messages: Sequence[AnyMessage] | None = None, **fields: Any) -> SummaryRequest:
    """Return a request for a summary of these messages."""
    given: dict[str, Any] = {
        "messages": tuple(numbered(messages if messages is not None else text_rounds(3))),
        "conversation": "the conversation",
        "earlier": None,
        "record": None,
        "max_tokens": 100,
        "counter": COUNTER,
    }
    return SummaryRequest(**{**given, **fields})


def counting_graph() -> Any:
    """Return a compiled graph whose one node answers with the number of messages it was given."""

    def write(state: MessagesState) -> dict[str, Any]:
        return {"messages": AIMessage(f"<summary>{len(state['messages'])}</summary>")}

    builder = StateGraph(MessagesState).add_node("write", write)
    return builder.add_edge(START, "write").add_edge("write", END).compile()


def test_the_prompt_holds_what_the_request_knows() -> None:
    """Conversation, size, and where there are such: the earlier record, the focus, the defect."""
    system, human = request().prompt()
    assert system.text == FIVE_SECTIONS
    assert "<conversation>\nthe conversation\n</conversation>" in human.text
    assert "at most 100 tokens" in human.text
    for absent in ("earlier_record", "keep above all", "rejected"):
        assert absent not in human.text
    odd = "{0} {name} {{x}} %s $y {"
    full = request(conversation=odd, earlier=odd, focus=odd, defect="empty_summary").prompt()[1].text
    assert f"<earlier_record>\n{odd}\n</earlier_record>" in full
    assert f"keep above all: {odd}" in full
    assert "rejected (empty_summary)" in full
    assert full.count(odd) == 3, "braces mean nothing"


@both
def test_a_chat_model_is_asked_with_the_prompt_alone(ask: Ask) -> None:
    """Text, usage, name and finish reason come back; the call is hidden from streams."""
    answer = usage(AIMessage(GOOD, response_metadata={"finish_reason": "stop", "model_name": "m-1"}), 70, 5)
    seen: list[RunnableConfig] = []
    counts: dict[str, Any] = {"input_tokens": 70, "output_tokens": 5}
    model = ScriptedModel(replies=[answer])

    def spy(messages: Any, config: RunnableConfig) -> AIMessage:
        seen.append(config)
        return model.invoke(messages)

    for summarizer in (summarizer_of(model), summarizer_of(RunnableLambda(spy))):
        reply = ask(summarizer, request())
        assert reply == Reply(
            content=GOOD, finish_reason="stop", details=answer.usage_metadata, model="m-1", **counts
        )
    assert model.received == [request().prompt()] * 2
    assert seen[0].get("tags") == ["nostream", "compaction"]


@both
def test_a_graph_is_asked_through_its_messages(ask: Ask) -> None:
    """Its last message is the reply."""
    summarizer = summarizer_of(counting_graph())
    assert isinstance(summarizer, RunnableSummarizer)
    assert summarizer.is_graph
    assert summary_text(ask(summarizer, request())) == "2"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (AIMessage(GOOD), None),
        (AIMessage(GOOD, response_metadata={"finish_reason": "length"}), "length"),
        (AIMessage(GOOD, response_metadata={"stop_reason": "max_tokens"}), "max_tokens"),
        (AIMessage(GOOD, response_metadata={"stopReason": "max_tokens"}), "max_tokens"),
        (AIMessage(GOOD, response_metadata={"done_reason": "length"}), "length"),
        (AIMessage(GOOD, response_metadata={"status": "incomplete"}), "incomplete"),
        (AIMessage(GOOD, response_metadata={"finish_reason": "MAX_TOKENS"}), "MAX_TOKENS"),
        (AIMessage("", additional_kwargs={"refusal": "no"}, response_metadata={"finish_reason": "stop"}), "refusal"),
    ],
)
def test_the_finish_reason_is_found_under_every_name(answer: AIMessage, reason: str | None) -> None:
    """Each provider's package has its own."""
    assert summarizer_of(ScriptedModel(replies=[answer])).summarize(request()).finish_reason == reason


def test_calls_are_told_even_where_they_are_malformed() -> None:
    """Either kind means that the model went on working."""
    broken = AIMessage("", invalid_tool_calls=[{"name": "read", "args": "{", "id": "a", "error": None}])
    for answer, called in ((calls(("read", {})), True), (broken, True), (AIMessage(GOOD), False)):
        reply = summarizer_of(ScriptedModel(replies=[answer])).summarize(request())
        assert reply.has_tool_calls is called


def test_who_may_be_a_summarizer() -> None:
    """`digest` is the digest; an object of the protocol is taken as it is; all else is refused by name."""
    own = ReplyingSummarizer(Reply(content=GOOD))
    assert summarizer_of(own) is own
    assert summarizer_of("digest") == DigestSummarizer()
    assert not summarizer_of(ChatPromptTemplate.from_messages([("human", "x")]) | ScriptedModel()).is_graph
    for wrong in ("gpt", None, 3, object(), counting_graph):
        with pytest.raises(SettingsError, match="is not a summarizer"):
            summarizer_of(wrong)


@both
def test_the_notice_keeps_what_fits_of_the_earlier_summary(ask: Ask) -> None:
    """And hands its record on."""
    reply = ask(NoticeSummarizer(), request(earlier=" one" * 500, record={"v": 1}))
    assert str(reply.content).startswith("6 earlier messages are no longer in view.\n one one")
    assert 95 <= COUNTER.text(str(reply.content)) <= 100
    assert reply.record == {"v": 1}
    written = ask(NoticeSummarizer(), request(earlier="first\nsecond", max_tokens=3))
    assert written.record is not None
    assert [row[-1] for row in written.record["entries"]] == ["first", "second"], "a model's summary has no record"
    bare = ask(NoticeSummarizer(), request(earlier=" one" * 500, max_tokens=3))
    assert bare.content == "6 earlier messages are no longer in view."


@both
def test_a_digest_without_room_is_a_notice(ask: Ask) -> None:
    """It is never empty."""
    assert ask(DigestSummarizer(), request(max_tokens=1)).content == "6 earlier messages are no longer in view."
