"""Window, reserve, limit, room, trigger and aim of one call of a model. All figures are tokens. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage

from ..config.settings import CompactionSettings
from ..config.triggers import ReserveTokens, TokenTrigger, share
from ..errors import SettingsError
from .request import parts, render
from .tokens import TokenCounter, total
from .transcript import Transcript

MOST_RESERVE = 16_384
"""Most tokens that are kept free for an answer where neither settings nor model say how many."""
LEAST_RESERVE = 4_096
"""The least, in a window of 65,536 tokens or more; a sixteenth of a smaller one."""
LARGE_RESERVE = 0.05
"""Share of the window above which a reserve that is set makes ratios a share of the limit."""
SOFT_ZONE = 0.02
"""Share of the window that lies between trigger and limit at least."""
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


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes that hold for one call of one model."""

    window: int
    reserve: int
    fixed: int
    """System prompt, tool schemas and system messages: what no compaction touches."""
    trigger: int
    aim: int
    of_limit: bool = False
    """Whether ratios are taken of the limit, because the reserve that is set takes much of the window."""
    raised: bool = False
    """Whether the fixed part takes so much that the trigger's ratio is taken of the room."""

    @property
    def limit(self) -> int:
        """What no request exceeds."""
        return self.window - self.reserve

    @property
    def room(self) -> int:
        """What is left for the conversation."""
        return self.limit - self.fixed

    @property
    def base(self) -> int:
        """What every ratio of the settings is taken of."""
        return self.limit if self.of_limit else self.window


def sizes_of(settings: CompactionSettings, *, window: int, fixed: int, max_tokens: int | None = None) -> Sizes:
    """Derive the sizes of a call.

    `max_tokens` are the tokens of the window that the model's own answer takes, where that is known; a reserve in
    the settings takes their place. Every ratio is a share of the window, or of the limit where a reserve given in
    one of these two ways takes more than 5 % of the window: that depends on the model, never on the ratio.

    The trigger stays 2 % of the window below the limit, or half of what lies between aim and limit where that is
    less; with `soft_zone=False` it may be the limit, and without a trigger by tokens it is the limit. Where the aim
    lies above the trigger, the trigger is raised: its ratio is then taken of the room. Raises `SettingsError` where
    no room is left.
    """
    given = settings.output_reserve if settings.output_reserve is not None else max_tokens
    reserve = _automatic_reserve(settings, window) if given is None else given
    limit = window - reserve
    room = limit - fixed
    if room <= 0:
        raise SettingsError(
            f"no room for a conversation: window {window} - output reserve {reserve} - system prompt, system "
            f"messages and tool schemas {fixed} = {room} tokens. Set a larger context_window, a smaller "
            "output_reserve (or max_tokens of the model), or shorten the prompt."
        )
    of_limit = given is not None and given > window * LARGE_RESERVE
    aim = fixed + share(room, settings.target_ratio)
    base = limit if of_limit else window
    first = min(settings.token_triggers, key=lambda one: _threshold(one, window, base), default=None)
    trigger, raised = limit, False
    if first is not None:
        trigger = min(limit, _threshold(first, window, base))
        raised = fixed + room * settings.target_ratio > trigger
        if raised:
            used, target = first.used(window), settings.target_ratio
            trigger = fixed + share(room, used if used > target else (1 + target) / 2)
        zone = min(math.ceil(window * SOFT_ZONE), (limit - aim) // 2) if settings.soft_zone else 0
        trigger = min(trigger, limit - zone)
    return Sizes(
        window=window, reserve=reserve, fixed=fixed, trigger=trigger, aim=aim, of_limit=of_limit, raised=raised
    )


def _threshold(trigger: TokenTrigger, window: int, base: int) -> int:
    """Fewest tokens that fire a trigger; a number of tokens is always one of the window."""
    return trigger.threshold(window if isinstance(trigger, ReserveTokens) else base)


def _automatic_reserve(settings: CompactionSettings, window: int) -> int:
    """An eighth of the window, but at most half of what lies above the lowest trigger: a soft zone is left there."""
    above = window - min((one.compared_with(window) for one in settings.token_triggers), default=0)
    most = min(MOST_RESERVE, window // 8, above // 2)
    return max(most, min(LEAST_RESERVE, window // 16))
