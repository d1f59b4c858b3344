"""Decide whether a trigger fires, and what to do if one does: compact, ask a person, wait, or do nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from langchain_core.messages import AnyMessage, SystemMessage

from ..config.settings import CompactionSettings
from ..config.triggers import Count, Hook, Marker, Own, Unit
from ..conversation.message_marks import is_real_user
from ..conversation.window_and_reserve import Sizes
from ..errors import SettingsError

Decision = Literal["compact", "confirm", "choose", "deferred", "declined", "held"]

GROWTH = 0.05
"""Share of the window by which a conversation must grow before a declined question is asked again."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The measurements of a conversation from which triggers are evaluated."""

    hook: Hook
    size: int
    """Number of tokens of the next request; at the hook `pre_input` without the newest user message."""
    sizes: Sizes
    messages: Sequence[AnyMessage] = ()
    """The messages that the model sees."""
    turns: int = 0
    """Number of user inputs since the last compaction, or since an attempt (by count or request) that did nothing."""
    model_calls: int = 0
    """Number of the model's calls since then, including the call about to be made."""
    in_vain: Mapping[Unit, int] = field(default_factory=dict[Unit, int])
    """For each unit (such as rounds), the count at which a trigger last found nothing to compact; empty after a
    compaction."""
    marked: str | None = None
    """The marker that the model wrote in its last answer, if any."""

    def count(self, unit: Unit) -> int:
        """Return how many turns, calls of the model, rounds, messages or events there are now."""
        since_compaction: Mapping[Unit, int] = {"turns": self.turns, "model_calls": self.model_calls}
        return since_compaction[unit] if unit in since_compaction else counted(self.messages, unit)


def counted(messages: Sequence[AnyMessage], unit: Unit) -> int:
    """Return how many rounds, messages except system messages, or (for events) messages of any type there are."""
    if unit == "rounds":
        return sum(map(is_real_user, messages))
    if unit == "messages":
        return sum(not isinstance(message, SystemMessage) for message in messages)
    return len(messages)


OwnTrigger = Callable[[Reading], bool]
"""An application's own trigger. It must be pure and fast, because it is called at every check."""


@dataclass(frozen=True, kw_only=True)
class Firing:
    """The trigger that fired, and what it demands of the compaction."""

    name: str = "tokens"
    """`tokens`, `marker`, the unit of a count, or the name of an application's own trigger."""
    summarize_all: bool = False
    """Whether the whole conversation is summarized, without asking the strategies."""
    max_messages: int | None = None
    """For a trigger by messages or events, the largest count at which it does not fire."""


def check_own_triggers(settings: CompactionSettings, own: Mapping[str, OwnTrigger]) -> None:
    """Raise `SettingsError` if the setting `triggers` names a trigger that the builder was not given."""
    for trigger in settings.triggers:
        if isinstance(trigger, Own) and trigger.name not in own:
            raise SettingsError(
                f"triggers names {trigger.name!r}, which the builder was not given: pass "
                f"triggers={{{trigger.name!r}: function}} to it"
            )


def firing(
    reading: Reading, settings: CompactionSettings, own: Mapping[str, OwnTrigger] | None = None
) -> Firing | None:
    """Return the first trigger that fires, in the order marker, tokens, then counts and own triggers as configured.

    A size equal to the threshold fires. The marker fires at the next check, whatever the setting `hooks` says. If the
    request is over the limit, the token trigger fires at each check before the model's call, even if the setting
    `hooks` does not list that check. Nothing fires unless the settings are `enabled`.
    """
    if not settings.enabled:
        return None
    return _marker_firing(reading, settings) or _threshold_firing(reading, settings, own or {})


def _marker_firing(reading: Reading, settings: CompactionSettings) -> Firing | None:
    known = (trigger for trigger in settings.triggers if isinstance(trigger, Marker))
    return next((Firing(name=one.kind, summarize_all=one.full) for one in known if one.text == reading.marked), None)


def _threshold_firing(reading: Reading, settings: CompactionSettings, own: Mapping[str, OwnTrigger]) -> Firing | None:
    over = reading.size > reading.sizes.limit and reading.hook != "post_model"
    if reading.hook not in settings.hooks:
        return Firing() if over else None
    if over or (settings.token_triggers and reading.size >= reading.sizes.trigger):
        return Firing()
    for trigger in settings.triggers:
        if isinstance(trigger, Count) and trigger.fires(
            reading.count(trigger.unit), reading.in_vain.get(trigger.unit)
        ):
            seen = trigger.unit in ("messages", "events")
            return Firing(
                name=trigger.unit, summarize_all=trigger.full, max_messages=trigger.max_count if seen else None
            )
        if isinstance(trigger, Own) and own[trigger.name](reading):
            return Firing(name=trigger.name)
    return None


@dataclass(frozen=True, kw_only=True)
class TriggerHistory:
    """The parts of a thread's history that the decision depends on."""

    suspension_reason: str = ""
    """Why the breaker suspends automatic compactions; empty if it does not."""
    declined_at: int | None = None
    """Size of the request, in tokens, at which a person last declined a compaction."""
    asks_first: bool = False
    """Whether a person is asked before a compaction (`require_confirmation`)."""
    undone: bool = False
    """Whether the last compaction was undone, and automatic compactions were not allowed again since then."""


NO_HISTORY = TriggerHistory()


def decide(size: int, sizes: Sizes, history: TriggerHistory = NO_HISTORY, *, answered: bool = False) -> Decision:
    """Return what to do about a request of `size` tokens for which a trigger fired.

    A request over the limit is never `deferred` (by the breaker) or `held` (after an undo). If `require_confirmation`
    is set, a person chooses how such a request goes on, even if the person declined before. If the turn is already
    `answered`, no request is about to be sent: the usual question is asked, and after a refusal the choice of how to
    continue waits for the next input.
    """
    if size > sizes.limit:
        return _over_the_limit(history, answered=answered)
    if history.undone:
        return "held"
    if history.suspension_reason:
        return "deferred"
    if not history.asks_first:
        return "compact"
    declined = history.declined_at is not None and size < history.declined_at + sizes.window * GROWTH
    return "declined" if declined else "confirm"


def _over_the_limit(history: TriggerHistory, *, answered: bool) -> Decision:
    if not history.asks_first:
        return "compact"
    if not answered:
        return "choose"
    return "confirm" if history.declined_at is None else "declined"
