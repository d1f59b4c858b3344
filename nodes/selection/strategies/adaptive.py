"""`adaptive`: the first strategy that applies, in the order of the task's type."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from ...config.strategy_settings import Progressive
from ..selector import Choice, Demand, Selector
from ..task_type import task_type
from .importance import importance
from .incremental import incremental
from .key_events import key_events
from .sliding_window import sliding_window

PROGRESSIVE: Mapping[Progressive, Callable[[Selector, Demand], Iterator[Choice]]] = {
    "sliding_window": sliding_window,
    "importance": importance,
    "key_events": key_events,
    "incremental": incremental,
}


def adaptive(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """One choice at most; where it is not enough, `adaptive_then` says what is tried on the rest."""
    settings = selector.settings
    kind = settings.adaptive_task_type or task_type(selector.view.messages, settings.keyword_languages)
    applying = (
        replace(choice, name=name, then=settings.adaptive_then)
        for name in settings.adaptive_orders.of(kind)
        for choice in PROGRESSIVE[name](selector, demand)
        if selector.closed(demand, choice).drop
    )
    yield from islice(applying, 1)
