"""Read LangChain's `trigger` and `keep` as settings: ("fraction", 0.8), ("tokens", 4_000), ("messages", 50)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.config.settings import chosen
from langgraph_compaction.nodes.config.triggers import Count
from langgraph_compaction.nodes.selection.strategies.recent_rounds import recent_messages
from langgraph_compaction.nodes.selection.strategies.recent_tokens import recent_tokens
from langgraph_compaction.nodes.selection.strategies.registry import Strategy

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
                'function of your own: extensions=Extensions(triggers={"mine": lambda reading: ...}) with '
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
    if not trigger and not keep:
        return settings
    changed: dict[str, Any] = {}
    if len(keep) > 1:
        raise SettingsError(f"keep takes one size, not {list(keep)!r}")
    if trigger:
        if said := sorted(chosen(settings).keys() & {"trigger_ratio", "trigger_tokens", "triggers"}):
            raise SettingsError(f"trigger= and settings.{said[0]} set the same: give one of them")
        changed |= _triggers(settings, trigger)
    policy = settings.policy
    if keep:
        if policy.strategies != type(policy)().strategies:
            raise SettingsError("keep= and the policy's strategies set the same: give one of them")
        policy = policy.model_copy(update={"strategies": tuple(kept_by(keep, window))})
    given = {**chosen(settings), **changed, "policy": policy}
    return CompactionSettings.model_validate(given)


def kept_by(keep: Sequence[ContextSize], window: int) -> dict[str, Strategy]:
    """Return the strategy that keeps so many messages or tokens, by its name; empty if `keep` is."""
    found: dict[str, Strategy] = {}
    for kind, value in keep:
        if kind == "messages":
            found["recent_messages"] = partial(recent_messages, most=int(value))
        else:
            tokens = int(value) if kind == "tokens" else max(1, int(window * value))
            found["recent_tokens"] = partial(recent_tokens, most=tokens)
    return found


def _triggers(settings: CompactionSettings, sizes: Sequence[ContextSize]) -> dict[str, Any]:
    shares = [value for kind, value in sizes if kind == "fraction"]
    tokens = [int(value) for kind, value in sizes if kind == "tokens"]
    counts = [int(value) for kind, value in sizes if kind == "messages"]
    changed: dict[str, Any] = {
        "trigger_ratio": min(shares, default=None),
        "trigger_tokens": min(tokens, default=None),
        "triggers": tuple(Count(unit="events", limit=most) for most in counts),
    }
    if shares:
        changed["target_ratio"] = max(LEAST_AIM, min(settings.target_ratio, min(shares) * AIM))
    return changed
