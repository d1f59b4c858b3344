"""Listening to what an engine is asked to do."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

import sqlalchemy as sa


@contextmanager
def listening(engine: sa.Engine, event: str, heard: Callable[..., None]) -> Generator[None]:
    """Call `heard` with each of SQLAlchemy's events of this name, within the block."""
    sa.event.listen(engine, event, heard)
    try:
        yield
    finally:
        sa.event.remove(engine, event, heard)
