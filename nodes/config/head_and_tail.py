"""How much of a very long conversation the summarizer is shown: its beginning and its end."""

from typing import Self

from pydantic import Field, PositiveInt, model_validator

from .base_model import Frozen
from .triggers import share


class InputGuard(Frozen):
    """Most characters of quoted conversation, and the shares of that which are shown of anything longer."""

    max_chars: PositiveInt = 200_000
    """Characters that are shown as they are."""
    head: float = Field(default=0.2, ge=0, le=1)
    """Share of `max_chars` shown of the beginning of what is longer; not of the text, which has no bound."""
    tail: float = Field(default=0.3, ge=0, le=1)
    """Share of `max_chars` shown of its end."""

    @model_validator(mode="after")
    def _shows_less(self) -> Self:
        if self.head + self.tail > 1:
            raise ValueError(f"head ({self.head}) and tail ({self.tail}) are together more than max_chars")
        return self

    def hidden(self, characters: int) -> range:
        """The characters that are left out of so many; empty where all are shown."""
        if characters <= self.max_chars:
            return range(0)
        return range(share(self.max_chars, self.head), characters - share(self.max_chars, self.tail))
