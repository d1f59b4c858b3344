"""Read LangChain's `trigger` and `keep` as settings: ("fraction", 0.8), ("tokens", 4_000), ("messages", 50)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.config.settings import chosen
from langgraph_compaction.nodes.config.triggers import Count, ReserveTokens

ContextSize = tuple[str, float]
"""A kind and its value, as LangChain's `SummarizationMiddleware` takes them."""

KINDS = ("fraction", "tokens", "messages")
AIM = 0.625
"""The aim of a compaction as a share of its trigger, as in the default settings (0.5 / 0.8)."""
LEAST_AIM = 0.001


def sizes_in(given: Any, name: str) -> tuple[ContextSize, ...]:
    """Return the sizes that an argument gives: none, one, or several, of which the first to be reached counts.

    Raise `SettingsError` for a value that is no size, and for a mapping of several sizes, which asks for a trigger
    that fires only when all of them are reached.
    """
    if given is None:
        return ()
    if isinstance(given, list):
        several: list[Any] = given
        return tuple(size for one in several for size in sizes_in(one, name))
    if isinstance(given, Mapping):
        clause = cast("Mapping[str, Any]", given)
        if len(clause) != 1:
            raise SettingsError(
                f"{name}={clause!r} asks for all of several sizes: give a list where any one is enough, or a "
                'function of your own: triggers={"mine": lambda reading: ...} with '
                'settings=CompactionSettings(triggers=({"kind": "own", "name": "mine"},))'
            )
        given = next(iter(clause.items()))
    return (_checked(given, name),)


def _checked(given: Any, name: str) -> ContextSize:
    pair: tuple[Any, ...] = given if isinstance(given, tuple) else ()
    if len(pair) == len(("kind", "value")):
        kind, value = pair
        whole = isinstance(value, int) and not isinstance(value, bool)
        share = kind == "fraction" and (whole or isinstance(value, float)) and 0 < value <= 1
        if share or (kind in KINDS[1:] and whole and value > 0):
            return kind, value
    raise SettingsError(
        f'{name}={given!r} is no size: give ("fraction", 0.8), a share of the window of at most 1, ("tokens", 4_000) '
        'or ("messages", 50), above 0'
    )


def with_sizes(
    settings: CompactionSettings, trigger: Sequence[ContextSize], keep: Sequence[ContextSize], window: int
) -> CompactionSettings:
    """Return the settings with these triggers and this `keep`, for a model that accepts `window` tokens.

    Raise `SettingsError` if the given settings contradict these triggers or this `keep`.
    """
    changed: dict[str, Any] = {}
    if len(keep) > 1:
        raise SettingsError(f"keep takes one size, not {list(keep)!r}")
    if trigger:
        _refuse_both(settings, "trigger", ("trigger_ratio", "triggers"))
        changed |= _triggers(settings, trigger, window)
    for kind, value in keep:
        _refuse_both(settings, "keep", ("strategies", "recent_rounds_keep", "recent_rounds_as", "recent_tokens_keep"))
        if kind == "messages":
            pairs = math.ceil(value / 2)
            changed |= {
                "strategies": ("recent_rounds",),
                "recent_rounds_as": "message_pairs",
                "recent_rounds_keep": pairs,
            }
        else:
            tokens = value if kind == "tokens" else max(1, int(window * value))
            changed |= {"strategies": ("recent_tokens",), "recent_tokens_keep": tokens}
    return CompactionSettings.model_validate({**chosen(settings), **changed}) if changed else settings


def _triggers(settings: CompactionSettings, sizes: Sequence[ContextSize], window: int) -> dict[str, Any]:
    shares = [value for kind, value in sizes if kind == "fraction"]
    tokens = [int(value) for kind, value in sizes if kind == "tokens"]
    counts = [int(value) for kind, value in sizes if kind == "messages"]
    changed: dict[str, Any] = {
        "trigger_ratio": min(shares, default=None),
        "triggers": (
            *(ReserveTokens(tokens=max(0, window - most), operator=">=") for most in tokens),
            *(Count(unit="events", limit=most) for most in counts),
        ),
    }
    lowest = min([*shares, *(most / window for most in tokens)], default=None)
    if lowest is not None:
        changed["target_ratio"] = max(LEAST_AIM, min(settings.target_ratio, lowest * AIM))
    return changed


def _refuse_both(settings: CompactionSettings, name: str, fields: Sequence[str]) -> None:
    if said := sorted(chosen(settings).keys() & set(fields)):
        raise SettingsError(f"{name}= and settings.{said[0]} set the same: give one of them")
