"""Ambiguous names do not come back, and the spelling is American."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("checkpoint", "graph", "nodes", "package")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(ROOT.glob("*.md")),
    ROOT / "Makefile",
    ROOT / "pyproject.toml",
]


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


NO_MODULE = words(
    """
    asking attempts chatter choosing collaborators collecting deciding deeds demands driving entries frames frozen
    gathering kept ladder leaves left looks memo most packs pooling raw reading rewriting rows rung sealing
    searching sightings standing stored summarising team together told undoing upkeep values
    """
)
"""Names that no file may have. Each was replaced by a noun that a newcomer would look for."""

NO_DEFINITION = words(
    """
    absorbed asking chatter choosing collaborators collecting deciding deeds demands driving Found frames gathering
    ladder looks memo most packs pooling rewriting rung sealing sightings standing Step summarising team together
    told Turn turns_then undoing upkeep Written
    """
)
"""Names that no function, method or class may have, with or without a leading underscore."""

NO_NAME = words("chatter collaborators deeds ladder packs rung sealing sighting sightings turns_then upkeep")
"""Names that no variable, parameter or attribute may have either."""

BRITISH = re.compile(
    r"artefact|behaviour|catalogue|centre[ds]?\b|colour|favour|honour|initialis|judgement|labell|learnt|licence|modell"
    r"|neighbour|normalis|optimis(?:e|ing|ation)|organis(?!m)|recognis|serialis|summaris|tokenis|unrecognis",
    re.IGNORECASE,
)


def definitions(tree: ast.Module) -> Iterator[str]:
    """Names of all functions, methods and classes of a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def names(tree: ast.Module) -> Iterator[str]:
    """Every name in a file: definitions, variables, parameters and attributes."""
    yield from definitions(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg


def test_no_file_has_a_forbidden_name() -> None:
    """A file is named by the noun that a reader looks for."""
    assert [str(path.relative_to(ROOT)) for path in FILES if path.stem in NO_MODULE] == []


def test_no_definition_has_a_forbidden_name() -> None:
    """A word that once named several things names none of them."""
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in FILES
        for tree in [ast.parse(path.read_text())]
        for forbidden, given in ((NO_DEFINITION, definitions(tree)), (NO_NAME, names(tree)))
        for name in sorted({name.strip("_") for name in given} & forbidden)
    ]
    assert found == []


def test_the_spelling_is_american() -> None:
    """In code, comments and pages, as in LangChain's names."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in [*FILES, *PAGES]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (match := BRITISH.search(line))
    ]
    assert found == []
