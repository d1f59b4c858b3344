"""From strategies to one selection: each is tried on what those before it left."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from .selector import Choice, Demand, Selection, Selector
from .strategies.full import full
from .strategies.registry import BUILT_IN, Strategy


def choose(selector: Selector, demand: Demand, strategies: Mapping[str, Strategy] = BUILT_IN) -> Selection | None:
    """The first choice that is enough; else the first that fits, and `None` where none fits with its summary."""
    return _fitting(selector, demand, choices(selector, demand, strategies))


def forced(selector: Selector, demand: Demand) -> Selection | None:
    """What leaves where nothing that may stay makes the request fit; `None` where it need not, or nothing fits."""
    return _fitting(selector, demand, _last_resorts(selector, demand)) if demand.must_fit else None


def _fitting(selector: Selector, demand: Demand, tried: Iterable[Choice]) -> Selection | None:
    fallback: Selection | None = None
    for choice in tried:
        found = selector.closed(demand, choice)
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
    """The choices of each strategy on what those before it left, from the most to the least that is kept.

    As a last resort the summary of the whole conversation, where `summary_mode` says so; then with the unanswered
    input in it, where `long_input` does.
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
    if selector.yielding:
        yield with_input(selector, demand)


def with_input(selector: Selector, demand: Demand) -> Choice:
    """Nothing stays but what must, and not even the unanswered input."""
    must = selector.untouchable - selector.yielding
    drop = frozenset(range(len(selector.view.messages))) - must
    clip = selector.tight_clip(must, drop, demand.aim - demand.least)
    return Choice(drop=drop, clip=clip, summary=demand.least, summarize=True, takes_input=True, name="with_input")


def _last_resorts(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Nothing stays but what must, and of that ever less: texts beside calls are cut, then steps leave, oldest first.

    A step is a tool block that the model waits for, or one whose calls were interrupted. One message with very many
    calls, or with thoughts, cannot be cut to fit: only without it can the thread go on.
    """
    takes = (False, True) if selector.yielding else (False,)
    steps = [frozenset(block.indexes) for block in selector.view.blocks if block.start in selector.steps]
    for count in sorted({0, len(steps), *(1 << power for power in range(len(steps).bit_length()))}):
        gone = frozenset[int]().union(*steps[:count])
        least = demand.least + (0 if gone.isdisjoint(selector.view.unseen) else demand.step_notice)
        for takes_input in takes:
            must = selector.untouchable - gone - (selector.yielding if takes_input else frozenset())
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
    """A choice with what the ones before it say: who made it, and whether what left is summarized."""
    names = [*before.name.split(">"), choice.name or name] if before.name else [choice.name or name]
    summarize = before.summarize if before.summarize or choice.summarize is None else choice.summarize
    return replace(choice, name=">".join(names), summarize=summarize)


def _on_the_rest(selector: Selector, gone: frozenset[int], strategy: Strategy, demand: Demand) -> Iterator[Choice]:
    """A strategy's choices for what is left, in terms of the whole conversation."""
    if not gone:
        yield from strategy(selector, demand)
        return
    rest, places = selector.without(selector.closed(demand, Choice(drop=gone)).drop)
    for choice in strategy(rest, demand):
        drop = gone | _there(choice.drop, places)
        clip = {places[index]: message for index, message in choice.clip.items()}
        sections = tuple(_there(part, places) for part in choice.sections)
        yield replace(choice, drop=drop, clip=clip, sections=sections)


def _there(indexes: Sequence[int] | frozenset[int], places: Sequence[int]) -> frozenset[int]:
    return frozenset(places[index] for index in indexes)
