"""Fixtures that run the graphs, with detailed assertion messages in the scenario modules."""

import pytest

from tests.graph.conftest import go

__all__ = ["go"]

pytest.register_assert_rewrite(
    *(f"tests.faults.{name}" for name in ("stage", "models", "conversations", "requests", "threads"))
)
