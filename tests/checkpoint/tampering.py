"""Rows written behind the saver's back."""

import json
import pickle
from collections.abc import Iterator
from typing import Any

import ormsgpack
import sqlalchemy as sa
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde import jsonplus

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.checkpoint.compaction.attempt import Outcome, SummaryRecord
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.messages.items import HASH_BYTES
from langgraph_compaction.checkpoint.usage import Usage
from tests.checkpoint.samples import key_of, opening

MARKER = "the secret of the white rabbit"
_item = tables.item.c
TABLES: dict[str, tuple[sa.Table, sa.ColumnElement[bool]]] = {
    "message": (tables.item, (_item.seq >= 0) & (sa.func.length(_item.hashes) == HASH_BYTES)),
    "messages": (tables.item, sa.func.length(_item.hashes) > HASH_BYTES),
    "value": (tables.item, _item.seq < 0),
    "checkpoint": (tables.checkpoint, sa.true()),
    "write": (tables.write, sa.true()),
}
"""Kinds of rows that have a sealed body, and that `fill` writes: the table, and which of its rows are of the kind."""


def config_of(thread: str) -> RunnableConfig:
    """The config of a thread's newest checkpoint."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


def conversation(thread: str, count: int) -> list[BaseMessage]:
    """Messages of a thread of its own, each with the marker."""
    kinds = (HumanMessage, AIMessage)
    return [kinds[n % 2](f"{thread} {n}: {MARKER}", id=f"{thread}-{n}") for n in range(count)]


def fill(saver: Any, thread: str, checkpoints: int = 2) -> None:
    """Give a thread a pack, loose messages, values, checkpoints, and two tasks' writes on each of these."""
    parent: dict[str, Any] = {}
    for number in range(1, checkpoints + 1):
        values = {
            "messages": conversation(thread, 194 + number),
            "short": [MARKER, number],
            "long": {"text": f"{thread} {number} {MARKER} " * 20},
        }
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = values
        checkpoint["channel_versions"] = dict.fromkeys(values, number)
        config = {"configurable": {**config_of(thread)["configurable"], **parent}}
        metadata = {"source": "loop", "step": number, "note": MARKER}
        stored = saver.put(config, checkpoint, metadata, checkpoint["channel_versions"])
        parent = {"checkpoint_id": stored["configurable"]["checkpoint_id"]}
        for task in ("task-1", "task-2"):
            answer = AIMessage(f"{task} {MARKER}", id=f"{thread}-{number}-{task}")
            writes = [("messages", [answer]), ("short", f"{task} {MARKER}"), ("long", f"{task} {MARKER} " * 30)]
            saver.put_writes(stored, writes, task)


def fill_records(saver: Any, thread: str) -> None:
    """Give a thread a snapshot, a summary, a ledger row and an archive."""
    records = CompactionRecords(saver.database)
    messages = conversation(f"{thread}-records", 5)
    key = key_of(thread, messages)
    records.begin(key, messages, now=1.0, **opening())
    records.record_summary(
        key, SummaryRecord("ab" * 16, f"summary: {MARKER}", "model", Usage(calls=1, input_tokens=9))
    )
    outcome = Outcome(verdict="committed", now=2.0, detail=MARKER, summary=f"summary: {MARKER}", seen={"m": "full"})
    records.commit(key, outcome, archived=messages[:2])


def read(saver: Any, thread: str = "t") -> list[Any]:
    """All that a thread holds, by every way of reading."""
    listed = list(saver.list({"configurable": {"thread_id": thread}}))
    newest = saver.get_tuple(config_of(thread))
    assert newest == listed[0]
    return listed


def rows(saver: Any, name: str) -> list[sa.Row[Any]]:
    """Every row of a kind, in the order of its key."""
    table, chosen = TABLES[name]
    with saver.database.read() as conn:
        return list(conn.execute(sa.select(table).where(chosen).order_by(*table.primary_key)))


