from collections.abc import Sequence

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.graph.lab.evaluation.policies import COUNTER, count
from langgraph_compaction.graph.lab.evaluation.scores import cap_of
from langgraph_compaction.graph.lab.evaluation.survival import cut, text_of

pytest.importorskip("deepagents", reason="the peers are not installed: pip install --group bench")
pytest.importorskip("langmem", reason="the peers are not installed: pip install --group bench")

from planted import PlantedCut, plant
from retention import COLUMNS, row_cells
from retention_peers import SUMMARIZING, Peer, context_editing, peers
from retention_runs import OURS, ahead, policies, row
from retention_summarizer import DIGEST, DIGEST_OF_TEXT, NEWEST, Rule

BUDGET = 0.5
FRAMES = {
    "langchain": ("human", "Here is a summary of the conversation to date:\n\n"),
    "deepagents": ("human", "You are in the middle of a conversation that has been summarized."),
    "langmem": ("system", "Summary of the conversation so far: "),
}


def _booking(number: int) -> list[AnyMessage]:
    """A question with its call, result and answer; the last call needs what the first result said."""
    call = {"id": f"call-{number}", "name": "get_booking", "args": {"code": f"QX{number}7Z"}}
    seats = ", ".join(f"row {row} is free for {40 + row} dollars" for row in range(12))
    return [
        HumanMessage(f"What is booked under QX{number}7Z? I may want another seat."),
        AIMessage("", tool_calls=[call]),
        ToolMessage(f'{{"flight": "HAT{number}42", "seats": "{seats}"}}', tool_call_id=f"call-{number}"),
        AIMessage(f"You are on flight HAT{number}42. Shall I change the seat?"),
    ]


RUN = [*(message for number in range(6) for message in _booking(number)), HumanMessage("Cancel them.")]
LATER = [AIMessage("", tool_calls=[{"id": "last", "name": "cancel", "args": {"flights": ["HAT042", "HAT542"]}}])]


@pytest.fixture(scope="module")
def tiny() -> PlantedCut:
    """One run, cut before its last call."""
    return plant(cut("tiny", [*RUN, *LATER], 0.97), 0)


def _cap(messages: Sequence[BaseMessage]) -> int:
    return int(BUDGET * count(messages))


@pytest.mark.parametrize("rule", [DIGEST, DIGEST_OF_TEXT, NEWEST], ids=lambda rule: rule.name)
@pytest.mark.parametrize("name", SUMMARIZING)
def test_a_peer_writes_the_context_itself(name: str, rule: Rule) -> None:
    """The summary stands in the peer's own frame, before messages as they were, in what the cap allows."""
    written: list[str] = []

    def write(messages: Sequence[AnyMessage], tokens: int) -> str:
        written.append(rule.write(messages, tokens))
        return written[-1]

    policy = Peer(SUMMARIZING[name], Rule(rule.name, write, takes_text=rule.takes_text), 0.5)
    summary, *kept = policy(RUN, _cap(RUN))
    kind, frame = FRAMES[name]
    assert (summary.type, summary.text.startswith(frame)) == (kind, True)
    assert written[-1] in summary.text
    assert written[-1]
    assert policy.calls > len(written)  # the first is told to write nothing
    assert [one.text for one in kept] == [one.text for one in RUN[len(RUN) - len(kept) :]]
    assert kept
    assert 0.9 * _cap(RUN) <= count([summary, *kept]) <= _cap(RUN)


@pytest.mark.parametrize("rule", [DIGEST, DIGEST_OF_TEXT], ids=lambda rule: rule.name)
@pytest.mark.parametrize("name", SUMMARIZING)
def test_a_summarizer_is_shown_all_that_is_replaced(name: str, rule: Rule) -> None:
    """No peer cuts what it hands over, whatever the cap and the peer's own limits."""
    shown: list[str] = []

    def write(messages: Sequence[AnyMessage], _: int) -> str:
        shown.append(text_of(messages))
        return "It is about seats."

    run = [message for number in range(60) for message in _booking(number)]
    policy = Peer(SUMMARIZING[name], Rule("fixed", write, takes_text=rule.takes_text), 0.1)
    replaced = run[: len(run) - len(policy(run, 500)[1:])]
    assert count(replaced) > 8_000
    assert all(message.text in shown[-1] for message in replaced)


