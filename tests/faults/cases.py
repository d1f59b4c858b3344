"""Random cases: a conversation, settings, a script of turns, and the calls that fail."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

from hypothesis import strategies as st
from langchain_core.exceptions import ContextOverflowError, ModelAuthenticationError
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.checkpoint import DatabaseError
from langgraph_compaction.nodes import CompactionSettings, Redaction
from langgraph_compaction.nodes.config.policies import PRESETS
from tests.graph.harness import SUMMARY, filler
from tests.histories import asks, histories, numbered, texts
from tests.settings import settings

CUT = {"finish_reason": "length"}
SUMMARIES: dict[str, Any] = {
    "good": SUMMARY,
    "long": f"<summary>{filler(120)}</summary>",
    "far too long": f"<summary>{filler(5_000)}</summary>",
    "empty": "",
    "empty tags": "<summary> </summary>",
    "no tags": "I have done what you asked.",
    "refusal": "<summary>I'm sorry, but I can't help with that.</summary>",
    "thinking only": AIMessage([{"type": "thinking", "thinking": "let me see"}]),
    "cut off": AIMessage(SUMMARY, response_metadata=CUT),
    "withheld": AIMessage(SUMMARY, response_metadata={"finish_reason": "content_filter"}),
    "a tool call": asks("c"),
    "transient": ConnectionError("reset by peer"),
    "permanent": ValueError("no such model"),
    "auth": ModelAuthenticationError("invalid api key"),
    "quota": RuntimeError("insufficient_quota: you exceeded your current quota"),
    "overflow": ContextOverflowError("the prompt is too long"),
}
"""Possible answers of a summarizer."""
RECORDS = (
    *("begin", "commit", "close", "note", "record_summary"),
    *("find_summary", "recall", "abandon_open", "archive", "snapshot"),
)
"""Reads and writes of SQL that may fail."""
CALLS = ("put", "put_writes", "get_tuple")
"""Calls of the checkpointer that may fail."""
Faults = dict[tuple[str, bool], frozenset[int]]
"""By the name of a method: which of its calls fail; true if they fail after the work was done."""
MODEL_MOVES = (*("answer",) * 4, *("calls",) * 3, "empty", "same id", "thinking", "overflow", "broken")
WRITER_MOVES = ("delete", "swap", "edit", "arrive")
PAUSES = ("summarize", "commit", "rollback")
MODEL_ERROR = RuntimeError("the model is broken")
EDITED = "edited"
"""What another writer makes of a message."""
NEEDLE = "order-4711"
"""A word of many histories that the redaction hook removes."""
Redacted = Literal["told", "stored", "failing"] | None
"""Where the application's redaction hook applies, or that it fails."""
REDACTED: tuple[Redacted, ...] = (*(None,) * 7, "told", "stored", "failing")


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer of the model."""

    move: str
    words: int
    calls: tuple[str, ...]

    def given(self, received: list[Any]) -> Any:
        """Return the message, or the error to raise."""
        if self.move == "broken":
            return MODEL_ERROR
        if self.move == "overflow":
            return ContextOverflowError("the prompt is too long")
        return {
            "calls": lambda: asks(*self.calls, n=self.words),
            "empty": lambda: AIMessage(""),
            "thinking": lambda: AIMessage([{"type": "thinking", "thinking": filler(self.words), "signature": "s"}]),
            "same id": lambda: AIMessage(filler(self.words), id=received[0].id),
        }.get(self.move, lambda: AIMessage(filler(self.words)))()


@dataclass(frozen=True, kw_only=True)
class Writer:
    """A change that another writer makes to the thread's messages."""

    move: str
    place: int

    def written(self, messages: list[AnyMessage]) -> list[AnyMessage]:
        """Return the messages after the change; an empty thread stays empty."""
        if not messages:
            return []
        place, found = self.place % len(messages), list(messages)
        if self.move == "delete":
            del found[place]
        elif self.move == "swap":
            found[place - 1], found[place] = found[place], found[place - 1]
        elif self.move == "edit":
            found[place] = found[place].model_copy(update={"content": EDITED})
        else:
            found.append(HumanMessage("meanwhile", id=f"meanwhile-{uuid4()}"))
        return found


