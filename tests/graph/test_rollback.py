from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Overwrite

from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey
from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes import Reply
from tests.fakes import ReplyingSummarizer, ScriptedModel, texts
from tests.graph.harness import (
    CONFIG,
    PROSE,
    SMALL,
    SUMMARY,
    THREAD,
    Clock,
    Drive,
    agent,
    calm,
    events,
    filler,
    frozen,
    full,
    ledger,
    request_tokens,
    rounds,
    said,
    standing,
    steps,
    values,
    verdicts,
)

CUT = {"finish_reason": "length"}
REPLIES: dict[str, tuple[Any, str, str, int]] = {
    "transient error": (ConnectionError("reset"), "failed_transient", "summary_exception:ConnectionError", 3),
    "unknown error": (ValueError("no such key"), "failed_permanent", "summary_exception:ValueError", 3),
    "wrong key": (ValueError("the API key is invalid"), "failed_permanent", "summary_exception:ValueError", 1),
    "empty": ("", "rejected_empty", "empty_summary", 3),
    "blank": (" \n ", "rejected_empty", "empty_summary", 3),
    "thinking only": (
        AIMessage([{"type": "thinking", "thinking": "let me see"}]),
        "rejected_empty",
        "thinking_only_no_content",
        3,
    ),
    "nothing before the output limit": (
        AIMessage("", response_metadata=CUT),
        "rejected_empty",
        "max_tokens_no_content",
        3,
    ),
    "cut off": (AIMessage(SUMMARY, response_metadata=CUT), "rejected_truncated", "max_tokens_truncated", 3),
    "a tool call": (
        AIMessage("", tool_calls=[{"name": "read", "args": {}, "id": "c"}]),
        "rejected_tool_call",
        "tool_call",
        1,
    ),
    "withheld": (
        AIMessage(SUMMARY, response_metadata={"finish_reason": "content_filter"}),
        "rejected_not_a_summary",
        "refusal",
        1,
    ),
    "about nothing": ("I have done what you asked.", "rejected_not_a_summary", "nothing_covered", 1),
    "empty tags": ("<summary> </summary>", "rejected_empty", "empty_tag_body", 3),
    "too long": (f"<summary>{filler(900, 'ru0-')}</summary>", "rejected_inflated", "not_smaller", 1),
    "over the ceiling": (f"<summary>{filler(700, 'ru0-')}</summary>", "rejected_insufficient", "over_ceiling", 1),
}
"""Reply of the summarizer -> verdict, reason and number of calls."""

RICH = [
    HumanMessage([{"type": "text", "text": "see", "cache_control": {"type": "ephemeral"}}], id="i", name="ann"),
    AIMessage(
        "seen", id="j", response_metadata={"model_name": "m", "nested": {"a": [1]}}, additional_kwargs={"x": 1}
    ),
]
"""Messages with all that a careless copy would lose."""


@pytest.mark.parametrize("case", REPLIES)
async def test_a_failing_summarizer_is_rolled_back_and_the_turn_is_answered(go: Drive, case: str) -> None:
    """Whatever comes back in place of a summary: a verdict, the seed's reason, and the thread as it was."""
    reply, verdict, reason, called = REPLIES[case]
    summarizer = ScriptedModel(replies=[reply])
    graph = agent(calm(), summarizer)
    given = {"messages": [*RICH, HumanMessage(PROSE, id="prose"), *rounds(8), HumanMessage("and now?", id="q")]}
    before = frozen(given["messages"])
    chunks = await go.stream(graph, given, stream_mode=["updates", "custom"])
    assert steps(chunks)[-2:] == ["rollback", "model"]
    assert frozen(values(graph)["messages"][:-1]) == before
    assert values(graph)["messages"][-1].id == "the-answer"
    last, (row,), (event,) = standing(graph)["last"], ledger(graph), events(chunks, "CompactionEvent")
    assert (last["verdict"], last["reason"]) == (row.verdict, row.reason) == (verdict, reason)
    assert (event["verdict"], event["reason"]) == (verdict, reason)
    assert row.summary_calls == len(summarizer.received) == called
    assert standing(graph)["draft"] is None


async def test_no_content_at_all_is_named(go: Drive) -> None:
    """A summarizer of the user's own that gives `None` is rejected as `content_none`."""
    graph = agent(calm(), ReplyingSummarizer(Reply(content=None)))
    await go.invoke(graph, full())
    assert ledger(graph)[0].reason == "content_none"


async def test_a_bad_reply_is_asked_for_again_with_its_defect_named(go: Drive) -> None:
    """Only the third bad reply ends the attempt; a good one before that commits."""
    summarizer = ScriptedModel(replies=["", "<summary>cut", SUMMARY])
    graph = agent(calm(), summarizer)
    await go.invoke(graph, full())
    assert verdicts(graph) == ["committed"]
    first, second, third = map(texts, summarizer.received)
    assert "rejected" not in first
    assert "empty_summary" in second
    assert "unclosed_summary_tag" in third


