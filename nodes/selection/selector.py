"""A conversation as strategies see it, and what becomes of their choices: what leaves, what stays shortened."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from ..config.settings import CompactionSettings
from ..conversation.clipping import clip_calls, clip_result, clip_said
from ..conversation.item_types import is_skill
from ..conversation.message_marks import is_pinned, is_summary, pins_in
from ..conversation.sizes import Meter
from ..conversation.transcript import Transcript, all_calls, calls_of
from ..events import Counts

LEAST_PREVIEW = 8


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What the result of a selection has to reach, in tokens of the whole request."""

    before: int
    """What the request holds now."""
    ceiling: int
    """Must stay at or under this, summary included."""
    aim: int
    """Worked towards once the floor has to yield."""
    summary: int
    """What is kept free for the summary."""
    least: int = 0
    """The least that a summary needs, for a strategy that divides the room by itself."""
    messages: int | None = None
    """Most messages in view, where it was their number that fired; the summary is one of them."""
    summarize_all: bool = False
    """Whether the whole conversation is to be summarized, whatever the strategies would keep."""
    must_fit: bool = False
    """Whether the request cannot be sent as it is: it is over the limit, or the provider has refused it."""
    step_notice: int = 0
    """What the summary takes besides where it stands for a step that the model waits for."""

    @property
    def roomy(self) -> int:
        """What a result with the full floor must not exceed, or the next turn would compact again."""
        return self.ceiling - (self.ceiling - self.aim) // 3


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a plan takes away. Indexes are positions in the transcript."""

    floor: int
    drop: frozenset[int] = frozenset()
    clip: Mapping[int, AnyMessage] = field(default_factory=dict[int, AnyMessage])
    counts: Counts = field(default_factory=Counts)
    ceiling: int = 0
    """What the result may hold at most; the gate holds it to that."""
    tokens: int = 0
    """Tokens of the request without what is dropped and with what is clipped; no summary yet."""
    owes_summary: bool = False
    """Whether an earlier summary leaves, a pin, the last user message or a step that the model waits for: something
    must stand in their place."""
    summarize: bool | None = None
    """Whether what leaves is summarized; `None`: as `summary_mode` says."""
    sections: tuple[frozenset[int], ...] = ()
    """Parts of what leaves that are summarized each by itself, in order; together all of it, or none."""
    name: str = ""
    """The strategies it comes from."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a strategy would take away. Indexes are positions in the conversation that it was shown.

    It may name what must stay: system messages, pins, the unanswered user message and what the model waits for
    are left where they are, and a tool block leaves whole or not at all.
    """

    drop: frozenset[int] = frozenset()
    clip: Mapping[int, AnyMessage] = field(default_factory=dict[int, AnyMessage])
    """Shortened forms of messages that stay, under their own ids."""
    floor: int = 0
    """Newest rounds whose dialogue the choice promises to leave verbatim; the gate holds it to that."""
    enough: int | None = None
    """Tokens at or under which no further choice is looked at; `None`: whatever fits is enough."""
    summarize: bool | None = None
    """Whether what leaves is summarized; `None`: as `summary_mode` says."""
    summary: int | None = None
    """Least tokens that it leaves for the summary; `None`: as the demand says."""
    sections: tuple[frozenset[int], ...] = ()
    """Parts of what leaves that are summarized each by itself, in order; what is in none goes with the next."""
    name: str = ""
    """The strategy that made it, where one acts through another."""
    takes_input: bool = False
    """Whether the unanswered input leaves too, where the settings allow that (`long_input`)."""
    takes_steps: bool = False
    """Whether steps leave too: tool blocks that the model waits for, or whose calls were interrupted. Only where the
    request cannot be sent as it is (`Demand.must_fit`)."""
    then: tuple[str, ...] | None = None
    """Strategies that are tried next, in place of those that the settings name."""


@dataclass(frozen=True)
class Selector:
    """One conversation, with the settings and the measure that strategies choose by."""

    view: Transcript
    settings: CompactionSettings
    meter: Meter
    pins: frozenset[str] = frozenset()

    def closed(self, demand: Demand, choice: Choice) -> Selection:
        """What a strategy's choice comes to: what must stay stays, and blocks stay whole."""
        fixed = self.untouchable - self.yielding if choice.takes_input else self.untouchable
        if choice.takes_steps and demand.must_fit:
            fixed -= self.steps
        drop = choice.drop - fixed
        broken = {i for block in self.view.blocks if not drop.issuperset(block.indexes) for i in block.indexes}
        drop -= broken
        if self._is_summarized(demand, choice, drop):
            drop |= self.summaries - fixed  # the new one stands for them too
        alone = drop <= self.summaries
        if alone and self.tokens(frozenset(), choice.clip) <= demand.ceiling:
            drop = frozenset()  # an earlier summary alone is nothing to summarize
        found = self.selection(demand, drop, choice.clip, floor=choice.floor)
        sections = _dealt(drop, choice.sections)
        return replace(found, summarize=choice.summarize, sections=sections, name=choice.name)

    def _is_summarized(self, demand: Demand, choice: Choice, drop: frozenset[int]) -> bool:
        """Whether a summary of what leaves is certain."""
        if not drop or choice.summarize is not None:
            return bool(drop) and bool(choice.summarize)
        return self.settings.summary_mode != "if_needed" or self.tokens(drop, choice.clip) > demand.aim

    @cached_property
    def summaries(self) -> frozenset[int]:
        """Indexes of earlier summaries."""
        return frozenset(index for index, message in enumerate(self.view.messages) if is_summary(message))

    def without(self, drop: frozenset[int]) -> tuple["Selector", list[int]]:
        """The conversation when these have left, and the place here of each message that is left."""
        left = [index for index in range(len(self.view.messages)) if index not in drop]
        view = Transcript([self.view.messages[index] for index in left])
        return replace(self, view=view), left

    def selection(
        self, demand: Demand, drop: frozenset[int], clip: Mapping[int, AnyMessage], *, floor: int
    ) -> Selection:
        """The choice of what is dropped and clipped, with what follows from it."""
        messages = self.view.messages
        clip = {index: message for index, message in clip.items() if index not in drop}
        no_user = all(index in drop for index, message in enumerate(messages) if isinstance(message, HumanMessage))
        return Selection(
            floor=floor,
            ceiling=demand.ceiling,
            drop=drop,
            clip=clip,
            counts=self.count(drop, clip),
            tokens=self.tokens(drop, clip),
            owes_summary=no_user
            or any(is_summary(messages[i]) or pins_in(messages[i]) for i in drop)
            or not drop.isdisjoint(self.view.unseen)
            or self._loses_goal(drop),
        )

    def _loses_goal(self, drop: frozenset[int]) -> bool:
        """Whether the first request leaves and no summary tells it yet, where the goal always stays."""
        first = self.view.round_starts[:1]
        told = any(map(is_summary, self.view.messages))
        return "goal" in self.settings.key_information and drop.issuperset(first) and bool(first) and not told

    @cached_property
    def spoken(self) -> list[int]:
        """Indexes of all but the system messages."""
        return [index for index in range(len(self.view.messages)) if index not in self.view.header]

    @cached_property
    def untouchable(self) -> frozenset[int]:
        """Indexes no plan drops: system messages, pins, the unanswered user message, calls in the balance."""
        view = self.view
        waiting = {i for block in view.blocks if not view.is_settled(block) for i in block.indexes}
        pending = () if view.pending_user is None else (view.pending_user,)
        return frozenset({*view.header, *self.pinned, *waiting, *view.unseen, *pending})

    @cached_property
    def yielding(self) -> frozenset[int]:
        """The unanswered input, where the settings let it go: the model has read it, and nobody has pinned it."""
        view, pending = self.view, self.view.pending_user
        if self.settings.long_input == "keep" or pending is None:
            return frozenset()
        is_read = any(isinstance(message, AIMessage) for message in view.messages[pending + 1 :])
        return frozenset({pending} if is_read else ()) - self.pinned

    @cached_property
    def steps(self) -> frozenset[int]:
        """Tool blocks that leave only where the request cannot be sent otherwise: see `Choice.takes_steps`.

        A block with an open call is not among them: its result is still to come.
        """
        closed = {i for block in self.view.blocks if not self.view.is_open(block) for i in block.indexes}
        return frozenset(closed & self.untouchable) - self.pinned

    @cached_property
    def pinned(self) -> frozenset[int]:
        """Indexes of pinned messages and of the other messages of their tool blocks."""
        own = {index for index, message in enumerate(self.view.messages) if is_pinned(message, self.pins)}
        partners = {i for pin in own if (block := self.view.block_of.get(pin)) for i in block.indexes}
        return frozenset(own | partners)

    def rounds(self, floor: int) -> frozenset[int]:
        """User messages, meta ones too, and call-free assistant messages of the last `floor` rounds."""
        starts = self.view.round_starts
        if not floor or not starts:
            return frozenset()
        first = starts[-floor] if len(starts) >= floor else starts[0]
        return frozenset(i for i in range(first, len(self.view.messages)) if self.is_dialogue(i))

    def is_dialogue(self, index: int) -> bool:
        """Whether this is what a person said, a meta message that is no skill, or an answer without calls."""
        message = self.view.messages[index]
        spoken = isinstance(message, HumanMessage | AIMessage) and not calls_of(message)
        return spoken and not is_summary(message) and not is_skill(message)

    def clip(
        self, kept: frozenset[int], calls: int, results: int, keep: int, *, texts: bool = False
    ) -> dict[int, AnyMessage]:
        """Kept messages whose fields pass a threshold, shortened to `keep` tokens a field.

        With `texts` so is what the model says beside its calls, by the threshold of calls.
        """
        counter, recall, short = self.meter.counter, self.settings.recall, dict[int, AnyMessage]()
        for index in self._clippable(kept):
            message = self.view.messages[index]
            if isinstance(message, AIMessage):
                called = clip_calls(message, threshold=calls, keep=keep, counter=counter)
                said = clip_said(called, threshold=calls, keep=keep, counter=counter, recall=recall)
                new: AnyMessage = said if texts else called
            elif isinstance(message, ToolMessage):
                new = clip_result(message, threshold=results, keep=keep, counter=counter, recall=recall)
            else:
                continue
            if new is not message and counter.message(new) < counter.message(message):
                short[index] = new
        return short

    def _clippable(self, kept: frozenset[int]) -> list[int]:
        """Indexes of kept blocks whose fields may be shortened: all but the pinned ones."""
        return [
            index
            for block in self.view.blocks
            for index in block.indexes
            if index in kept and index not in self.pinned
        ]

    def tight_clip(
        self, kept: frozenset[int], drop: frozenset[int], goal: int, *, texts: bool = False
    ) -> dict[int, AnyMessage]:
        """Fields cut to the size at which the request just reaches the goal, found by halving."""
        best: dict[int, AnyMessage] | None = None
        low, high = LEAST_PREVIEW, self.settings.preview_tokens
        while low <= high:
            keep = (low + high) // 2
            short = self.clip(kept, keep * 2, keep * 2, keep, texts=texts)
            if self.tokens(drop, short) <= goal:
                best, low = short, keep + 1
            else:
                high = keep - 1
        return (
            self.clip(kept, LEAST_PREVIEW * 2, LEAST_PREVIEW * 2, LEAST_PREVIEW, texts=texts)
            if best is None
            else best
        )

    def tokens(self, drop: frozenset[int], clip: Mapping[int, AnyMessage]) -> int:
        """Tokens of the request that is left when whole blocks and single messages are dropped."""
        count = self.meter.counter.message
        left = sum(weight for index, weight in enumerate(self._weights) if index not in drop)
        saved = sum(count(self.view.messages[i]) - count(new) for i, new in clip.items() if i not in drop)
        return self.meter.scaled(self.meter.overhead + left - saved)

    @cached_property
    def _weights(self) -> list[int]:
        return self.meter.weights(self.view)

    def count(self, drop: frozenset[int], clip: Mapping[int, AnyMessage]) -> Counts:
        """The event's counters for this choice."""
        dropped = sum(block.start in drop for block in self.view.blocks)
        calls = [(self.view.messages[index], new) for index, new in clip.items() if isinstance(new, AIMessage)]
        return Counts(
            blocks_kept=len(self.view.blocks) - dropped,
            blocks_dropped=dropped,
            calls_clipped=sum(_changed(old, new) for old, new in calls),
            results_clipped=sum(isinstance(message, ToolMessage) for message in clip.values()),
        )


def _dealt(drop: frozenset[int], sections: Sequence[frozenset[int]]) -> tuple[frozenset[int], ...]:
    """All that is dropped, dealt out to the sections: each index to the first that ends no earlier."""
    ends = sorted(max(section) for section in sections if section)
    dealt: list[set[int]] = [set() for _ in ends]
    for index in drop if ends else ():
        dealt[min(bisect_left(ends, index), len(ends) - 1)].add(index)
    return tuple(frozenset(part) for part in dealt if part)


def _changed(old: AnyMessage, new: AIMessage) -> int:
    """How many calls of a message have other arguments than before."""
    return sum(a.get("args") != b.get("args") for a, b in zip(all_calls(old), all_calls(new), strict=True))
