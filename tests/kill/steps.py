"""Random calls of a saver that may be killed, and a model of the data that must be there afterwards."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint

from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.messages import message_blocks

THREADS = ("a", "b", "c")
COPIES = ("copy-1", "copy-2")
NAMESPACES = ("", "", "sub")
SENTENCE = "a sentence of some length, said in the course of a conversation; "

Place = tuple[str, str]
"""Namespace and id of a checkpoint."""


@dataclass(frozen=True)
class Entry:
    """An acknowledged checkpoint, with the writes of each task."""

    values: dict[str, Any]
    versions: dict[str, int]
    parent: str | None
    step: int
    writes: dict[str, tuple[str, list[tuple[str, Any]]]] = field(default_factory=dict[str, Any])


Thread = dict[Place, Entry]
Model = dict[str, Thread]
"""Threads by id, with their checkpoints in the order of writing."""


@dataclass(frozen=True)
class Step:
    """One call of a saver, and its effect on the model."""

    name: str
    run: Callable[[Any], object]
    apply: Callable[[Model], Model]


def steps(chance: random.Random, model: Model, number: int) -> Iterator[tuple[Step, Model]]:
    """Yield calls without end, each with the model after it; deterministic for the same seed and model."""
    makers = (*[put] * 8, *[write] * 4, *[prune, copy, delete] * 2)
    while True:
        number += 1
        step = chance.choice(makers)(chance, model, number)
        model = step.apply(model)
        yield step, model


def config_of(thread: str, place: tuple[str, str | None]) -> RunnableConfig:
    """The config that names a checkpoint."""
    ns, checkpoint_id = place
    named = {} if checkpoint_id is None else {"checkpoint_id": checkpoint_id}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, **named}}


def put(chance: random.Random, model: Model, number: int) -> Step:
    """Put a checkpoint after the newest of its namespace, seldom after an older one."""
    thread, ns = chance.choice(THREADS), chance.choice(NAMESPACES)
    there = [name for space, name in model.get(thread, {}) if space == ns]
    parent = None if not there else chance.choice([there[-1]] * 9 + there)
    old = model[thread][ns, parent] if parent else Entry(values={}, versions={}, parent=None, step=-1)
    messages = grown(chance, old.values.get("messages", []), number)
    values = {**old.values, "messages": messages, "count": number}
    changed = {"messages": number, "count": number}
    if chance.random() < 0.3:
        values["note"] = {"text": SENTENCE * chance.randint(1, 40), "tags": [number, None, True]}
        changed["note"] = number
    versions = {**old.versions, **changed}
    entry = Entry(values, versions, parent, old.step + 1)
    name = f"1f000000-0000-6000-8000-{number:012x}"
    checkpoint = Checkpoint(
        v=4,
        id=name,
        ts="2026-11-22T00:00:00+00:00",
        channel_values=values,
        channel_versions=dict(versions),
        versions_seen={"node": dict(old.versions)},
        updated_channels=sorted(changed),
    )
    metadata = {"source": "loop", "step": entry.step, "parents": {}}
    return Step(
        f"put {thread} {ns!r}",
        lambda saver: saver.put(config_of(thread, (ns, parent)), checkpoint, metadata, changed),
        lambda known: {**known, thread: {**known.get(thread, {}), (ns, name): entry}},
    )


def grown(chance: random.Random, messages: list[BaseMessage], number: int) -> list[BaseMessage]:
    """Return the list with more items, as after a turn; seldom cut to its end, as after a compaction."""
    kept = messages
    if len(messages) > 20 and chance.random() < 0.1:
        kept = [HumanMessage(f"summary {number}", id=f"s-{number}"), *messages[-5:]]
    kinds = (HumanMessage, AIMessage)
    texts = [f"{number}-{n} {SENTENCE * chance.randint(1, 12)}" for n in range(chance.choice((1, 4, 9, 24, 90)))]
    return [*kept, *(kinds[n % 2](text, id=f"m-{number}-{n}") for n, text in enumerate(texts))]


def write(chance: random.Random, model: Model, number: int) -> Step:
    """Put the writes of one task of a checkpoint, seldom of a task that has written before."""
    if not any(model.values()):
        return put(chance, model, number)
    thread = chance.choice([name for name, held in model.items() if held])
    place = chance.choice(list(model[thread]))
    written = model[thread][place].writes
    again = bool(written) and chance.random() < 0.2
    task = chance.choice(list(written)) if again else f"task-{number}"
    path = written[task][0] if again else f"~{chance.randint(0, 99):02}"
    count = len(written[task][1]) if again else chance.randint(2, 6)
    values = [
        AIMessage(f"{number}-{n} {SENTENCE}", id=f"w-{number}-{n}") if n % 2 else {"found": [number, SENTENCE * n]}
        for n in range(count)
    ]
    writes = [(f"channel-{n}", value) for n, value in enumerate(values)]

    def apply(known: Model) -> Model:
        entry = known[thread][place]
        first = {**entry.writes, task: entry.writes.get(task, (path, writes))}
        told = Entry(entry.values, entry.versions, entry.parent, entry.step, first)
        return {**known, thread: {**known[thread], place: told}}

    return Step(
        f"put_writes {thread} {task}",
        lambda saver: saver.put_writes(config_of(thread, place), writes, task, path),
        apply,
    )


def prune(chance: random.Random, _model: Model, _number: int) -> Step:
    """Prune old checkpoints of one thread."""
    thread, keep = chance.choice(THREADS), chance.choice((None, 2, 5))

    def apply(known: Model) -> Model:
        held = known.get(thread, {})
        kept = {place for ns in NAMESPACES for place in [place for place in held if place[0] == ns][-(keep or 1) :]}
        return {**known, thread: {place: entry for place, entry in held.items() if place in kept}}

    return Step(f"prune {thread} {keep}", lambda saver: saver.prune([thread], keep_last=keep), apply)


def copy(chance: random.Random, model: Model, number: int) -> Step:
    """One thread becomes another, which is not there yet."""
    free = [name for name in COPIES if not model.get(name)]
    if not free:
        return delete(chance, model, number)
    thread, target = chance.choice(THREADS), chance.choice(free)
    return Step(
        f"copy_thread {thread} {target}",
        lambda saver: saver.copy_thread(thread, target),
        lambda known: {**known, target: known.get(thread, {})},
    )


def delete(chance: random.Random, _model: Model, _number: int) -> Step:
    """Delete a whole thread."""
    thread = chance.choice((*THREADS, *COPIES, *COPIES))
    return Step(
        f"delete_thread {thread}",
        lambda saver: saver.delete_thread(thread),
        lambda known: {**known, thread: {}},
    )


def found(saver: Any) -> dict[str, dict[str, Any]]:
    """Return the saver's data of every thread, in the form of `expected`; a list must begin with the head."""
    return {thread: seen(saver, thread) for thread in (*THREADS, *COPIES)}