async def test_a_summary_is_asked_for_three_times(go: Drive) -> None:
    """Two further calls are made; then it is rolled back."""
    summarizer = ScriptedModel(replies=[""])
    graph = agent(calm(), summarizer)
    await go.invoke(graph, full())
    assert len(summarizer.received) == 3
    assert verdicts(graph) == ["rejected_empty"]


@pytest.mark.parametrize(
    ("method", "reason"), [("begin", "selective:RuntimeError"), ("commit", "archive:RuntimeError")]
)
async def test_without_snapshot_or_archive_nothing_is_compacted(
    go: Drive, monkeypatch: pytest.MonkeyPatch, method: str, reason: str
) -> None:
    """Where the database refuses the snapshot or the archive, the messages stay and the turn is answered."""
    graph = agent(calm())
    monkeypatch.setattr(records_of(graph), method, raising(RuntimeError("disk full")))
    given = full()
    await go.invoke(graph, given)
    assert standing(graph)["last"]["verdict"] == "failed_permanent"
    assert standing(graph)["last"]["reason"] == reason
    assert frozen(values(graph)["messages"][:-1]) == frozen(given["messages"])


def raising(error: Exception) -> Callable[..., Any]:
    """A function that raises."""

    def raise_it(*_: Any, **__: Any) -> None:
        raise error

    return raise_it


