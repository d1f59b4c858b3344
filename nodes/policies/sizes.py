"""Window, reserve, limit, room, trigger and aim of one call (DESIGN §4). All figures are tokens."""

from dataclasses import dataclass

from ..errors import SettingsError
from ..settings import CompactionSettings
from ..triggers import share

MOST_RESERVE = 16_384


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes that hold for one call of one model."""

    window: int
    reserve: int
    fixed: int
    """System prompt, tool schemas and system messages: what no compaction touches."""
    trigger: int
    aim: int
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


def sizes_of(settings: CompactionSettings, *, window: int, fixed: int, max_tokens: int | None = None) -> Sizes:
    """Derive the sizes of a call.

    `max_tokens` is the model's own output limit, if it has one. Where the aim already lies above the trigger, the
    trigger is raised: the ratio is then taken of the room. Raises `SettingsError` where no room is left.
    """
    reserve = _reserve(settings, window, max_tokens)
    limit = window - reserve
    room = limit - fixed
    if room <= 0:
        raise SettingsError(
            f"no room for a conversation: window {window} - output reserve {reserve} - system prompt, system "
            f"messages and tool schemas {fixed} = {room} tokens. Set a larger context_window, a smaller "
            "output_reserve (or max_tokens of the model), or shorten the prompt."
        )
    trigger = min([limit, *(one.threshold(window) for one in settings.token_triggers)])
    raised = fixed + room * settings.target_ratio > trigger
    if raised:
        ratio = settings.trigger_ratio or trigger / window
        above = ratio if ratio > settings.target_ratio else (1 + settings.target_ratio) / 2
        trigger = max(trigger, fixed + share(room, above))
    aim = fixed + share(room, settings.target_ratio)
    return Sizes(window=window, reserve=reserve, fixed=fixed, trigger=trigger, aim=aim, raised=raised)


def _reserve(settings: CompactionSettings, window: int, max_tokens: int | None) -> int:
    if settings.output_reserve is not None:
        return settings.output_reserve
    return max_tokens if max_tokens is not None else min(MOST_RESERVE, window // 8)
