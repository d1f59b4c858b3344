"""What starts a compaction, as values that can be combined, each with its comparison. JSON only."""

import math
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from .base_model import Frozen

Hook = Literal["pre_input", "pre_model", "post_model", "on_overflow"]
"""Where in a turn the triggers are asked: the newest user message not yet counted, before each call of the
model, after its answer, and when the provider refuses a request as too long."""

Unit = Literal["turns", "rounds", "messages", "events"]
"""What is counted: inputs since the last compaction; rounds, messages without system ones, all messages in view."""


class UsedRatio(Frozen):
    """The request holds this share of the window."""

    kind: Literal["used_ratio"] = "used_ratio"
    ratio: float = Field(gt=0, le=1)
    operator: Literal[">=", ">"] = ">="

    def used(self, window: int) -> float:  # noqa: ARG002 - a share whatever the window
        """The share of the window that the request is compared with."""
        return self.ratio

    def compared_with(self, window: int) -> int:
        """Tokens that the request is compared with."""
        return share(window, self.ratio)

    def threshold(self, window: int) -> int:
        """Fewest tokens that fire it."""
        return self.compared_with(window) + (self.operator == ">")


class RemainingRatio(Frozen):
    """Less than this share of the window is left."""

    kind: Literal["remaining_ratio"] = "remaining_ratio"
    ratio: float = Field(default=0.25, gt=0, lt=1)
    operator: Literal["<", "<="] = "<"

    def used(self, window: int) -> float:  # noqa: ARG002 - a share whatever the window
        """The share of the window that the request is compared with."""
        return 1 - self.ratio

    def compared_with(self, window: int) -> int:
        """Tokens that the request is compared with."""
        return window - share(window, self.ratio)

    def threshold(self, window: int) -> int:
        """Fewest tokens that fire it."""
        return self.compared_with(window) + (self.operator == "<")


class ReserveTokens(Frozen):
    """Less than so many tokens of the window are left."""

    kind: Literal["reserve_tokens"] = "reserve_tokens"
    tokens: NonNegativeInt = 16_384
    operator: Literal[">=", ">"] = ">"
    """How the request is compared with the window without the reserve."""

    def used(self, window: int) -> float:
        """The share of the window that the request is compared with."""
        return self.compared_with(window) / window

    def compared_with(self, window: int) -> int:
        """Tokens that the request is compared with."""
        return max(0, window - self.tokens)

    def threshold(self, window: int) -> int:
        """Fewest tokens that fire it."""
        return max(1, window - self.tokens + (self.operator == ">"))


class Count(Frozen):
    """So many turns, rounds, messages or events."""

    kind: Literal["count"] = "count"
    unit: Unit
    limit: PositiveInt
    operator: Literal[">=", ">"] = ">="
    full: bool = False
    """Go straight to the summary of the whole conversation."""

    @property
    def most(self) -> int:
        """The most that does not fire it."""
        return self.limit - (self.operator == ">=")

    def fires(self, count: int, in_vain: int | None = None) -> bool:
        """Whether so many fire it; after an attempt that found nothing to do, once there are a tenth more of them.

        `in_vain` is the count at that attempt. Turns are counted from there anew and need no such mark.
        """
        again = in_vain is None or not in_vain <= count < in_vain + max(1, self.limit // 10)
        return count > self.most and again


class Marker(Frozen):
    """The model's own wish: these words in its answer, outside code and quotations."""

    kind: Literal["marker"] = "marker"
    text: str = Field(default="!!!SUMMARY!!!", min_length=3)
    full: bool = True


class Command(Frozen):
    """The user's wish: an input that begins with this word; what follows it says what to keep above all.

    The agent does not answer such an input, and the model is never sent it.
    """

    kind: Literal["command"] = "command"
    text: str = Field(default="/compact", min_length=2)
    full: bool = False


class Own(Frozen):
    """A trigger of the application's, by the name under which the builder was given it."""

    kind: Literal["own"] = "own"
    name: str = Field(min_length=1)


Trigger = Annotated[
    UsedRatio | RemainingRatio | ReserveTokens | Count | Marker | Command | Own, Field(discriminator="kind")
]

TokenTrigger = UsedRatio | RemainingRatio | ReserveTokens


def share(tokens: int, ratio: float) -> int:
    """A share of tokens, rounded down; 1,000 x 0.29 is 290, whatever the float says."""
    return math.floor(tokens * ratio + 1e-9)
