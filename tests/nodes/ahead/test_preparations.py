"""What a process remembers about the threads that it prepares summaries for."""

import pytest

from langgraph_compaction.nodes.ahead import preparations
from langgraph_compaction.nodes.ahead.preparations import Preparations


def test_the_threads_that_were_used_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pace of the thread that has not answered for the longest time is forgotten."""
    monkeypatch.setattr(preparations, "REMEMBERED", 2)
    known = Preparations()
    assert [known.pace((name, "")) is None for name in ("a", "b", "a", "c")] == [True, True, False, True]
    assert known.pace(("a", "")) is not None
    assert known.pace(("b", "")) is None