@dataclass(frozen=True, kw_only=True)
class NodeContext:
    """One input, the answers of the model, and the changes of another writer."""

    kind: Literal["say", "pin", "compact"]
    words: int
    replies: tuple[Reply, ...]
    before: Writer | None
    """Changes before the input."""
    pause: str
    """The node before which another writer writes, if the turn reaches it."""
    during: Writer | None
    seconds: float
    """Time since the last turn."""
    agrees: bool
    """Whether the person agrees to compact, if asked."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """The whole input of one run."""

    history: list[AnyMessage]
    settings: CompactionSettings
    summaries: tuple[str, ...]
    """Answers of the summarizer in order, the last one repeated; empty for the digest."""
    turns: tuple[NodeContext, ...]
    reports: float | None
    """Ratio of the provider's token counts to ours; `None` if the provider reports no usage."""
    asynchronous: bool = False
    fallback: tuple[str, ...] = ()
    """Answers of a fallback summarizer, in the same form; empty for no fallback."""
    reads: int = 2_000
    """Words that the summarizer is shown in one call."""
    redact: Redacted = None
    broken: Faults = field(default_factory=Faults)
    """Calls of the records that fail."""
    unsaved: Faults = field(default_factory=Faults)
    """Calls of the checkpointer that fail."""
    durability: Literal["sync", "async", "exit"] = "async"
    pins: frozenset[str] = frozenset()
    """Ids of messages that are pinned."""

    @property
    def redaction(self) -> Redaction | None:
        """Return the hook in the form that the builder takes."""
        hook = _refuse if self.redact == "failing" else _redacted
        return Redaction(hook=hook, store=self.redact != "told") if self.redact else None

    def stored(self, message: AnyMessage) -> AnyMessage:
        """Return a message in the form that the database may hold."""
        return self.redaction.message(message) if self.redaction and self.redact == "stored" else message


def _redacted(text: str) -> str:
    return text.replace(NEEDLE, "[redacted]")


def _refuse(text: str) -> str:
    raise ValueError(f"no rule for {len(text)} characters")


class DiskFullError(DatabaseError):
    """The error that a read or write of SQL raises."""


def _thoughts(text: str) -> AIMessage:
    return AIMessage([{"type": "thinking", "thinking": text, "signature": "s"}, {"type": "text", "text": "seen"}])


def _block(kind: str, text: str) -> HumanMessage:
    return HumanMessage([{"type": kind, "base64": "AAAA", "mime_type": "x/y"}, {"type": "text", "text": text}])


def _calling(text: str) -> AIMessage:
    message = asks("a", "b", path=text)
    blocks: list[Any] = [{"type": "thinking", "thinking": text, "signature": "s"}, {"type": "redacted_thinking"}]
    return message.model_copy(update={"content": blocks})


EXTRAS = st.one_of(
    st.builds(_thoughts, texts()),
    st.builds(_block, st.sampled_from(["audio", "file", "video", "custom"]), texts()),
    st.builds(_calling, texts()),
    st.just(AIMessage([{"type": "thinking", "thinking": "hm", "signature": "s"}])),
    st.just(HumanMessage("")),
    st.just(HumanMessage("<Pin>KEEP-THIS</Pin> alpha")),
)
"""Messages that `histories` lacks: thinking blocks, other content blocks, empty user messages, pinned words."""


@st.composite
def conversations(draw: st.DrawFn) -> list[AnyMessage]:
    """Draw the messages of a thread before its first turn."""
    found = draw(st.one_of(st.just([]), histories(max_size=30), histories(max_size=30)))
    for extra in draw(st.lists(EXTRAS, max_size=4)):
        found.insert(draw(st.integers(0, len(found))), extra)
    return numbered(found)


GENERAL: dict[str, st.SearchStrategy[Any]] = {
    "output_reserve": st.sampled_from([0, 0, 40, None]),
    "join_user_messages": st.booleans(),
    "on_refusal": st.sampled_from(["message", "raise"]),
}
"""Settings that mean the same under every preset."""
SELECTIVE: dict[str, st.SearchStrategy[Any]] = {
    "tool_blocks_keep_recent": st.integers(0, 5),
    "tool_call_threshold": st.sampled_from([20, 500]),
    "tool_result_threshold": st.sampled_from([20, 600]),
    "preview_tokens": st.sampled_from([10, 200]),
    "dialogue_rounds_keep_min": st.sampled_from([0, 1, 2, 12]),
    "dialogue_beyond_keep": st.sampled_from([0, 1, 5]),
    "summary_mode": st.sampled_from(["always", "if_needed"]),
    "strategies": st.sampled_from([("tool_blocks",), ("full",)]),
    "facts_beside_summary": st.booleans(),
    "require_confirmation": st.sampled_from([False, False, True]),
}

