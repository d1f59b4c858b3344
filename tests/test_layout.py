"""The layout of the code: three folders, one package, rooms in one order, imports downwards only."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from langgraph_compaction.graph.middleware import CompactionMiddleware

ROOT = Path(__file__).parents[1]
FLOORS = ("checkpoint", "nodes", "graph")
PACKAGE = "langgraph_compaction"
FILES = [path for floor in FLOORS for path in sorted((ROOT / floor).rglob("*.py"))]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def imports(path: Path) -> Iterator[str]:
    """Absolute names of the modules a file imports."""
    inside = [PACKAGE, *path.relative_to(ROOT).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = inside[: len(inside) - node.level] if node.level else []
            stem = ".".join([*above, *([node.module] if node.module else [])])
            yield stem
            yield from (f"{stem}.{alias.name}" for alias in node.names)


SHARED = {
    **dict.fromkeys(("compaction_request", "errors", "events"), "nodes vocabulary"),
    **dict.fromkeys(("state", "transitions"), "nodes state"),
}
"""The rooms of the files at the top of `nodes` that hold no node, but what nodes and rooms share."""

ROOMS = (
    "checkpoint.lazy_names",
    "checkpoint.patterns",
    "checkpoint.text_cache",
    "checkpoint.errors",
    "checkpoint.extras",
    "checkpoint.usage",
    "checkpoint.telemetry",
    "checkpoint.db",
    "checkpoint.messages",
    "checkpoint.checkpoints",
    "checkpoint.compaction",
    "checkpoint.maintenance",
    "checkpoint.records",
    "checkpoint.saver",
    "checkpoint",
    "nodes vocabulary",
    "nodes.config",
    "nodes.text",
    "nodes.conversation",
    "nodes state",
    "nodes.providers",
    "nodes.digest",
    "nodes.selection",
    "nodes.gate",
    "nodes.summary",
    "nodes.runtime",
    "nodes.ahead",
    "nodes of the graph",
    "nodes.inline",
    "nodes.testing",
    "nodes",
    "graph",
    "graph.lab",
    "graph.cli",
)
"""Every room, from the lowest: each may import from those before it only."""


def room_of(module: str) -> str:
    """The room of a module of ours, given without the package's name; KeyError for one that is in none."""
    first, *rest = module.split(".")
    if first == "nodes" and len(rest) == 1 and rest[0] in SHARED:
        return SHARED[rest[0]]
    if rest and f"{first}.{rest[0]}" in ROOMS:
        return f"{first}.{rest[0]}"
    if first == "nodes" and rest:
        assert (ROOT / "nodes" / f"{rest[0]}.py").exists(), f"{module} is in no room"
        return "nodes of the graph"
    assert first == "graph" or not rest, f"{module} is in no room"
    return first


def is_module(name: str) -> bool:
    """Whether a dotted name, without the package's name, is a file or a folder of ours."""
    place = ROOT / Path(*name.split("."))
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def modules_of(path: Path) -> set[str]:
    """The modules of ours that a file imports, without the package's name and without the folders they are in."""
    names = {name.removeprefix(f"{PACKAGE}.") for name in imports(path) if name.startswith(f"{PACKAGE}.")}
    modules = {name for name in names if is_module(name)}
    folders = {name.rpartition(".")[0] for name in modules}
    return modules - folders


def test_imports_go_downwards_only() -> None:
    """A room imports from itself and from those below it; the three floors are in the same order."""
    upwards = []
    for path in FILES:
        own = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        above = ROOMS[ROOMS.index(room_of(own)) + 1 :]
        upwards += [f"{path.relative_to(ROOT)}: {name}" for name in modules_of(path) if room_of(name) in above]
    assert upwards == []


def test_imports_are_relative_in_a_folder_and_absolute_across() -> None:
    """One way to write each import."""
    wrong = [
        f"{path}:{node.lineno}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and (node.level >= len(path.relative_to(ROOT).parts) or (not node.level and beside(path, node.module or "")))
    ]
    assert wrong == []


def beside(path: Path, module: str) -> bool:
    """Whether a module stands in the same folder as a file."""
    return module.split(".")[:-1] == [PACKAGE, *path.parent.relative_to(ROOT).parts]


PURE = ("conversation", "digest", "gate", "providers", "selection", "text")
"""Rooms of `nodes` that work on values alone."""


