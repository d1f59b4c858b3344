"""What the acceptance tests share: a provider's own chat model that answers without a network, at its own size."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from langgraph_compaction.nodes.runtime.dependencies import Dependencies
from tests.acceptance.talks import Sent, answer_with

SMALLEST = 80_000
"""The smallest window of a test in this folder: that of the file in the document of `recent_rounds`."""


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sent]:
    """Return a function that lets a chat model answer with these replies instead of calling its provider."""
    return partial(answer_with, monkeypatch)


@pytest.fixture(scope="module", autouse=True)
def windows() -> Iterator[set[int]]:
    """Record the windows of all calls of a file, and fail where one is smaller than a real one.

    `docs/requirements.md` counts the tests of this folder as tests at real sizes.
    """
    found, usual = set[int](), Dependencies.sizes_for

    def sizes_for(self: Dependencies, *args: Any, window: int, **given: Any) -> Any:
        found.add(window)
        return usual(self, *args, window=window, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dependencies, "sizes_for", sizes_for)
        yield found
    assert min(found, default=SMALLEST) >= SMALLEST
