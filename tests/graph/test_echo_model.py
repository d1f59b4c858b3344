"""The model that runs without a key: what it answers, and the usage that it reports."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.graph.chat_model import ECHO_WINDOW, agent_model, environment_model
from langgraph_compaction.graph.echo_model import MOST_REPEATED, EchoModel, reply
from langgraph_compaction.nodes import SettingsError
from langgraph_compaction.nodes.conversation.message_marks import MARK, SUMMARY_KIND


def test_the_echo_tells_what_it_was_sent_and_shortens_a_long_message() -> None:
    """The answer gives the number of user messages, and mentions a summary if there is one.

    The answer then repeats the newest message, or the beginning of a long message.
    """
    exact, longer = "a" * MOST_REPEATED, "a" * (MOST_REPEATED + 1)
    summary = HumanMessage("<summary>eggs</summary>", additional_kwargs={MARK: {"kind": SUMMARY_KIND}})
    scripted = "(a scripted echo; it sees"
    assert reply([HumanMessage("first"), AIMessage("ok"), HumanMessage(exact)]) == (
        f"{scripted} 2 of your messages) {exact}"
    )
    assert reply([HumanMessage(longer)]) == f"{scripted} 1 of your messages) {exact} …"
    assert reply([AIMessage("ok")]) == f"{scripted} 0 of your messages) "
    assert reply([summary, AIMessage("ok"), HumanMessage("and now?")]) == (
        f"{scripted} 1 of your messages and a summary of what came before) and now?"
    )


def test_the_model_of_the_environment_reports_its_usage_while_it_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a key, the model is the named one; without a key, it is the echo model, whose window is known."""
    for name in ("OPENAI_API_KEY", "OPENAI_MODEL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    echo, window = agent_model()
    assert (type(echo), window) == (EchoModel, ECHO_WINDOW)
    with pytest.raises(SettingsError, match="OPENAI_API_KEY"):
        environment_model()
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("OPENAI_MODEL", "gpt-4o")
    model: Any
    model, window = agent_model()
    assert (model.model_name, model.stream_usage, window) == ("gpt-4o", True, None)
