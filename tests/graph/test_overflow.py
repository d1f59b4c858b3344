from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from langgraph_compaction.graph import CompactionThread, ContextExhaustedError, OverLimitError
from tests.fakes import ScriptedModel, calls
from tests.graph.harness import (
    CONFIG,
    Drive,
    agent,
    events,
    filler,
    ledger,
    request_tokens,
    rounds,
    said,
    standing,
    steps,
    values,
    verdicts,
)

QUESTION = HumanMessage("what  do I\nowe? ", id="question", additional_kwargs={"sent": "by mail"})


def adopted() -> dict[str, Any]:
    """An input of 547 tokens, far below our trigger."""
    return {"messages": [*rounds(5), QUESTION.model_copy()]}


def answered(status: int, body: dict[str, Any]) -> openai.APIStatusError:
    """What the openai client raises for this answer of a server."""
    kinds = {400: openai.BadRequestError, 401: openai.AuthenticationError, 429: openai.RateLimitError}
    response = httpx2.Response(status, json=body, request=httpx2.Request("POST", "https://example.com/v1"))
    return kinds[status](f"Error code: {status} - {body}", response=response, body=body.get("error"))


def llama_cpp(sent: int, allowed: int) -> openai.APIStatusError:
    """What llama.cpp's server answers to a request that is too long."""
    text = f"request ({sent} tokens) exceeds the available context size ({allowed} tokens), try increasing it"
    error = {"code": 400, "message": text, "type": "exceed_context_size_error"}
    return answered(400, {"error": {**error, "n_prompt_tokens": sent, "n_ctx": allowed}})


OVERFLOWS: dict[str, Callable[[], Exception]] = {
    "langchain-core": lambda: ContextOverflowError("the prompt is too long"),
    "llama.cpp": lambda: llama_cpp(700, 600),
}


@pytest.mark.parametrize("kind", OVERFLOWS)
async def test_an_overflow_is_compacted_once_and_retried_once(go: Drive, kind: str) -> None:
    """The provider's "too long" compacts what we thought would fit; the retry ends with the same message."""
    model = ScriptedModel(replies=[OVERFLOWS[kind](), "twelve"])
    graph = agent(model, dialogue_rounds_keep_min=5)  # alone would leave 84 % of what was refused
    chunks = await go.stream(graph, adopted(), stream_mode=["updates", "custom"])
    assert steps(chunks) == ["token_check", "model", "selective_compaction", "summarize", "commit", "model"]
    assert [event["trigger"] for event in events(chunks, "PreCompactEvent")] == ["overflow"]
    first, second = model.received
    assert second[-1] == first[-1] == QUESTION
    (row,) = ledger(graph)
    assert row.trigger == "overflow"
    assert row.tokens_after is not None
    assert row.tokens_after <= 0.8 * row.tokens_before
    assert values(graph)["messages"][-1].text == "twelve"


@pytest.mark.parametrize("kind", OVERFLOWS)
async def test_a_second_overflow_is_a_clear_error(go: Drive, kind: str) -> None:
    """Where the provider refuses the compacted request too, the turn ends; the next one works."""
    model = ScriptedModel(replies=[OVERFLOWS[kind](), OVERFLOWS[kind](), "twelve"])
    graph = agent(model)
    with pytest.raises(ContextExhaustedError, match="context_window"):
        await go.invoke(graph, adopted())
    assert len(model.received) == 2
    assert verdicts(graph) == ["committed"]
    await go.invoke(graph, said("again"))
    assert values(graph)["messages"][-1].text == "twelve"


async def test_each_request_of_a_turn_has_its_own_retry(go: Drive) -> None:
    """An overflow before a tool's call and another after it are each compacted once."""

    @tool
    def read() -> str:
        """Read."""
        return filler(300, "read")

    overflow = ContextOverflowError("too long")
    model = ScriptedModel(replies=[overflow, calls(("read", {})), overflow, "done"])
    graph = agent(model, tools=[read])
    await go.invoke(graph, adopted())
    assert values(graph)["messages"][-1].text == "done"
    assert [row.trigger for row in ledger(graph)] == ["overflow", "overflow"]


def growing(graph: Any, go: Drive) -> Any:
    """A further turn of 354 tokens, and its events."""
    return go.stream(graph, said(filler(350)), stream_mode=["updates", "custom"])


async def test_what_the_server_allows_is_learned(go: Drive) -> None:
    """The window that a refusal names holds from then on, for this model alone."""
    replies = [llama_cpp(700, 600), "twelve"]
    graph = agent(ScriptedModel(replies=replies, name_="local"))
    await go.invoke(graph, adopted())
    assert standing(graph)["learned"] == {"local": 600}
    (event,) = events(await growing(graph, go), "PreCompactEvent")[:1]
    assert event["threshold"] == 480


async def test_an_undo_does_not_lead_over_what_the_server_allows(go: Drive) -> None:
    """The model itself says that it accepts more."""
    graph = agent(ScriptedModel(replies=[llama_cpp(700, 600), "twelve"], name_="local"))
    await go.invoke(graph, adopted())
    with pytest.raises(OverLimitError, match="the limit is 600"):
        CompactionThread(graph, CONFIG).undo()


async def test_what_the_server_counts_is_learned(go: Drive) -> None:
    """A refusal that names the tokens it counted calibrates our own count."""
    graph = agent(ScriptedModel(replies=[llama_cpp(1_094, 1_000), "twelve"], name_="local"))
    await go.invoke(graph, adopted())
    counted = 5 * 108 + 4 + len(QUESTION.text.split())
    scale = standing(graph)["calibration"]["local"]
    assert scale == pytest.approx(1_094 / counted, rel=1e-3)
    size = request_tokens(values(graph)["messages"]) + 354
    (event,) = events(await growing(graph, go), "PreCompactEvent")[:1]
    assert event["current_tokens"] == -(-size * scale // 1)


async def test_an_overflow_with_nothing_to_take_away_is_a_clear_error(go: Drive) -> None:
    """One short message that the provider refuses as too long: no loop, an error, and the state as it was."""
    model = ScriptedModel(replies=[ContextOverflowError("too long"), "twelve"])
    graph = agent(model)
    with pytest.raises(ContextExhaustedError, match=r"larger window, .* or send a shorter message"):
        await go.invoke(graph, {"messages": [QUESTION.model_copy()]})
    assert len(model.received) == 1
    assert values(graph)["messages"] == [QUESTION]
    assert "committed" not in verdicts(graph)
    await go.invoke(graph, said("again"))
    assert values(graph)["messages"][-1].text == "twelve"
