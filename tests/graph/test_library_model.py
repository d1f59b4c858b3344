"""The model that runs without a key: what it answers, and the usage that it reports."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph import CompactionSettings, CompactionThread, create_compacting_agent
from langgraph_compaction.graph.chat_model import SCRIPTED_WINDOW, agent_model, environment_model
from langgraph_compaction.graph.library_model import MOST_REPEATED, WRITE_NOTHING, LibraryModel, repeated, summary
from langgraph_compaction.graph.library_tools import library_tools
from langgraph_compaction.nodes import SettingsError
from langgraph_compaction.nodes.config.prompts import FIVE_SECTIONS, WORDINGS, Asked, filled
from langgraph_compaction.nodes.conversation.message_marks import MARK, SUMMARY_KIND


def test_without_tools_it_tells_what_it_was_sent_and_shortens_a_long_message() -> None:
    """The answer gives the number of user messages, and mentions a summary if there is one.

    The answer then repeats the newest message, or the beginning of a long message.
    """
    exact, longer = "a" * MOST_REPEATED, "a" * (MOST_REPEATED + 1)
    summary = HumanMessage("<summary>eggs</summary>", additional_kwargs={MARK: {"kind": SUMMARY_KIND}})
    scripted = "(a scripted model; it sees"
    assert repeated([HumanMessage("first"), AIMessage("ok"), HumanMessage(exact)]) == (
        f"{scripted} 2 of your messages) {exact}"
    )
    assert repeated([HumanMessage(longer)]) == f"{scripted} 1 of your messages) {exact} …"
    assert repeated([AIMessage("ok")]) == f"{scripted} 0 of your messages) "
    assert repeated([summary, AIMessage("ok"), HumanMessage("and now?")]) == (
        f"{scripted} 1 of your messages and a summary of what came before) and now?"
    )


def test_the_model_of_the_environment_reports_its_usage_while_it_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a key, the model is the named one; without a key, it is the scripted model, whose window is known."""
    for name in ("OPENAI_API_KEY", "OPENAI_MODEL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    scripted, window = agent_model()
    assert (type(scripted), window) == (LibraryModel, SCRIPTED_WINDOW)
    with pytest.raises(SettingsError, match="OPENAI_API_KEY"):
        environment_model()
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("OPENAI_MODEL", "gpt-4o")
    model: Any
    model, window = agent_model()
    assert (model.model_name, model.stream_usage, window) == ("gpt-4o", True, None)


QUESTION = "Never report test modules. Which modules use `heapq\\.`?"


def asked(**settings: Any) -> Any:
    """The state of an agent after three questions, of which two reach the trigger, and the agent's ledger."""
    graph = create_compacting_agent(
        LibraryModel(profile_window=12_000),
        library_tools(part_chars=1_500, most_files=15),
        settings=CompactionSettings(trigger_tokens=5_000, summary_ahead=False, **settings),
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "1"}}
    for question in (QUESTION, "And `zlib\\.`?", "And `tempfile\\.`?"):
        state = graph.invoke({"messages": question}, config)
    return state, CompactionThread(graph, config).history()


def test_with_tools_it_reads_obeys_and_writes_the_summaries() -> None:
    """The answer names a module, no test; the summary says what was asked and found."""
    state, rows = asked()
    answers = [one.text for one in state["messages"] if one.type == "ai" and not one.tool_calls]
    assert [answer.partition(":")[0] for answer in answers] == [
        "Found for `heapq\\.`",
        "Found for `zlib\\.`",
        "Found for `tempfile\\.`",
    ]
    assert not any("test" in answer.partition(": ")[2] for answer in answers)
    assert [(row.verdict, row.strategy) for row in rows] == [("committed", "selective+model")]
    assert f"- {answers[0]}" in state["compaction_view"]["summary"].text


def test_it_writes_nothing_where_the_prompt_says_so() -> None:
    """By which a person sees a compaction that is rolled back."""
    state, rows = asked(summary_prompt=WRITE_NOTHING)
    assert {row.verdict for row in rows} <= {"rejected_empty", "deferred_cooldown"}
    assert rows
    assert state.get("compaction_view") is None
    assert state["messages"][-1].text.startswith("Found for `tempfile")


def test_a_summary_keeps_the_earlier_one_and_fits() -> None:
    """Of a conversation that the request quotes, or that stands before it; the newest lines stay."""
    quoted = filled(FIVE_SECTIONS, Asked(conversation=QUOTED, earlier="Questions:\n- first", max_tokens=200))
    lines = ["- first", "- Which modules use `a`?", "- Found for `a`: b.py (1)"]
    assert summary([SystemMessage(quoted[0] or ""), HumanMessage(quoted[1])]).splitlines()[2:-1] == lines
    short = filled(FIVE_SECTIONS, Asked(conversation=QUOTED, earlier="Questions:\n- first", max_tokens=13))
    assert summary([HumanMessage(short[1])]).splitlines()[2:-1] == lines[-1:]
    above = HumanMessage("\n\n".join(map(str, filled(FIVE_SECTIONS, Asked('x"'.join(EN.above), None, 200)))))
    before = [HumanMessage("Which modules use `a`?"), AIMessage("Found for `a`: b.py (1)")]
    assert summary([*before, above]).splitlines()[2:-1] == lines[1:]


EN = WORDINGS["en"]
QUOTED = """\
<message role="user">
Which modules use `a`?
</message>
<message role="tool" name="search">
Found for nobody
</message>
<message role="assistant">
Found for `a`: b.py (1)
</message>"""
