"""Recorded conversations of many makers, read into one form for `replay`."""

from .reader import read_recordings
from .recording import Recording, RecordingError

__all__ = ["Recording", "RecordingError", "read_recordings"]
