"""These tests check the generated dialogues that are compacted repeatedly, and the figures about their rules."""

import asyncio
import json
from collections.abc import Sequence
from random import Random

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.graph.lab.evaluation.dialogues import (
    LossySummarizer,
    after_compactions,
    kept,
    listed_rules,
    outcome,
    round_of,
    voided,
)
from langgraph_compaction.graph.lab.evaluation.policies import COUNTER, count
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.gate.reply_checks import Reply
from langgraph_compaction.nodes.summary.summarizers import SummaryRequest
from langgraph_compaction.nodes.testing import ReplyingSummarizer

RULE, REVISION = "Never email me.", "Email is fine now."
MARKED = f"- {REVISION} (was: {RULE})"


def summary(*lines: str) -> HumanMessage:
    """Return the message of a summary from an earlier compaction."""
    return HumanMessage("\n".join(lines), additional_kwargs={"compaction": {"kind": "compaction_summary"}})


@pytest.mark.parametrize(
    ("context", "shown"),
    [
        ([HumanMessage("Hello.")], "neither"),
        ([HumanMessage(RULE)], "stale"),
        ([summary(f"- {RULE}")], "stale"),
        ([summary(f"- {RULE} (later: nothing)")], "stale"),
        ([HumanMessage(REVISION)], "new"),
        ([summary(f"- {REVISION}")], "new"),
        ([HumanMessage(RULE), HumanMessage(REVISION)], "spoken"),
        ([summary(f"- {REVISION}"), HumanMessage(RULE)], "spoken"),
        ([summary(MARKED)], "marked"),
        ([summary(f"- {RULE} (later: {REVISION})")], "marked"),
        ([summary(MARKED), HumanMessage(RULE)], "marked"),
        ([summary(f"- {RULE}"), HumanMessage(REVISION)], "unmarked"),
        ([summary(f"- {RULE}", f"- {REVISION}")], "unmarked"),
        ([summary(f"- {REVISION} {RULE} (later: no)")], "unmarked"),
        ([summary(MARKED, f"- {RULE}")], "unmarked"),
    ],
)
def test_a_context_shows_a_rule_and_its_revision_in_one_of_six_ways(
    context: Sequence[AnyMessage], shown: str
) -> None:
    """A summary line that shows the old rule must also name the revision of this rule.

    A message of the user need not name the revision.
    """
    assert outcome(context, RULE, REVISION) == shown


def test_rules_are_counted_and_listed_as_a_context_shows_them() -> None:
    """The listed rules are the lines that directly follow the heading `Rules:` and begin with a hyphen."""
    context = [
        summary("- z", "Facts:", "- a", "Rules:", "- b", MARKED, "Open:", "- c"),
        HumanMessage(f"- d\n{REVISION}"),
    ]
    assert listed_rules(context) == ["b", MARKED[2:]]
    assert kept(context, ["- b", REVISION, "- e"]) == 2
    assert voided(context, RULE)
    assert not voided([HumanMessage(RULE)], RULE)


def test_a_seed_always_draws_the_same_round() -> None:
    """The same seed produces the same order, parcels and user text, so that published figures can be reproduced."""
    parcels = [
        {"parcel": "PX223646", "city": "Cork", "weight": 57},
        {"parcel": "PX595185", "city": "Ghent", "weight": 26},
        {"parcel": "PX198418", "city": "Cork", "weight": 3},
        {"parcel": "PX976363", "city": "Ghent", "weight": 55},
    ]
    call = {"name": "find_order", "args": {"order": "ORD-27611"}, "id": "call-652231581"}
    found = json.dumps({"order": "ORD-27611", "item": "desk", "parcels": parcels})
    draw = Random(1)  # noqa: S311 - the numbers are no secret, and the seed repeats them
    assert round_of(draw, RULE) == [
        HumanMessage(f"Where is the desk of order ORD-27611? {RULE}", id="u-818492001"),
        AIMessage("", tool_calls=[call], id="c-823729238"),
        ToolMessage(found, tool_call_id="call-652231581", name="find_order", id="r-2261353"),
        AIMessage("The desk is in Ghent.", id="a-747144854"),
    ]
    assert round_of(draw)[0].text.endswith("?")


def test_rounds_are_about_orders_of_two_to_six_parcels() -> None:
    """Three hundred rounds contain every weight below 90, and all eight items and cities."""
    draw = Random(0)  # noqa: S311 - the numbers are no secret
    results = [json.loads(round_of(draw)[2].text) for _ in range(300)]
    parcels = [parcel for found in results for parcel in found["parcels"]]
    assert {len(found["parcels"]) for found in results} == {2, 3, 4, 5, 6}
    assert {parcel["weight"] for parcel in parcels} == {*range(90)}
    assert len({parcel["city"] for parcel in parcels}) == len({found["item"] for found in results}) == 8


def recording() -> ReplyingSummarizer:
    """Return a summarizer that records the requests, and always returns the same short summary."""
    return ReplyingSummarizer(Reply(content="<summary>They looked for orders.</summary>"))


def test_six_rounds_are_added_before_each_compaction_to_half_of_the_tokens() -> None:
    """The requests of the summarizer and the last context contain each message of the rounds exactly once.

    Each compaction leaves at most half of the tokens.
    """
    assert after_compactions({}, CompactionSettings(), compactions=0, seed=5) == []
    recorder, draw = recording(), Random(5)  # noqa: S311 - the numbers are no secret
    said = {0: "Hello.", 11: RULE}
    context = after_compactions(said, CompactionSettings(), compactions=2, seed=5, summarizer=recorder)
    rounds = [message for n in range(12) for message in round_of(draw, said.get(n, ""))]
    found = [*(message for request in recorder.requests for message in request.messages), *context]
    assert sorted(rounds.index(message) for message in found if message in rounds) == list(range(48))
    assert context[-4:] == rounds[-4:]
    first = after_compactions(said, CompactionSettings(), compactions=1, seed=5, summarizer=recording())
    assert len(recorder.requests) == 2
    assert count(first) <= count(rounds[:24]) // 2
    assert count(context) <= count([*first, *rounds[24:]]) // 2


def test_the_model_that_loses_much_names_the_last_four_answers() -> None:
    """The reply of this summarizer omits the rules, the calls, the results and the older answers."""
    call = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}])
    answers = [AIMessage(f"It is in {city}.") for city in ("Oslo", "Porto", "Lyon", "Graz", "Turin")]
    messages: list[AnyMessage] = [*answers[:3], HumanMessage(RULE), call, ToolMessage("{}", tool_call_id="1")]
    messages += answers[3:]
    request = SummaryRequest(
        messages=tuple(messages), conversation="", earlier=None, record=None, max_tokens=100, counter=COUNTER
    )
    for reply in (LossySummarizer().summarize(request), asyncio.run(LossySummarizer().asummarize(request))):
        assert reply.content == (
            "<summary>The user asked where several orders are, and the assistant looked them up. "
            "It is in Porto. It is in Lyon. It is in Graz. It is in Turin.</summary>"
        )
