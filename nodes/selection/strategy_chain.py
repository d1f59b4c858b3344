"""Run the strategies in order, each on the messages that the previous ones kept, until the result is small enough."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from .selector import Choice, Demand, Selection, Selector
from .strategies.full import full
from .strategies.registry import BUILT_IN, Strategy


def choose(selector: Selector, demand: Demand, strategies: Mapping[str, Strategy] = BUILT_IN) -> Selection | None:
    """Return the first choice of at most its `enough` tokens, else the first that fits with its summary."""
    return _fitting(selector, demand, choices(selector, demand, strategies))


def forced(selector: Selector, demand: Demand) -> Selection | None:
    """Return a selection that keeps only what must stay, for a request that cannot be sent otherwise.

    `None` if `Demand.must_fit` is false or if nothing fits.
    """
    return _fitting(selector, demand, _last_resorts(selector, demand)) if demand.must_fit else None


def _fitting(selector: Selector, demand: Demand, tried: Iterable[Choice]) -> Selection | None:
    fallback: Selection | None = None
    for choice in tried:
        found = selector.resolve(demand, choice)
        need = demand.summary if choice.summary is None else choice.summary
        need = need if found.drop and (found.summarize is not False or found.owes_summary) else 0
        if found.tokens + need > demand.ceiling or _too_many(selector, demand, found):
            continue
        if choice.enough is None or found.tokens + need <= choice.enough:
            return found
        fallback = fallback or found
    return fallback


def _too_many(selector: Selector, demand: Demand, found: Selection) -> bool:
    left = len(selector.view.messages) - len(found.drop) + bool(found.drop)
    return demand.messages is not None and left > demand.messages


def choices(selector: Selector, demand: Demand, strategies: Mapping[str, Strategy]) -> Iterator[Choice]:
    """Yield the choices of each strategy, applied to what the previous strategies kept, the mildest choice first.

    If `summary_mode` is `last_resort`, a summary of the whole conversation follows. If `long_input` allows it, the
    last choice also drops the unanswered user message.
    """
    last_resort = selector.settings.summary_mode == "last_resort"
    before = Choice(summarize=False if last_resort else None)
    named = deque(() if demand.summarize_all else selector.settings.strategies)
    while named:
        name, latest = named.popleft(), None
        for choice in _on_the_rest(selector, before.drop, strategies[name], demand):
            latest = _after(before, choice, name)
            yield latest
        if latest is not None:
            before = latest
            named = named if latest.then is None else deque(latest.then)
    if demand.summarize_all or last_resort:
        yield from (replace(choice, name="full") for choice in full(selector, demand))
    if selector.yielding_input:
        yield with_unanswered_input(selector, demand)


def with_unanswered_input(selector: Selector, demand: Demand) -> Choice:
    """Return the choice that drops all messages that need not stay, and the unanswered user message."""
    must = selector.untouchable - selector.yielding_input
    drop = frozenset(range(len(selector.view.messages))) - must
    clip = selector.tight_clip(must, drop, demand.aim - demand.least)
    return Choice(drop=drop, clip=clip, summary=demand.least, summarize=True, takes_input=True, name="with_input")


def _last_resorts(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Yield choices that drop all that need not stay, clip texts next to calls, and drop more and more steps.

    A step is a tool block that is unread or was interrupted; the oldest steps are dropped first. A message with very
    many calls, or with reasoning blocks, cannot be clipped enough: the conversation can continue only without that
    message.
    """
    takes = (False, True) if selector.yielding_input else (False,)
    steps = [frozenset(block.indexes) for block in selector.view.blocks if block.start in selector.steps]
    for count in sorted({0, len(steps), *(1 << power for power in range(len(steps).bit_length()))}):
        gone = frozenset[int]().union(*steps[:count])
        least = demand.least + (0 if gone.isdisjoint(selector.view.unseen) else demand.step_notice)
        for takes_input in takes:
            must = selector.untouchable - gone - (selector.yielding_input if takes_input else frozenset())
            drop = frozenset(range(len(selector.view.messages))) - must
            yield Choice(
                drop=drop,
                clip=selector.tight_clip(must, drop, demand.ceiling - least, texts=True),
                summary=least,
                summarize=True,
                takes_input=takes_input,
                takes_steps=count > 0,
                name="forced",
            )


def _after(before: Choice, choice: Choice, name: str) -> Choice:
    """Return a choice that names all strategies so far, and that is summarized if the choice `before` must be."""
    names = [*before.name.split(">"), choice.name or name] if before.name else [choice.name or name]
    summarize = before.summarize if before.summarize or choice.summarize is None else choice.summarize
    return replace(choice, name=">".join(names), summarize=summarize)


def _on_the_rest(selector: Selector, gone: frozenset[int], strategy: Strategy, demand: Demand) -> Iterator[Choice]:
    """Yield a strategy's choices for the remaining messages, with indexes of the whole conversation."""
    if not gone:
        yield from strategy(selector, demand)
        return
    rest, places = selector.without(selector.resolve(demand, Choice(drop=gone)).drop)
    for choice in strategy(rest, demand):
        drop = gone | _original_indexes(choice.drop, places)
        clip = {places[index]: message for index, message in choice.clip.items()}
        sections = tuple(_original_indexes(part, places) for part in choice.sections)
        yield replace(choice, drop=drop, clip=clip, sections=sections)


def _original_indexes(indexes: Sequence[int] | frozenset[int], places: Sequence[int]) -> frozenset[int]:
    return frozenset(places[index] for index in indexes)
