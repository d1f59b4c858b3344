"""A model may be given by its name, as to LangChain's `create_agent`."""

import sys

import pytest
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from langgraph_compaction.graph import SettingsError, create_compacting_agent
from langgraph_compaction.graph.build_dependencies import dependencies_of
from langgraph_compaction.graph.chat_model import named_model
from langgraph_compaction.graph.middleware import CompactionMiddleware
from tests.fakes import ScriptedModel


@pytest.fixture(params=[True, False], ids=["with langchain", "without langchain"])
def _langchain(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    if not request.param:
        monkeypatch.setitem(sys.modules, "langchain.chat_models", None)


@pytest.mark.usefixtures("_langchain")
def test_a_name_opens_a_model_with_and_without_langchain() -> None:
    """`openai:...` is opened with or without the package `langchain`, and the agent knows the model's window."""
    model = named_model("openai:gpt-4o-mini")
    assert isinstance(model, ChatOpenAI)
    assert model.model_name == "gpt-4o-mini"
    assert create_compacting_agent("openai:gpt-4o-mini").name == "compacting_agent"


def test_the_middleware_opens_the_model_that_writes_the_summaries_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The middleware accepts the name of a model, as LangChain's `SummarizationMiddleware` does."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    graph = create_agent(ScriptedModel(), middleware=[CompactionMiddleware("openai:gpt-4o-mini")])
    model = dependencies_of(graph).summary_model
    assert isinstance(model, ChatOpenAI)
    assert model.model_name == "gpt-4o-mini"


@pytest.mark.parametrize("name", ["anthropic:claude-sonnet-4-5", "gpt-4o", "openai:"])
def test_without_langchain_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Any other name needs `langchain`: the error names the extra that brings it."""
    monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
    with pytest.raises(SettingsError, match=r"pip install '\.\[langchain\]'"):
        named_model(name)


def test_a_provider_that_is_not_installed_is_named() -> None:
    """The error of a provider's missing package says which one to install."""
    with pytest.raises(SettingsError, match="langchain-groq"):
        create_compacting_agent("groq:llama-3")
    with pytest.raises(SettingsError, match="langchain-groq"):
        CompactionMiddleware("groq:llama-3")
