"""The bill of a thread is the one that the providers make, as their real clients report it."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.checkpoint.usage import FREE, Usage
from langgraph_compaction.graph import (
    CompactionSettings,
    CompactionThread,
    Extensions,
    Price,
    create_compacting_agent,
)
from langgraph_compaction.nodes.config.prices import PRICES, price_of, usage_of
from tests.fakes import ScriptedModel, usage
from tests.replay.strict_server import REASONED, strict_server
from tests.replay.test_strict_conversations import PROVIDERS, THREAD, WINDOW, agent, drive, graph, middleware

STEPS, TURNS = 7, 3


@pytest.mark.parametrize("form", ["sync", "stream"])
@pytest.mark.parametrize("build", [agent, middleware, graph])
@pytest.mark.parametrize("provider", ["claude that thinks at each step", "responses", "chat completions"])
def test_the_bill_is_that_of_the_provider(provider: str, build: Any, form: str) -> None:
    """Within one percent, for the agent's calls and for summaries; and it stands in the events and in the ledger."""
    client, served, options = PROVIDERS[provider]
    with strict_server(STEPS, **served) as strict:
        model = client(strict, stream=form == "stream", **options)
        settings = CompactionSettings(context_window=WINDOW, output_reserve=0, summary_ahead=False)
        built = build(model, settings, InMemorySaver())
        drive(built, "async" if form == "stream" else "sync", range(TURNS))
        thread = CompactionThread(built, THREAD)
        bill, rows = thread.bill(), thread.history()
    own = [cost for is_own, cost in strict.dollars if is_own]
    summaries = [cost for is_own, cost in strict.dollars if not is_own]
    if build is graph:
        own.pop()  # the last answer is billed at the next check
    assert summaries
    assert bill.agent.calls == len(own)
    assert bill.agent.cost == pytest.approx(sum(own), rel=0.01)
    assert bill.summaries.calls == len(summaries)
    assert bill.summaries.cost == pytest.approx(sum(summaries), rel=0.01)
    assert bill.total.cost == pytest.approx(sum(own) + sum(summaries), rel=0.01)
    assert bill.agent.cache_read_tokens > 0
    assert bool(bill.agent.cache_write_tokens) is provider.startswith("claude")
    assert bill.agent.reasoning_tokens == (REASONED * len(own) if provider == "responses" else 0)
    assert sum(row.summary_cost or 0 for row in rows) == pytest.approx(bill.summaries.cost)
    assert {row.summary_cache_read_tokens for row in rows} != {None}


def test_a_cost_that_is_not_known_is_none() -> None:
    """A model without a price, and a call without a usage, make the sum unknown, and leave the tokens."""
    told = usage(AIMessage("a"), 100).usage_metadata
    priced, unpriced, untold = (
        usage_of(told, ("gpt-4o-2024-08-06",), PRICES),
        usage_of(told, ("my-model",), PRICES),
        usage_of(None, ("gpt-4o",), PRICES),
    )
    assert priced.cost == pytest.approx((100 * 2.5 + 10 * 10) / 1e6)
    assert (unpriced.cost, untold.cost) == (None, None)
    assert (priced + unpriced).cost is None
    assert (priced + unpriced).input_tokens == 200
    assert (priced + untold).calls == 2
    assert FREE + priced == priced
    assert Usage.read(priced.named("summary_"), "summary_") == priced


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (  # OpenAI's service tiers
            {"input_tokens": 9, "output_tokens": 5, "input_token_details": {"flex_cache_read": 4, "audio": None}},
            {"input_tokens": 9, "cache_read_tokens": 4, "output_tokens": 5},
        ),
        (  # a server that counts the cache beside the input
            {"input_tokens": 3, "output_tokens": 5, "input_token_details": {"cache_read": 4}},
            {"input_tokens": 7, "cache_read_tokens": 4, "output_tokens": 5},
        ),
        (  # and the reasoning beside the output
            {"input_tokens": 3, "output_tokens": 5, "output_token_details": {"reasoning": 8}},
            {"input_tokens": 3, "output_tokens": 13, "reasoning_tokens": 8},
        ),
    ],
)
def test_the_usage_of_other_servers_is_read(reported: Any, expected: dict[str, int]) -> None:
    """Input and output are all tokens, however the server counts them."""
    assert usage_of(reported, (), PRICES) == Usage(calls=1, cost=None, **expected)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("gpt-5", "gpt-5"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("gpt-5-mini", "gpt-5-mini"),
        ("gpt-5-pro", None),
        ("gpt-5.3", None),
        ("openai/gpt-4o", "gpt-4o"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-opus-5-20260724", "claude-opus-5"),
        ("claude-opus-5-9", None),
        ("models/gemini-3-pro-preview", "gemini-3-pro"),
        ("gemini-2.5-flash-lite", None),
        (None, None),
    ],
)
def test_a_variant_with_a_name_of_its_own_has_its_own_price(name: str | None, key: str | None) -> None:
    """A date or a version may follow the beginning of a name, and no other word."""
    assert price_of((name,), PRICES) == (PRICES[key] if key else None)


def test_a_long_request_costs_more() -> None:
    """Above the number of tokens that the provider names, all of the request is billed by the higher prices."""
    at, above = (
        usage_of({"input_tokens": size, "output_tokens": 100}, ("gemini-2.5-pro",), PRICES).cost
        for size in (200_000, 200_001)
    )
    assert at == pytest.approx((200_000 * 1.25 + 100 * 10) / 1e6)
    assert above == pytest.approx((200_001 * 2.5 + 100 * 15) / 1e6)


def test_a_price_of_ones_own_is_used_and_an_old_state_is_read() -> None:
    """`Extensions(prices=...)` adds models, and replaces prices; a thread from before begins with nothing."""
    model = ScriptedModel(replies=[usage(AIMessage("Noted.", response_metadata={"model_name": "house-7b"}), 1_000)])
    given = Extensions(prices={"house": Price(10, 1, 10, 100), "house-7b": Price(1, 0.1, 1, 10)})
    built = create_compacting_agent(
        model,
        settings=CompactionSettings(context_window=4_000),
        summarizer="digest",
        extensions=given,
        checkpointer=InMemorySaver(),
    )
    built.invoke({"messages": [HumanMessage("Hello.")]}, THREAD)
    thread = CompactionThread(built, THREAD)
    assert thread.bill().agent == Usage(calls=1, input_tokens=1_000, output_tokens=10, cost=0.0011)
    state = built.get_state(THREAD).values["compaction"]
    for written in (None, "much"):
        built.update_state(THREAD, {"compaction": {"bill": written}}, as_node="model")
        assert thread.bill().agent == FREE
    assert state["bill"]["cost"] == 0.0011


def test_a_digest_is_no_call() -> None:
    """No provider bills it."""
    client, served, options = PROVIDERS["chat completions"]
    with strict_server(STEPS, **served) as strict:
        settings = CompactionSettings(preset="faithful", context_window=WINDOW, output_reserve=0)
        built = agent(client(strict, stream=False, **options), settings, InMemorySaver())
        drive(built, "sync", range(TURNS))
    thread = CompactionThread(built, THREAD)
    assert "committed" in {row.verdict for row in thread.history()}
    assert thread.bill().summaries == FREE
