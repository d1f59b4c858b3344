"""Readers for recorded conversations in several formats."""

from .reader import read_recordings
from .recording import Recording, RecordingError

__all__ = ["Recording", "RecordingError", "read_recordings"]
