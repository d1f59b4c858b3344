"""The errors of a real server over HTTP: which are overflows, and which may pass."""

from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_openai import ChatOpenAI

from langgraph_compaction.nodes.providers.error_kind import classify
from langgraph_compaction.nodes.providers.overflow import is_context_overflow, overflow_sizes
from tests.real_model.server import LlamaServer, serving


def chat(server: LlamaServer) -> ChatOpenAI:
    """Return a chat model on the real server, as a user would configure it."""
    return ChatOpenAI(
        base_url=server.base_url,
        model=server.model,
        api_key="none",
        max_tokens=12,
        max_retries=0,
        temperature=0,
        stream_usage=True,
    )


@pytest.fixture
def model(llama_server: LlamaServer) -> ChatOpenAI:
    """Return the session's model."""
    return chat(llama_server)


@pytest.mark.parametrize(
    "send", [ChatOpenAI.invoke, lambda model, text: list(model.stream(text))], ids=["invoke", "stream"]
)
def test_a_real_overflow_is_recognized(
    model: ChatOpenAI, llama_server: LlamaServer, send: Callable[[ChatOpenAI, str], object]
) -> None:
    """A prompt over the context is refused at once, seen as an overflow and read for its sizes."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which class it is, is langchain-openai's choice
        send(model, "word " * llama_server.context_window)
    assert is_context_overflow(caught.value)
    sent, allowed = overflow_sizes(caught.value)
    assert allowed == llama_server.context_window
    assert sent is not None
    assert sent > llama_server.context_window


def test_a_bad_request_to_the_real_server_is_no_overflow(model: ChatOpenAI) -> None:
    """Another 400 of the same server is permanent."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the same
        model.bind(extra_body={"temperature": "hot"}).invoke("hello")
    assert classify(caught.value) == "permanent"


def test_a_server_that_is_gone_is_transient(tmp_path: Path, llama_server: LlamaServer) -> None:
    """What a stopped server leaves behind, a refused connection, may pass by itself."""
    with serving(llama_server.context_window, tmp_path / "server.log") as server:
        model = chat(server)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the same
        model.invoke("hello")
    assert classify(caught.value) == "transient"
