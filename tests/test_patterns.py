"""Every pattern of the package is made by one helper, and takes time that grows linearly with the text."""

import ast
import gc
import pkgutil
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction import checkpoint, graph, nodes
from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, MATCHED_CHARS, SEARCHED_CHARS, Anchored, Pattern
from langgraph_compaction.graph.lab.evaluation.survival import holds
from langgraph_compaction.nodes.config.summary_format import FORMATS
from langgraph_compaction.nodes.selection.compaction_marker import remove_marker
from langgraph_compaction.nodes.selection.strategies.adaptive import task_type
from langgraph_compaction.nodes.text.quoting import between_tags
from tests.pattern_cost import steps

ROOT = Path(__file__).parents[1]
HELPER = ROOT / "checkpoint" / "patterns.py"
FILES = [
    path for floor in ("checkpoint", "nodes", "graph", "package") for path in sorted((ROOT / floor).rglob("*.py"))
]
MODULES = ("re", "regex", "sre_compile", "sre_parse", "fnmatch")

MOST = 8_000
"""Most steps of one start: one unbounded repeat takes more in a piece, and two take more in an anchored text."""

GIVEN_AS_ARGUMENT = {
    "graph/library_tools.py",  # the pattern that the demonstration asks for, searched in Python's library
}

MAKERS: dict[str, Callable[[], Any]] = {
    "nodes/text/quoting.py": lambda: between_tags("<a.b*>x</a.b*>", "a.b*"),
    "nodes/config/summary_format.py": lambda: [one.read(one.written("&lt;")) for one in FORMATS.values()],
    "nodes/selection/compaction_marker.py": lambda: remove_marker(AIMessage("[[a*]]"), "[[a*]]"),
    "nodes/selection/strategies/keywords.py": lambda: task_type([HumanMessage("edit"), AIMessage("git")]),
    "graph/lab/evaluation/survival.py": lambda: holds("a AB-1* b", "AB-1*"),
}
"""By file, a call of the function that makes patterns from values; all other patterns are made on import."""


def cost(pattern: Pattern | Anchored) -> float:
    """The most steps that one start of a pattern takes, given how many characters one call reads."""
    length = SEARCHED_CHARS if isinstance(pattern, Pattern) else MATCHED_CHARS
    return steps(pattern.source, pattern.flags, length=length)


def within(value: Any) -> Iterator[Pattern | Anchored]:
    """The patterns in a value of a module."""
    if isinstance(value, Pattern | Anchored):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from within(item)


