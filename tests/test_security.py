import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_each_promise_names_tests_that_exist() -> None:
    """Every line of the table of promises in SECURITY.md names a test, and each of these is in its file."""
    page = (ROOT / "SECURITY.md").read_text()
    promises = page.partition("## What is promised")[2].partition("\n## ")[0].splitlines()[4:]
    named = [re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", line) for line in promises if line]
    assert len(named) > 10
    assert all(named)
    missing = [
        (file, test) for tests in named for file, test in tests if f"def {test}(" not in (ROOT / file).read_text()
    ]
    assert missing == []
