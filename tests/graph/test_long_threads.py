"""Messages that the model does not see move from the state to the archive, where the application says so."""

import logging
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver, UnknownAttemptError
from langgraph_compaction.graph import CompactionThread, SettingsError, view
from tests.graph.harness import CONFIG, Drive, agent

COMMAND = {"kind": "command", "text": "/compact"}


def said(graph: Any) -> list[AnyMessage]:
    """What the state holds."""
    found: list[AnyMessage] = graph.get_state(CONFIG).values["messages"]
    return found


async def talked(go: Drive, messages_in_state: int | None, saver: Any = None, turns: int = 40) -> Any:
    """An agent after a long conversation with a command in it."""
    options = {"checkpointer": saver} if saver else {}
    graph = agent(triggers=(COMMAND,), messages_in_state=messages_in_state, **options)
    for turn in range(turns):
        await go.invoke(graph, {"messages": [HumanMessage(f"question {turn} {'word ' * 60}")]})
        if turn == turns // 2:
            await go.invoke(graph, {"messages": [HumanMessage("/compact the numbers")]})
    return graph


@pytest.mark.parametrize(("most", "fewest", "greatest"), [(None, 81, 81), (20, 12, 40), (0, 2, 20)])
async def test_the_state_keeps_at_most_so_many_hidden_messages(
    go: Drive, most: int | None, fewest: int, greatest: int
) -> None:
    """The transcript stays whole, and the model sees one summary."""
    graph = await talked(go, most)
    thread, held = CompactionThread(graph, CONFIG), said(graph)
    assert fewest <= len(held) <= greatest
    whole = thread.transcript()
    assert [m.text[:11] for m in whole if m.text.startswith("question")] == [f"question {n} "[:11] for n in range(40)]
    assert len({message.id for message in whole}) == len(whole) == 81
    assert sum(message.text == "/compact the numbers" for message in whole) == 1
    assert thread.transcript(limit=3, before=whole[5].id) == whole[2:5]
    assert thread.transcript(limit=2) == whole[-2:]
    seen = view(graph.get_state(CONFIG).values)
    assert sum(message.additional_kwargs.get("lc_source") == "summarization" for message in seen) == 1


async def test_what_has_moved_is_seen_the_same_and_is_not_brought_back(go: Drive) -> None:
    """`archive()` changes the state, not the request; recall finds what left."""
    graph = await talked(go, None)
    thread, before = CompactionThread(graph, CONFIG), view(graph.get_state(CONFIG).values)
    assert thread.archive() > 20
    assert view(graph.get_state(CONFIG).values) == before
    assert thread.archive() == 0
    assert "question 3 " in thread.recall("question 3")
    assert thread.search("question 3")[0].message.text.startswith("question 3 ")
    assert thread.search("question 39", in_view=True)[0].message.text.startswith("question 39 ")
    with pytest.raises(UnknownAttemptError, match="have moved to the archive"):
        thread.undo(force=True)


async def test_one_message_is_erased_with_all_that_was_made_of_it(go: Drive, tmp_path: Path) -> None:
    """No older checkpoint and no archive has it; the other messages stay, and are compacted anew."""
    with SQLAlchemySaver.from_url(f"sqlite:///{tmp_path / 'erased.db'}") as saver:
        saver.setup()
        graph = await talked(go, 20, saver)
        thread = CompactionThread(graph, CONFIG)
        whole = thread.transcript()
        await thread.aerase(str(whole[14].id))
        with pytest.raises(SettingsError, match="holds no message"):
            thread.erase(str(whole[14].id))
        assert said(graph) == thread.transcript() == [*whole[:14], *whole[15:]]
        assert thread.history() == []
        held = {m.id for state in graph.get_state_history(CONFIG) for m in state.values["messages"]}
        assert whole[14].id not in held
        await go.invoke(graph, {"messages": [HumanMessage("and now?")]})
        assert [row.verdict for row in thread.history()] == ["committed"]
        assert whole[14].id not in {hit.message.id for hit in thread.search("question 7")}


@pytest.mark.parametrize("failing", ["forget_compactions", "prune"])
async def test_an_erasure_that_broke_off_is_finished_by_the_next(
    go: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """It erases what is left of the message, and only then the message is unknown."""

    def refuse(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with SQLAlchemySaver.from_url(f"sqlite:///{tmp_path / 'erased.db'}") as saver:
        saver.setup()
        graph = await talked(go, 20, saver)
        thread = CompactionThread(graph, CONFIG)
        whole = thread.transcript()
        with monkeypatch.context() as broken:
            broken.setattr(CompactionRecords if failing == "forget_compactions" else SQLAlchemySaver, failing, refuse)
            with pytest.raises(KeyboardInterrupt):
                thread.erase(str(whole[14].id))
        await go.invoke(graph, {"messages": [HumanMessage("and now?", id="now")]})
        thread.erase(str(whole[14].id))
        held = {m.id for state in graph.get_state_history(CONFIG) for m in state.values["messages"]}
        assert (whole[14].id in held, thread.history()) == (False, [])
        assert [m.id for m in thread.transcript()][:-1] == [m.id for m in [*whole[:14], *whole[15:]]] + ["now"]
        with pytest.raises(SettingsError, match="holds no message"):
            thread.erase(str(whole[14].id))


async def test_a_long_list_is_told_once(go: Drive, caplog: pytest.LogCaptureFixture) -> None:
    """The warning names the setting."""
    many = [HumanMessage("hi", id=f"m{number}") for number in range(2_000)]
    graph = agent(context_window=100_000)
    with caplog.at_level(logging.WARNING):
        await go.invoke(graph, {"messages": many})
        await go.invoke(graph, {"messages": [HumanMessage("hello")]})
    assert [record.args for record in caplog.records if "messages_in_state" in record.msg] == [(2_000,)]


async def test_what_has_moved_is_told_after_an_undo_too(go: Drive) -> None:
    """The transcript is whole after the undo of a later compaction, and after its redo."""
    graph = await talked(go, None, turns=20)
    thread = CompactionThread(graph, CONFIG)
    thread.archive()
    for turn in range(20, 24):
        await go.invoke(graph, {"messages": [HumanMessage(f"question {turn} {'word ' * 60}")]})
    thread.compact(full=True)
    whole = thread.transcript()
    thread.undo(force=True)
    assert thread.transcript() == whole
    thread.redo()
    assert thread.transcript() == whole


async def test_nothing_leaves_that_no_archive_of_the_thread_has(go: Drive) -> None:
    """Without a checkpointer the caller alone has the messages; a branch hides what another thread archived."""
    many = [HumanMessage(f"question {turn} {'word ' * 60}", id=f"q{turn}") for turn in range(14)]
    for config in (None, CONFIG):
        result = agent(messages_in_state=0, checkpointer=None).invoke({"messages": many}, config)
        assert [message.id for message in result["messages"][:14]] == [message.id for message in many]
    graph = await talked(go, None)
    thread = CompactionThread(graph, CONFIG)
    last = [row.compaction_id for row in thread.history() if row.verdict == "committed"][-1]
    branch = CompactionThread(graph, thread.branch_from(last))
    whole = branch.transcript()
    branch.compact(full=True)
    assert branch.archive() == 0
    assert branch.transcript()[: len(whole)] == whole
