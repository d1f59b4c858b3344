"""The table of known failures."""

import ast
from pathlib import Path

from tests.checkpoint.contract.known import KNOWN_FAILURES
from tests.checkpoint.contract.savers import PEERS


def test_the_table_names_tests_and_peers() -> None:
    """Each entry is about a test that exists and a peer; a failure of ours cannot be entered."""
    files = Path(__file__).parent.glob("test_*.py")
    found = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    tests = {node.name for node in found if isinstance(node, ast.FunctionDef)}
    assert set(KNOWN_FAILURES) <= tests
    assert {name for names in KNOWN_FAILURES.values() for name in names} <= {each.name for each in PEERS}
