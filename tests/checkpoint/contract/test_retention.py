"""What `prune`, `sweep` and `copy_thread` leave, and what they never touch."""

from datetime import UTC, datetime
from typing import Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from tests.checkpoint.contract.conftest import Opened
from tests.checkpoint.contract.savers import Kind, Saver
from tests.checkpoint.contract.steps import Steps, id_of, ids, read, values_of, where, writes_of
from tests.checkpoint.contract.test_delta import Delta, config_of, graph_of, turn
from tests.checkpoint.samples import Clock, talk


@pytest.fixture
def timed(our_kind: Kind, opened: Opened, clock: Clock) -> Any:
    """Open a saver that goes by that clock."""
    return opened(our_kind, now=clock)


def test_a_thread_that_nobody_writes_to_is_swept(timed: Any, clock: Clock, thread_id: str) -> None:
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


def line(saver: Saver, thread_id: str, namespace: str = "") -> list[RunnableConfig]:
    """Put six checkpoints, each with one more message than the last, and a write at each."""
    steps = Steps(saver, thread_id, namespace)
    heads = []
    for number in range(6):
        heads.append(steps.put({"messages": talk(20 * number), "large": str(number) * 2000}))
        saver.put_writes(heads[-1], [("x", number)], "task")
    return heads


@pytest.mark.parametrize("count", [1, 2, 5, 6, 100])
def test_the_last_so_many_checkpoints_are_kept(ours: Any, thread_id: str, count: int) -> None:
    """`keep_last` keeps that many of each namespace with all their state; other threads stay as they are."""
    heads = {space: line(ours, thread_id, space) for space in ("", "inner:1")}
    others = line(ours, f"{thread_id}-other")
    ours.prune([thread_id], keep_last=count)
    for space, stored in heads.items():
        found = list(ours.list(where(thread_id, namespace=space)))
        assert ids(found) == ids_of(stored)[::-1][:count]
        for number, config in list(enumerate(stored))[-count:]:
            assert values_of(ours, config) == {"messages": talk(20 * number), "large": str(number) * 2000}
            assert writes_of(ours, config) == [("task", "x", number)]
        for config in stored[:-count]:
            assert ours.get_tuple(config) is None
        assert found[-1].parent_config is None
    assert ids(ours.list(where(f"{thread_id}-other"))) == ids_of(others)[::-1]


def ids_of(configs: list[RunnableConfig]) -> list[str]:
    """Return the checkpoint ids in configs."""
    return [id_of(config) for config in configs]


@pytest.mark.parametrize("count", [0, -1])
def test_nothing_to_keep_is_no_way_to_prune(ours: Any, thread_id: str, count: int) -> None:
    """`keep_last` below one is refused: to erase a thread has a name of its own."""
    heads = line(ours, thread_id)
    with pytest.raises(ValueError, match="keep_last"):
        ours.prune([thread_id], keep_last=count)
    assert ids(ours.list(where(thread_id))) == ids_of(heads)[::-1]


def test_young_checkpoints_are_kept(timed: Any, clock: Clock, thread_id: str) -> None:
    """`older_than` keeps what is younger, and the latest however old it is."""
    steps = Steps(timed, thread_id)
    heads = []
    for number in range(4):
        heads.append(steps.put({"x": number}, at=datetime.fromtimestamp(clock(), UTC).isoformat()))
        clock.time += 10
    timed.prune([thread_id], older_than=25)
    assert ids(timed.list(where(thread_id))) == ids_of(heads)[:1:-1]
    clock.time += 1000
    timed.prune([thread_id], older_than=25)
    assert ids(timed.list(where(thread_id))) == ids_of(heads)[:2:-1]