def overwrite(saver: Any, name: str, row: sa.Row[Any], **values: object) -> None:
    """Change columns of one row."""
    table, _ = TABLES[name]
    with saver.database.write() as conn:
        is_row = sa.and_(*(column == getattr(row, column.name) for column in table.primary_key))
        assert conn.execute(sa.update(table).where(is_row).values(values)).rowcount == 1


def damages(body: bytes) -> Iterator[tuple[str, bytes]]:
    """A body cut off, made longer, and with a bit flipped in each of its regions."""
    for length in sorted({0, 1, 5, 9, 10, len(body) // 2, len(body) - 1}):
        yield f"cut to {length} bytes", body[:length]
    yield "made longer", body + b"\x00"
    for at in sorted({0, 1, 4, 8, 9, 10, 13, 21, len(body) // 2, len(body) - 2, len(body) - 1}):
        for bit in (0, 7):
            changed = bytearray(body)
            changed[at] ^= 1 << bit
            yield f"bit {bit} of byte {at} of {len(body)} flipped", bytes(changed)


class Canary:
    """A module that leaves a file behind when it is imported or its class is built."""

    def __init__(self, folder: Any) -> None:
        self.name = "canary_in_the_mine"
        self.file = folder / "it-sang"
        (folder / f"{self.name}.py").write_text(
            f"import pathlib\nFILE = pathlib.Path({str(self.file)!r})\nFILE.write_text('imported')\n"
            "class Canary:\n"
            "    def __init__(self, *_, **__): FILE.write_text('built')\n"
            "    @classmethod\n"
            "    def sing(cls, *_): FILE.write_text('called')\n"
            "    construct = model_construct = parse_obj = from_iterable = sing\n"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.file), "w")

    def payloads(self) -> Iterator[tuple[str, tuple[str, bytes]]]:
        """What someone might write to have it run: names, and the tagged bytes."""
        touch = f"touch {self.file}"
        codes = (
            jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG,
            jsonplus.EXT_CONSTRUCTOR_POS_ARGS,
            jsonplus.EXT_CONSTRUCTOR_KW_ARGS,
            jsonplus.EXT_METHOD_SINGLE_ARG,
            jsonplus.EXT_PYDANTIC_V1,
            jsonplus.EXT_PYDANTIC_V2,
        )
        for code in codes:
            held = extension(code, self.name, "Canary", {}, "sing")
            yield f"a class, extension {code}", ("msgpack", ormsgpack.packb(held))
            human = extension(
                jsonplus.EXT_PYDANTIC_V2,
                "langchain_core.messages.human",
                "HumanMessage",
                {"content": "x", "type": "human", "id": "x", "additional_kwargs": {"deep": [held]}},
                "model_validate_json",
            )
            yield f"inside a message, extension {code}", ("msgpack", ormsgpack.packb(human))
            yield f"inside a dict, extension {code}", ("msgpack", ormsgpack.packb({"deep": [{"er": held}]}))
        for code, argument in ((codes[0], touch), (codes[1], [touch]), (codes[3], touch)):
            for module, name in (("os", "system"), ("builtins", "eval"), ("subprocess", "getoutput")):
                held = extension(code, module, name, argument, "__call__")
                yield f"{module}.{name}, extension {code}", ("msgpack", ormsgpack.packb(held))
        human = extension(
            codes[3],
            "langchain_core.messages.human",
            "HumanMessage",
            f"__import__('os').system({touch!r})",
            "parse_raw",
        )
        yield "a method of a message", ("msgpack", ormsgpack.packb(human))
        pickled = pickle.dumps(self)
        yield "pickle", ("pickle", pickled)
        yield "pickle under another name", ("msgpack", pickled)
        constructor = {
            "lc": 2,
            "type": "constructor",
            "id": [self.name, "Canary"],
            "method": [None, "sing"],
            "args": [],
        }
        yield "constructor, JSON", ("json", json.dumps(constructor).encode())
        yield "constructor, LangChain", ("json", json.dumps({**constructor, "lc": 1, "kwargs": {}}).encode())
        yield "a form of its own", (self.name, b"x")


def extension(code: int, *parts: object) -> Any:
    """What LangGraph's serializer writes for an object."""
    return ormsgpack.Ext(code, ormsgpack.packb(parts))