async def test_a_commit_archives_before_the_messages_change(go: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the archive is written the thread still holds all that is about to leave."""
    graph = agent(calm())
    records, seen = records_of(graph), list[set[str]]()
    commit = records.commit

    def watched(key: Any, outcome: Any, *, archived: Any, **options: Any) -> None:
        held = {message.id for message in values(graph)["messages"]}
        seen.append({message.id for message in archived} - held)
        commit(key, outcome, archived=archived, **options)

    monkeypatch.setattr(records, "commit", watched)
    await go.invoke(graph, full())
    assert seen == [set()]
    assert standing(graph)["epoch"] == 1


async def pause(go: Drive, graph: Any, node: str) -> None:
    """Run into a compaction and stop before one of its nodes."""
    await go.invoke(graph, full(), interrupt_before=[node])
    assert graph.get_state(CONFIG).next == (node,)


async def test_rollback_restores_the_snapshot_where_another_writer_was(go: Drive) -> None:
    """Messages that someone dropped or edited meanwhile come back from SQL; those that arrived stay behind."""
    graph = agent(calm(), ScriptedModel(replies=[""]))
    await pause(go, graph, "rollback")
    held = values(graph)["messages"]
    damaged = [held[2].model_copy(update={"content": "edited"}), *held[5:], HumanMessage("meanwhile", id="new")]
    graph.update_state(CONFIG, {"messages": Overwrite(damaged)}, as_node="summarize")
    await go.invoke(graph, None)
    assert frozen(values(graph)["messages"][:-1]) == frozen([*held, damaged[-1]])
    assert standing(graph)["last"]["restored"] is True


async def changed_before_the_commit(go: Drive, *messages: HumanMessage) -> Any:
    """Return an agent whose thread received these messages between the summary and the commit, and then continued."""
    graph = agent(calm())
    await pause(go, graph, "commit")
    graph.update_state(CONFIG, {"messages": [*messages]}, as_node="summarize")
    await go.invoke(graph, None)
    return graph


async def test_a_message_that_arrived_during_the_summary_stays_behind_it(go: Drive) -> None:
    """The draft is applied to the conversation as it stands, so that nothing said meanwhile is lost."""
    graph = await changed_before_the_commit(go, HumanMessage("one more thing", id="new"))
    assert verdicts(graph) == ["committed"]
    assert [m.id for m in values(graph)["messages"]][-3:] == ["question", "new", "the-answer"]


async def test_a_draft_whose_messages_changed_is_stale(go: Drive) -> None:
    """What another writer changed is neither dropped unseen nor undone; it is no failure of the summarizer."""
    edited = HumanMessage("I never said that", id="r-user-0")
    graph = await changed_before_the_commit(go, edited)
    (row,) = ledger(graph)
    assert (row.verdict, row.reason, row.detail) == ("stale", "messages_changed", "r-user-0")
    assert edited in values(graph)["messages"]
    assert standing(graph).get("streak", 0) == 0


async def test_a_draft_that_no_longer_fits_because_messages_changed_is_stale(go: Drive) -> None:
    """The gate refuses the draft because another writer has made a message longer; the summarizer did not fail."""
    longer = HumanMessage(filler(600), id="question")
    graph = await changed_before_the_commit(go, longer)
    row = ledger(graph)[0]
    assert (row.verdict, row.reason) == ("stale", "messages_changed")
    assert row.detail
    assert longer in values(graph)["messages"]


async def test_a_stale_draft_names_at_most_five_changed_messages(go: Drive) -> None:
    """The ledger names the first five changed messages, in the order of the conversation."""
    edited = [HumanMessage("I never said that", id=f"r-user-{n}") for n in range(6)]
    (row,) = ledger(await changed_before_the_commit(go, *edited))
    assert (row.verdict, row.detail) == ("stale", "r-user-0, r-user-1, r-user-2, r-user-3, r-user-4")


async def test_a_change_of_a_message_that_stays_does_not_hold_up_a_draft(go: Drive) -> None:
    """The messages that the draft removes are unchanged, so it is committed. The edited message stays."""
    edited = HumanMessage("and what now?", id="question")
    graph = await changed_before_the_commit(go, edited)
    assert verdicts(graph) == ["committed"]
    assert edited in values(graph)["messages"]


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize(
    ("window", "then"), [(1_000, ["selective_compaction", "summarize", "commit", "model"]), (2_000, ["model"])]
)
async def test_what_follows_a_run_that_died_is_decided_by_the_size(
    go: Drive, clock: Clock, window: int, then: list[str], *, asks: bool
) -> None:
    """The run after a run that died compacts nothing if a larger window has room for the messages.

    This run does not ask a person for confirmation.
    """
    graph = agent(calm(), now=clock)
    await pause(go, graph, "summarize")
    clock.time += 61
    options: dict[str, Any] = {"context_window": window, "require_confirmation": asks}
    graph = agent(calm(), now=clock, checkpointer=graph.checkpointer, **options)
    assert steps(await go.stream(graph, said("hello?"))) == ["token_check", "rollback", *then]
    assert verdicts(graph) == ["recovered", *(["committed"] if "commit" in then else [])]


async def test_the_next_attempt_takes_the_next_rung(go: Drive) -> None:
    """After a failed summary the digest, which needs no model, compacts what is still too large."""
    summarizer = ScriptedModel(replies=[RuntimeError("down")])
    graph = agent(ScriptedModel(), summarizer)
    chunks = await go.stream(graph, full())
    assert steps(chunks)[3:] == ["rollback", "model", "selective_compaction", "summarize", "commit"]
    assert verdicts(graph) == ["failed_permanent", "degraded_deterministic"]
    assert [row.strategy for row in ledger(graph)] == ["selective+model", "selective+digest"]
    assert len(summarizer.received) == 3
    assert (standing(graph)["level"], standing(graph)["streak"]) == (0, 0)


async def test_over_the_limit_the_rungs_run_on_within_the_turn(go: Drive) -> None:
    """In the hard zone nothing waits: the model is called once, on what the next level made."""
    model = ScriptedModel()
    graph = agent(model, ScriptedModel(replies=[""]))
    chunks = await go.stream(graph, {"messages": [*rounds(12), HumanMessage("and now?")]})
    assert steps(chunks).count("rollback") == 1
    assert verdicts(graph) == ["rejected_empty", "degraded_deterministic"]
    assert len(model.received) == 1


async def test_turns_with_a_dead_summarizer_are_answered_and_lose_nothing(go: Drive) -> None:
    """A summarizer that always fails costs three calls an attempt, no answer and no message."""
    model, summarizer = ScriptedModel(), ScriptedModel(replies=[ConnectionError("reset")])
    graph = agent(model, summarizer)
    for turn in range(12):
        await go.invoke(graph, said(filler(150, f"turn{turn}-")))
    found = [verdict for verdict in verdicts(graph) if verdict != "deferred_cooldown"]
    assert (set(found[::2]), set(found[1::2])) == ({"failed_transient"}, {"degraded_deterministic"})
    assert len(summarizer.received) == 3 * found.count("failed_transient") > 0
    assert len(model.received) == 12
    assert len(CompactionThread(graph, CONFIG).transcript()) == 24


async def test_the_row_of_a_run_that_died_is_closed_by_the_next_attempt(go: Drive) -> None:
    """The row is marked as abandoned; the row of the next attempt names the checkpoint that it began with."""
    graph = agent(ScriptedModel())
    died = AttemptKey(THREAD, "", "of another conversation", 0, 0)
    opening: dict[str, Any] = {"parent_id": None, "checkpoint_id": None, "epoch": 0, "trigger": "precheck"}
    more: dict[str, Any] = {"strategy": "selective+model", "tokens_before": 900, "counter": "words"}
    records_of(graph).begin(died, [HumanMessage("hello", id="h")], now=1.0, **opening, **more)
    await go.invoke(graph, full())
    assert verdicts(graph) == ["abandoned", "committed"]
    known = [one.config["configurable"]["checkpoint_id"] for one in graph.get_state_history(CONFIG)]
    assert ledger(graph)[1].checkpoint_id in known


@pytest.mark.parametrize(("over", "answered"), [(0, True), (1, False)])
async def test_beside_an_open_draft_an_input_up_to_the_limit_is_answered(
    go: Drive, clock: Clock, over: int, *, answered: bool
) -> None:
    """A run of this process opened the draft and may go on; an input that exceeds the limit rolls it back."""
    model = calm()
    graph = agent(model, now=clock)
    await go.invoke(graph, full(), interrupt_before=["summarize"])
    held = request_tokens(values(graph)["messages"])
    await go.invoke(graph, said(filler(SMALL["context_window"] - held - 4 + over)))
    assert verdicts(graph) == ([None] if answered else ["recovered", "committed"])
    assert len(model.received) == 1
