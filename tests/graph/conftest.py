"""Both ways to drive a graph, as one fixture."""

import pytest

from tests.graph.harness import Asynchronous, Clock, Synchronous


@pytest.fixture
def go(request: pytest.FixtureRequest) -> Synchronous | Asynchronous:
    """Return what drives a graph, by `invoke` and `stream` or by `ainvoke` and `astream`: see `tests/conftest.py`."""
    return Synchronous() if request.param == "sync" else Asynchronous()


@pytest.fixture
def clock() -> Clock:
    """Return a wall clock that the test sets."""
    return Clock()
