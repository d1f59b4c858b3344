"""Bundles that are full at once, so that a few checkpoints fill some."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from langgraph_compaction.checkpoint.checkpoints import checkpoint_bundles


@contextmanager
def small_bundles(size: int = 2, loose: int = 1) -> Generator[None]:
    """Bundle so many checkpoints, and leave so many of the newest alone, while the block runs."""
    before = checkpoint_bundles.SIZE, checkpoint_bundles.LOOSE
    checkpoint_bundles.SIZE, checkpoint_bundles.LOOSE = size, loose
    try:
        yield
    finally:
        checkpoint_bundles.SIZE, checkpoint_bundles.LOOSE = before


def bundling(opens: Callable[..., AbstractContextManager[Any]]) -> Callable[..., AbstractContextManager[Any]]:
    """Open a saver that bundles all but the newest checkpoint."""

    @contextmanager
    def opened(*args: Any, **kwargs: Any) -> Generator[Any]:
        with small_bundles(), opens(*args, **kwargs) as saver:
            yield saver

    return opened
