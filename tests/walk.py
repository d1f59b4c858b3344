"""Counts the files and functions of this package that a turn enters: `python -m tests.walk [--files] [--write]`.

Five walks: a turn that fits, a turn that compacts, a turn whose summary fails, one `put` and one `get_tuple` of the
checkpointer. A file counts where at least one of its functions is called; a comprehension or a lambda is no function.
`--files` names the files of each walk, `--write` puts the counts into docs/architecture.md.
"""

import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph import CompactionSettings, create_compacting_agent
from langgraph_compaction.nodes.testing import ScriptedModel

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
FOLDERS = tuple(f"{ROOT / name}/" for name in ("checkpoint", "graph", "nodes"))
SCRIPTED = f"{ROOT}/nodes/testing.py"
"""The model of these walks, which no user has."""
MARK = re.compile(r"(?<=<!-- walks -->\n).*?(?=<!-- /walks -->)", re.DOTALL)
SUMMARY = "<summary>The user keeps a log of containers, MSKU4001 first; each entry was noted so far.</summary>"
DAYS = 60


@dataclass
class Walk:
    """What was entered, by the path in the project."""

    functions: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def enter(self, code: CodeType) -> None:
        """Count a function, once."""
        path = str(Path(code.co_filename).resolve())
        counts = path.startswith(FOLDERS) and path != SCRIPTED and not code.co_name.startswith("<")
        if counts:
            self.functions.setdefault(str(Path(path).relative_to(ROOT)), set()).add(code.co_qualname)

    @property
    def row(self) -> str:
        """Files, and functions."""
        return f"{len(self.functions)} | {sum(map(len, self.functions.values()))}"


@contextmanager
def walking() -> Iterator[Walk]:
    """Note every function that is called in the block, on this thread and on those that it starts."""
    walk = Walk()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            walk.enter(frame.f_code)

    threading.setprofile_all_threads(note) if sys.version_info >= (3, 12) else threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        threading.setprofile_all_threads(None) if sys.version_info >= (3, 12) else threading.setprofile(None)


def agent(**options: Any) -> Any:
    """An agent with a small window: what is entered does not depend on its size."""
    settings = CompactionSettings(context_window=4_000, summary_backoff_s=0, summary_ahead=False)
    model = ScriptedModel(replies=["Noted."])
    options.setdefault("summarizer", "digest")
    return create_compacting_agent(model, settings=settings, checkpointer=InMemorySaver(), **options)


def plain() -> Walk:
    """The second turn of a thread; the first has set up what is set up once."""
    graph, config = agent(), {"configurable": {"thread_id": "plain"}}
    graph.invoke({"messages": "hello"}, config)
    with walking() as walk:
        graph.invoke({"messages": "hello again"}, config)
    return walk


def compacting(reply: Any) -> Walk:
    """The first turn that reaches the node `selective_compaction`."""
    graph = agent(summarizer=ScriptedModel(replies=[reply]))
    config = {"configurable": {"thread_id": "compacting"}}
    for day in range(DAYS):
        said = f"Day {day}: container MSKU{4000 + day} was lashed again. " + "The sea was calm, the wind light. " * 12
        with walking() as walk:
            graph.invoke({"messages": said}, config)
        if "nodes/selective_compaction.py" in walk.functions:
            return walk
    raise RuntimeError(f"no compaction in {DAYS} turns")


def storing() -> tuple[Walk, Walk]:
    """A second `put` of a thread, and a `get_tuple` of it by another saver, which has read nothing yet."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/walk.db"
        config: Any = {"configurable": {"thread_id": "stored", "checkpoint_ns": ""}}
        with SQLAlchemySaver.from_url(url) as saver:
            saver.setup()
            said = [HumanMessage("hello", id="one")]
            for turn in (1, 2):
                checkpoint = empty_checkpoint() | {"channel_values": {"messages": list(said)}}
                checkpoint["channel_versions"] = {"messages": turn}  # type: ignore[typeddict-item]  # as `put` takes it
                with walking() as put:
                    config = saver.put(config, checkpoint, {}, {"messages": turn})  # type: ignore[arg-type]  # the same
                said.append(HumanMessage("and more", id=f"more-{turn}"))
        with SQLAlchemySaver.from_url(url) as saver, walking() as get:
            found = saver.get_tuple(config)
        assert found is not None
        return put, get


def walks() -> dict[str, Walk]:
    """Every walk, by its name."""
    put, get = storing()
    failed: Callable[[], Walk] = lambda: compacting(RuntimeError("the summarizer is down"))  # noqa: E731
    return {
        "a turn that fits": plain(),
        "a turn that compacts": compacting(SUMMARY),
        "a turn whose summary fails": failed(),
        "one `put`": put,
        "one `get_tuple`": get,
    }


def table(found: dict[str, Walk]) -> str:
    """The counts as Markdown."""
    rows = [f"| {name} | {walk.row} |" for name, walk in found.items()]
    return "\n".join(["| walk | files | functions |", "|---|--:|--:|", *rows]) + "\n"


if __name__ == "__main__":
    found = walks()
    print(table(found), end="")  # noqa: T201 - what was asked for
    if "--files" in sys.argv:
        for name, walk in found.items():
            print(f"\n{name}", *sorted(walk.functions), sep="\n  ")  # noqa: T201 - the same
    if "--write" in sys.argv:
        PAGE.write_text(MARK.sub(lambda _: table(found), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
