"""Recorded conversations, and what policies make of them."""

from .comparison import Comparison, compare
from .recordings import Recording, RecordingError, read_recordings
from .replay.recorded_run import play

__all__ = ["Comparison", "Recording", "RecordingError", "compare", "play", "read_recordings"]
