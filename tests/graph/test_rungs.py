"""Which level follows which failure, and in which zone."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.nodes.selection import breaker
from tests.fakes import ScriptedModel
from tests.graph.harness import (
    PROSE,
    SUMMARY,
    Drive,
    agent,
    calm,
    filler,
    full,
    ledger,
    reading,
    rounds,
    said,
    standing,
    verdicts,
)

MODEL, PIECES, FIRST, SECOND, DIGEST = (
    f"selective+{name}" for name in ("model", "model-pieces", "fallback-1", "fallback-2", "digest")
)
CUT = AIMessage(SUMMARY, response_metadata={"finish_reason": "length"})
REFUSED = AIMessage(SUMMARY, response_metadata={"finish_reason": "content_filter"})


class AuthenticationError(Exception):
    """What a provider's package raises for a key it does not know."""

    status_code = 401


FAILURES: dict[str, tuple[Any, bool]] = {
    "a key nobody knows": (AuthenticationError("Incorrect API key provided"), False),
    "another permanent error": (ValueError("no such model"), False),
    "a connection that breaks": (ConnectionError("reset"), False),
    "a tool call": (AIMessage("", tool_calls=[{"name": "read", "args": {}, "id": "c"}]), False),
    "a summary that is too long": (f"<summary>{filler(900, 'ru0-')}</summary>", False),
    "an empty reply": ("", False),
    "nothing before the output limit": (AIMessage("", response_metadata={"finish_reason": "length"}), True),
    "a reply that was cut off": (CUT, True),
    "a refusal": (REFUSED, True),
    "about nothing": ("I have done what you asked.", True),
    "an input too long for the summarizer": (
        ValueError("This model's maximum context length is 100 tokens. However, your messages resulted in 900"),
        True,
    ),
}
"""Reply of the first summarizer -> whether less to read may help."""


def over() -> dict[str, Any]:
    """An input over the limit: the hard zone."""
    return {"messages": [*rounds(9), HumanMessage(filler(60), id="question")]}


def strategies(graph: Any) -> list[str]:
    """The strategies of the attempts, in order."""
    return [row.strategy for row in ledger(graph)]


def broken(error: Any = None) -> ScriptedModel:
    """A summarizer that never gives a summary."""
    return ScriptedModel(replies=[error or ValueError("down")])


@pytest.mark.parametrize("case", FAILURES)
async def test_over_the_limit_the_rungs_run_on_within_the_turn(go: Drive, case: str) -> None:
    """Smaller pieces follow where they can help, else the next model; one that answers ends it."""
    reply, helps = FAILURES[case]
    fallback = reading(ScriptedModel(replies=["<summary>of harbour pilots and customs brokers</summary>"]), 4_000)
    graph = agent(calm(), reading(broken(reply), 4_000), fallback_summarizers=[fallback])
    await go.invoke(graph, {"messages": [HumanMessage(PROSE, id="prose"), *over()["messages"]]})
    assert strategies(graph) == ([MODEL, PIECES, FIRST] if helps else [MODEL, FIRST])
    assert verdicts(graph)[-1] == "committed"
    assert len(fallback.received) == 1
    assert standing(graph)["epoch"] == 1


async def test_fallbacks_are_asked_in_order_and_the_digest_is_the_last_resort(go: Drive) -> None:
    """Each model at its own level, then the extraction that needs none; its verdict says so."""
    models = [broken(), broken(), broken()]
    graph = agent(calm(), models[0], fallback_summarizers=models[1:])
    await go.invoke(graph, over())
    assert strategies(graph) == [MODEL, FIRST, SECOND, DIGEST]
    assert [len(model.received) for model in models] == [3, 3, 3]
    assert verdicts(graph) == ["failed_permanent"] * 3 + ["degraded_deterministic"]


async def test_where_a_failed_summary_changes_nothing_the_models_take_turns(
    go: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last model has failed, the next attempt calls the first model again.

    The agent never uses the digest for a request below the limit.
    """
    monkeypatch.setattr(breaker, "COOLDOWN_S", 0)
    models = [broken(), broken()]
    graph = agent(ScriptedModel(), models[0], fallback_summarizers=models[1:], hooks=("pre_model",))
    await go.invoke(graph, full())
    for turn in range(3):
        await go.invoke(graph, said(f"more {turn}"))
    assert strategies(graph) == [MODEL, FIRST, MODEL, FIRST]
    assert [len(model.received) for model in models] == [6, 6]
    assert set(verdicts(graph)) == {"failed_permanent"}
