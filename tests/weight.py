"""Prints what the project weighs: `python -m tests.weight [--files]`.

A file or a class counts as entered where at least one of its functions is called; a comprehension or a lambda is no
function. `--files` names the files and classes of each walk.
"""

import ast
import io
import sys
import tempfile
import threading
import tokenize
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction import CompactionMiddleware, create_compaction_graph
from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph import CompactionSettings, create_compacting_agent
from langgraph_compaction.graph.cli.main import COMMANDS
from langgraph_compaction.nodes.config.policies import POLICIES
from langgraph_compaction.nodes.testing import ScriptedModel

ROOT: Final = Path(__file__).parents[1]
PRODUCT = ("checkpoint", "graph", "nodes", "package")
EXTRAS = ("graph/cli", "graph/inspector", "graph/lab")
FOLDERS = tuple(f"{ROOT / name}/" for name in PRODUCT)
SCRIPTED = f"{ROOT}/nodes/testing.py"
"""The model of the walks, which no user has."""
GENERATED = {"requirements.md", "settings.md"}
SUMMARY = "<summary>The user keeps a log of containers, MSKU4001 first; each entry was noted so far.</summary>"
DAYS = 60

BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


@dataclass
class Walk:
    """What was entered."""

    files: set[str] = field(default_factory=set[str])
    functions: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    classes: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def enter(self, code: CodeType) -> None:
        """Count a function, its file, and its class if it is a method."""
        path = str(Path(code.co_filename).resolve())
        if not path.startswith(FOLDERS) or path == SCRIPTED or code.co_name.startswith("<"):
            return
        file = str(Path(path).relative_to(ROOT))
        self.files.add(file)
        self.functions.add((file, code.co_qualname))
        owner, method, _ = code.co_qualname.partition(".")
        if method and not code.co_qualname.startswith(f"{owner}.<locals>"):
            self.classes.add((file, owner))

    def __str__(self) -> str:
        return f"{len(self.files)} / {len(self.functions)} / {len(self.classes)}"


@contextmanager
def walking() -> Iterator[Walk]:
    """Note every function that is called in the block, on this thread and on those that it starts."""
    walk = Walk()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            walk.enter(frame.f_code)

    profile_threads: Callable[[Any], None] = getattr(threading, "setprofile_all_threads", threading.setprofile)
    profile_threads(note)
    sys.setprofile(note)
    try:
        yield walk
    finally:
        sys.setprofile(None)
        profile_threads(None)


def agent(**options: Any) -> Any:
    """An agent with a small window: what is entered does not depend on its size."""
    settings = CompactionSettings(context_window=4_000, summary_ahead=False)
    model = ScriptedModel(replies=["Noted."])
    options.setdefault("summarizer", "digest")
    return create_compacting_agent(model, settings=settings, checkpointer=InMemorySaver(), **options)


def plain_turn() -> Walk:
    """The second turn of a thread; the first has set up what is set up once."""
    graph, config = agent(), {"configurable": {"thread_id": "plain"}}
    graph.invoke({"messages": "hello"}, config)
    with walking() as walk:
        graph.invoke({"messages": "hello again"}, config)
    return walk


def compacting_turn(reply: Any) -> Walk:
    """The first turn that reaches the node `selective_compaction`."""
    graph = agent(summarizer=ScriptedModel(replies=[reply]))
    config = {"configurable": {"thread_id": "compacting"}}
    for day in range(DAYS):
        text = f"Day {day}: container MSKU{4000 + day} was lashed again. " + "The sea was calm, the wind light. " * 12
        with walking() as walk:
            graph.invoke({"messages": text}, config)
        if "nodes/selective_compaction.py" in walk.files:
            return walk
    raise RuntimeError(f"no compaction in {DAYS} turns")


