"""Messages in checkpoints and writes: of every kind, with and without ids, and changed in place."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.types import Command, Overwrite, Send

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.messages import encode
from langgraph_compaction.checkpoint.messages.message_codec import stored_bytes
from tests.checkpoint.contract.conftest import Opened, shared
from tests.checkpoint.contract.steps import Saver, Steps, values_of, where, writes_of
from tests.checkpoint.listening import listening
from tests.checkpoint.samples import EVERY_KIND, talk

ALL = list(EVERY_KIND.values())
SHAPES: dict[str, Any] = {
    "every kind": ALL,
    "twice the same": [ALL[0], *ALL, *ALL],
    "none": [],
    "without ids": [HumanMessage("a"), AIMessage("b"), HumanMessage("a")],
    "some without ids": [*talk(2), HumanMessage("no id"), *talk(1, start=7)],
    "one": ALL[6],
    "one without an id": AIMessage("b"),
    "among others": ["text", ALL[1], None, 7, ALL[2]],
    "in dicts": {"left": talk(2), "right": {"deep": {"messages": ALL}}, "plain": [1]},
    "in lists": [talk(2), [talk(1), []], []],
    "sent": [Send("node", {"messages": talk(3), "call": {"id": "1"}}), Send("node", ALL[1])],
    "overwrite": Overwrite(talk(2)),
    "command": Command(goto="node", update={"messages": talk(2)}),
    "odd keys": {1: talk(1), None: "x", "": talk(2)},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_messages_come_back_wherever_they_stand(saver: Saver, thread_id: str, shape: str) -> None:
    """Messages in a channel, in a write, in what is sent to a node or deeper come back equal and in order."""
    value = SHAPES[shape]
    head = Steps(saver, thread_id).put({"x": value, "y": talk(3)})
    saver.put_writes(head, [("x", value), ("y", talk(4))], "task")
    assert values_of(saver, head) == {"x": value, "y": talk(3)}
    assert writes_of(saver, head) == [("task", "x", value), ("task", "y", talk(4))]


def test_lists_may_shrink_grow_and_change_their_order(saver: Saver, thread_id: str) -> None:
    """Each checkpoint has its own list, whatever was removed, put in between, replaced or put back."""
    base = talk(400)
    replaced: list[Any] = [HumanMessage("replaced", id="m0"), *base[1:5]]
    lists = [
        base[:100],
        base[:100] + base[120:],
        base[:40] + base[60:],
        [HumanMessage("summary", id="s"), *base[330:]],
        base[:100],
        replaced,
        [base[0], *replaced],
        base[::-1],
        base[::2],
        [*base[::2], *base[1::2], *base],
        [],
        base,
    ]
    steps = Steps(saver, thread_id)
    heads = [steps.put({"messages": value}) for value in lists]
    assert [values_of(saver, head)["messages"] for head in heads] == lists


def test_lists_in_many_pieces_outlive_pruning_and_copying(saver: SQLAlchemySaver, thread_id: str) -> None:
    """A list of which every other message was removed is whole after its past went, in the copy too."""
    steps = Steps(saver, thread_id)
    steps.put({"messages": talk(600)})
    head = steps.put({"messages": talk(600)[::2], "again": talk(600)[::3], "sent": {"messages": talk(600)[1::2]}})
    before = values_of(saver, head)
    assert before == {"messages": talk(600)[::2], "again": talk(600)[::3], "sent": {"messages": talk(600)[1::2]}}
    saver.copy_thread(thread_id, f"{thread_id}-copy")
    saver.prune([thread_id])
    steps.put({"messages": talk(600)[::2][:-1]})
    saver.prune([thread_id])
    assert values_of(saver, where(thread_id)) == before | {"messages": talk(600)[::2][:-1]}
    saver.delete_thread(thread_id)
    assert values_of(saver, where(f"{thread_id}-copy")) == before


def test_puts_at_the_same_time_mix_nothing_up(saver: Saver, thread_id: str) -> None:
    """Branches of a thread that are written at the same time, with messages in common, are each read as put."""
    root = Steps(saver, thread_id).put({"messages": talk(70)})

    def branch(number: int) -> list[tuple[Any, list[Any]]]:
        steps = Steps(saver, thread_id)
        put: list[tuple[Any, list[Any]]] = []
        for count in range(1, 8):
            messages = [*talk(60 + number), *talk(count, start=100 * number)]
            put.append((steps.put({"messages": messages}, on=None if put else root), messages))
        return put

    with ThreadPoolExecutor(4) as pool:
        put = [each for found in pool.map(branch, range(4)) for each in found]
    assert [values_of(saver, config)["messages"] for config, _ in put] == [messages for _, messages in put]


def rich() -> list[AnyMessage]:
    """Return messages with much in them that can be changed in place."""
    return [
        HumanMessage([{"type": "text", "text": "look"}], id="blocks", additional_kwargs={"deep": {"list": [1]}}),
        AIMessage(
            "",
            id="calls",
            tool_calls=[{"name": "read", "args": {"path": "a", "lines": [1]}, "id": "call"}],
            response_metadata={"deep": {"n": 1}},
            usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
        ),
        ToolMessage("42", id="tool", tool_call_id="call", artifact={"rows": [1]}),
    ]


def _content(messages: list[Any]) -> None:
    messages[2].content = "43"


def _block(messages: list[Any]) -> None:
    messages[0].content[0]["text"] = "changed"


def _call(messages: list[Any]) -> None:
    messages[1].tool_calls.append({"name": "write", "args": {}, "id": "call_2", "type": "tool_call"})


def _kwargs(messages: list[Any]) -> None:
    messages[0].additional_kwargs["deep"]["list"].append(2)


def _true_for_one(messages: list[Any]) -> None:
    messages[1].response_metadata["deep"]["n"] = True


def _float_for_one(messages: list[Any]) -> None:
    messages[1].tool_calls[0]["args"]["lines"][0] = 1.0


def _artifact(messages: list[Any]) -> None:
    messages[2].artifact["rows"].append(2)


def _id(messages: list[Any]) -> None:
    messages[0].id = "another"


def _swapped(messages: list[Any]) -> None:
    messages[0], messages[1] = messages[1], messages[0]


CHANGES = [_content, _block, _call, _kwargs, _true_for_one, _float_for_one, _artifact, _id, _swapped]
Change = Callable[[list[Any]], None]


def same(left: Any, right: Any) -> bool:
    """Say whether two lists of messages are equal to the last type: True is not 1."""
    return repr(left) == repr(right)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__[1:])
@pytest.mark.parametrize("grown", [False, True], ids=["same list", "grown copy"])
def test_a_message_changed_in_place_is_stored_changed(
    saver: Saver, thread_id: str, change: Change, grown: bool
) -> None:
    """A node that changes an old message in place finds the change in the next checkpoint, and not in the last."""
    messages: list[Any] = [*talk(70), *rich(), *talk(5, start=70)]
    steps = Steps(saver, thread_id)
    first = steps.put({"messages": messages})
    part = messages[70:73]
    change(part)
    messages[70:73] = part
    second = [*messages, HumanMessage("next", id="next")] if grown else messages
    later = steps.put({"messages": second})
    assert same(values_of(saver, later)["messages"], second)
    assert same(values_of(saver, first)["messages"], [*talk(70), *rich(), *talk(5, start=70)])


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__[1:])
@pytest.mark.parametrize("written", [False, True], ids=["read", "written"])
def test_a_message_that_was_read_or_written_and_changed_is_stored_changed(
    saver: Saver, thread_id: str, change: Change, written: bool
) -> None:
    """What a node changes in the messages that were loaded for it, or that it wrote, is in the next checkpoint."""
    steps = Steps(saver, thread_id)
    first = steps.put({"messages": rich()})
    messages = rich() if written else values_of(saver, first)["messages"]
    saver.put_writes(first, [("messages", messages)], "task")
    change(messages)
    later = steps.put({"messages": [*messages, *talk(1)]})
    expected = rich()
    change(expected)
    assert same(values_of(saver, later)["messages"], [*expected, *talk(1)])
    assert same(values_of(saver, first)["messages"], rich())
    assert same(writes_of(saver, first), [("task", "messages", rich())])


def test_a_change_while_a_put_runs_is_not_lost(saver: SQLAlchemySaver, thread_id: str) -> None:
    """A message that is changed in the middle of a put is stored changed by the next one at the latest."""
    messages: list[Any] = talk(4)
    steps = Steps(saver, thread_id)

    def change(*_arguments: object) -> None:
        messages[1].content = "changed meanwhile"

    with listening(saver.database.engine, "before_cursor_execute", change):
        steps.put({"messages": messages})
    messages.append(HumanMessage("next", id="next"))
    assert values_of(saver, steps.put({"messages": messages}))["messages"] == messages


@pytest.mark.parametrize("changed", [0, 3, 4], ids=["known", "last known", "new"])
def test_a_change_between_two_looks_at_a_message_is_not_lost(
    saver: SQLAlchemySaver, thread_id: str, monkeypatch: pytest.MonkeyPatch, changed: int
) -> None:
    """Another OS thread changes a message just when a new one of the same list was serialized."""
    messages: list[Any] = talk(4)
    steps = Steps(saver, thread_id)
    steps.put({"messages": messages})
    messages.append(HumanMessage("next", id="next"))

    def late(message: Any) -> bytes:
        data = stored_bytes(message)
        messages[changed].content = "changed meanwhile"
        return data

    with monkeypatch.context() as patch:
        patch.setattr(encode, "stored_bytes", late)
        steps.put({"messages": messages})
    assert values_of(saver, steps.put({"messages": messages}))["messages"] == messages


def test_a_clone_and_its_origin_know_the_same(saver: Saver, thread_id: str) -> None:
    """A saver and the copy that `with_allowlist` makes may be used in turn, also on messages changed in place."""
    clone = saver.with_allowlist([("decimal", "Context")])
    assert clone is not saver
    messages = rich()
    steps, others = Steps(saver, thread_id), Steps(clone, thread_id)
    head = steps.put({"messages": messages})
    messages[0].additional_kwargs["deep"]["list"].append(2)
    head = others.put({"messages": messages}, on=head)
    assert values_of(saver, head)["messages"] == messages
    messages[2].content = "again"
    messages.append(talk(1)[0])
    head = steps.put({"messages": messages}, on=head)
    assert values_of(clone, head)["messages"] == messages


@shared
@pytest.mark.parametrize("erase", ["delete_thread", "prune"])
def test_another_saver_may_erase_what_this_one_remembers(opened: Opened, thread_id: str, erase: str) -> None:
    """A thread that was erased or pruned through another connection is stored whole again, not by what is gone."""
    one, other = opened(), opened()
    messages = talk(80)
    steps = Steps(one, thread_id)
    steps.put({"messages": messages})
    steps.put({"messages": []})
    if erase == "prune":
        other.prune([thread_id])
    else:
        other.delete_thread(thread_id)
        Steps(other, thread_id).put({"messages": talk(3, start=500)})
        steps = Steps(one, thread_id)  # a new run: what the earlier one still writes is refused
    for batch in (messages, [*messages, *talk(1, start=90)]):
        head = steps.put({"messages": batch})
        assert values_of(one, head)["messages"] == values_of(other, head)["messages"] == batch
