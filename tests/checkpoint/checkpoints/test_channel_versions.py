"""Threads whose channel versions come from other savers go on as they would have there."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import copy_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.checkpoints.checkpoint_store import next_version
from langgraph_compaction.checkpoint.maintenance.import_checkpoints import import_checkpoints
from langgraph_compaction.checkpoint.maintenance.import_sources import open_source
from langgraph_compaction.graph.offline_edit import newest, rewrite
from tests.graph.cli.foreign import sqlite_saver

CONFIG: Any = {"configurable": {"thread_id": "1"}}
START_AT: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
Change = Callable[[Any], Any]


def text(number: int, width: int = 32) -> str:
    """A version as LangGraph's own savers write it."""
    return f"{number:0{width}}.0.7315061462740894"


@pytest.mark.parametrize(
    ("current", "following"), [(None, 1), (3, 4), (2.0, 3.0), ("7", "8"), ("0009", "0010"), (text(2), text(3)[:33])]
)
def test_the_next_version_has_the_form_of_the_last(current: Any, following: Any) -> None:
    """A number after a number, and after a text a text that sorts behind it."""
    found = next_version(current)
    assert type(found) is type(following)
    assert found.startswith(following) if isinstance(following, str) else found == following
    assert current is None or found > current
    with pytest.raises(ValueError, match=r"'v-one' is not a channel version .*%032d"):
        next_version("v-one")


def graph(saver: Any, ran: list[str]) -> Any:
    """Two nodes side by side, one behind both that asks, one behind that; `ran` lists them as they run."""

    def node(name: str) -> Any:
        def run(_state: MessagesState) -> dict[str, Any]:
            ran.append(name)
            said = interrupt("ok?") if name == "ask" else "done"
            return {"messages": [("ai", f"{name} {said}")]}

        return run

    builder = StateGraph(MessagesState)
    for name in ("left", "right", "ask", "last"):
        builder.add_node(name, node(name))
    builder.add_edge(START, "left").add_edge(START, "right").add_edge(["left", "right"], "ask")
    return builder.add_edge("ask", "last").compile(checkpointer=saver)


def begun(saver: Any) -> None:
    """A whole turn, and one that waits for an answer."""
    started = graph(saver, [])
    started.invoke({"messages": "first"}, CONFIG)
    started.invoke(Command(resume="yes"), CONFIG)
    started.invoke({"messages": "second"}, CONFIG)


def gone_on(saver: Any) -> tuple[list[str], list[str]]:
    """The nodes that run when it is answered, asked anew and changed, and what was said then.

    The nodes are sorted by name: two of them run side by side, in either order.
    """
    ran: list[str] = []
    continued = graph(saver, ran)
    assert continued.get_state(CONFIG).next == ("ask",)
    continued.invoke(Command(resume="go"), CONFIG)
    continued.update_state(CONFIG, {"messages": [("user", "by hand")]}, as_node="last")
    continued.invoke({"messages": "third"}, CONFIG)
    continued.invoke(Command(resume="still"), CONFIG)
    assert continued.get_state(CONFIG).next == ()
    return sorted(ran), [message.text for message in continued.get_state(CONFIG).values["messages"]]


def carried(old: Any, new: Any, change: Change = lambda version: version) -> None:
    """Put a thread into another saver through the public interface, oldest first; `change` sees each version."""
    for found in reversed(list(old.list(CONFIG))):
        checkpoint = copy_checkpoint(found.checkpoint)
        held = [checkpoint["channel_versions"], *checkpoint["versions_seen"].values()]
        for versions in held:
            for channel in versions:
                versions[channel] = change(versions[channel])
        stored = new.put(found.parent_config or START_AT, checkpoint, found.metadata, checkpoint["channel_versions"])
        for task, channel, value in found.pending_writes or ():
            new.put_writes(stored, [(channel, value)], task)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[SQLAlchemySaver]:
    """Open a saver of ours on a file."""
    with SQLAlchemySaver.from_url(f"sqlite:///{tmp_path / 'ours.db'}") as saver:
        saver.setup()
        yield saver


def test_an_imported_thread_goes_on_as_in_its_source(ours: SQLAlchemySaver, tmp_path: Path) -> None:
    """The same nodes run, each once."""
    url = f"sqlite:///{tmp_path / 'theirs.db'}"
    with sqlite_saver(url) as theirs:
        begun(theirs)
        with open_source(url) as source:
            events = list(import_checkpoints(source, ours))
        assert not [event for event in events if event.problem]
        assert gone_on(ours) == gone_on(theirs)


CHANGES: dict[str, Change] = {
    "texts": lambda version: version,
    "numbers": lambda version: int(version.split(".")[0]),
    "floats": lambda version: float(version.split(".")[0]),
}


@pytest.mark.parametrize("form", CHANGES)
def test_a_thread_of_another_saver_goes_on_as_there(form: str, ours: SQLAlchemySaver) -> None:
    """Carried over through the public interface: the same nodes run, each once, whatever its versions are."""
    theirs = InMemorySaver()
    begun(theirs)
    carried(theirs, ours, CHANGES[form])
    assert gone_on(ours) == gone_on(theirs)
    versions = ours.get_tuple(CONFIG).checkpoint["channel_versions"]
    assert {type(one) for one in versions.values()} == {type(CHANGES[form]("1.0"))}


def test_a_thread_is_rewritten_in_the_form_it_has(ours: SQLAlchemySaver) -> None:
    """The command line writes a checkpoint whose versions and step follow those of another saver's checkpoint."""
    theirs = InMemorySaver()
    begun(theirs)
    carried(theirs, ours)
    found = ours.get_tuple(CONFIG)
    assert found is not None
    checkpoint = copy_checkpoint(found.checkpoint)
    checkpoint["channel_values"]["compaction"] = {"epoch": 0}
    rewrite(ours, found._replace(checkpoint=checkpoint), {"compaction": {"epoch": 1}})
    again = newest(ours, "1")
    assert again.checkpoint["channel_values"]["compaction"] == {"epoch": 1}
    before = max(found.checkpoint["channel_versions"].values())
    assert again.checkpoint["channel_versions"]["compaction"] > before
    assert again.metadata == {**found.metadata, "source": "update", "step": found.metadata["step"] + 1}
