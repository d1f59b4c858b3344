"""What `prune`, `sweep` and `copy_thread` leave, and what they never touch."""

from datetime import UTC, datetime
from typing import Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.maintenance.retention import erase_idle
from tests.checkpoint.contract.conftest import Opened
from tests.checkpoint.contract.steps import Saver, Steps, id_of, ids, values_of, where
from tests.checkpoint.samples import Clock, talk


@pytest.fixture
def timed(opened: Opened, clock: Clock) -> SQLAlchemySaver:
    """Open a saver that goes by that clock."""
    return opened(now=clock)


def test_a_thread_that_nobody_writes_to_is_swept(timed: SQLAlchemySaver, clock: Clock, thread_id: str) -> None:
    """After so many seconds without a put or a put_writes a thread is erased; reading does not prolong its life."""
    names = [f"{thread_id}-{number}" for number in range(4)]
    idle, put, written, young = names
    heads = {name: Steps(timed, name).put({"messages": talk(3)}) for name in (idle, put, written)}
    clock.time += 60
    Steps(timed, young).put({"messages": talk(3)})
    Steps(timed, put, "inner:1").put({"x": 1})
    timed.put_writes(heads[written], [("x", 1)], "task")
    values_of(timed, heads[idle])
    clock.time += 40
    assert not {*names} & {*timed.sweep(older_than=100)}
    clock.time += 20
    swept = timed.sweep(older_than=100)
    assert [name in swept for name in names] == [True, False, False, False]
    assert [timed.get_tuple(where(name)) is None for name in names] == [True, False, False, False]
    assert idle not in timed.sweep(older_than=100)
    assert values_of(timed, Steps(timed, idle).put({"messages": talk(2)})) == {"messages": talk(2)}


def test_a_thread_that_changed_since_it_was_found_idle_is_not_swept(
    timed: SQLAlchemySaver, clock: Clock, thread_id: str
) -> None:
    """Another process may write to it, or erase it, after `sweep` has read which threads are idle."""
    names = [f"{thread_id}-{name}" for name in ("idle", "written", "erased")]
    for name in names[:2]:
        Steps(timed, name).put({"x": 1})
    clock.time += 60
    Steps(timed, names[1]).put({"x": 2})
    erased: list[bool] = []
    for name in names:
        with timed.database.write() as conn:
            erased.append(erase_idle(conn, store=timed.store, thread_id=name, until=clock.time))
    assert erased == [True, False, False]
    assert [timed.get_tuple(where(name)) is None for name in names] == [True, False, True]


def test_a_leased_thread_is_not_swept(timed: SQLAlchemySaver, clock: Clock, thread_id: str) -> None:
    """Its holder may be about to write; once the lease has ended, the thread goes."""
    Steps(timed, thread_id).put({"x": 1})
    with timed.lease(thread_id, ttl=100):
        clock.time += 60
        assert thread_id not in timed.sweep(older_than=50)
        assert values_of(timed, where(thread_id)) == {"x": 1}
        clock.time += 60
        assert thread_id in timed.sweep(older_than=50)


def test_young_checkpoints_are_kept(timed: SQLAlchemySaver, clock: Clock, thread_id: str) -> None:
    """`older_than` keeps what is younger, and the latest however old it is."""
    steps = Steps(timed, thread_id)
    heads = []
    for number in range(4):
        heads.append(steps.put({"x": number}, at=datetime.fromtimestamp(clock(), UTC).isoformat()))
        clock.time += 10
    timed.prune([thread_id], older_than=25)
    assert ids(timed.list(where(thread_id))) == [id_of(head) for head in heads][:1:-1]
    clock.time += 1000
    timed.prune([thread_id], older_than=25)
    assert ids(timed.list(where(thread_id))) == [id_of(head) for head in heads][:2:-1]


def test_what_was_pruned_can_be_said_again(saver: SQLAlchemySaver, thread_id: str) -> None:
    """Messages that went with their checkpoints are stored again where they come again."""
    steps = Steps(saver, thread_id)
    steps.put({"messages": talk(200)})
    root = steps.put({"messages": [*talk(1), *talk(2, start=190)]})
    saver.prune([thread_id], strategy="keep_latest")
    assert values_of(saver, root)["messages"] == [*talk(1), *talk(2, start=190)]
    head = steps.put({"messages": talk(200)})
    assert values_of(saver, head)["messages"] == talk(200)
    saver.prune([thread_id], strategy="keep_latest")
    assert values_of(saver, where(thread_id))["messages"] == talk(200)


