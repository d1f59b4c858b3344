"""Each requirement is held by an acceptance test."""

from tests.requirements.table import lines, marked


def test_every_line_that_asks_for_something_has_an_acceptance_test() -> None:
    """And no mark names a line that does not exist."""
    asked = {name for name, line in lines().items() if not line.informative}
    held = marked().keys()
    assert asked <= held <= lines().keys()
