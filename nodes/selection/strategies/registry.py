"""Strategies by name: the package's and an application's own."""

from collections.abc import Callable, Iterable, Mapping

from ...config.base_model import nearest
from ...errors import SettingsError
from ..selector import Choice, Demand, Selector
from .adaptive import adaptive
from .faithful import faithful
from .full import full
from .importance import importance
from .incremental import incremental
from .key_events import key_events
from .recent_rounds import recent_rounds
from .recent_tokens import recent_tokens
from .sliding_window import sliding_window
from .tool_blocks import tool_blocks
from .typed_rules import typed_rules

Strategy = Callable[[Selector, Demand], Iterable[Choice]]
"""A function that yields choices for a conversation, the choice that keeps most messages first.

A strategy that does not apply yields no choice. A strategy must be pure: no model, no clock, no I/O.
"""

BUILT_IN: Mapping[str, Strategy] = {
    "tool_blocks": tool_blocks,
    "typed_rules": typed_rules,
    "adaptive": adaptive,
    "sliding_window": sliding_window,
    "importance": importance,
    "key_events": key_events,
    "incremental": incremental,
    "recent_rounds": recent_rounds,
    "recent_tokens": recent_tokens,
    "full": full,
    "faithful": faithful,
}
"""The package's strategies, which settings may always name."""


def with_own(own: Mapping[str, Strategy] | None) -> dict[str, Strategy]:
    """Return the package's and an application's own strategies; raise `SettingsError` if a name is taken."""
    taken = sorted(BUILT_IN.keys() & (own or {}).keys())
    if taken:
        raise SettingsError(f"strategies: the package has a strategy {taken[0]!r} already; give yours another name")
    return {**BUILT_IN, **(own or {})}


def check_named(names: Iterable[str], known: Mapping[str, Strategy]) -> None:
    """Raise `SettingsError` for a name that is not a known strategy; the message suggests the nearest one."""
    for name in names:
        if name not in known:
            raise SettingsError(f"there is no strategy {name!r}: {nearest(name, known)}")
