"""Each requirement is held by an acceptance test."""

from tests.requirements.table import PAGE, lines, marked, page


def test_every_line_that_asks_for_something_has_an_acceptance_test() -> None:
    """And no mark names a line that does not exist."""
    asked = {name for name, line in lines().items() if not line.informative}
    held = marked().keys()
    assert asked <= held <= lines().keys()


def test_the_page_names_the_tests_as_they_are() -> None:
    """It is generated: `python -m tests.write_pages`."""
    assert PAGE.read_text(encoding="utf-8") == page()
