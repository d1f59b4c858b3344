"""The triggers: conditions that start a compaction, as JSON values that settings combine."""

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from .base_model import Frozen

Hook = Literal["pre_input", "pre_model", "post_model", "on_overflow"]
"""When in a turn the triggers are evaluated: `pre_input` before the newest user message counts, `pre_model` before
each call of the model, `post_model` after its answer, `on_overflow` when a provider refuses a request as too long."""

Unit = Literal["turns", "model_calls", "rounds", "messages", "events"]
"""What `Count` counts: inputs since the last compaction (`turns`), calls of the model since then (`model_calls`, the
call about to be made among them), rounds, messages but system messages, or all messages (`events`)."""

SINCE_COMPACTION: tuple[Unit, ...] = ("turns", "model_calls")
"""The units that are counted anew after each compaction, and after each attempt that found nothing to compact."""


class UsedRatio(Frozen):
    """Fires when the request fills this share of the context window."""

    kind: Literal["used_ratio"] = "used_ratio"
    ratio: float = Field(gt=0, le=1)
    operator: Literal[">=", ">"] = ">="

    def compared_with(self, window: int) -> int:
        """Return the number of tokens that the operator compares the request with."""
        return share(window, self.ratio)


class UsedTokens(Frozen):
    """Fires when the request has this number of tokens, whatever the window is: the setting `trigger_tokens`."""

    kind: Literal["used_tokens"] = "used_tokens"
    tokens: PositiveInt
    operator: ClassVar[Literal[">="]] = ">="

    def compared_with(self, window: int) -> int:
        """Return the number of tokens, at most those of the window."""
        return min(self.tokens, window)


class RemainingRatio(Frozen):
    """Fires when less than this share of the context window is free."""

    kind: Literal["remaining_ratio"] = "remaining_ratio"
    ratio: float = Field(default=0.25, gt=0, lt=1)
    operator: Literal["<", "<="] = "<"

    def compared_with(self, window: int) -> int:
        """Return the number of tokens that the operator compares the request with."""
        return window - share(window, self.ratio)


class ReserveTokens(Frozen):
    """Fires when fewer than `tokens` tokens of the context window are free."""

    kind: Literal["reserve_tokens"] = "reserve_tokens"
    tokens: NonNegativeInt = 16_384
    operator: Literal[">=", ">"] = ">"
    """How the size of the request is compared with the window minus `tokens`."""

    def compared_with(self, window: int) -> int:
        """Return the number of tokens that the operator compares the request with."""
        return max(0, window - self.tokens)


class Count(Frozen):
    """Fires at a number of turns, calls of the model, rounds, messages or events."""

    kind: Literal["count"] = "count"
    unit: Unit
    limit: PositiveInt
    operator: Literal[">=", ">"] = ">="
    full: bool = False
    """Summarize the whole conversation at once, without the selective strategies."""

    @property
    def max_count(self) -> int:
        """The largest count that does not fire the trigger."""
        return self.limit - (self.operator == ">=")


class Marker(Frozen):
    """Fires when the model asks for it: its answer contains this text outside code and quotations."""

    kind: Literal["marker"] = "marker"
    text: str = Field(default="!!!SUMMARY!!!", min_length=3)
    full: bool = True


class Command(Frozen):
    """Fires when the user's input begins with this word; the rest of the input says what the summary must keep.

    The input is not answered, and it is never sent to the model.
    """

    kind: Literal["command"] = "command"
    text: str = Field(default="/compact", min_length=2)
    full: bool = False


class Own(Frozen):
    """A trigger of the application, named as in the builder's `extensions=`."""

    kind: Literal["own"] = "own"
    name: str = Field(min_length=1)


Trigger = Annotated[
    UsedRatio | RemainingRatio | ReserveTokens | Count | Marker | Command | Own, Field(discriminator="kind")
]

TokenTrigger = UsedRatio | UsedTokens | RemainingRatio | ReserveTokens


def threshold(trigger: TokenTrigger, window: int) -> int:
    """Return the smallest request, in tokens, that fires a trigger."""
    return max(1, trigger.compared_with(window) + (trigger.operator in ("<", ">")))


def share(tokens: int, ratio: float) -> int:
    """Return a share of tokens, rounded down, and corrected for floating point: 29 % of 1,000 is 290, not 289."""
    return math.floor(tokens * ratio + 1e-9)
