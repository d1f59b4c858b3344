"""What strategies read (`Demand`: sizes; `Selector`: the conversation) and return (`Choice`, `Selection`)."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from ..config.policies import Selective, TypedRules
from ..config.settings import CompactionSettings
from ..conversation.bound_history import holds_compaction
from ..conversation.clipping import clip_calls, clip_result, clip_text, even_share
from ..conversation.item_types import HEADER, is_skill, item_type
from ..conversation.message_marks import is_pinned, is_summary
from ..conversation.pin_tags import pins_in
from ..conversation.request import Meter, sendable
from ..conversation.tokens import media_of
from ..conversation.transcript import Transcript, all_calls, calls_of
from ..errors import SettingsError
from ..events import NO_COUNTS, Counts

MIN_PREVIEW = 8
"""Smallest number of tokens that a clipped field keeps."""
_MARKER = 24
"""Number of tokens of a shortened result beside its text: the message's overhead and the marker lines."""
_TRIES = 5
"""How often an unread result is shortened further if its end has more tokens than its beginning."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """The sizes that a selection has to reach, in tokens of the whole request."""

    before: int
    """Size of the request before the compaction."""
    ceiling: int
    """Largest allowed size of the request after the compaction, with the summary."""
    aim: int
    """Size of the request that a strategy works towards if it cannot keep all rounds that the settings protect."""
    summary: int
    """Number of tokens reserved for the summary."""
    least: int = 0
    """Smallest number of tokens that a strategy must leave for the summary if it decides that number itself
    (`Choice.summary`)."""
    messages: int | None = None
    """Largest number of messages after the compaction if a trigger by messages or events fired; else `None`."""
    summarize_all: bool = False
    """Whether the whole conversation is summarized, without asking the strategies."""
    by_model: bool = False
    """Whether a model writes the summary. It is then written even if messages are only shortened."""
    must_fit: bool = False
    """Whether the request cannot be sent as it is: it is over the limit, or the provider refused it."""
    step_notice: int = 0
    """Tokens of the line that the summary's message additionally needs if it replaces a tool block that the model has
    not read."""
    left_out: frozenset[str] = frozenset()
    """Names of strategies that are not asked, because a summary of what they chose has just failed."""
    at_last: "Demand | None" = None
    """If `must_fit`, the sizes that the result has to reach on the last level; `None` on the last level itself."""

    @property
    def roomy(self) -> int:
        """Largest accepted size of a result that keeps all rounds.

        A result that is nearer to the ceiling would make the next turn compact again.
        """
        return self.ceiling - (self.ceiling - self.aim) // 3


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The messages to drop and to clip, with the resulting size. Indexes are positions in the conversation."""

    floor: int
    """Number of newest rounds whose user messages and answers stay verbatim; the gate verifies that they do."""
    drop: frozenset[int] = frozenset()
    clip: Mapping[int, AnyMessage] = field(default_factory=dict[int, AnyMessage])
    counts: Counts = field(default_factory=NO_COUNTS.copy)
    ceiling: int = 0
    """Largest allowed size of the result in tokens; the gate verifies the size."""
    tokens: int = 0
    """Number of tokens of the request after dropping and clipping, without the new summary."""
    owes_summary: bool = False
    """Whether a summary message is required, because an earlier summary, a pinned text, the first user message, all
    user messages or an unread tool block are dropped."""
    summarize: bool | None = None
    """Whether the dropped messages are summarized; `None`: the setting `summary_mode` decides."""
    sections: tuple[frozenset[int], ...] = ()
    """Parts of the dropped messages that are summarized separately, in order; empty if one summary covers all."""
    name: str = ""
    """The names of the strategies that led to the selection, joined by `>`."""

    def applied(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """Return the messages that stay in view, without a summary."""
        return [self.clip.get(index, message) for index, message in enumerate(messages) if index not in self.drop]

    def may_be_summarized(self, demand: "Demand") -> bool:
        """Whether a summary may be written: of dropped messages, or by a model of shortened ones."""
        if self.summarize is False:
            return bool(self.drop) and self.owes_summary
        return bool(self.drop) or (demand.by_model and bool(self.clip))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a strategy proposes to drop and to clip. Indexes are positions in the conversation given to the strategy.

    A strategy is allowed to name messages that must stay: `Selector.resolve` does not drop system messages, pins, the
    unanswered user message and unread tool blocks, and drops a tool block whole or not at all.
    """

    drop: frozenset[int] = frozenset()
    clip: Mapping[int, AnyMessage] = field(default_factory=dict[int, AnyMessage])
    """Shortened copies of messages that stay, by index; each copy keeps its message's id."""
    floor: int = 0
    """Number of newest rounds whose user messages and answers the choice keeps verbatim; the gate verifies that it
    does."""
    enough: int | None = None
    """If the result has at most this number of tokens, no later choice is tried; `None`: any result that fits is
    enough."""
    summarize: bool | None = None
    """Whether the dropped messages are summarized; `None`: the setting `summary_mode` decides."""
    summary: int | None = None
    """Number of tokens that the choice reserves for the summary; `None`: `Demand.summary`."""
    sections: tuple[frozenset[int], ...] = ()
    """Parts that are summarized separately, in order; a dropped message that is in no part joins the next part."""
    name: str = ""
    """Name of the strategy that made the choice, if a strategy such as `adaptive` leaves the choice to others."""
    takes_input: bool = False
    """Whether the unanswered user message is dropped too, if the setting `long_input` allows it."""
    takes_steps: bool = False
    """Whether unread or interrupted tool blocks are allowed to be dropped too, if the request cannot be sent as it is
    (`Demand.must_fit`)."""
    then: tuple[str, ...] | None = None
    """Names of the strategies that are tried next, in place of those in the settings; `None`: no change."""


@dataclass(frozen=True)
class Selector:
    """One conversation with the settings and the token meter, given to each strategy."""

    view: Transcript
    settings: CompactionSettings
    meter: Meter
    pins: frozenset[str] = frozenset()
    """Ids of messages that are pinned without a mark."""

    def resolve(self, demand: Demand, choice: Choice) -> Selection:
        """Return a choice's selection, which keeps all messages that must stay and drops no tool block in part."""
        fixed = self.untouchable - self.yielding_input if choice.takes_input else self.untouchable
        if choice.takes_steps and demand.must_fit:
            fixed -= self.steps
        drop = choice.drop - fixed
        broken = {i for block in self.view.blocks if not drop.issuperset(block.indexes) for i in block.indexes}
        drop -= broken
        summarized = self._is_summarized(demand, choice, drop)
        if summarized:
            drop |= self.summaries - fixed  # the new summary contains what the earlier ones say
        alone = drop <= self.summaries and not (summarized and choice.clip)
        if alone and self.tokens(frozenset(), choice.clip) <= demand.ceiling:
            drop = frozenset()  # an earlier summary alone is not worth a new one
        found = self.selection(demand, drop, choice.clip, floor=choice.floor)
        sections = _assign_to_sections(drop, choice.sections)
        return replace(found, summarize=choice.summarize, sections=sections, name=choice.name)

    def _is_summarized(self, demand: Demand, choice: Choice, drop: frozenset[int]) -> bool:
        """Whether the dropped or shortened messages certainly get a summary, whatever size the result has."""
        if not drop and not (demand.by_model and choice.clip):
            return False
        if choice.summarize is not None or self.settings.summary_mode != "if_needed":
            return choice.summarize is not False
        return bool(drop) and self.tokens(drop, choice.clip) > demand.aim

    @cached_property
    def summaries(self) -> frozenset[int]:
        """Indexes of earlier summaries."""
        return frozenset(index for index, message in enumerate(self.view.messages) if is_summary(message))

    def without(self, drop: frozenset[int]) -> tuple["Selector", list[int]]:
        """Return a selector without these messages, and the original index of each message that remains."""
        left = [index for index in range(len(self.view.messages)) if index not in drop]
        view = Transcript([self.view.messages[index] for index in left])
        return replace(self, view=view), left

    def selection(
        self, demand: Demand, drop: frozenset[int], clip: Mapping[int, AnyMessage], *, floor: int
    ) -> Selection:
        """Return the selection that drops and clips these messages, with its size and counters."""
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
        """Whether this drops the user's first message, which no summary states yet, although the goal must stay."""
        first = self.view.round_starts[:1]
        told = any(map(is_summary, self.view.messages))
        return "goal" in self.settings.key_information and drop.issuperset(first) and bool(first) and not told

    @cached_property
    def non_system(self) -> list[int]:
        """Indexes of all messages except system messages."""
        return [index for index in range(len(self.view.messages)) if index not in self.view.header]

    @cached_property
    def untouchable(self) -> frozenset[int]:
        """Indexes that must stay.

        They are those of system messages, pins, the unanswered input, unread or incomplete tool blocks, and the
        block with the thinking at the beginning of the unfinished turn.
        """
        view = self.view
        waiting = {i for block in view.blocks if not view.is_settled(block) for i in block.indexes}
        pending = () if view.pending_user is None else (view.pending_user,)
        opening = () if view.opening is None else view.opening.indexes
        return frozenset({*view.header, *self.pinned, *waiting, *view.unseen, *pending, *opening})

    @cached_property
    def yielding_input(self) -> frozenset[int]:
        """Index of the unanswered user message if it may be dropped: read, not pinned, and `long_input` allows it."""
        view, pending = self.view, self.view.pending_user
        if self.settings.long_input == "keep" or pending is None:
            return frozenset()
        is_read = any(isinstance(message, AIMessage) for message in view.messages[pending + 1 :])
        return frozenset({pending} if is_read else ()) - self.pinned

    @cached_property
    def shortened_input(self) -> frozenset[int]:
        """Index of the unanswered user message if it may be shortened: unread, not pinned, `long_input` allows it."""
        pending = self.view.pending_user
        if self.settings.long_input == "keep" or pending is None or self.yielding_input:
            return frozenset()
        return frozenset({pending}) - self.pinned

    def shortens_input(self, chosen: Selection) -> bool:
        """Whether a selection shortens an unanswered user message that the model has not read."""
        return not self.shortened_input.isdisjoint(chosen.clip)

    @cached_property
    def steps(self) -> frozenset[int]:
        """Indexes of unread tool blocks and results that are dropped only if nothing else helps (`takes_steps`).

        A block with an open call is not included, because its result is still to come.
        """
        closed = {i for block in self.view.blocks if not self.view.is_open(block) for i in block.indexes}
        return (self.view.orphans | closed) & self.untouchable - self.pinned

    @cached_property
    def pinned(self) -> frozenset[int]:
        """Indexes of messages that stay word for word, and of the other messages of their tool blocks.

        These are the pinned messages, and those of a header's type (`HEADER`) that no rule in `type_rules` removes.
        """
        own = {index for index, message in enumerate(self.view.messages) if self._stays_verbatim(message)}
        partners = {i for pin in own if (block := self.view.block_of.get(pin)) for i in block.indexes}
        return frozenset(own | partners)

    @cached_property
    def pinned_units(self) -> list[tuple[int, ...]]:
        """Indexes of each pinned message, or of its whole tool block, in order; without system messages."""
        blocks, left = self.view.block_of, sorted(self.pinned - self.view.header)
        found = ((index,) if (block := blocks.get(index)) is None else block.indexes for index in left)
        return list(dict.fromkeys(found))

    @cached_property
    def pinned_tokens(self) -> int:
        """Tokens that pinned messages hold, with their tool blocks and without system messages."""
        held = sum(self.meter.counter.message(self.view.messages[i]) for unit in self.pinned_units for i in unit)
        return self.meter.scaled(held)

    def _stays_verbatim(self, message: AnyMessage) -> bool:
        kind = item_type(message)
        rule = self.settings.of(TypedRules).type_rules.get(kind)
        of_header = kind in HEADER and (rule is None or rule.action == "none")
        return of_header or is_pinned(message, self.pins) or holds_compaction(message)

    def rounds(self, floor: int) -> frozenset[int]:
        """Return the indexes of the last `floor` rounds' dialogue: user messages and answers without calls."""
        starts = self.view.round_starts
        if not floor or not starts:
            return frozenset()
        first = starts[-floor:][0]
        return frozenset(i for i in range(first, len(self.view.messages)) if self.is_dialogue(i))

    def is_dialogue(self, index: int) -> bool:
        """Whether this is a user message or an assistant message without calls, but no summary and no skill."""
        message = self.view.messages[index]
        spoken = isinstance(message, HumanMessage | AIMessage) and not calls_of(message)
        return spoken and not is_summary(message) and not is_skill(message)

    def clip(
        self, kept: frozenset[int], calls: int, results: int, keep: int, *, texts: bool = False
    ) -> dict[int, AnyMessage]:
        """Return, by index, clipped copies of the kept messages with a field that exceeds its threshold.

        `calls` is the threshold for calls' arguments, `results` the one for results, `keep` a clipped field's size,
        all in tokens. With `texts` the text next to calls is clipped too, over the threshold `calls`.
        """
        found = {index: self._clipped(index, calls, results, keep, texts) for index in self._clippable(kept)}
        return {index: new for index, new in found.items() if new is not None}

    def _clipped(self, index: int, calls: int, results: int, keep: int, texts: bool) -> AnyMessage | None:
        """Return the clipped copy of one message, `None` if it would not be shorter; most plans ask for the same."""
        name = (index, calls, results, keep, texts)
        if name not in self._copies:
            message, counter, recall = self.view.messages[index], self.meter.counter, self.settings.has_recall_tool
            new: AnyMessage = message
            if isinstance(message, AIMessage):
                new = clip_calls(message, threshold=calls, keep=keep, counter=counter)
                if texts:
                    new = clip_text(new, threshold=calls, keep=keep, counter=counter, recall=recall)
            elif isinstance(message, ToolMessage):
                new = clip_result(message, threshold=results, keep=keep, counter=counter, recall=recall)
            shorter = new is not message and counter.message(new) < counter.message(message)
            self._copies[name] = new if shorter else None
        return self._copies[name]

    @cached_property
    def _copies(self) -> dict[tuple[int, int, int, int, bool], AnyMessage | None]:
        return {}

    def _clippable(self, kept: frozenset[int]) -> list[int]:
        """Return the indexes of kept messages in tool blocks whose fields may be clipped to a preview.

        These are all that are not pinned, but for `unread_results`.
        """
        whole = self.pinned | self.unread_results
        return [
            index for block in self.view.blocks for index in block.indexes if index in kept and index not in whole
        ]

    @cached_property
    def unread_results(self) -> frozenset[int]:
        """Indexes of results that the model has not read yet and that are shortened only to the room that is left."""
        if not self.settings.policy.tool_blocks_keep_unread:
            return frozenset()
        messages = self.view.messages
        return frozenset(i for i in self.view.unseen if isinstance(messages[i], ToolMessage)) - self.pinned

    def tokens_unread(self) -> int:
        """Return the tokens of `unread_results` in a request."""
        return self.meter.scaled(sum(self._as_sent(self.view.messages[index]) for index in self.unread_results))

    def shorten_unread(self, found: Selection, most: int) -> Selection | None:
        """Return the selection with `unread_results` shortened so that the request has at most `most` tokens.

        Their beginnings and ends stay; short results stay whole. `None` if even `MIN_PREVIEW` tokens of each are too
        much, or if none is left.
        """
        messages, counter, recall = self.view.messages, self.meter.counter, self.settings.has_recall_tool
        sizes = {index: self._as_sent(messages[index]) for index in self.unread_results - found.drop}
        room = sum(sizes.values()) - self.meter.unscaled(found.tokens - most) - _MARKER * len(sizes)
        for _ in range(_TRIES if sizes else 0):
            share = max(MIN_PREVIEW, even_share(sizes.values(), room))
            clip = dict(found.clip)
            for index in (index for index, size in sizes.items() if size > share):
                result = cast("ToolMessage", messages[index])
                clip[index] = clip_result(
                    result, threshold=share, keep=share, counter=counter, recall=recall, ends=True
                )
            tokens = self.tokens(found.drop, clip)
            if tokens <= most:
                return replace(found, clip=clip, tokens=tokens, counts=self.count(found.drop, clip))
            if share == MIN_PREVIEW:
                break
            room -= self.meter.unscaled(tokens - most) + 1
        return None

    def with_newest_media(
        self, clip: Mapping[int, AnyMessage], drop: frozenset[int], goal: int
    ) -> dict[int, AnyMessage]:
        """Give the newest clipped results their media back, as many as fit in a request of `goal` tokens.

        So the oldest media leave first.
        """
        counter, chosen, kept = self.meter.counter, self.settings.of(Selective), dict(clip)
        left = goal - self.tokens(drop, clip)
        for index in sorted(clip.keys() - drop, reverse=True):
            message = self.view.messages[index]
            if not isinstance(message, ToolMessage) or not media_of(message):
                continue
            whole = clip_result(
                message,
                threshold=chosen.tool_result_threshold,
                keep=chosen.preview_tokens,
                counter=counter,
                recall=self.settings.has_recall_tool,
                keep_media=True,
            )
            left -= self.meter.scaled(self._as_sent(whole) - self._as_sent(clip[index]))
            if left < 0:
                break
            kept[index] = whole
        return {index: new for index, new in kept.items() if new is not self.view.messages[index]}

    def tight_clip(
        self, kept: frozenset[int], drop: frozenset[int], goal: int, *, texts: bool = False
    ) -> dict[int, AnyMessage]:
        """Clip fields to the largest size at which the request has at most `goal` tokens, found by binary search."""
        best: dict[int, AnyMessage] | None = None
        low, high = MIN_PREVIEW, self.settings.of(Selective).preview_tokens
        while low <= high:
            keep = (low + high) // 2
            short = self.clip(kept, keep * 2, keep * 2, keep, texts=texts)
            if self.tokens(drop, short) <= goal:
                best, low = short, keep + 1
            else:
                high = keep - 1
        return self.clip(kept, MIN_PREVIEW * 2, MIN_PREVIEW * 2, MIN_PREVIEW, texts=texts) if best is None else best

    def tokens(self, drop: frozenset[int], clip: Mapping[int, AnyMessage]) -> int:
        """Return the request's tokens after dropping whole blocks or single messages and clipping other messages."""
        left = sum(weight for index, weight in enumerate(self._weights) if index not in drop)
        shorter = ((self.view.messages[index], new) for index, new in clip.items() if index not in drop)
        saved = sum(self._as_sent(old) - self._as_sent(new) for old, new in shorter)
        return self.meter.scaled(self.meter.overhead + left - saved)

    def _as_sent(self, message: AnyMessage) -> int:
        """Return the tokens of a message as a request holds it: blank texts, for example, are not sent."""
        sent = sendable(message)
        return 0 if sent is None else self.meter.counter.message(sent)

    @cached_property
    def _weights(self) -> list[int]:
        return self.meter.weights(self.view)

    def count(self, drop: frozenset[int], clip: Mapping[int, AnyMessage]) -> Counts:
        """Return the numbers of blocks kept and dropped and of fields clipped, for events."""
        dropped = sum(block.start in drop for block in self.view.blocks)
        calls = [(self.view.messages[index], new) for index, new in clip.items() if isinstance(new, AIMessage)]
        return Counts(
            blocks_kept=len(self.view.blocks) - dropped,
            blocks_dropped=dropped,
            calls_clipped=sum(_changed_calls(old, new) for old, new in calls),
            results_clipped=sum(isinstance(message, ToolMessage) for message in clip.values()),
        )


def _assign_to_sections(drop: frozenset[int], sections: Sequence[frozenset[int]]) -> tuple[frozenset[int], ...]:
    """Assign each dropped index to the first section that ends at or after it, else to the last section."""
    ends = sorted(max(section) for section in sections if section)
    dealt: list[set[int]] = [set() for _ in ends]
    for index in drop if ends else ():
        dealt[min(bisect_left(ends, index), len(ends) - 1)].add(index)
    return tuple(frozenset(part) for part in dealt if part)


def _changed_calls(old: AnyMessage, new: AIMessage) -> int:
    """Return the number of calls whose arguments differ; raise `SettingsError` if the number of calls differs."""
    before, after = all_calls(old), all_calls(new)
    if len(before) != len(after):
        raise SettingsError(
            f"a strategy shortened message {old.id!r} and changed the number of its tool calls from {len(before)} to "
            f"{len(after)}: the shortened copy must have the same calls; only texts and arguments may be shorter"
        )
    return sum(a.get("args") != b.get("args") for a, b in zip(before, after, strict=True))
