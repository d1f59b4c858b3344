"""The size of a request: what the model would be sent, in the provider's tokens as far as they are known."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage

from .request import parts, render
from .tokens import TokenCounter, total
from .transcript import Transcript

MOST_CALIBRATION = 3.0


@dataclass(frozen=True)
class Meter:
    """Measures requests of one model."""

    counter: TokenCounter
    overhead: int
    """Tokens of the system prompt and the tool schemas."""
    scale: float = 1.0
    """The provider's tokens over the counter's, learnt from real usage; never under 1."""

    def request(self, messages: Sequence[AnyMessage]) -> int:
        """Tokens of the request that this conversation renders to."""
        return math.ceil(self.scale * (self.overhead + total(self.counter, render(messages))))

    def weights(self, view: Transcript) -> list[int]:
        """Tokens that leave the request with each message; all of a block's stand where it begins.

        In the counter's tokens. As long as blocks leave whole, the request of what stays is scaled(overhead + its
        weights).
        """
        return [total(self.counter, part) for part in parts(view)]

    def scaled(self, tokens: int) -> int:
        """The counter's tokens in the provider's."""
        return math.ceil(self.scale * tokens)

    def unscaled(self, tokens: int) -> int:
        """The provider's tokens in the counter's, rounded down."""
        return math.floor(tokens / self.scale)


def calibrated(reported: int, counted: int) -> float:
    """The factor between a provider's report and our count of the same request, held within [1, 3].

    Never under 1: a provider that reports less must not make a request larger than the counter's limit.
    """
    return min(MOST_CALIBRATION, max(1.0, reported / counted)) if counted > 0 else 1.0


def meter_on(compaction: Mapping[str, Any], counter: TokenCounter, overhead: int) -> Meter:
    """Measures the requests of a thread whose model is not known here, by the largest factor that it has learnt."""
    return Meter(counter, overhead, max((compaction.get("calibration") or {}).values(), default=1.0))