def test_what_was_pruned_can_be_said_again(pruner: Saver, thread_id: str) -> None:
    """Messages that went with their checkpoints are stored again where they come again."""
    steps = Steps(pruner, thread_id)
    steps.put({"messages": talk(200)})
    root = steps.put({"messages": [*talk(1), *talk(2, start=190)]})
    pruner.prune([thread_id], strategy="keep_latest")
    assert values_of(pruner, root)["messages"] == [*talk(1), *talk(2, start=190)]
    head = steps.put({"messages": talk(200)})
    assert values_of(pruner, head)["messages"] == talk(200)
    pruner.prune([thread_id], strategy="keep_latest")
    assert values_of(pruner, where(thread_id))["messages"] == talk(200)


def test_a_fork_loses_nothing_to_the_pruning_of_the_other(pruner: Saver, thread_id: str) -> None:
    """The latest checkpoint is kept though it stands on an old branch, with messages of before the fork."""
    steps = Steps(pruner, thread_id)
    root = steps.put({"messages": talk(70)})
    for number in range(70, 75):
        steps.put({"messages": talk(number)})
    branch = [*talk(70), *talk(5, start=500)]
    head = steps.put({"messages": branch}, on=root)
    pruner.prune([thread_id], strategy="keep_latest")
    assert ids(pruner.list(where(thread_id))) == [id_of(head)]
    assert values_of(pruner, where(thread_id))["messages"] == branch


def test_pruning_what_is_not_there_is_no_error(pruner: Saver, thread_id: str) -> None:
    """An unknown thread is neither an error nor made; one text for a list of ids is an error."""
    pruner.prune([thread_id], strategy="keep_latest")
    pruner.prune([], strategy="delete")
    assert pruner.get_tuple(where(thread_id)) is None
    with pytest.raises(TypeError):
        pruner.prune(thread_id)
    with pytest.raises(ValueError, match="keep_all"):
        pruner.prune([thread_id], strategy="keep_all")


def test_a_delta_channel_that_was_never_written_holds_nothing_back(ours: Any, thread_id: str) -> None:
    """Pruning keeps only the ancestors that a delta channel is rebuilt from: none, if nothing was written to it."""
    builder = StateGraph(Delta)
    builder.add_node("count", lambda state: {"turn": state["turn"] + 1})
    builder.add_edge(START, "count")
    builder.add_edge("count", END)
    graph = builder.compile(checkpointer=ours)
    config = config_of(thread_id, "unused")
    for number in range(5):
        graph.invoke({"turn": number}, config)
    ours.prune([config["configurable"]["thread_id"]], strategy="keep_latest")
    assert len(list(ours.list(config))) == 1
    assert graph.get_state(config).values["turn"] == 5


def test_a_delta_channel_keeps_only_what_it_is_rebuilt_from(ours: Any, thread_id: str) -> None:
    """After many turns a pruned thread holds the steps since the last whole value, not all of them."""
    config = config_of(thread_id, "Delta")
    graph = graph_of(Delta, ours)
    for number in range(12):
        turn(graph, config, number)
    before = graph.get_state(config).values
    ours.prune([config["configurable"]["thread_id"]], strategy="keep_latest")
    assert graph.get_state(config).values == before
    assert len(list(ours.list(config))) < 20


def test_a_copy_rebuilds_its_delta_channels(ours: Any, thread_id: str) -> None:
    """A copied thread has every state of its source, the values rebuilt from writes too."""
    config, copied = config_of(thread_id, "Delta"), config_of(thread_id, "copy")
    graph = graph_of(Delta, ours)
    for number in range(4):
        turn(graph, config, number)
    before = [each.values for each in graph.get_state_history(config)]
    ours.copy_thread(config["configurable"]["thread_id"], copied["configurable"]["thread_id"])
    ours.delete_thread(config["configurable"]["thread_id"])
    assert [each.values for each in graph.get_state_history(copied)] == before
    turn(graph, copied, 4)
    assert len(graph.get_state(copied).values["notes"]) == 25


