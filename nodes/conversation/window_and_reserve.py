"""Derive the sizes of a model call: window, reserve for the answer, limit, room, trigger and aim."""

import math
from dataclasses import dataclass

from ..config.settings import CompactionSettings
from ..config.triggers import ReserveTokens, TokenTrigger, UsedTokens, share, threshold
from ..errors import SettingsError

MAX_RESERVE = 16_384
"""Largest number of tokens reserved for the answer if neither the settings nor the model say how many."""
MIN_RESERVE = 4_096
"""Smallest number of tokens reserved for the answer if neither the settings nor the model say how many. In a window
of less than 65,536 tokens the smallest reserve is a sixteenth of the window."""
LARGE_RESERVE = 0.05
"""If the reserve that is set is a larger share of the window than this, ratios in the settings are shares of the
limit instead of the window."""
LEAST_BESIDE_PINS = 128
"""Tokens that pins leave at least: the shortest summary, which tells of a removed step, and a short question."""
RECALL_SHARE = 0.05
"""Share of the room that automatic recall may take."""
MAX_RECALLED = 1_000
"""Largest number of tokens that automatic recall may take."""
MIN_RECALLED = 100
"""Where that share is less, it takes nothing: a quotation in so few tokens says too little."""
SOFT_ZONE = 0.02
"""Smallest distance between trigger and limit, as a share of the window."""


def most_pinned(room: int) -> int:
    """Return the tokens that pins may hold in a room: half of it, and `LEAST_BESIDE_PINS` less than all of it."""
    return max(0, min(room // 2, room - LEAST_BESIDE_PINS))


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes that apply to one model call, in tokens."""

    window: int
    reserve: int
    limit: int
    """Maximum size of a conversation that is sent: the window minus the reserve and `recalled`."""
    fixed: int
    """Tokens of the system prompt, the tool schemas and the system messages, which no compaction changes."""
    room: int
    """Tokens for the conversation: the limit minus the fixed part, or the trigger minus it with `trigger_tokens`."""
    base: int
    """The size that ratios in the settings refer to: the window, or the limit if `of_limit`."""
    trigger: int
    aim: int
    recalled: int = 0
    """Tokens kept free for what automatic recall quotes from the archive."""
    of_limit: bool = False
    """Whether ratios refer to the limit instead of the window, because the configured reserve is large."""
    raised: bool = False
    """Whether the trigger is the fixed part plus a share of the room, because the ratio alone would leave little or
    no space between aim and trigger, so that one compaction would soon follow another."""

    @property
    def most_pinned(self) -> int:
        """Tokens that pins may hold together."""
        return most_pinned(self.room)


def capped(settings: CompactionSettings, window: int) -> int:
    """Return the window to use of a model that accepts `window` tokens: not more than `context_window`."""
    return min(settings.context_window or window, window)


def sizes_of(
    settings: CompactionSettings, *, window: int, fixed: int, max_tokens: int | None = None, recalls: bool = False
) -> Sizes:
    """Derive the sizes of a call of a model that accepts `window` tokens.

    `max_tokens` is the model's own limit for its answer, if known. The answer has the tokens above `context_window`
    first, and takes from that window only what it needs beyond them; `output_reserve` in the settings is always taken
    from it. A ratio is a share of the window, or of the limit if the given reserve exceeds 5 % of the window.
    `recalls` says that the call may quote the archive, for which `RECALL_SHARE` of the room is kept free.

    The trigger is its ratio of that base, but at least the fixed part plus a share of the room: the mean of the ratio
    and `target_ratio`, or `target_ratio` if the ratio is less. So the trigger rises with the ratio, and the
    conversation has at least `target_ratio` of the room, however large the fixed part is. Of a trigger by tokens, it
    has at least that share of these tokens.

    The trigger lies at least 2 % of the window below the limit, or half the distance from aim to limit if that is
    less. Without a soft zone the trigger may equal the limit; without a token trigger it is the limit. If the
    trigger does not lie above that aim, the aim is `target_ratio` of the tokens between fixed part and trigger.

    Raises `SettingsError` if no room is left for a conversation.
    """
    own, window = window, capped(settings, window)
    if settings.output_reserve is None:
        needed = _automatic_reserve(settings, own) if max_tokens is None else max_tokens
        reserve = max(0, needed - (own - window))
        of_limit = max_tokens is not None and reserve > 0 and needed > own * LARGE_RESERVE
    else:
        reserve = settings.output_reserve
        of_limit = reserve > window * LARGE_RESERVE
    recalled = min(MAX_RECALLED, share(window - reserve - fixed, RECALL_SHARE)) if recalls else 0
    if recalled < MIN_RECALLED:
        recalled = 0
    limit = window - reserve - recalled
    room = limit - fixed
    if room <= 0:
        raise SettingsError(
            f"no room for a conversation: window {window} - output reserve {reserve} - system prompt, system "
            f"messages and tool schemas {fixed} = {room} tokens. Set a larger context_window, a smaller "
            "output_reserve (or max_tokens of the model), or shorten the prompt."
        )
    aim = fixed + share(room, settings.target_ratio)
    base = limit if of_limit else window
    first = min(settings.token_triggers, key=lambda one: _threshold(one, window, base), default=None)
    trigger, raised = limit, False
    if first is not None:
        fires_at, target = _threshold(first, window, base), settings.target_ratio
        usable, ratio = room, first.compared_with(window) / window
        if isinstance(first, UsedTokens):
            usable, ratio = min(first.tokens, room), target
        least = fixed + share(usable, (max(ratio, target) + target) / 2)
        raised = least > fires_at
        zone = min(math.ceil(window * SOFT_ZONE), (limit - aim) // 2) if settings.policy.soft_zone else 0
        trigger = min(max(fires_at, least), limit - zone)
    if isinstance(first, UsedTokens):
        room = min(room, trigger - fixed)  # what stands beside the conversation is not to fill it
    if trigger <= aim:
        aim = fixed + share(trigger - fixed, settings.target_ratio)
    return Sizes(
        window=window,
        reserve=reserve,
        limit=limit,
        fixed=fixed,
        room=room,
        base=base,
        trigger=trigger,
        aim=aim,
        recalled=recalled,
        of_limit=of_limit,
        raised=raised,
    )


def _threshold(trigger: TokenTrigger, window: int, base: int) -> int:
    """Return the size in tokens at which a trigger fires; a `ReserveTokens` trigger always refers to the window."""
    return threshold(trigger, window if isinstance(trigger, ReserveTokens) else base)


def _automatic_reserve(settings: CompactionSettings, window: int) -> int:
    """Return the tokens to reserve for the answer if neither the settings nor the model say how many.

    The reserve is an eighth of the window, or half of the tokens above the lowest trigger if that is less. The other
    half remains as the soft zone, in which a failed compaction can wait for the next turn. The result is at most
    `MAX_RESERVE`, and at least `MIN_RESERVE` or, in a small window, a sixteenth of the window.
    """
    above = window - min((one.compared_with(window) for one in settings.token_triggers), default=0)
    most = min(MAX_RESERVE, window // 8, above // 2)
    return max(most, min(MIN_RESERVE, window // 16))
