"""Reads a window or a budget as a person writes it: a number of tokens, or a share."""

import math

from langgraph_compaction.nodes import SettingsError


def tokens_or_share(text: str) -> int | float:
    """Return tokens as an int, or a share of 1 as a float: 8000 of "8000" or "8_000", 0.25 of "25%" or "0.25".

    A text without a point and a percent sign is a number of tokens, so that "1" is one token and "1.0" the whole.
    Raise SettingsError for any other text.
    """
    is_percent = text.endswith("%")
    number = text.removesuffix("%")
    try:
        value = float(number) / 100 if is_percent else float(number) if "." in number else int(number)
    except ValueError:
        value = 0
    if not value > 0 or not math.isfinite(value) or (value > 1 and "." in number and not is_percent):
        raise SettingsError(f"{text!r} is neither a number of tokens nor a share: write 32000, 25% or 0.25")
    return value


def window_label(window: float) -> str:
    """Return what `tokens_or_share` returned as text: "8,000 tokens" of an int, "25%" of a float."""
    return f"{window:,} tokens" if isinstance(window, int) else f"{window:.0%}"


def share(text: str) -> float:
    """Return a share above 0 and up to 1, of "25%", "0.25" or "1"; raise SettingsError for any other text."""
    value = tokens_or_share(text)
    if value > 1:
        raise SettingsError(f"{text!r} is no share: write shares above 0 and up to 1, as 0.25 or 25%")
    return float(value)


def part_of(text: str, whole: int) -> int:
    """Return tokens: the number that `text` gives, or its share of `whole`, rounded up."""
    value = tokens_or_share(text)
    if isinstance(value, int):
        return value
    return math.ceil(whole * value - 1e-9)  # floating point must not round 55 up to 56
