"""Strategies by name: those that come with the package, beside an application's own."""

from collections.abc import Callable, Iterable, Mapping

from ...config.base_model import hint
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
"""Looks at a conversation and yields choices, from the one that keeps most to the one that keeps least.

None at all where it does not apply. Pure: no model, no clock, no I/O.
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
"""The strategies that settings may name without anything given to a builder."""


def with_own(own: Mapping[str, Strategy] | None) -> dict[str, Strategy]:
    """The package's strategies and an application's own; raises `SettingsError` for a name that is taken."""
    taken = sorted(BUILT_IN.keys() & (own or {}).keys())
    if taken:
        raise SettingsError(f"strategies: the package has a strategy {taken[0]!r} already; give yours another name")
    return {**BUILT_IN, **(own or {})}


def check_named(names: Iterable[str], known: Mapping[str, Strategy]) -> None:
    """Raise `SettingsError` for a name that is no strategy, with the nearest one that is."""
    for name in names:
        if name not in known:
            raise SettingsError(f"there is no strategy {name!r}: {hint(name, known)}")
