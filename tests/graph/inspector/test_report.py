from dataclasses import asdict

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.graph.inspector.report import Report, report_of
from langgraph_compaction.graph.inspector.thread_data import read, stamp
from tests.fakes import ScriptedModel, calls, usage
from tests.graph.harness import CONFIG, THREAD, WORDS, agent, full, rounds, standing, tool_block, values
from tests.graph.inspector.conftest import Told


def texts(report: Report, seqs: list[int]) -> list[str]:
    """The ids of messages of a report."""
    return [report["messages"][seq]["id"] for seq in seqs]


def ids(messages: list[BaseMessage]) -> list[str]:
    """The ids of messages."""
    return [str(message.id) for message in messages]


def test_every_attempt_is_there_with_what_became_of_it(every: Told) -> None:
    """Failed, on another branch, in force, undone: as the state that the thread has now sees them."""
    report = every.report()
    kinds = [attempt["kind"] for attempt in report["attempts"]]
    assert kinds == ["failed", "other branch", "committed", "undone", "undone"]
    assert [attempt["row"]["verdict"] for attempt in report["attempts"]][-2:] == ["committed", "undone"]
    assert report["attempts"][2]["row"]["compaction_id"] == standing(every.graph)["head"]
    assert report["attempts"][0]["row"]["reason"] == "empty_summary"
    assert report["held"]


def test_what_left_and_what_came_are_the_messages(every: Told) -> None:
    """The view before and after a commit, its summary, and what is pinned in it."""
    report = every.report()
    attempt = report["attempts"][2]
    records = CompactionRecords(every.saver.database)
    name = attempt["row"]["compaction_id"]
    assert texts(report, _expanded(attempt["before"])) == ids(records.began_with(THREAD, name))
    assert texts(report, attempt["left"]) == ids(records.taken_by(THREAD, name))
    after = texts(report, _expanded(attempt["after"] or ()))
    assert after[0] == f"summary-{name}" == texts(report, [attempt["summary"] or -1])[0]
    assert texts(report, attempt["pins"]) == ["seen"]
    assert set(after[1:]) == set(texts(report, _expanded(attempt["before"]))) - set(texts(report, attempt["left"]))
    assert attempt["goal"].startswith("</script>")


def test_the_bill_is_that_of_the_thread(every: Told) -> None:
    """The agent's calls on the newest branch, and all summaries."""
    bill = CompactionThread(every.graph, CONFIG).bill()
    assert every.report()["bill"] == asdict(bill)
    assert bill.agent.input_tokens > 0
    assert bill.summaries.calls > 0


def test_the_transcript_is_the_conversation(every: Told) -> None:
    """As `transcript` tells it; what is in view is the state's list."""
    report = every.report()
    assert texts(report, report["transcript"]) == ids(list(CompactionThread(every.graph, CONFIG).transcript()))
    assert texts(report, report["in_view"]) == ids(values(every.graph)["messages"])
    assert report["tokens"] == sum(map(WORDS.message, values(every.graph)["messages"]))


@pytest.mark.parametrize("kept", [None, 0])
def test_the_transcript_has_what_no_request_has(told: Told, kept: int | None) -> None:
    """An answered command, and what was hidden and edited since; also if hidden messages have left the state."""
    made = agent(checkpointer=told.saver, messages_in_state=kept, triggers=({"kind": "command", "text": "/compact"},))
    config = {"configurable": {"thread_id": "asked"}}
    made.invoke(full(), config)
    made.invoke({"messages": [HumanMessage("/compact", id="command")]}, config)
    hidden = made.get_state(config).values["messages"][0].id
    made.update_state(config, {"messages": [HumanMessage("edited", id=hidden)]}, as_node="commit")
    report, whole = report_of(read(told.saver, "asked"), WORDS), CompactionThread(made, config).transcript()
    told_texts = [report["messages"][seq]["text"] for seq in report["transcript"]]
    assert told_texts == [message.text for message in whole]
    assert {"/compact", "edited"} & {*told_texts}


