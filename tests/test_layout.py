"""The house as DESIGN §2 lays it out: three folders, one namespace, imports downwards only."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langgraph_compaction.nodes import CompactionSettings

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


def floor_of(module: str) -> str | None:
    """The folder a module of ours belongs to."""
    parts = module.split(".")
    return parts[1] if parts[0] == PACKAGE and len(parts) > 1 else None


def test_imports_go_downwards_only() -> None:
    """Checkpoint knows neither nodes nor graph, and nodes know no graph."""
    upwards = [
        f"{path}: {name}"
        for path in FILES
        for name in imports(path)
        if (floor := floor_of(name)) and floor not in FLOORS[: FLOORS.index(portion(path)) + 1]
    ]
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


def portion(path: Path) -> str:
    """The portion of the namespace a file belongs to."""
    return path.relative_to(ROOT).parts[0]


def beside(path: Path, module: str) -> bool:
    """Whether a module stands in the same folder as a file."""
    return module.split(".")[:-1] == [PACKAGE, *path.parent.relative_to(ROOT).parts]


def test_policies_are_pure() -> None:
    """No LangGraph, no model, no clock, no database, no I/O."""
    forbidden = ("langgraph", "sqlalchemy", "time", "asyncio", "threading", "langchain_core.language_models")
    found = [
        f"{path}: {name}"
        for path in FILES
        if path.parent.name == "policies"
        for name in imports(path)
        if any(name == module or name.startswith(f"{module}.") for module in forbidden)
    ]
    assert found == []


def test_packages_are_the_folders_on_disk() -> None:
    """What is installed is what is here."""
    on_disk = {
        ".".join([PACKAGE, *path.parent.relative_to(ROOT).parts])
        for floor in FLOORS
        for path in (ROOT / floor).rglob("__init__.py")
    }
    tools = PROJECT["tool"]["setuptools"]
    assert set(tools["packages"]) == on_disk
    assert tools["package-dir"] == {f"{PACKAGE}.{floor}": floor for floor in FLOORS}


def test_no_folder_of_ours_is_without_its_init() -> None:
    """Below the namespace every folder with code is a regular package."""
    assert {path.parent for path in FILES} == {path.parent for path in FILES if path.name == "__init__.py"}


def test_the_namespace_has_no_init_and_each_portion_is_typed() -> None:
    """`langgraph_compaction` is a PEP 420 namespace, so that others may add to it."""
    spec = find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is None
    assert not (ROOT / PACKAGE).exists()
    data = PROJECT["tool"]["setuptools"]["package-data"]
    for floor in FLOORS:
        assert (ROOT / floor / "py.typed").exists()
        assert "py.typed" in data[f"{PACKAGE}.{floor}"]


def test_optional_packages_are_not_needed() -> None:
    """The command line, the savers and the server's graph are there without what only extras and tests install."""
    optional = (
        "cryptography",
        "langchain",
        "langgraph.checkpoint.postgres",
        "langgraph.checkpoint.sqlite",
        "psycopg",
        "pymysql",
    )
    blocked = f"import sys; sys.modules.update(dict.fromkeys({optional}))"
    code = f"{blocked}; import {PACKAGE}.graph.agent, {PACKAGE}.graph.cli.main"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_setting_is_documented() -> None:
    """A docstring stands under each, and ends as a sentence."""
    fields = CompactionSettings.model_fields.items()
    assert [name for name, field in fields if not (field.description or "").rstrip().endswith(".")] == []


def test_no_file_is_longer_than_three_hundred_lines() -> None:
    """A file is one noun."""
    assert [str(path) for path in FILES if len(path.read_text().splitlines()) > 300] == []


def test_nodes_have_the_names_of_their_files() -> None:
    """File, function and node id are one word."""
    from tests.graph.harness import agent  # noqa: PLC0415 - one test needs a graph

    for name in agent().builder.nodes:
        assert name == "tools" or (ROOT / "nodes" / f"{name}.py").exists()
