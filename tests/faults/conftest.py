"""The graphs' own ways to drive, for the scenarios, whose assertions are to say what they found."""

import pytest

from tests.graph.conftest import go

__all__ = ["go"]

pytest.register_assert_rewrite(
    *(f"tests.faults.{name}" for name in ("stage", "models", "conversations", "requests", "threads"))
)