def put_and_get() -> tuple[Walk, Walk]:
    """A second `put` of a thread, and a `get_tuple` of it by another saver, which has read nothing yet."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/walk.db"
        config: Any = {"configurable": {"thread_id": "stored", "checkpoint_ns": ""}}
        with SQLAlchemySaver.from_url(url) as saver:
            saver.setup()
            messages = [HumanMessage("hello", id="first")]
            for turn in (1, 2):
                checkpoint: Any = empty_checkpoint() | {"channel_values": {"messages": list(messages)}}
                checkpoint["channel_versions"] = {"messages": turn}
                with walking() as put:
                    config = saver.put(config, checkpoint, {}, {"messages": turn})
                messages.append(HumanMessage("and more", id=f"more-{turn}"))
        with SQLAlchemySaver.from_url(url) as saver, walking() as get:
            saver.get_tuple(config)
        return put, get


def walks() -> dict[str, Walk]:
    """Every walk, by its name."""
    put, get = put_and_get()
    return {
        "a plain turn": plain_turn(),
        "a compacting turn": compacting_turn(SUMMARY),
        "a turn whose summary fails": compacting_turn(RuntimeError("the summarizer is down")),
        "one `put`": put,
        "one `get_tuple`": get,
    }


def sources(*folders: str, without: tuple[str, ...] = ()) -> list[Path]:
    """The Python files of these folders."""
    left_out = tuple(f"{ROOT / name}/" for name in without)
    return [
        path
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not str(path).startswith(left_out)
    ]


def lines(*folders: str, without: tuple[str, ...] = ()) -> str:
    """Lines of these folders, as `wc -l` counts them."""
    return f"{sum(len(path.read_text('utf-8').splitlines()) for path in sources(*folders, without=without)):,}"


def words() -> str:
    """Words of the pages that people write."""
    pages = [
        *(path for path in (ROOT / "docs").rglob("*.md") if path.name not in GENERATED),
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    ]
    return f"{sum(len(path.read_text(encoding='utf-8').split()) for path in pages):,}"


def tokens_a_line() -> str:
    """Tokens of code for each line that has any; comments and docstrings are no code."""
    tokens, code_lines = 0, 0
    for path in sources(*PRODUCT):
        text = path.read_text(encoding="utf-8")
        documented = {line for node in ast.walk(ast.parse(text)) for line in _docstring(node)}
        found = [
            token.start[0]
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type not in NO_CODE and token.start[0] not in documented
        ]
        tokens, code_lines = tokens + len(found), code_lines + len(set(found))
    return f"{tokens / code_lines:.2f}"


def _docstring(node: ast.AST) -> range:
    """The lines of a text that stands as a statement."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)


def longest_function() -> str:
    """The function with the most lines."""
    length, name = max(
        ((node.end_lineno or 0) - node.lineno + 1, f"`{node.name}` in {path.relative_to(ROOT)}")
        for path in sources(*PRODUCT)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, FUNCTIONS)
    )
    return f"{length} lines: {name}"


def deepest_nesting() -> str:
    """The function with the most blocks inside one another."""
    depth, name = max(
        (_depth(node), f"`{node.name}` in {path.relative_to(ROOT)}")
        for path in sources(*PRODUCT)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, FUNCTIONS)
    )
    return f"{depth}: {name}"


def _depth(node: ast.AST) -> int:
    inside = list(ast.iter_child_nodes(node))
    elifs = [inside.pop()] if isinstance(node, ast.If) and [type(one) for one in node.orelse] == [ast.If] else []
    own = max(map(_depth, inside), default=0) + isinstance(node, BLOCKS)
    return max([own, *map(_depth, elifs)])


def arguments() -> str:
    """How many arguments each of the three builders takes."""
    builders = (create_compacting_agent, create_compaction_graph, CompactionMiddleware)
    return " / ".join(str(len(signature(builder).parameters)) for builder in builders)


def table(found: dict[str, Walk]) -> Iterator[tuple[str, object]]:
    """Every figure, by its name."""
    yield "product, lines", lines(*PRODUCT)
    yield "of it checkpoint", lines("checkpoint")
    yield "of it nodes", lines("nodes")
    yield "of it graph without cli, inspector and lab", lines("graph", without=EXTRAS)
    yield "of it cli, inspector and lab", lines(*EXTRAS)
    yield from ((f"files / functions / classes of {name}", walk) for name, walk in found.items())
    yield "settings that every policy shares", len(CompactionSettings.model_fields)
    yield "settings of one policy, at most", max(len(policy.model_fields) for policy in POLICIES.values())
    yield "arguments of the three builders", arguments()
    yield "commands", len(COMMANDS)
    yield "tests, lines", lines("tests")
    yield "pages, words", words()
    yield "tokens of code a line", tokens_a_line()
    yield "longest function", longest_function()
    yield "deepest nesting of blocks", deepest_nesting()


if __name__ == "__main__":
    found = walks()
    print("| what | now |\n|---|--:|")  # noqa: T201 - what was asked for
    for name, figure in table(found):
        print(f"| {name} | {figure} |")  # noqa: T201 - the same
    if "--files" in sys.argv:
        for name, walk in found.items():
            owners = sorted(f"{file}: {owner}" for file, owner in walk.classes)
            print(f"\n{name}", *sorted(walk.files), "classes", *owners, sep="\n  ")  # noqa: T201 - the same