def differing(left: dict[str, dict[str, Any]], right: dict[str, dict[str, Any]]) -> list[str]:
    """Describe the difference of two results, briefly."""
    return [
        f"{thread} {place} {sorted(key for key in one | other if one.get(key) != other.get(key))}"
        for thread in left
        for place in sorted(left[thread] | right[thread])
        if (one := left[thread].get(place, {})) != (other := right[thread].get(place, {}))
    ]


def torn(saver: Any) -> list[str]:
    """Return orphaned rows: rows of a missing thread, a body without a hash, a hash without a body."""
    problems: list[str] = []
    with saver.database.read() as conn:
        there = set(conn.execute(sa.select(tables.thread.c.id)).scalars())
        for table in tables.METADATA.sorted_tables:
            if "thread" in table.c:
                owners = set(conn.execute(sa.select(table.c.thread).distinct()).scalars())
                problems += [f"{table.name} of thread {owner}" for owner in sorted(owners - there)]
        for name in conn.execute(sa.select(tables.thread.c.thread_id)).scalars().all():
            thread = saver.store.find(conn, name, lock=False)
            for table, bodies in (
                (tables.hash_, message_blocks.in_blocks),
                (tables.message, message_blocks.in_single_rows),
            ):
                ours = sa.and_(table.c.thread == thread.id, table.c.hash.is_not(None))
                named = set(conn.execute(sa.select(table.c.seq).where(ours)).scalars())
                held = {seq for seq, _ in bodies(conn, thread)}
                problems += [f"message {seq} of thread {name}" for seq in sorted(named ^ held)]
    return problems


def seen(saver: Any, thread: str) -> dict[str, Any]:
    """Return the saver's data of one thread."""
    checkpoints: dict[str, Any] = {}
    heads: dict[str, str] = {}
    for held in saver.list({"configurable": {"thread_id": thread}}):
        named = held.config["configurable"]
        ns, name = named["checkpoint_ns"], named["checkpoint_id"]
        heads.setdefault(ns, name)
        checkpoints[f"{ns}/{name}"] = {
            "values": held.checkpoint["channel_values"],
            "versions": held.checkpoint["channel_versions"],
            "step": held.metadata["step"],
            "parent": held.parent_config and held.parent_config["configurable"]["checkpoint_id"],
            "writes": held.pending_writes,
        }
    for ns in sorted(set(NAMESPACES)):
        head = saver.get_tuple(config_of(thread, (ns, None)))
        assert (head and head.config["configurable"]["checkpoint_id"]) == heads.get(ns)
    return checkpoints


def expected(model: Model) -> dict[str, dict[str, Any]]:
    """Return the result of `found` that a model requires."""
    return {thread: told(model.get(thread, {})) for thread in (*THREADS, *COPIES)}


def told(thread: Thread) -> dict[str, Any]:
    """Return the result of `seen` that one thread requires; a pruned parent counts as none."""
    return {
        f"{ns}/{name}": {
            "values": entry.values,
            "versions": entry.versions,
            "step": entry.step,
            "parent": entry.parent if (ns, entry.parent) in thread else None,
            "writes": [
                (task, channel, value)
                for _, task, writes in sorted((path, task, writes) for task, (path, writes) in entry.writes.items())
                for channel, value in writes
            ],
        }
        for (ns, name), entry in thread.items()
    }
