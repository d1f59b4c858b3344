"""Where a command keeps its threads: in the database that is named, or nowhere for long."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from langgraph_compaction.checkpoint import SQLAlchemySaver


@contextmanager
def storage(db: str | None) -> Generator[SQLAlchemySaver]:
    """Open the database that `--db` names; without it, one in a temporary folder that ends with the block."""
    with (
        TemporaryDirectory(prefix="langgraph-compaction-") as folder,
        SQLAlchemySaver.from_url(db or f"sqlite:///{Path(folder, 'threads.db').as_posix()}") as saver,
    ):
        saver.setup()
        yield saver
