"""Whether a conversation is compacted now, by which trigger, and whether that is urgent."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from langchain_core.messages import AnyMessage, SystemMessage

from ..config.settings import CompactionSettings
from ..config.triggers import Count, Hook, Marker, Own, Unit
from ..conversation.message_marks import is_real_user
from ..conversation.sizes import Sizes
from ..errors import SettingsError

Decision = Literal["compact", "confirm", "choose", "deferred", "declined", "held"]

GROWTH = 0.05
"""Share of the window by which a conversation must grow before a declined question is asked again."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a trigger is asked about."""

    hook: Hook
    size: int
    """Tokens of the next request; under `pre_input` without the newest user message."""
    sizes: Sizes
    messages: Sequence[AnyMessage] = ()
    """The conversation as the model sees it."""
    turns: int = 0
    """Inputs since the last compaction, or since the last attempt by a count or a wish that found nothing to do."""
    in_vain: Mapping[Unit, int] = field(default_factory=dict[Unit, int])
    """By unit, the count at which the last attempt found nothing to do, if there was no compaction since."""
    marked: str | None = None
    """The marker that the model wrote into its last answer."""

    def count(self, unit: Unit) -> int:
        """How many of these there are."""
        return self.turns if unit == "turns" else counted(self.messages, unit)


def counted(messages: Sequence[AnyMessage], unit: Unit) -> int:
    """How many of these a conversation holds as the model sees it: rounds, messages, or all messages."""
    if unit == "rounds":
        return sum(map(is_real_user, messages))
    if unit == "messages":
        return sum(not isinstance(message, SystemMessage) for message in messages)
    return len(messages)


OwnTrigger = Callable[[Reading], bool]
"""A trigger of the application's own. Pure, and quick: it is asked at every check."""


@dataclass(frozen=True, kw_only=True)
class Firing:
    """The trigger that fired."""

    name: str = "tokens"
    """`tokens`, `marker`, the unit of a count, or the name of an application's own trigger."""
    full: bool = False
    """Whether it goes straight to the summary of the whole conversation."""
    most: int | None = None
    """Most messages in view at which it would not have fired, where it counts them."""


def check_own(settings: CompactionSettings, own: Mapping[str, OwnTrigger]) -> None:
    """Raise `SettingsError` where `triggers` names one that the builder was not given."""
    for trigger in settings.triggers:
        if isinstance(trigger, Own) and trigger.name not in own:
            raise SettingsError(
                f"triggers names {trigger.name!r}, which the builder was not given: pass "
                f"triggers={{{trigger.name!r}: function}} to it"
            )


def firing(
    reading: Reading, settings: CompactionSettings, own: Mapping[str, OwnTrigger] | None = None
) -> Firing | None:
    """The first trigger that fires: the marker, tokens (the threshold itself counts as reached), counts, own.

    The model's marker is heard at whatever check comes next; over the limit a request is compacted before the model
    whatever the hooks say. Nothing fires where the settings are not `enabled`.
    """
    if not settings.enabled:
        return None
    return _wished(reading, settings) or _reached(reading, settings, own or {})


def _wished(reading: Reading, settings: CompactionSettings) -> Firing | None:
    known = (trigger for trigger in settings.triggers if isinstance(trigger, Marker))
    return next((Firing(name=one.kind, full=one.full) for one in known if one.text == reading.marked), None)


def _reached(reading: Reading, settings: CompactionSettings, own: Mapping[str, OwnTrigger]) -> Firing | None:
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
            return Firing(name=trigger.unit, full=trigger.full, most=trigger.most if seen else None)
        if isinstance(trigger, Own) and own[trigger.name](reading):
            return Firing(name=trigger.name)
    return None


@dataclass(frozen=True, kw_only=True)
class TriggerHistory:
    """What of a thread's past bears on the decision."""

    held_off: str = ""
    """Why the breaker holds automatic compactions off; empty where it does not."""
    declined_at: int | None = None
    asks_first: bool = False
    undone: bool = False
    """Whether the last compaction was undone and the thread not released since."""


UNTROUBLED = TriggerHistory()


def decide(size: int, sizes: Sizes, standing: TriggerHistory = UNTROUBLED, *, answered: bool = False) -> Decision:
    """What to do about a request of `size` tokens for which a trigger fired; `answered`: the turn is over.

    Over the limit nothing is deferred or held off. Where a person is asked first, they choose there how the
    conversation goes on, whether they declined before or not. After the answer nothing is about to be sent:
    the usual question is enough, and after a no the choice waits for the next input.
    """
    if size > sizes.limit:
        return _over_the_limit(standing, answered=answered)
    if standing.undone:
        return "held"
    if standing.held_off:
        return "deferred"
    if not standing.asks_first:
        return "compact"
    declined = standing.declined_at is not None and size < standing.declined_at + sizes.window * GROWTH
    return "declined" if declined else "confirm"


def _over_the_limit(standing: TriggerHistory, *, answered: bool) -> Decision:
    if not standing.asks_first:
        return "compact"
    if not answered:
        return "choose"
    return "confirm" if standing.declined_at is None else "declined"