def test_pure_rooms_have_no_effects() -> None:
    """No LangGraph, no model, no clock, no database, no I/O."""
    forbidden = ("langgraph", "sqlalchemy", "time", "asyncio", "threading", "langchain_core.language_models")
    found = [
        f"{path}: {name}"
        for path in FILES
        if path.relative_to(ROOT).parts[:1] == ("nodes",) and path.relative_to(ROOT).parts[1] in PURE
        for name in imports(path)
        if any(name == module or name.startswith(f"{module}.") for module in forbidden)
    ]
    assert found == []


def test_the_architecture_page_names_what_is_there() -> None:
    """Every path on the page is a file or a folder."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = {name.rstrip("/") for name in re.findall(r"`((?:checkpoint|graph|nodes|package)/[\w/]*(?:\.py)?)`", page)}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_packages_are_the_folders_on_disk() -> None:
    """What is installed is what is here: each folder with code is a regular package, and all of it is typed."""
    on_disk = {
        ".".join([PACKAGE, *path.parent.relative_to(ROOT).parts])
        for floor in FLOORS
        for path in (ROOT / floor).rglob("__init__.py")
    }
    tools = PROJECT["tool"]["setuptools"]
    assert {path.parent for path in FILES} == {path.parent for path in FILES if path.name == "__init__.py"}
    assert set(tools["packages"]) == on_disk | {PACKAGE}
    assert tools["package-data"][PACKAGE] == ["py.typed"]
    assert (ROOT / "package" / "py.typed").exists()
    assert not (ROOT / PACKAGE).exists(), "nothing may shadow the installed package"
    assert tools["package-dir"] == {PACKAGE: "package"} | {f"{PACKAGE}.{floor}": floor for floor in FLOORS}


def test_the_package_gives_its_names_and_version() -> None:
    """Each public name is that of the module that defines it, and is loaded when it is first used."""
    import langgraph_compaction as package  # noqa: PLC0415 - the other tests need no more than its files

    assert package.__version__ == PROJECT["project"]["version"]
    assert set(package.__all__) <= set(dir(package))
    for name in set(package.__all__) - {"__version__"}:
        assert getattr(package, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'create_agent'"):
        _ = package.create_agent  # that it does not exist is the point


def test_importing_the_package_imports_no_dependency() -> None:
    """`import langgraph_compaction` costs no more than its own file, and `python -m` is the command line."""
    heavy = "{'langgraph', 'sqlalchemy', 'pydantic'} & set(sys.modules)"
    code = f"import sys, {PACKAGE}; sys.exit(bool({heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    shown = subprocess.run([sys.executable, "-m", PACKAGE, "--help"], check=False, capture_output=True, text=True)
    assert "evaluate" in shown.stdout


def without(packages: Sequence[str], code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process in which these packages cannot be imported."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({tuple(packages)})); "
    return subprocess.run([sys.executable, "-c", blocked + code], check=False, capture_output=True, text=True)


OPTIONAL = (
    "cryptography",
    "langchain",
    "langgraph.checkpoint.postgres",
    "langgraph.checkpoint.sqlite",
    "opentelemetry",
    "psycopg",
    "pymysql",
)
OF_CLI = ("jinja2", "rich", "typer")
OF_LAB = ("matplotlib",)


def test_optional_packages_are_not_needed() -> None:
    """The command line, the savers and the server's graph are there without what only other extras install."""
    call = "compact_messages(convert_to_messages([('user', 'word ' * 900)] * 9), max_tokens=2000)"
    used = f"from langchain_core.messages import convert_to_messages; from {PACKAGE} import compact_messages; {call}"
    done = without((*OPTIONAL, *OF_LAB), f"import {PACKAGE}.graph.agent, {PACKAGE}.graph.cli.main; {used}")
    assert done.returncode == 0, done.stderr