def test_context_editing_clears_the_oldest_results_first() -> None:
    """LangChain's own mark stands on what was cleared, and no more is cleared than the cap asks for."""
    cap = int(0.6 * count(RUN))
    context = context_editing(RUN, cap)
    cleared = ["context_editing" in one.response_metadata for one in context if isinstance(one, ToolMessage)]
    assert len(context) == len(RUN)
    assert cleared == sorted(cleared, reverse=True)
    assert 0 < sum(cleared) < len(cleared)
    assert 0.9 * cap <= count(context) <= cap


def test_a_peer_that_cannot_meet_the_cap_is_shown_with_what_it_takes() -> None:
    """LangChain keeps the last exchange however large it is; deepagents is told that it is too large and clips it."""
    call = {"id": "large", "name": "read", "args": {"path": "a.txt"}}
    large = [*RUN, AIMessage("", tool_calls=[call]), ToolMessage("word " * 2_000, tool_call_id="large")]
    sizes = {name: count(Peer(compact, DIGEST, 0.5)(large, 500)) for name, compact in SUMMARIZING.items()}
    assert sizes["langchain"] > 2_000
    assert sizes["deepagents"] < 2_000
    assert sizes["langmem"] <= 500


def test_a_policy_changes_none_of_the_messages_it_is_given() -> None:
    """Every policy gets the same messages."""
    before = [message.model_copy(deep=True) for message in RUN]
    for seeds in policies().values():
        seeds[0](RUN, _cap(RUN))
    assert before == RUN


@pytest.mark.parametrize("rule", [DIGEST, DIGEST_OF_TEXT, NEWEST], ids=lambda rule: rule.name)
def test_a_rule_writes_no_more_than_it_may_and_the_same_each_time(rule: Rule) -> None:
    """The tokens are a limit."""
    texts = [rule.write(RUN, 200) for _ in range(2)]
    assert texts[0] == texts[1]
    assert 100 <= COUNTER.text(texts[0]) <= 200


def test_a_row_holds_every_column(tiny: PlantedCut) -> None:
    """Ours, peers and baselines alike; the tokens are those of the contexts, and who summarizes has asked."""
    rows = {name: row([tiny], name, seeds, BUDGET) for name, seeds in policies().items()}
    assert set(rows) == {*OURS, *peers(), "random exchanges", "trim_messages"}
    for name, one in rows.items():
        assert len(row_cells(one)) == len(COLUMNS)
        assert (one["runs"], one["identifiers"], one["later_calls"]) == (1, 2, 1)
        assert (one["summary_calls"] > 0) == ("kept" in name)
    name = "langmem: digest, 50% kept"
    shares = [count(peers()[name](given, cap_of(given, BUDGET))) / cap_of(given, BUDGET) for given in tiny.inputs]
    assert rows[name]["tokens_over_cap"] == pytest.approx(sum(shares) / len(shares), abs=0.001)
    assert rows[name]["recall"] > rows["trim_messages"]["recall"]


def test_only_what_takes_as_many_tokens_can_be_ahead() -> None:
    """A peer over the cap by more than 5 % on average is no match."""
    rows = [
        {"policy": name, "bound": bound, "tokens_over_cap": tokens}
        for name, bound, tokens in (
            ("faithful", 0.8, 1.0),
            ("selective", 0.4, 1.0),
            ("a", 0.6, 1.04),
            ("b", 0.9, 1.2),
        )
    ]
    assert ahead(rows) == {"faithful": [], "selective": ["faithful", "a"]}