def test_a_prune_that_says_nothing_sensible_changes_nothing(saver: SQLAlchemySaver, thread_id: str) -> None:
    """Nothing to keep, an unknown strategy, and one text for a list of ids are errors."""
    head = Steps(saver, thread_id).put({"x": 1})
    wrong: list[dict[str, Any]] = [{"keep_last": 0}, {"keep_last": -1}, {"strategy": "keep_all"}]
    for options in wrong:
        with pytest.raises(ValueError, match="keep_"):
            saver.prune([thread_id], **options)
    with pytest.raises(TypeError):
        saver.prune(thread_id)
    assert ids(saver.list(where(thread_id))) == [id_of(head)]


def test_a_copy_is_not_put_on_top_of_another_thread(saver: SQLAlchemySaver, thread_id: str) -> None:
    """To copy into a thread that holds something is an error, and both stay as they were."""
    Steps(saver, thread_id).put({"x": 1})
    head = Steps(saver, f"{thread_id}-2").put({"x": 1})
    with pytest.raises(ValueError, match="thread"):
        saver.copy_thread(thread_id, f"{thread_id}-2")
    assert ids(saver.list(where(f"{thread_id}-2"))) == [id_of(head)]


def test_messages_that_only_an_erased_run_had_are_erased(saver: SQLAlchemySaver, thread_id: str) -> None:
    """Those of its writes, too; what another run of the thread also has stays."""
    steps = Steps(saver, thread_id)
    for run, count in (("kept", 100), ("gone", 300), ("kept", 50)):
        head = steps.put({"messages": talk(count)}, run_id=f"{thread_id}-{run}")
        saver.put_writes(head, [("messages", talk(2, start=1000 + count))], "task")
    saver.delete_for_runs([f"{thread_id}-gone"])
    (there,) = saver.stats(thread_id)
    assert (there.checkpoints, there.messages) == (2, 100 + 2 * 2)


class Asking(TypedDict, total=False):
    """What was said."""

    said: list[str]


def asking(saver: Saver, depth: int) -> Any:
    """Build a graph that asks twice, `depth` subgraphs deep."""

    def ask(state: Any) -> Any:
        return {"said": [*state.get("said", []), interrupt("first?"), interrupt("second?")]}

    inner: Any = ask
    for level in range(depth + 1):
        builder = StateGraph(Asking)
        builder.add_node("before", lambda state, level=level: {"said": [*state.get("said", []), f"in {level}"]})
        builder.add_node("inner", inner)
        builder.add_edge(START, "before")
        builder.add_edge("before", "inner")
        builder.add_edge("inner", END)
        inner = builder.compile(checkpointer=saver) if level == depth else builder.compile()
    return inner


@pytest.mark.parametrize("depth", [0, 2])
def test_a_question_inside_a_subgraph_survives_pruning(saver: SQLAlchemySaver, thread_id: str, depth: int) -> None:
    """A run that waits for an answer, however deep, goes on after all but the latest checkpoints went."""
    graph = asking(saver, depth)
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    graph.invoke({"said": ["start"]}, config)
    saver.prune([thread_id], strategy="keep_latest")
    [asked] = graph.get_state(config, subgraphs=True).interrupts
    assert asked.value == "first?"
    graph.invoke(Command(resume="one"), config)
    saver.prune([thread_id], strategy="keep_latest")
    found = graph.invoke(Command(resume="two"), config)
    inside = [f"in {level}" for level in range(depth, -1, -1)]
    assert found == {"said": ["start", *inside, "one", "two"]}
    saver.prune([thread_id], strategy="keep_latest")
    assert graph.get_state(config).values == found
    assert len(list(saver.list(config))) == 1


def test_a_copy_is_named_in_its_metadata(saver: SQLAlchemySaver, thread_id: str) -> None:
    """Where metadata says which thread it is of, a copy's says its own, so that a filter finds the right one."""
    config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    saver.put(config, empty_checkpoint(), {"source": "input", "step": -1, "thread_id": thread_id}, {})
    saver.copy_thread(thread_id, f"{thread_id}-copy")
    copied = saver.get_tuple({"configurable": {"thread_id": f"{thread_id}-copy"}})
    assert copied.metadata["thread_id"] == f"{thread_id}-copy"
    assert saver.get_tuple(config).metadata["thread_id"] == thread_id
