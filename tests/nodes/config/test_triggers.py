"""The triggers by tokens and counts: from which request on they fire, at the limit and beside it."""

import pytest

from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.config.settings import settings_of
from langgraph_compaction.nodes.config.triggers import (
    Count,
    RemainingRatio,
    ReserveTokens,
    TokenTrigger,
    UsedRatio,
    threshold,
)
from langgraph_compaction.nodes.errors import SettingsError


@pytest.mark.parametrize(
    ("trigger", "smallest"),
    [
        (UsedRatio(ratio=0.8), 800),
        (UsedRatio(ratio=0.9, operator=">"), 901),
        (RemainingRatio(), 751),
        (RemainingRatio(ratio=0.25, operator="<="), 750),
        (ReserveTokens(tokens=250), 751),
        (ReserveTokens(tokens=250, operator=">="), 750),
    ],
)
def test_each_operator_fires_at_its_own_smallest_request(trigger: TokenTrigger, smallest: int) -> None:
    """The window has 1,000 tokens; a strict comparison fires one token later."""
    assert threshold(trigger, 1_000) == smallest


@pytest.mark.parametrize(("window", "compared", "smallest"), [(16_385, 1, 2), (16_384, 0, 1), (100, 0, 1)])
def test_a_window_smaller_than_the_reserved_tokens_fires_at_once(window: int, compared: int, smallest: int) -> None:
    """The number that is compared is never below zero, and a request is never smaller than one token."""
    trigger = ReserveTokens()
    assert (trigger.compared_with(window), threshold(trigger, window)) == (compared, smallest)


def test_a_count_fires_at_its_limit_or_beyond_it() -> None:
    """`>=` fires at 200 turns; `>` fires above 700 events."""
    assert Count(unit="turns", limit=200).max_count == 199
    assert Count(unit="events", limit=700, operator=">").max_count == 700


def test_the_ratio_comes_before_the_triggers_of_the_settings() -> None:
    """Without a ratio, only the triggers of the settings are left; those that count no tokens are not in the list."""
    others = (Count(unit="turns", limit=5), RemainingRatio())
    assert CompactionSettings(triggers=others).token_triggers == (UsedRatio(ratio=0.8), RemainingRatio())
    assert CompactionSettings(triggers=others, trigger_ratio=None).token_triggers == (RemainingRatio(),)


def test_what_is_no_settings_is_an_error() -> None:
    """The error for a dict says what to write; `None` means the defaults."""
    given = CompactionSettings(trigger_ratio=0.7)
    assert settings_of(given) is given
    assert settings_of(None) == CompactionSettings()
    with pytest.raises(SettingsError, match=r"settings is a dict: give settings=CompactionSettings"):
        settings_of({"trigger_ratio": 0.7})  # that callers err is the point
