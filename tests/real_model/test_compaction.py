"""The agent against a real model over HTTP: real usage, a real summary, a real refusal."""

from typing import Any

from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionSettings, CompactionThread, create_compacting_agent, view
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.conversation.message_marks import is_summary

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "real"}}
NOTE = "Note {0}: the invoice INV-{0}77 for Mrs Alder was paid on the {0}th of May, and she likes green tea. "


def model_of(server: Any, **options: Any) -> ChatOpenAI:
    """A client of the loopback server that neither retries nor rambles."""
    given = {"max_tokens": 8, "temperature": 0, "max_retries": 0, "timeout": 120, **options}
    return ChatOpenAI(base_url=server.base_url, api_key="none", model=server.model, **given)


def test_a_turn_is_anchored_on_the_usage_that_the_server_reports(llama_server: Any) -> None:
    """The state's anchor holds the real tokens of the last call, and the calibration follows from them."""
    settings = CompactionSettings(context_window=llama_server.context_window)
    agent = create_compacting_agent(model_of(llama_server), settings=settings, checkpointer=InMemorySaver())
    result = agent.invoke({"messages": [("user", "Say hello.")]}, CONFIG)
    reported = result["messages"][-1].usage_metadata
    assert reported["input_tokens"] > 0
    assert result["compaction"]["usage"]["tokens"] == reported["input_tokens"] + reported["output_tokens"]
    assert result["compaction"]["calibration"][llama_server.model] >= 1.0


def test_a_real_model_summarizes_or_the_gate_says_why_not(llama_server: Any) -> None:
    """A small model's summary is committed or rejected with a reason; the turn is answered and all is kept."""
    settings = CompactionSettings(
        context_window=700, output_reserve=30, dialogue_rounds_keep_min=1, dialogue_beyond_keep=0
    )
    agent = create_compacting_agent(
        model_of(llama_server),
        settings=settings,
        summarizer=model_of(llama_server, max_tokens=64),
        checkpointer=InMemorySaver(),
    )
    said = [(NOTE * 5).format(turn) for turn in range(1, 5)]
    for text in said:
        answered = agent.invoke({"messages": [("user", f"{text}Answer with ok.")]}, CONFIG)
        assert answered["messages"][-1].type == "ai"
    rows = records_of(agent).history("real")
    by_model = [row for row in rows if row.strategy == "selective+model"]
    assert by_model
    for row in by_model:
        assert row.summary_calls
        assert row.verdict == "committed" or (row.verdict or "").startswith(("rejected", "failed"))
        assert row.verdict == "committed" or row.reason
        assert row.summary_input_tokens or (row.verdict or "").startswith("failed")
    kept = "\n".join(message.text for message in CompactionThread(agent, CONFIG).transcript())
    assert all(text in kept for text in said)


def test_a_real_refusal_is_compacted_and_retried(llama_server: Any) -> None:
    """The server's own 400 leads to one compaction and an answer; the real window is remembered."""
    believed = 2 * llama_server.context_window
    settings = CompactionSettings(context_window=believed, dialogue_rounds_keep_min=1, dialogue_beyond_keep=0)
    agent = create_compacting_agent(
        model_of(llama_server), summarizer="digest", settings=settings, checkpointer=InMemorySaver()
    )
    history = [
        message
        for turn in range(1, 13)
        for message in (("user", (NOTE * 5).format(turn)), ("assistant", f"Noted, number {turn}."))
    ]
    agent.update_state(CONFIG, {"messages": history})
    result = agent.invoke({"messages": [("user", "What does Mrs Alder like?")]}, CONFIG)
    assert result["messages"][-1].type == "ai"
    assert result["messages"][-2].text == "What does Mrs Alder like?"
    assert any(map(is_summary, view(result)))
    (row,) = records_of(agent).history("real")
    assert (row.trigger, row.verdict) == ("overflow", "committed")
    assert result["compaction"]["learned"] == {llama_server.model: llama_server.context_window}
