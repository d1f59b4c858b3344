"""What the acceptance tests share: a provider's own chat model that answers without a network, at its own size."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from langgraph_compaction.nodes.runtime.dependencies import Dependencies, core
from tests.acceptance.talks import Sent, answer_with

SMALLEST = 80_000
"""The smallest window of a test in this folder: that of the file in the document of `recent_rounds`."""

REAL = {"ChatOpenAI", "ChatAnthropic"}
"""The classes of the chat models; a list that is compacted without an agent (`compact_messages`) has none."""

FEW = 10
"""Fewer tests of a file than these may make no call of a chat model."""


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sent]:
    """Return a function that lets a chat model answer with these replies instead of calling its provider."""
    return partial(answer_with, monkeypatch)


@dataclass
class Calls:
    """The calls of a file's tests."""

    found: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """The class of each chat model, and its window."""
    tests: int = 0
    """How many tests of the file have run in this process."""


@pytest.fixture(scope="module", autouse=True)
def calls_of_file() -> Iterator[Calls]:
    """Record the models and windows of all calls of a file; fail where one is not real, or where there was none.

    `docs/requirements.md` counts the tests of this folder as tests at real sizes. A few tests alone may make no call.
    """
    calls, usual = Calls(), Dependencies.sizes_for

    def sizes_for(self: Dependencies, *args: Any, window: int, **given: Any) -> Any:
        model = self.fixed_model
        calls.found.add((type(core(model) if model else None).__name__, window))
        return usual(self, *args, window=window, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dependencies, "sizes_for", sizes_for)
        yield calls
    assert calls.found or calls.tests < FEW
    assert {model for model, _ in calls.found} - {"NoneType"} <= REAL
    assert min((window for _, window in calls.found), default=SMALLEST) >= SMALLEST


@pytest.fixture(autouse=True)
def counted(calls_of_file: Calls) -> None:
    """Count the tests that run."""
    calls_of_file.tests += 1
