"""Run the strategies in order, each on the messages that the previous ones kept, until the result is small enough."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from .selector import Choice, Demand, Selection, Selector
from .strategies.full import full
from .strategies.registry import BUILT_IN, Strategy


def choose(selector: Selector, demand: Demand, strategies: Mapping[str, Strategy] = BUILT_IN) -> Selection | None:
    """Return the first choice of the strategies that is small enough, else the first that fits with its summary."""
    return fitting(selector, demand, choices(selector, demand, strategies))


def fitting(selector: Selector, demand: Demand, tried: Iterable[Choice]) -> Selection | None:
    """Return the first choice of at most its `enough` tokens, else the first that fits with its summary."""
    fallback: Selection | None = None
    for choice in tried:
        found = selector.resolve(demand, choice)
        need = tokens_of_summary(demand, choice, found)
        if found.tokens + need > demand.ceiling or _too_many(selector, demand, found):
            continue
        if choice.enough is None or found.tokens + need <= choice.enough:
            return found
        fallback = fallback or found
    return fallback


def shortened(selector: Selector, demand: Demand, strategies: Mapping[str, Strategy] = BUILT_IN) -> Selection | None:
    """Return a choice in which results that the model has not read are shortened to the room that the rest leaves.

    The rest is that of the first choice that would reach the aim without these results, else that of the last one.
    `None` if the request can be sent as it is, or if nothing fits.
    """
    if not demand.must_fit or not selector.unread_results:
        return None
    best: tuple[Selection, int] | None = None
    for choice in choices(selector, demand, strategies):
        found = selector.resolve(demand, choice)
        if _too_many(selector, demand, found):
            continue
        best = found, tokens_of_summary(demand, choice, found, shortens=True)
        if found.tokens - selector.tokens_unread() + best[1] <= demand.aim:
            break
    return selector.shorten_unread(best[0], demand.ceiling - best[1]) if best else None


def tokens_of_summary(demand: Demand, choice: Choice, found: Selection, *, shortens: bool = False) -> int:
    """Return the tokens to reserve for a summary; with `shortens`, unread results are still to be shortened."""
    if found.may_be_summarized(demand) or (shortens and demand.by_model and found.summarize is not False):
        return demand.summary if choice.summary is None else choice.summary
    return 0


def _too_many(selector: Selector, demand: Demand, found: Selection) -> bool:
    left = len(selector.view.messages) - len(found.drop) + bool(found.drop)
    return demand.messages is not None and left > demand.messages


def choices(selector: Selector, demand: Demand, strategies: Mapping[str, Strategy]) -> Iterator[Choice]:
    """Yield the choices of each strategy, applied to what the previous strategies kept, the mildest choice first.

    If `summary_mode` is `last_resort`, a summary of the whole conversation follows.
    """
    last_resort = selector.settings.summary_mode == "last_resort"
    before = Choice(summarize=False if last_resort else None)
    named = deque(() if demand.summarize_all else selector.settings.policy.strategies)
    while named:
        name, latest = named.popleft(), None
        if name in demand.left_out:
            continue
        for choice in _on_the_rest(selector, before.drop, strategies[name], demand):
            latest = _after(before, choice, name)
            yield latest
        if latest is not None:
            before = latest
            named = named if latest.then is None else deque(latest.then)
    if demand.summarize_all or last_resort:
        yield from (replace(choice, name="full") for choice in full(selector, demand))


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
