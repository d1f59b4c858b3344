"""Which level follows which failure, and in which zone."""

from collections import Counter
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.nodes.conversation.tokens import total
from langgraph_compaction.nodes.selection import breaker
from tests.fakes import ScriptedModel
from tests.graph.harness import (
    PROSE,
    SUMMARY,
    WORDS,
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
    told,
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


@pytest.mark.parametrize("case", FAILURES)
async def test_below_the_limit_one_attempt_a_turn_is_made(go: Drive, case: str) -> None:
    """The turn goes to the model after one failure; the next turn takes the next level."""
    reply, helps = FAILURES[case]
    graph = agent(calm(), broken(reply), fallback_summarizers=[ScriptedModel(replies=[SUMMARY])])
    await go.invoke(graph, told())
    assert strategies(graph) == [MODEL]
    assert standing(graph)["level"] == (1 if helps else 2)


@pytest.mark.parametrize(("over", "tried"), [(0, [MODEL]), (1, [MODEL, FIRST])])
async def test_the_limit_itself_is_not_over_it(go: Drive, over: int, tried: list[str]) -> None:
    """There a failed summary may wait for the next turn; with one token more, the next level follows at once."""
    earlier = rounds(8)
    question = HumanMessage(filler(1_000 + over - total(WORDS, [*earlier, HumanMessage("")])), id="question")
    assert total(WORDS, [*earlier, question]) == 1_000 + over
    graph = agent(calm(), broken(), fallback_summarizers=[ScriptedModel(replies=[SUMMARY])])
    await go.invoke(graph, {"messages": [*earlier, question]})
    assert strategies(graph) == tried


async def test_fallbacks_are_asked_in_order_and_the_digest_is_the_last_resort(go: Drive) -> None:
    """Each model at its own level, then the extraction that needs none; its verdict says so."""
    models = [broken(), broken(), broken()]
    graph = agent(calm(), models[0], fallback_summarizers=models[1:])
    await go.invoke(graph, over())
    assert strategies(graph) == [MODEL, FIRST, SECOND, DIGEST]
    assert [len(model.received) for model in models] == [3, 3, 3]
    assert verdicts(graph) == ["failed_permanent"] * 3 + ["degraded_deterministic"]


async def test_the_same_strategy_is_never_tried_twice_on_the_same_conversation(
    go: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails, and over turns: no pair of base digest and strategy stands twice in the ledger."""
    monkeypatch.setattr(breaker, "COOLDOWN_S", 0)
    graph = agent(ScriptedModel(), broken(), fallback_summarizers=[broken()])
    await go.invoke(graph, full())
    for turn in range(3):
        await go.invoke(graph, {"messages": rounds(3, tag=f"x{turn}")})
        await go.invoke(graph, said(f"more {turn}"))
    pairs = Counter((row.base_fingerprint, row.strategy) for row in ledger(graph) if row.strategy)
    assert len(pairs) >= 3
    assert set(pairs.values()) == {1}


async def test_where_a_failed_summary_changes_nothing_the_models_take_turns(
    go: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last model has failed, the next attempt calls the first model again.

    The agent never uses the digest for a request below the limit.
    """
    monkeypatch.setattr(breaker, "COOLDOWN_S", 0)
    models = [broken(), broken()]
    settings = {
        "on_summary_failure": "nothing",
        "hooks": ("pre_model",),
    }
    graph = agent(ScriptedModel(), models[0], fallback_summarizers=models[1:], **settings)
    await go.invoke(graph, full())
    for turn in range(3):
        await go.invoke(graph, said(f"more {turn}"))
    assert strategies(graph) == [MODEL, FIRST, MODEL, FIRST]
    assert [len(model.received) for model in models] == [6, 6]
    assert set(verdicts(graph)) == {"failed_permanent"}


async def test_pieces_follow_a_reply_that_was_cut_off(go: Drive) -> None:
    """The same summarizer is asked again, about less at once."""
    summarizer = ScriptedModel(replies=[CUT, CUT, CUT, SUMMARY])
    graph = agent(calm(), summarizer)
    await go.invoke(graph, over())
    assert strategies(graph)[:2] == [MODEL, PIECES]


async def test_deferred_never_reads_as_exhausted(go: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn whose compaction is held off is answered, and the ledger says why."""
    monkeypatch.setattr(breaker, "COOLDOWN_AFTER", 1)
    graph = agent(ScriptedModel(), broken())
    await go.invoke(graph, full())
    assert [(row.verdict, row.reason) for row in ledger(graph)] == [
        ("failed_permanent", "summary_exception:ValueError"),
        ("deferred_cooldown", "failures"),
    ]
    assert standing(graph)["step"] == "end"
