"""The table of requirements is whole, true and up to date."""

import pytest

from tests.requirements.lines import Line, lines, marks_a_test, names
from tests.requirements.lines import tests as marked
from tests.requirements.mutants import mutations
from tests.requirements.table import PAGE, page

KNOWN, MARKED = lines(), marked()
MOST_SUPERSEDED = 10
MOST_MARKS = 3


def test_every_line_is_there() -> None:
    """All 216, none twice and none that does not exist."""
    assert list(KNOWN) == names()


@pytest.mark.parametrize("line", KNOWN.values(), ids=KNOWN)
def test_a_line_is_guarded_and_tested(line: Line) -> None:
    """Unless it is informative it has code that guards it and can be broken, and a test that is marked with it."""
    if line.informative:
        assert not line.guards
        return
    assert MARKED.get(line.name), "no test is marked with it"
    if not line.superseded:
        assert line.guards
    for guard in line.guards:
        assert mutations(guard), f"nothing in {guard.code!r} can be changed"


def test_few_lines_are_superseded() -> None:
    """Each by an invariant that forbids it."""
    superseded = [line for line in KNOWN.values() if line.superseded]
    assert len(superseded) <= MOST_SUPERSEDED
    assert all("invariant" in line.superseded for line in superseded)


def test_marks_name_lines_that_exist() -> None:
    """And at most three a test. The bugs and choices of the requirements are no lines."""
    assert {name for name in MARKED if name.startswith("S")} <= set(names())
    assert {test.name: count for test, count in marks_a_test().items() if count > MOST_MARKS} == {}


def test_the_page_is_up_to_date() -> None:
    """Run `python -m tests.requirements.table` after a change."""
    assert PAGE.read_text(encoding="utf-8") == page()
