"""The table of requirements is whole, true and up to date."""

import ast
from pathlib import Path

from tests.requirements.lines import ROOT, lines, marks_a_test, names
from tests.requirements.lines import tests as marked
from tests.requirements.mutations import mutations
from tests.requirements.named import NAMED
from tests.requirements.table import PAGE, at_real_sizes, page
from tests.requirements.without_effect import listed, without_effect

MOST_MARKS = 3


def test_every_line_is_there() -> None:
    """All of them, none twice and none that does not exist."""
    assert list(lines()) == names()


def test_every_line_has_a_marked_test() -> None:
    """Each line that asks for something to be built is named by the mark of at least one test."""
    held = marked()
    assert [name for name, line in lines().items() if not line.informative and not held.get(name)] == []


def test_every_line_is_shown_at_real_sizes() -> None:
    """By a test of `tests/acceptance`."""
    held = marked()
    asked = [name for name, line in lines().items() if not line.informative]
    assert [name for name in asked if not at_real_sizes(held.get(name, []))] == []


def test_marks_name_lines_that_exist() -> None:
    """And at most three a test. Marks with other names (known bugs, choices) are no lines."""
    assert {name for name in marked() if name.startswith("S")} <= set(names())
    assert {test.name: count for test, count in marks_a_test().items() if count > MOST_MARKS} == {}


def test_every_named_change_still_applies() -> None:
    """Its code is in the file once, and tests are marked with its line."""
    for one in NAMED:
        change, text = one.mutation(ROOT), (ROOT / one.path).read_text(encoding="utf-8")
        ast.parse(text[: change.begin] + change.new + text[change.end :])
        assert one.tests


def test_every_change_without_effect_still_applies() -> None:
    """Its lines are in the function that it names, once there and once in the list, and a reason is given."""
    every = listed()
    assert len(without_effect(ROOT)) == len(every)
    assert all(one.reason.strip() for one in every)
    assert len({one.key for one in every}) == len(every)


def test_a_flipped_comparison_keeps_its_parentheses(tmp_path: Path) -> None:
    """They do not belong to the operands in the syntax tree."""
    (tmp_path / "x.py").write_text("held = (a or b) == (c if d else e)\n", encoding="utf-8")
    changes = [one.new for found in mutations(tmp_path, "x.py").values() for one in found]
    assert "(a or b) != (c if d else e)" in changes


def test_a_text_in_a_dictionary_is_misspelt_where_it_stands(tmp_path: Path) -> None:
    """Also if a key or another value is the same text, and on the last line of a file."""
    (tmp_path / "x.py").write_text('held = {\n    "a": "b",\n    "b": "b"}', encoding="utf-8")
    text = (tmp_path / "x.py").read_text(encoding="utf-8")
    changes = [one for found in mutations(tmp_path, "x.py").values() for one in found]
    assert [(one.line, *one.compared(text)) for one in changes] == [
        (2, '"a": "b",', "\"a\": 'bx',"),
        (3, '"b": "b"}', "\"b\": 'bx'}"),
    ]


def test_the_page_is_up_to_date() -> None:
    """Run `python -m tests.requirements.table` after a change."""
    assert PAGE.read_text(encoding="utf-8") == page()
