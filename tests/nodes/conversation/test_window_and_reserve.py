"""Window, reserve, limit, trigger and aim of a call."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_compaction.nodes.config.policies import PRESETS
from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.config.triggers import ReserveTokens, UsedRatio
from langgraph_compaction.nodes.conversation.window_and_reserve import Sizes, sizes_of
from langgraph_compaction.nodes.errors import SettingsError
from tests.settings import settings as of_flat_names

WINDOWS = st.integers(4_000, 2_000_000)
RATIOS = st.floats(0.51, 1)
RESERVES = st.none() | st.floats(0, 0.9)
"""Shares of the window; none: the automatic reserve."""


def sizes(window: int, *, fixed: int = 0, max_tokens: int | None = None, **chosen: float | None) -> Sizes:
    """Return the sizes of a call with these settings."""
    return sizes_of(of_flat_names(**chosen), window=window, fixed=fixed, max_tokens=max_tokens)


@pytest.mark.parametrize(
    ("window", "ratio", "trigger"),
    [
        (80_000, 0.8, 64_000),
        (128_000, 0.75, 96_000),
        (128_000, 0.8, 102_400),
        (128_000, 0.85, 108_800),
        (200_000, 0.9, 180_000),
        (1_000, 0.85, 850),
        (100, 0.29, 29),
        (999, 0.8, 799),
    ],
)
def test_the_trigger_is_a_share_of_the_window(window: int, ratio: float, trigger: int) -> None:
    """The golden thresholds of the requirements: whole tokens, rounded down, no float error."""
    assert sizes(window, trigger_ratio=ratio, target_ratio=0.2).trigger == trigger


@pytest.mark.parametrize(
    ("window", "chosen", "reserve"),
    [
        (80_000, {}, 8_000),
        (128_000, {}, 12_800),
        (2_000_000, {}, 16_384),
        (4_000, {}, 400),
        (7, {}, 0),
        (200_000, {"max_tokens": 4_096}, 4_096),
        (200_000, {"max_tokens": 4_096, "output_reserve": 1_000}, 1_000),
        (200_000, {"max_tokens": 4_096, "output_reserve": 0}, 0),
        (128_000, {"trigger_ratio": 0.9}, 6_400),  # half of what lies above the trigger
        (128_000, {"trigger_ratio": 0.95}, 4_096),  # which would leave too little for an answer
        (8_000, {"trigger_ratio": 0.9}, 500),
        (128_000, {"trigger_ratio": 0.55}, 16_000),
        (128_000, {"trigger_ratio": None}, 16_000),  # no trigger by tokens
    ],
)
def test_the_reserve_is_the_setting_else_the_models_else_automatic(
    window: int, chosen: dict[str, Any], reserve: int
) -> None:
    """Automatic: the least of an eighth of the window, half of what lies above the trigger, and 16,384 tokens.

    And never less than 4,096 tokens, or a sixteenth of a small window.
    """
    found = sizes(window, **chosen)
    assert (found.reserve, found.limit) == (reserve, window - reserve)


def test_a_large_reserve_that_was_set_makes_ratios_a_share_of_the_limit() -> None:
    """More than 5 % of the window, whether the model or the settings say it; never the automatic one."""
    for chosen in ({"max_tokens": 50_001}, {"output_reserve": 50_001}):
        found = sizes(1_000_000, **chosen)
        assert (found.of_limit, found.base, found.limit) == (True, 949_999, 949_999)
        assert found.trigger == 759_999
    small = sizes(1_000_000, max_tokens=50_000)
    assert (small.of_limit, small.base, small.trigger) == (False, 1_000_000, 800_000)
    assert not sizes(4_000).of_limit


@pytest.mark.parametrize(
    ("chosen", "trigger", "limit"),
    [
        ({"output_reserve": 500}, 400, 500),
        ({"output_reserve": 0, "trigger_ratio": 0.99}, 980, 1_000),
        ({"output_reserve": 50, "trigger_ratio": 0.97}, 930, 950),
        ({"output_reserve": 50, "trigger_ratio": 0.97, "soft_zone": False}, 950, 950),
        ({"output_reserve": 0, "trigger_ratio": 1, "soft_zone": False}, 1_000, 1_000),
        ({"output_reserve": 100, "trigger_ratio": 1}, 880, 900),
        ({"output_reserve": 0, "trigger_ratio": None}, 1_000, 1_000),
    ],
)
def test_the_trigger_stays_below_the_limit(chosen: dict[str, float], trigger: int, limit: int) -> None:
    """By 2 % of the window; without a soft zone, and without a trigger by tokens, it is the limit at most."""
    found = sizes(1_000, **chosen)
    assert (found.trigger, found.limit) == (trigger, limit)


@pytest.mark.parametrize(
    ("fixed", "trigger", "aim"),
    [
        (0, 800, 500),
        (428, 800, 714),
        (429, 429 + 371, 429 + 285),  # the same by either rule
        (600, 600 + 260, 600 + 200),
        (900, 900 + 65, 950),
        (999, 999, 999),
    ],
)
def test_a_large_fixed_part_raises_the_trigger(fixed: int, trigger: int, aim: int) -> None:
    """To 65 % of the room, the mean of 80 % and the target of 50 %; else a compaction would soon follow another."""
    found = sizes(1_000, fixed=fixed, output_reserve=0)
    assert (found.trigger, found.aim) == (trigger, aim)


@pytest.mark.parametrize(
    ("window", "fixed", "trigger", "aim"),
    [
        (1_000_000, 0, 100_000, 50_000),
        (1_000_000, 40_000, 100_000, 70_000),
        (1_000_000, 50_000, 100_000, 75_000),
        (1_000_000, 90_000, 140_000, 115_000),  # so that the conversation has half of the tokens
        (100_000, 0, 80_000, 50_000),  # the share of the window comes first
    ],
)
def test_a_trigger_in_tokens_counts_beside_the_share(window: int, fixed: int, trigger: int, aim: int) -> None:
    """A compaction starts at the smaller one, and leaves half of what is above the prompt."""
    settings = CompactionSettings(output_reserve=0, trigger_tokens=100_000)
    found = sizes_of(settings, window=window, fixed=fixed)
    assert (found.trigger, found.aim) == (trigger, aim)
    assert found.room == (trigger if window > 100_000 else window) - fixed


@pytest.mark.parametrize("fixed", [0, 20_000, 60_000])
def test_a_trigger_at_or_under_the_target_ratio_lowers_the_aim(fixed: int) -> None:
    """Half of the room is the conversation's all the same, and half of that remains after a compaction."""
    for trigger in (UsedRatio(ratio=0.4), ReserveTokens(tokens=200_000)):
        settings = CompactionSettings(trigger_ratio=None, output_reserve=0, triggers=(trigger,))
        found = sizes_of(settings, window=100_000, fixed=fixed)
        assert found.trigger == fixed + (100_000 - fixed) // 2
        assert found.aim == fixed + (100_000 - fixed) // 4


