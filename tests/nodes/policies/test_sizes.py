import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_compaction.nodes.errors import SettingsError
from langgraph_compaction.nodes.policies.sizes import Sizes, sizes_of
from langgraph_compaction.nodes.settings import CompactionSettings


def sizes(window: int, *, fixed: int = 0, max_tokens: int | None = None, **chosen: float | None) -> Sizes:
    """Return the sizes of a call with these settings."""
    return sizes_of(CompactionSettings.model_validate(chosen), window=window, fixed=fixed, max_tokens=max_tokens)


@pytest.mark.requirement("S1.1", "S1.3")
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
    ("window", "chosen", "max_tokens", "reserve"),
    [
        (80_000, None, None, 10_000),
        (128_000, None, None, 16_000),
        (131_072, None, None, 16_384),
        (200_000, None, None, 16_384),
        (200_000, None, 4_096, 4_096),
        (200_000, 1_000, 4_096, 1_000),
        (200_000, 0, 4_096, 0),
        (7, None, None, 0),
    ],
)
def test_the_reserve_is_the_setting_else_the_models_else_an_eighth(
    window: int, chosen: int | None, max_tokens: int | None, reserve: int
) -> None:
    """An eighth of the window, at most 16,384 tokens; what is left is the limit."""
    found = sizes(window, output_reserve=chosen, max_tokens=max_tokens)
    assert found.reserve == reserve
    assert found.limit == window - reserve


def test_the_trigger_never_lies_above_the_limit() -> None:
    """A large reserve brings it down."""
    assert sizes(1_000, output_reserve=500).trigger == 500
    assert sizes(128_000, trigger_ratio=0.9).trigger == 112_000


@pytest.mark.parametrize(
    ("fixed", "trigger", "aim"),
    [
        (0, 800, 500),
        (600, 800, 800),  # fixed + room/2 is the trigger itself: it stays
        (601, 601 + 319, 601 + 199),  # one token above it: the ratio is taken of the room
        (900, 980, 950),
        (999, 999, 999),
    ],
)
def test_a_large_fixed_part_raises_the_trigger(fixed: int, trigger: int, aim: int) -> None:
    """Where the aim would lie above the trigger, a compaction at each turn would follow."""
    found = sizes(1_000, fixed=fixed, output_reserve=0)
    assert (found.trigger, found.aim) == (trigger, aim)


def test_the_aim_is_the_fixed_part_and_half_the_room() -> None:
    """The share is a setting."""
    assert sizes(1_000, fixed=100, output_reserve=100).aim == 100 + 400
    assert sizes(1_000, fixed=100, output_reserve=100, target_ratio=0.25).aim == 100 + 200
    assert sizes(1_000, fixed=100, output_reserve=100).room == 800


@pytest.mark.parametrize("fixed", [900, 901, 5_000])
def test_no_room_is_an_error_that_names_the_sizes(fixed: int) -> None:
    """It says what to change; one token of room is enough."""
    with pytest.raises(SettingsError, match=rf"window 1000 - output reserve 100 .* {fixed} = .*context_window"):
        sizes(1_000, fixed=fixed, output_reserve=100)
    assert sizes(1_000, fixed=899, output_reserve=100).room == 1


@given(
    window=st.integers(1, 300_000),
    fixed=st.integers(0, 300_000),
    reserve=st.none() | st.integers(0, 50_000),
    ratios=st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 1)).filter(lambda pair: pair[0] < pair[1]),
)
def test_sizes_are_in_order(window: int, fixed: int, reserve: int | None, ratios: tuple[float, float]) -> None:
    """Fixed <= aim <= trigger <= limit < window + 1, and the fixed part below the limit: or there is no room."""
    target, trigger = ratios
    chosen = CompactionSettings(target_ratio=target, trigger_ratio=trigger, output_reserve=reserve)
    kept_free = min(16_384, window // 8) if reserve is None else reserve
    if window - kept_free - fixed <= 0:
        with pytest.raises(SettingsError):
            sizes_of(chosen, window=window, fixed=fixed)
        return
    found = sizes_of(chosen, window=window, fixed=fixed)
    assert found.fixed <= found.aim <= found.trigger <= found.limit == window - kept_free
    assert found.fixed < found.limit