@pytest.mark.parametrize("first", ["source", "target"])
def test_a_copy_lives_by_itself(ours: Any, thread_id: str, first: str) -> None:
    """A copy has every checkpoint and write, and neither thread sees what later happens to the other."""
    source, target = thread_id, f"{thread_id}-copy"
    for space in ("", "inner:1"):
        line(ours, source, space)
    ours.copy_thread(source, target)

    def held(name: str) -> list[Any]:
        found = [each for space in ("", "inner:1") for each in ours.list(where(name, namespace=space))]
        return [(id_of(each.config), each.checkpoint, each.metadata, each.pending_writes) for each in found]

    before = held(source)
    assert held(target) == before
    changed, kept = (source, target) if first == "source" else (target, source)
    head = Steps(ours, changed).put({"messages": talk(3, start=900)}, on=read(ours, where(changed)).config)
    ours.put_writes(head, [("x", 1)], "task")
    assert held(kept) == before
    ours.prune([changed], strategy="keep_latest")
    assert held(kept) == before
    ours.delete_thread(changed)
    assert held(kept) == before
    Steps(ours, kept).put({"messages": talk(150)}, on=read(ours, where(kept)).config)
    assert values_of(ours, where(kept))["messages"] == talk(150)
    assert held(kept)[1:7] == before[:6]


def test_a_copy_is_not_put_on_top_of_another_thread(ours: Any, thread_id: str) -> None:
    """To copy into a thread that holds something is an error, and both stay as they were."""
    line(ours, thread_id)
    head = Steps(ours, f"{thread_id}-2").put({"x": 1})
    with pytest.raises(ValueError, match="thread"):
        ours.copy_thread(thread_id, f"{thread_id}-2")
    assert ids(ours.list(where(f"{thread_id}-2"))) == [id_of(head)]


def test_erasing_a_run_leaves_the_others(ours: Any, thread_id: str) -> None:
    """Checkpoints of other runs keep their state, their writes and a parent that is there."""
    steps = Steps(ours, thread_id)
    heads = [steps.put({"messages": talk(40 * number)}, run_id=f"{thread_id}-{number % 2}") for number in range(6)]
    for number, head in enumerate(heads):
        ours.put_writes(head, [("messages", talk(2, start=300 + number))], "task")
    ours.delete_for_runs([f"{thread_id}-1"])
    found = list(ours.list(where(thread_id)))
    assert ids(found) == [id_of(heads[number]) for number in (4, 2, 0)]
    assert [each.checkpoint["channel_values"]["messages"] for each in found] == [talk(160), talk(80), []]
    assert [writes_of(ours, each.config) for each in found] == [
        [("task", "messages", talk(2, start=300 + number))] for number in (4, 2, 0)
    ]
    assert [each.parent_config and id_of(each.parent_config) for each in found] == [*ids(found)[1:], None]


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


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_question_inside_a_subgraph_survives_pruning(pruner: Saver, thread_id: str, depth: int) -> None:
    """A run that waits for an answer, however deep, goes on after all but the latest checkpoints went."""
    graph = asking(pruner, depth)
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    graph.invoke({"said": ["start"]}, config)
    pruner.prune([thread_id], strategy="keep_latest")
    [asked] = graph.get_state(config, subgraphs=True).interrupts
    assert asked.value == "first?"
    graph.invoke(Command(resume="one"), config)
    pruner.prune([thread_id], strategy="keep_latest")
    found = graph.invoke(Command(resume="two"), config)
    inside = [f"in {level}" for level in range(depth, -1, -1)]
    assert found == {"said": ["start", *inside, "one", "two"]}
    pruner.prune([thread_id], strategy="keep_latest")
    assert graph.get_state(config).values == found
    assert len(list(pruner.list(config))) == 1


def test_a_copy_is_named_in_its_metadata(ours: Any, thread_id: str) -> None:
    """Where metadata says which thread it is of, a copy's says its own, so that a filter finds the right one."""
    config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    ours.put(config, empty_checkpoint(), {"source": "input", "step": -1, "thread_id": thread_id}, {})
    ours.copy_thread(thread_id, f"{thread_id}-copy")
    copied = ours.get_tuple({"configurable": {"thread_id": f"{thread_id}-copy"}})
    assert copied.metadata["thread_id"] == f"{thread_id}-copy"
    assert ours.get_tuple(config).metadata["thread_id"] == thread_id