def test_no_other_file_uses_regular_expressions() -> None:
    """`re` is imported by the helper alone."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        if path != HELPER
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Import) and any(alias.name in MODULES for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module in MODULES)
    ]
    assert found == []


def test_patterns_that_functions_make_are_known() -> None:
    """A file that makes a pattern in a function is listed above, so that the next test sees such a pattern."""
    found = {
        str(path.relative_to(ROOT))
        for path in FILES
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name not in ("_any", "_begins")
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Pattern", "Anchored")
    }
    assert found == MAKERS.keys() | GIVEN_AS_ARGUMENT


def every_pattern() -> list[Pattern | Anchored]:
    """The patterns of all modules, and those that functions make."""
    names = [
        module.name
        for folder in (checkpoint, nodes, graph)
        for module in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}.")
    ]
    made = [one for name in names for value in vars(import_module(name)).values() for one in within(value)]
    for make in MAKERS.values():
        make()
    return made + [one for one in gc.get_objects() if isinstance(one, Pattern | Anchored)]


def test_every_pattern_is_linear() -> None:
    """Whatever the text, a start of a match takes a bounded number of steps."""
    made = every_pattern()
    assert len({repr(one) for one in made}) > 100
    assert {repr(one): cost(one) for one in made if cost(one) > MOST} == {}


QUADRATIC = {
    "spaces before a word": r"\s+\n",
    "newlines": r"\n+(?=x)",
    "words before a mark": r"\w+:",
    "an unclosed tag": r"(?s)<pin>.*?</pin>",
    "a fence of any length": r"(`{3,})[^`]*\1x",
    "two repeats that share characters": r"<\w*\d+>",
    "a group of repeats": r"(?:\w+\s*)*;",
    "alternatives that share a beginning": r"(?:a|ab|b)*c",
}
"""Patterns of quadratic or exponential cost, by the text that shows it."""


@pytest.mark.parametrize("source", QUADRATIC.values(), ids=QUADRATIC.keys())
def test_a_quadratic_pattern_is_refused(source: str) -> None:
    """The cost that is computed for a quadratic pattern exceeds what any pattern of the product may cost."""
    assert cost(Pattern(source)) > MOST


LINEAR = {
    "a token": r"/?[A-Za-z0-9_]++(?:[-./@:#+]++[A-Za-z0-9_]++)*+",
    "a quotation": r'"[^"\n]*+"',
    "a quoted line": r"(?m)^[^\S\n]*+>[^\n]*+",
    "the run of a guarded start": r"(?<!\w)\w++:",
    "a bounded repeat": r"see \s{0,20}below",
}


@pytest.mark.parametrize("source", LINEAR.values(), ids=LINEAR.keys())
def test_a_linear_pattern_is_accepted(source: str) -> None:
    """The bound does not depend on the length of the text."""
    assert steps(source, length=10**6) == steps(source, length=10**5) < MOST


def test_two_repeats_that_overlap_are_refused_in_an_anchored_pattern() -> None:
    """One unbounded repeat takes as many steps as characters are read; two that overlap take their square."""
    assert cost(Anchored(r".*\d")) < MOST < cost(Anchored(r".*\d.*x"))


WORD = Pattern(r"\w+")


@pytest.mark.parametrize("between", [" ", "\n", ", ", "-"])
def test_a_long_text_is_searched_in_pieces_between_words(between: str) -> None:
    """The matches are those of one search over the whole text; an empty match between two pieces is found once."""
    text = between.join(f"word{number}" for number in range(20_000))
    assert len(text) > 5 * SEARCHED_CHARS
    assert [found.span() for found in WORD.finditer(text)] == [found.span() for found in re.finditer(r"\w+", text)]
    assert WORD.findall(text) == re.findall(r"\w+", text)
    assert WORD.sub("x", text) == re.sub(r"\w+", "x", text)
    assert WORD.split(text) == re.split(r"\w+", text)
    stops = "。" * (3 * SEARCHED_CHARS)
    assert Pattern("(?<=。)").split(stops) == re.split("(?<=。)", stops)


def test_a_piece_ends_where_a_match_is_least_likely_cut() -> None:
    """Before a word that begins in its last 199 characters, and after a line where one ends in its second half."""
    for begun in (1, 199):
        words = ["a" * (SEARCHED_CHARS - begun - 1), "b" * 200, "c" * SEARCHED_CHARS]
        assert WORD.findall("-".join(words))[:2] == words[:2]
    line = ("one two three " * SEARCHED_CHARS)[: SEARCHED_CHARS * 55 // 100]
    text = "\n".join([line] * 9)
    assert len(Pattern("one two three").findall(text)) == text.count("one two three")


def test_a_search_stays_between_two_positions() -> None:
    """This holds in a short text and in a text that is searched in pieces."""
    for before in ("", "。" * (2 * SEARCHED_CHARS)):
        text, start = before + "abab", len(before)
        assert [found.start() for found in Pattern("b").finditer(text, start, start + 3)] == [start + 1]
        assert Pattern("b").search(text, start, start + 1) is None
        assert Pattern("a").search(text, start + 1, start + 3) is not None


def test_one_call_reads_a_bounded_number_of_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads run between two calls, as a call holds the interpreter's lock."""
    pattern, read = Pattern("x"), []

    class Spy:
        """Notes how many characters each call may read."""

        def finditer(self, _: str, start: int, end: int) -> list[Any]:
            read.append(end - start)
            return []

    monkeypatch.setattr(pattern, "_compiled", Spy())
    assert pattern.search("a" * (10 * SEARCHED_CHARS)) is None
    assert sum(read) == 10 * SEARCHED_CHARS
    assert max(read) <= SEARCHED_CHARS


def test_an_anchored_pattern_reads_the_beginning_only() -> None:
    """A longer text is not matched as a whole; a match ends at the limit."""
    spaces = Anchored(r" *+(x?)")
    assert spaces.fullmatch(" " * MATCHED_CHARS) is not None
    assert spaces.fullmatch(" " * (MATCHED_CHARS + 1)) is None
    assert spaces.remove_prefix(" " * (MATCHED_CHARS + 1)) == " "
    found = Anchored("B", IGNORE_CASE).match("ab", 1)
    assert found is not None
    assert found.span() == (1, 2)
