"""Ctrl-C during an answer."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler


class Stop(BaseCallbackHandler):
    """Ends an answer at its next token once Ctrl-C was pressed: LangGraph itself would await it to its end."""

    raise_error = True

    def __init__(self) -> None:
        self.pressed = False

    def on_llm_new_token(self, *_: Any, **__: Any) -> None:
        """Raise `KeyboardInterrupt` in the model's thread too."""
        if self.pressed:
            raise KeyboardInterrupt

    @contextmanager
    def listening(self) -> Generator[None]:
        """Note Ctrl-C before it is raised as usual, as long as the block runs."""
        self.pressed = False
        before = signal.signal(signal.SIGINT, self._press)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _press(self, _number: int, _frame: FrameType | None) -> None:
        self.pressed = True
        raise KeyboardInterrupt
