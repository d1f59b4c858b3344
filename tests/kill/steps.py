"""Random calls of a saver that may be killed, and a reference that holds what must be there afterwards."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.messages import items
from tests.checkpoint.contract.steps import checkpoint, where
from tests.checkpoint.happenings import shown
from tests.checkpoint.reference import Reference

THREADS = ("a", "b", "c")
COPIES = ("copy-1", "copy-2")
NAMESPACES = ("", "", "sub")
SENTENCE = "a sentence of some length, said in the course of a conversation; "


@dataclass(frozen=True)
class Step:
    """One call of a saver."""

    method: str
    arguments: tuple[Any, ...]
    keep_last: int | None = None

    def run(self, saver: Any) -> None:
        """Make the call, of a saver or of the reference."""
        options = {} if self.keep_last is None else {"keep_last": self.keep_last}
        getattr(saver, self.method)(*self.arguments, **options)

    def after(self, model: Reference) -> Reference:
        """Return what is there after the call."""
        model = model.copy()
        self.run(model)
        return model


def steps(chance: random.Random, model: Reference, number: int) -> Iterator[tuple[Step, Reference]]:
    """Yield calls without end, each with what is there after it; the same for the same seed and beginning."""
    makers = (*[put] * 8, *[write] * 4, *[prune, copy, delete] * 2)
    while True:
        number += 1
        step = chance.choice(makers)(chance, model, number)
        model = step.after(model)
        yield step, model


def put(chance: random.Random, model: Reference, number: int) -> Step:
    """Put a checkpoint after the newest of its namespace, seldom after an older one."""
    thread, ns = chance.choice(THREADS), chance.choice(NAMESPACES)
    there = [key for key in model.kept if key[:2] == (thread, ns)]
    parent = chance.choice([there[-1]] * 9 + there) if there else None
    old: dict[str, Any] = model.kept[parent].checkpoint["channel_values"] if parent else {}
    values = {**old, "messages": grown(chance, old.get("messages", []), number), "count": number}
    if chance.random() < 0.3:
        values["note"] = {"text": SENTENCE * chance.randint(1, 40), "tags": [number, None, True]}
    versions = dict.fromkeys(values, number)
    written = checkpoint(values, versions, f"1f000000-0000-6000-8000-{number:012x}")
    config = where(thread, parent.id if parent else None, namespace=ns)
    return Step("put", (config, written, {"source": "loop", "step": number, "parents": {}}, versions))


def grown(chance: random.Random, messages: list[BaseMessage], number: int) -> list[BaseMessage]:
    """Return the list with more items, as after a turn; seldom cut to its end, as after a compaction."""
    kept = messages
    if len(messages) > 20 and chance.random() < 0.1:
        kept = [HumanMessage(f"summary {number}", id=f"s-{number}"), *messages[-5:]]
    kinds = (HumanMessage, AIMessage)
    texts = [f"{number}-{n} {SENTENCE * chance.randint(1, 12)}" for n in range(chance.choice((1, 4, 9, 24, 90)))]
    return [*kept, *(kinds[n % 2](text, id=f"m-{number}-{n}") for n, text in enumerate(texts))]


def write(chance: random.Random, model: Reference, number: int) -> Step:
    """Put the writes of one task of a checkpoint, which may have written before."""
    if not model.kept:
        return put(chance, model, number)
    key = chance.choice(list(model.kept))
    values = [
        AIMessage(f"{number}-{n} {SENTENCE}", id=f"w-{number}-{n}") if n % 2 else {"found": [number, SENTENCE * n]}
        for n in range(chance.randint(2, 6))
    ]
    task = chance.choice(["task", f"task-{number}", f"task-{number}"])
    writes = [(f"channel-{n}", value) for n, value in enumerate(values)]
    return Step("put_writes", (where(key.thread, key.id, namespace=key.ns), writes, task, f"~path of {task}"))


def prune(chance: random.Random, _model: Reference, _number: int) -> Step:
    """Prune old checkpoints of one thread."""
    return Step("prune", ([chance.choice(THREADS)],), keep_last=chance.choice((1, 2, 5)))


def copy(chance: random.Random, model: Reference, number: int) -> Step:
    """One thread becomes another, which is not there yet."""
    taken = {key.thread for key in model.kept}
    free = [name for name in COPIES if name not in taken]
    return Step("copy_thread", (chance.choice(THREADS), free[0])) if free else delete(chance, model, number)


def delete(chance: random.Random, _model: Reference, _number: int) -> Step:
    """Delete a whole thread."""
    return Step("delete_thread", (chance.choice((*THREADS, *COPIES, *COPIES)),))


def found(saver: Any) -> dict[str, Any]:
    """Return all that a saver, or the reference, holds of every thread: the newest ones, and all that are listed."""
    return {
        thread: [
            *(shown(saver.get_tuple(where(thread, namespace=ns))) for ns in sorted(set(NAMESPACES))),
            *map(shown, saver.list({"configurable": {"thread_id": thread}})),
        ]
        for thread in (*THREADS, *COPIES)
    }


def torn(saver: Any) -> list[str]:
    """Return torn rows: of a missing thread, without their items, or with items that were never numbered."""
    problems: list[str] = []
    with saver.database.read() as conn:
        there = set(conn.execute(sa.select(tables.thread.c.id)).scalars())
        for table in tables.METADATA.sorted_tables:
            if "thread" in table.c:
                owners = set(conn.execute(sa.select(table.c.thread).distinct()).scalars())
                problems += [f"{table.name} of thread {owner}" for owner in sorted(owners - there)]
        for name in conn.execute(sa.select(tables.thread.c.thread_id)).scalars().all():
            thread = saver.store.threads.find(conn, name, lock=False)
            named = set(items.read_hashes(conn, thread).values())
            held: dict[int, bytes] = {}
            items.open_rows(thread.codec, items.all_rows(conn, thread), held)
            strange = [seq for seq in held if not -1 - thread.next_value < seq < thread.next_seq]
            problems += [f"item {seq} of thread {name}" for seq in sorted({*named ^ held.keys(), *strange})]
    return problems