_FIXED: dict[str, Any] = {"summary_ahead": False}
"""Settings of every case: attempts follow at once, and only in turns."""


@st.composite
def chosen_settings(draw: st.DrawFn) -> CompactionSettings:
    """Draw settings, sensible and odd ones."""
    trigger = draw(st.sampled_from([0.5, 0.8, 1.0]))
    fields: dict[str, st.SearchStrategy[Any]] = {
        "context_window": st.sampled_from([300, 400, 1_000, 1_000, 3_000, 12_000]),
        "target_ratio": st.sampled_from([ratio for ratio in (0.2, 0.5, 0.7) if ratio < trigger]),
        **GENERAL,
        **SELECTIVE,
    }
    return settings(trigger_ratio=trigger, **_FIXED, **draw(st.fixed_dictionaries(fields)))


@st.composite
def preset_settings(draw: st.DrawFn) -> CompactionSettings:
    """Draw a preset with its own defaults, in a window in which these defaults can work."""
    fields = {
        "preset": st.sampled_from(PRESETS),
        "context_window": st.sampled_from([400, 1_000, 1_000, 3_000, 12_000]),
        **GENERAL,
    }
    return settings(**_FIXED, **draw(st.fixed_dictionaries(fields)))


replies = st.builds(
    Reply,
    move=st.sampled_from(MODEL_MOVES),
    words=st.sampled_from([1, 20, 100, 400]),
    calls=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True).map(tuple),
)
writers = st.builds(Writer, move=st.sampled_from(WRITER_MOVES), place=st.integers(0, 40))
turns = st.builds(
    NodeContext,
    kind=st.sampled_from(["say", "say", "say", "pin", "compact"]),
    words=st.sampled_from([1, 20, 100, 300, 1_200]),
    replies=st.lists(replies, max_size=3).map(tuple),
    before=st.one_of(st.none(), st.none(), writers),
    pause=st.sampled_from(PAUSES),
    during=st.one_of(st.none(), writers),
    seconds=st.sampled_from([1.0, 100.0]),
    agrees=st.booleans(),
)
summaries = st.lists(st.sampled_from([*["good"] * 8, *SUMMARIES]), max_size=5).map(tuple)


def faults(methods: Sequence[str], *numbers: Collection[int]) -> st.SearchStrategy[Faults]:
    """Draw which calls of at most two of these methods fail."""
    named = st.tuples(st.sampled_from(methods), st.booleans())
    return st.one_of(st.just({}), st.dictionaries(named, st.sampled_from(numbers).map(frozenset), max_size=2))


@st.composite
def cases(draw: st.DrawFn, *, wide: bool = False) -> Case:
    """Draw a whole case, in which any part may also be without failures.

    A wide case also draws presets, failing calls of the checkpointer, and the durability of the runs.
    """
    history = draw(conversations())
    ids = [message.id or "" for message in history]
    chosen = st.one_of(chosen_settings(), preset_settings()) if wide else chosen_settings()
    some, all_calls = ({1}, {2}, {1, 2}), set(range(1, 99))
    return Case(
        history=history,
        settings=draw(chosen),
        summaries=draw(summaries),
        turns=draw(st.lists(turns, min_size=1, max_size=4).map(tuple)),
        reports=draw(st.sampled_from([None, None, 1.0, 0.5, 1.6])),
        asynchronous=draw(st.sampled_from([False, False, True])),
        fallback=draw(st.one_of(st.just(()), summaries)),
        reads=draw(st.sampled_from([100, 400, 2_000])),
        redact=draw(st.sampled_from(REDACTED)),
        broken=draw(faults(RECORDS, *some, all_calls)),
        pins=frozenset(draw(st.lists(st.sampled_from(ids), max_size=1)) if ids else ()),
        unsaved=draw(faults(CALLS, *some, {3}, {5}, {8}, {13}, {21})) if wide else {},
        durability=draw(st.sampled_from(["sync", "async", "exit"])) if wide else "async",
    )
