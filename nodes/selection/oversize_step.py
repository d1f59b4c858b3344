"""Make room for a step or an input that leaves no room for anything else.

A step of the model is shortened, then dropped whole; an input that the model has not read is shortened.
"""

from collections.abc import Iterator
from dataclasses import replace

from langchain_core.messages import AnyMessage, HumanMessage

from ..conversation.clipping import both_ends, with_clipped_text
from ..conversation.tokens import joined_texts
from ..digest.digest import digest
from ..digest.entry import Section
from .selector import MIN_PREVIEW, Choice, Demand, Selection, Selector
from .strategy_chain import fitting, tokens_of_summary

_MARKER = 24
"""Number of tokens of a shortened input's marker lines and of the signs between its parts."""

_EXTRACTED: tuple[Section, ...] = ("Said", "Facts")


def forced(selector: Selector, demand: Demand) -> Selection | None:
    """Return a selection that keeps only what must stay, for a request that cannot be sent otherwise.

    Results that the model has not read are shortened before their step is dropped. `None` if `Demand.must_fit` is
    false or if nothing fits.
    """
    if not demand.must_fit:
        return None
    tried = (_fitted(selector, demand, choice) for choice in _all_resorts(selector, demand))
    return next(filter(None, tried), None)


def _fitted(selector: Selector, demand: Demand, choice: Choice) -> Selection | None:
    if whole := fitting(selector, demand, [choice]):
        return whole
    found = selector.resolve(demand, choice)
    need = tokens_of_summary(demand, choice, found, shortens=True)
    return selector.shorten_unread(found, demand.ceiling - need)


def _all_resorts(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Yield the last resorts, then the same with a shortened input, then without a summary if none is owed."""
    found = list(_last_resorts(selector, demand))
    yield from found
    shorter = [short for choice in found if (short := _with_shortened_input(selector, demand, choice))]
    yield from shorter
    yield from (replace(choice, summarize=False) for choice in [*found, *shorter])


def _with_shortened_input(selector: Selector, demand: Demand, choice: Choice) -> Choice | None:
    """Return the choice with the text of the unread input shortened; images in it stay.

    Half of the free tokens are left for the summary.
    """
    clip = dict(choice.clip)
    for index in selector.shortened_input:
        message = selector.view.messages[index]
        text = joined_texts(message)
        size = selector.meter.counter.text(text)
        rest = selector.tokens(choice.drop, choice.clip) - selector.meter.scaled(size)
        free = selector.meter.unscaled(demand.ceiling - (choice.summary or 0) - rest) - _MARKER
        if (keep := max(free // 2, MIN_PREVIEW)) < size:
            clip[index] = _shortened(selector, message, text, keep)
    return replace(choice, clip=clip) if len(clip) > len(choice.clip) else None


def _shortened(selector: Selector, message: AnyMessage, text: str, tokens: int) -> AnyMessage:
    """Return an input with the ends of its `text`, and the user's words and facts of what is between.

    If beginning and end together exceed `tokens`, only the beginning stays.
    """
    counter, recall = selector.meter.counter, selector.settings.has_recall_tool
    ends = both_ends(text, tokens // 2, counter)
    left = tokens - counter.text(ends)
    if left < 0:
        return with_clipped_text(message, counter.head(text, tokens), counter, recall=recall)
    said, shown = HumanMessage(text), HumanMessage(ends)
    made = digest([said], budget=left, counter=counter, sections=_EXTRACTED, beside=[shown])
    short = f"{ends}\n{made.text}" if made.text else ends
    return with_clipped_text(message, short, counter, recall=recall)


def _last_resorts(selector: Selector, demand: Demand) -> Iterator[Choice]:
    """Yield choices that drop all that need not stay, clip texts next to calls, and drop more and more steps.

    A step is a tool block that is unread or was interrupted, or an unread result without a call; the oldest steps are
    dropped first, but the one with the turn's thinking last, because the others may not be sent without it. A message
    with very many calls, or with reasoning blocks, cannot be clipped enough: the conversation can continue only
    without that message.
    """
    takes = (False, True) if selector.yielding_input else (False,)
    view, last = selector.view, selector.view.opening.indexes if selector.view.opening else ()
    units = {view.block_of[i].indexes if i in view.block_of else (i,) for i in selector.steps}
    steps = [frozenset(unit) for unit in sorted(units, key=lambda unit: (unit == last, unit))]
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