@pytest.mark.parametrize("fixed", [900, 901, 5_000])
def test_no_room_is_an_error_that_names_the_sizes(fixed: int) -> None:
    """It says what to change; one token of room is enough."""
    with pytest.raises(SettingsError, match=rf"window 1000 - output reserve 100 .* {fixed} = .*context_window"):
        sizes(1_000, fixed=fixed, output_reserve=100)
    assert sizes(1_000, fixed=899, output_reserve=100).room == 1


def settings_of(
    preset: str, window: int, reserve: int | None = None, ratio: float | None = None
) -> CompactionSettings:
    """A preset in a whole window, with a reserve and a ratio of one's own, if given."""
    given = {"context_window": window, "output_reserve": reserve} | (
        {} if ratio is None else {"trigger_ratio": ratio}
    )
    return CompactionSettings.model_validate({"preset": preset, **given})


@given(
    preset=st.sampled_from(PRESETS),
    window=st.integers(1, 300_000) | WINDOWS,
    reserve=RESERVES,
    fixed=st.floats(0, 1.1),
    ratio=st.none() | RATIOS,
    of_model=st.booleans(),
)
def test_sizes_are_in_order_and_leave_a_soft_zone(
    preset: str, window: int, reserve: float | None, fixed: float, ratio: float | None, *, of_model: bool
) -> None:
    """Fixed <= aim <= trigger <= limit <= window, or there is no room, which is an error.

    In every preset but the one that wants none, 2 % of the window or a quarter of the room is the soft zone.
    """
    tokens = None if reserve is None else int(window * reserve)
    settings = settings_of(preset, window, None if of_model else tokens, ratio)
    most = tokens if of_model else None
    limit = sizes_of(settings, window=window, fixed=0, max_tokens=most).limit
    assert tokens is None or limit == window - tokens
    taken = int(limit * fixed)
    if taken >= limit:
        with pytest.raises(SettingsError, match="no room"):
            sizes_of(settings, window=window, fixed=taken, max_tokens=most)
        return
    found = sizes_of(settings, window=window, fixed=taken, max_tokens=most)
    assert found.limit == limit
    assert found.fixed <= found.aim <= found.trigger <= found.limit <= window
    if preset != "faithful":
        assert found.limit - found.trigger >= min(window // 50, found.room // 4)
    elif ratio is None:
        assert found.trigger == found.limit


@given(
    window=WINDOWS,
    reserve=RESERVES,
    fixed=st.floats(0, 0.99),
    ratios=st.tuples(RATIOS, RATIOS).map(sorted),
    of_model=st.booleans(),
)
def test_the_trigger_rises_with_the_ratio(
    window: int, reserve: float | None, fixed: float, ratios: list[float], *, of_model: bool
) -> None:
    """The base never depends on it, and no fixed part turns two ratios around."""
    tokens = None if reserve is None else int(window * reserve)
    given = {} if of_model else {"output_reserve": tokens}
    limit = window - (tokens or 0)
    low, high = (
        sizes(
            window,
            fixed=int(limit * fixed * 0.87),
            max_tokens=tokens if of_model else None,
            trigger_ratio=ratio,
            **given,
        )
        for ratio in ratios
    )
    assert low.of_limit == high.of_limit
    assert low.trigger <= high.trigger


@given(
    preset=st.sampled_from(PRESETS),
    own=WINDOWS,
    windows=st.tuples(st.integers(1_000, 2_000_000), st.integers(1_000, 2_000_000)).map(sorted),
    answer=st.none() | st.floats(0, 0.9),
)
def test_the_limit_rises_with_the_window_in_the_settings(
    preset: str, own: int, windows: list[int], answer: float | None
) -> None:
    """Up to what the answer leaves of the model's own window; a window below that is used whole."""
    tokens = None if answer is None else int(own * answer)
    low, high = (sizes_of(settings_of(preset, window), window=own, fixed=0, max_tokens=tokens) for window in windows)
    assert low.limit <= high.limit
    of_model = sizes_of(settings_of(preset, own), window=own, fixed=0, max_tokens=tokens)
    assert low.limit == min(windows[0], of_model.limit)


def test_of_several_triggers_the_lowest_counts() -> None:
    """Also for what the automatic reserve leaves above it; reserved tokens are of the window whatever the base."""
    found = sizes_of(CompactionSettings(triggers=(UsedRatio(ratio=0.6),)), window=100_000, fixed=0)
    assert (found.trigger, found.reserve) == (60_000, 12_500)
    reserving = CompactionSettings(preset="reserve_tokens")
    assert sizes_of(reserving, window=200_000, fixed=0, max_tokens=10_001).trigger == 183_617
