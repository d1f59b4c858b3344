"""Decide whether a trigger fires: the tokens of a request, a count, a marker, or an application's own trigger."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AnyMessage, SystemMessage

from ..config.settings import CompactionSettings
from ..config.triggers import Count, Hook, Marker, Own, Unit
from ..conversation.message_marks import is_real_user
from ..conversation.window_and_reserve import Sizes
from ..errors import SettingsError


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
                f"extensions=Extensions(triggers={{{trigger.name!r}: function}}) to it"
            )


def firing(
    reading: Reading, settings: CompactionSettings, own: Mapping[str, OwnTrigger] | None = None
) -> Firing | None:
    """Return the first trigger that fires, in the order marker, tokens, then counts and own triggers as configured.

    A size equal to the threshold fires. The marker fires at the next check, whatever the policy's `hooks` say. If the
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
    if reading.hook not in settings.policy.hooks:
        return Firing() if over else None
    if over or (settings.token_triggers and reading.size >= reading.sizes.trigger):
        return Firing()
    for trigger in settings.triggers:
        if isinstance(trigger, Count) and count_fires(
            trigger, reading.count(trigger.unit), reading.in_vain.get(trigger.unit)
        ):
            seen = trigger.unit in ("messages", "events")
            return Firing(
                name=trigger.unit, summarize_all=trigger.full, max_messages=trigger.max_count if seen else None
            )
        if isinstance(trigger, Own) and own[trigger.name](reading):
            return Firing(name=trigger.name)
    return None


def count_fires(trigger: Count, count: int, in_vain: int | None = None) -> bool:
    """Whether a count fires the trigger.

    `in_vain` is the count at an attempt that found nothing to compact: after it the trigger fires again only once
    the count has grown by a tenth of the limit. Turns and calls of the model are counted anew from each attempt
    and need no `in_vain`.
    """
    again = in_vain is None or not in_vain <= count < in_vain + max(1, trigger.limit // 10)
    return count > trigger.max_count and again