def test_a_request_is_what_the_model_was_sent(told: Told) -> None:
    """Before and after a compaction, also where a message or a call without a result is sent in another form."""
    model = ScriptedModel(replies=[usage(AIMessage("answered"), 100, 7)])
    made = agent(model, checkpointer=told.saver)
    config = {"configurable": {"thread_id": "asked"}}
    broken = [HumanMessage(" "), calls(("look", {"at": {"deep": "<b>"}})), HumanMessage("and now?")]
    for given in (full()["messages"], broken, full("later")["messages"]):
        made.invoke({"messages": given}, config)
    report = report_of(read(told.saver, "asked"), WORDS)
    shown = [[report["messages"][seq] for seq in _expanded(request["sent"])] for request in report["requests"]]
    assert [[one["text"] for one in sent] for sent in shown] == [
        [message.text for message in received] for received in model.received
    ]
    assert any(one["calls"] == [("look", '{\n  "at": {\n    "deep": "<b>"\n  }\n}')] for one in shown[1])
    assert [request["output"] for request in report["requests"]] == [7, 7, 7]
    answers = [report["messages"][request["answer"] or -1]["text"] for request in report["requests"]]
    assert answers == ["answered"] * 3


def test_what_was_shortened_has_both_forms(told: Told) -> None:
    """The original from the archive, and what the view holds in its place."""
    made = agent(checkpointer=told.saver, tool_result_threshold=100, context_window=1_000)
    config = {"configurable": {"thread_id": "clipped"}}
    given = full()["messages"]
    made.invoke({"messages": [given[0], *tool_block(1, 300), *given[1:]]}, config)
    report = report_of(read(told.saver, "clipped"), WORDS)
    pairs = [pair for attempt in report["attempts"] for pair in attempt["clipped"]]
    assert pairs
    for before, after in pairs:
        assert after is not None
        old, new = report["messages"][before], report["messages"][after]
        assert old["id"] == new["id"]
        assert old["tokens"] > new["tokens"]


def test_requests_before_the_first_commit_have_their_own_limit(told: Told) -> None:
    """Recall takes room from the limit only after it."""
    made = agent(checkpointer=told.saver, recall="automatic", context_window=8_000)
    config = {"configurable": {"thread_id": "recalled"}}
    for given in ([], rounds(60, 60, "a"), rounds(60, 60, "b")):
        made.invoke({"messages": [*given, HumanMessage("on")]}, config)
    report = report_of(read(told.saver, "recalled"), WORDS)
    (first, *_), attempt = report["requests"], report["attempts"][0]
    assert first["limit"] == attempt["window"][0]["limit"]
    assert (report["requests"][-1]["limit"] or 0) < (first["limit"] or 0)


def test_commits_that_follow_too_soon_are_named(told: Told) -> None:
    """From the third within six calls of the model, by the rule of the breaker; four calls more make room again."""
    for tag in "bcd":
        told.grow(tag)
    attempts = told.report()["attempts"]
    commits = [position for position, attempt in enumerate(attempts) if attempt["kind"] == "committed"]
    assert len(commits) == 3
    assert told.report()["frequent"] == commits[2:]
    for n in range(5):
        told.say("short", f"short-{n}")
    told.grow("e")
    assert told.report()["attempts"][-1]["kind"] == "committed"
    assert told.report()["frequent"] == commits[2:]


def test_the_transcript_holds_what_was_refused(told: Told) -> None:
    """The transcript shows the text of the user and the number of images. The view contains a note in its place."""
    image = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    told.graph.invoke({"messages": [HumanMessage(["what is this?", image], id="refused")]}, CONFIG)
    report = told.report()
    in_transcript, in_view = (
        [one["text"] for one in map(report["messages"].__getitem__, report[part]) if one["id"] == "refused"]
        for part in ("transcript", "in_view")
    )
    assert in_transcript == ["what is this?\n[images, audio or files: 1]"]
    assert "was not sent" in " ".join(in_view)


def test_it_reads_from_every_database(own_url: str) -> None:
    """The same from SQLite, PostgreSQL and MariaDB."""
    with SQLAlchemySaver.from_url(own_url) as saver:
        saver.setup()
        agent(checkpointer=saver).invoke(full(), CONFIG)
        before = stamp(saver, THREAD)
        report = report_of(read(saver, THREAD), WORDS, known=before)
        assert (len(report["requests"]), report["attempts"][0]["kind"]) == (1, "committed")
        agent(checkpointer=saver).invoke(full(), CONFIG)
        assert stamp(saver, THREAD) != before


def _expanded(runs: tuple[tuple[int, int], ...]) -> list[int]:
    return [seq for start, length in runs for seq in range(start, start + length)]
