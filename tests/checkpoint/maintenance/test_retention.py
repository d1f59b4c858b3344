from typing import Any
from uuid import uuid4

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.maintenance import retention
from tests.checkpoint.contract.steps import Steps, values_of, where
from tests.checkpoint.samples import Clock, talk


def test_a_thread_that_was_written_to_or_erased_since_it_was_found_idle_is_not_swept(own_url: str) -> None:
    """Another process may write to a thread, or erase it, after `sweep` has read which threads are idle."""
    clock = Clock()
    with SQLAlchemySaver.from_url(own_url, now=clock) as saver:
        saver.setup()
        put: dict[str, Any] = {"messages": talk(3)}
        heads = {name: Steps(saver, name).put(put) for name in ("idle", "written")}
        clock.time += 60
        heads["written"] = Steps(saver, "written").put(put)
        erased: list[bool] = []
        for name in ("idle", "written", "erased"):
            with saver.database.write() as conn:
                erased.append(retention.erase_idle(conn, store=saver.store, thread_id=name, until=clock.time))
        assert erased == [True, False, False]
        assert saver.get_tuple(where("idle")) is None
        assert values_of(saver, heads["written"]) == put


def test_messages_that_only_an_erased_run_had_are_erased(own_url: str) -> None:
    """Messages that another run of the thread also has stay."""
    with SQLAlchemySaver.from_url(own_url) as saver:
        saver.setup()
        steps = Steps(saver, name := f"thread-{uuid4()}")
        for run, count in (("kept", 100), ("gone", 300), ("kept", 50)):
            steps.put({"messages": talk(count)}, run_id=f"{name}-{run}")
        saver.delete_for_runs([f"{name}-gone"])
        (there,) = saver.stats(name)
        assert (there.checkpoints, there.messages) == (2, 100)
