"""Recorded conversations, and what policies make of them."""

from .comparison import compare
from .recordings import Recording, RecordingError, read_recordings

__all__ = ["Recording", "RecordingError", "compare", "read_recordings"]
