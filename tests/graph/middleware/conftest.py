"""The graphs' own ways to drive."""

from tests.graph.conftest import clock, go

__all__ = ["clock", "go"]
