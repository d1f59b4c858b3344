import sqlite3

import pytest

from langgraph_compaction.checkpoint.db import connections


class BusyFile:
    """A connection to a file on which others are at work for the first few attempts."""

    def __init__(self, busy: int, code: int = sqlite3.SQLITE_BUSY_RECOVERY, pages: int = 1) -> None:
        self.busy = busy
        self.pages = pages
        self.code = code
        self.sent: list[str] = []

    def execute(self, statement: str) -> "BusyFile":
        """Fail until the others are done."""
        self.sent.append(statement)
        if "journal_mode" in statement and self.busy:
            self.busy -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = self.code
            raise error
        return self

    def fetchone(self) -> tuple[int]:
        """Return how many pages the file has: only a new one has none."""
        return (self.pages,)

    def close(self) -> None:
        """Close the cursor."""


def test_switching_a_busy_file_is_tried_again() -> None:
    """SQLite refuses to change the mode while others open the file; the switch waits for them."""
    file = BusyFile(busy=3)
    connections._use_write_ahead_log(file, None)
    assert file.sent == ["PRAGMA journal_mode=WAL"] * 4


@pytest.mark.parametrize(
    ("code", "timeout"), [(sqlite3.SQLITE_BUSY, -1.0), (sqlite3.SQLITE_READONLY, 30.0)], ids=["for ever", "other"]
)
def test_what_waiting_does_not_help_is_raised(monkeypatch: pytest.MonkeyPatch, code: int, timeout: float) -> None:
    """A file that stays busy beyond the waiting time, and any other error, is reported."""
    monkeypatch.setattr(connections, "BUSY_TIMEOUT_S", timeout)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        connections._use_write_ahead_log(BusyFile(busy=9, code=code), None)