def test_a_graph_needs_nothing_of_the_command_line() -> None:
    """Without the extra `cli` agents, savers and the server's graph work, and the command says what it needs."""
    agent = f"import {PACKAGE}.graph.agent, {PACKAGE}.graph.thread, {PACKAGE}.nodes.testing"
    card = (
        f"from {PACKAGE}.graph.history import diff; "
        "assert diff([], [])._repr_html_() is None  # a notebook shows the text"
    )
    done = without((*OPTIONAL, *OF_CLI, *OF_LAB), f"{agent}; {card}")
    assert done.returncode == 0, done.stderr
    for name in OF_CLI[1:]:
        refused = without([name], f"from {PACKAGE}.__main__ import run; run()")
        assert refused.returncode == 1
        assert (
            refused.stderr.strip() == f"the command line needs {name}: pip install '.[cli]' in the project's folder"
        )


def test_a_chart_says_which_extra_it_needs() -> None:
    """The extra `lab` holds the command line and what draws charts."""
    draw = (
        f"from {PACKAGE}.graph.lab.evaluation.evaluation_chart import retention_chart; retention_chart([], 'title')"
    )
    refused = without(OF_LAB, draw)
    assert "a chart needs matplotlib: pip install '.[lab]' in the project's folder" in refused.stderr
    played = "play(Recording(name='a', messages=()), window=9000)"
    refused = without(["jinja2"], f"from {PACKAGE}.graph.lab import Recording, play; {played}.report()")
    assert "a report needs jinja2: pip install '.[cli]' in the project's folder" in refused.stderr
    extras = PROJECT["project"]["optional-dependencies"]
    assert [re.split(r"[>\[]", name)[0] for name in extras["lab"]] == [PROJECT["project"]["name"], *OF_LAB]
    assert sorted(re.split(">", name)[0] for name in extras["cli"]) == sorted(OF_CLI)


def test_a_public_name_is_the_same_from_everywhere() -> None:
    """Every exported name is there, and one name is one thing."""
    found: dict[str, set[int]] = {"CompactionMiddleware": {id(CompactionMiddleware)}}
    for module in (PACKAGE, *(f"{PACKAGE}.{floor}" for floor in FLOORS)):
        exporting = import_module(module)
        for name in exporting.__all__:
            found.setdefault(name, set()).add(id(getattr(exporting, name)))
    assert [name for name, objects in found.items() if len(objects) > 1] == []


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.name)
def test_a_benchmark_imports_names_that_exist(path: Path) -> None:
    """Benchmarks run by commands of their own, so that no other test notices a name that has moved."""
    for found in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(found, ast.ImportFrom) and (found.module or "").startswith("langgraph_compaction"):
            module = import_module(str(found.module))
            missing = [one.name for one in found.names if not hasattr(module, one.name)]
            assert missing == [], f"{path.name}, line {found.lineno}"


def test_what_a_page_or_an_error_tells_to_install_can_be_installed() -> None:
    """The package is in no index yet: pip gets the project's folder, with an extra that exists."""
    name, extras = PROJECT["project"]["name"], PROJECT["project"]["optional-dependencies"].keys()
    sources = [
        path
        for folder in ("checkpoint", "graph", "nodes", "package", "docs", "notebooks")
        for path in (ROOT / folder).rglob("*")
    ]
    pages = [path for path in (*sources, *ROOT.glob("*.md")) if path.suffix in {".py", ".md", ".ipynb"}]
    told = {path: re.findall(r"pip install ([^\n`#]+)", path.read_text(encoding="utf-8")) for path in pages}
    assert [path for path, commands in told.items() if any(re.search(rf"{name}\b", one) for one in commands)] == []
    wanted = {one for commands in told.values() for one in re.findall(r"'\.\[([\w,]+)\]'", " ".join(commands))}
    assert {"cli", "langchain", "otel"} <= {one for each in wanted for one in each.split(",")} <= extras
    called = [one for path in pages for one in re.findall(r"how_to_install\([\"'](\w+)", path.read_text("utf-8"))]
    assert len(called) >= 5
    assert set(called) <= extras


def test_make_lists_every_target() -> None:
    """Without a target, make says what each one is for."""
    [targets] = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    alone = {
        name: value for name, value in os.environ.items() if not name.startswith("MAKE")
    }  # else it is a sub-make
    listed = subprocess.run(["make", "-s"], cwd=ROOT, env=alone, check=True, capture_output=True, text=True).stdout
    rows = [re.split(r" {2,}", row.removeprefix("make "), maxsplit=1) for row in listed.splitlines()]
    assert sorted(name for names, _ in rows for name in names.split()) == sorted(targets.split())
    assert all(said for _, said in rows)
