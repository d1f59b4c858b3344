from pathlib import Path
from typing import Any

import pytest

from langgraph_compaction.checkpoint import SQLAlchemySaver
from tests.graph.cli import foreign
from tests.graph.cli.foreign import OFFICIAL, changed, config, said, state_of
from tests.graph.cli.importing import imported, told_in_list


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_class_of_the_applications_own_must_be_allowed(tmp_path: Path, target: str, kind: str) -> None:
    """It is named with thread and checkpoint, its thread waits, others go on; with --allow it comes as it was."""
    with foreign.foreign_database(kind, tmp_path) as source:
        with OFFICIAL[kind](source) as saver:
            foreign.shop().compile(checkpointer=saver).invoke({}, config("shop"))
            foreign.fanning().compile(checkpointer=saver).invoke({"numbers": [1], "squares": []}, config("fanned"))
            ids = [found.checkpoint["id"] for found in saver.list(config("shop"))]
        figures = imported(source, target, code=1)
        (failed,) = figures["failed"]
        assert (failed["thread_id"], failed["checkpoint_id"]) == ("shop", ids[1])
        assert "tests.graph.cli.foreign.Order" in failed["reason"]
        assert figures["held_back"] == failed["held_back"] == 1
        assert figures["verified"] == figures["checkpoints"] - 2
        line = told_in_list(source, target)
        assert line.startswith(f"thread shop, checkpoint {ids[1]}: ")
        assert line.endswith("; 1 later ones of the thread wait behind it")
        allowed = imported(source, target, "--allow", "tests.graph.cli.foreign:Order")
        assert allowed["written"] == 2
        with SQLAlchemySaver.from_url(target, allow=[foreign.Order]) as saver:
            assert [found.checkpoint["id"] for found in saver.list(config("shop"))] == ids
            assert foreign.shop().compile(checkpointer=saver).get_state(config("shop")).values == {
                "order": foreign.Order(7)
            }


def test_a_damaged_checkpoint_is_named(source: str, target: str) -> None:
    """Bytes that are no checkpoint fail alone: other threads arrive, and what follows in the thread is held back."""
    ids = [
        row[0] for row in changed(source, "SELECT checkpoint_id FROM checkpoints WHERE thread_id = 'talk' ORDER BY 1")
    ]
    changed(
        source, "UPDATE checkpoints SET checkpoint = x'c1' WHERE thread_id = 'talk' AND checkpoint_id = ?", ids[4]
    )
    figures = imported(source, target, code=1)
    (failed,) = figures["failed"]
    assert (failed["thread_id"], failed["checkpoint_id"], failed["held_back"]) == ("talk", ids[4], len(ids) - 5)
    assert figures["verified"] == figures["checkpoints"] - len(ids) + 4


def test_what_does_not_read_back_as_it_was_is_listed(source: str, target: str) -> None:
    """A value, a metadata key or a parent that differs in the target is named, and the command ends with 1."""
    imported(source, target)
    with SQLAlchemySaver.from_url(target) as saver:
        places = [found.config for found in saver.list(config("talk"))]
        value, about, line = (saver.get_tuple(place) for place in (places[2], places[5], places[9]))
        value.checkpoint["channel_values"]["messages"][1].content = "something else"
        about.metadata["step"] = True
        for found in (value, about, line._replace(parent_config=places[12])):
            _put_again(saver, found)
    figures = imported(source, target, code=1)
    said = "read back from the target, "
    assert {failed["checkpoint_id"]: failed["reason"] for failed in figures["failed"]} == {
        value.checkpoint["id"]: f"{said}checkpoint.channel_values.messages[1].content differs",
        about.checkpoint["id"]: f"{said}metadata.step differs",
        line.checkpoint["id"]: f"{said}parent differs",
    }


def _put_again(saver: SQLAlchemySaver, found: Any) -> None:
    before = found.parent_config["configurable"]
    saver.put({"configurable": before}, found.checkpoint, found.metadata, found.checkpoint["channel_versions"])


def test_a_missing_write_in_the_target_is_put_back_and_a_different_one_is_listed(source: str, target: str) -> None:
    """Writes are compared one by one."""
    figures = imported(source, target)
    changed(target, "DELETE FROM compaction_write")
    assert imported(source, target)["verified"] == figures["checkpoints"]
    with SQLAlchemySaver.from_url(target) as saver:
        at = next(found for found in saver.list(config("asked")) if found.pending_writes)
    changed(target, "DELETE FROM compaction_write")
    with SQLAlchemySaver.from_url(target) as saver:
        saver.put_writes(at.config, [("messages", "another")], at.pending_writes[0][0])
    (failed,) = imported(source, target, code=1)["failed"]
    assert failed["reason"] == "read back from the target, the pending writes differ"


def test_a_thread_that_went_on_in_the_target_is_left_as_it_is(source: str, target: str) -> None:
    """What was carried over is compared; new checkpoints of the source cannot follow and are listed."""
    figures = imported(source, target)
    with SQLAlchemySaver.from_url(target) as saver:
        graph = foreign.agent().compile(checkpointer=saver)
        graph.invoke(said("in the target"), config("talk"))
        after = state_of(saver, "talk")
    again = imported(source, target)
    assert (again["verified"], again["written"]) == (figures["checkpoints"], 0)
    with OFFICIAL["sqlite"](source) as saver:
        foreign.agent().compile(checkpointer=saver).invoke(said("in the source"), config("talk"))
    more = imported(source, target, code=1)
    assert len(more["failed"]) == more["checkpoints"] - figures["checkpoints"] > 0
    assert all("has gone on with checkpoints of its own" in failed["reason"] for failed in more["failed"])
    with SQLAlchemySaver.from_url(target) as saver:
        assert state_of(saver, "talk") == after


def test_a_pruned_thread_is_not_filled_up_again(source: str, target: str) -> None:
    """Old checkpoints would become the newest ones, so they are listed as missing."""
    imported(source, target)
    with SQLAlchemySaver.from_url(target) as saver:
        saver.prune(["talk"])
        head = saver.get_tuple(config("talk")).checkpoint["id"]
    figures = imported(source, target, code=1)
    assert {failed["thread_id"] for failed in figures["failed"]} == {"talk"}
    assert all(
        "was the thread pruned?" in failed["reason"] or "parent differs" in failed["reason"]
        for failed in figures["failed"]
    )
    with SQLAlchemySaver.from_url(target) as saver:
        assert saver.get_tuple(config("talk")).checkpoint["id"] == head
