"""The figures of the selective strategies: what each keeps, and how much (S0.39-S0.43, S1.26-S1.34, S2.45-S2.47)."""

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator

from .frozen import Frozen, nearest
from .policies.item_types import PRIORITIES
from .prompts import Language

Action = Literal["drop", "truncate", "none"]
TaskType = Literal["code", "analysis", "conversation", "mixed", "unknown"]
Progressive = Literal["sliding_window", "importance", "key_events", "incremental"]


class TypeRule(Frozen):
    """What happens to the messages of one type (S1.6, S1.23, S1.24)."""

    action: Action
    keep_recent: NonNegativeInt = 0
    """Newest messages of the type that `truncate` keeps."""


TYPE_RULES: dict[str, TypeRule] = {
    "tool_result": TypeRule(action="truncate", keep_recent=3),
    "skill_prompt": TypeRule(action="drop"),
    "skill_metadata": TypeRule(action="drop"),
    "assistant_message": TypeRule(action="truncate", keep_recent=5),
    "user_message": TypeRule(action="truncate", keep_recent=5),
    "system_prompt": TypeRule(action="none"),
    "subagent_strategy": TypeRule(action="none"),
    "compaction_summary": TypeRule(action="none"),
}
"""The rule of each type; a type without one is left alone (S1.26-S1.34)."""


class AdaptiveOrders(Frozen):
    """For each type of task the strategies of which `adaptive` takes the first that applies (S2.14-S2.18)."""

    code: tuple[Progressive, ...] = ("sliding_window", "key_events", "incremental")
    analysis: tuple[Progressive, ...] = ("sliding_window", "importance", "incremental")
    conversation: tuple[Progressive, ...] = ("sliding_window", "importance", "incremental")
    mixed: tuple[Progressive, ...] = ("sliding_window", "incremental", "importance")
    unknown: tuple[Progressive, ...] = ("sliding_window", "importance", "incremental")

    def of(self, task: TaskType) -> tuple[Progressive, ...]:
        """The order of one type."""
        order: tuple[Progressive, ...] = getattr(self, task)
        return order


class StrategySettings(Frozen):
    """How much each strategy keeps. `strategies` says which are tried, in turn, while the result is still short."""

    strategies: tuple[str, ...] = Field(default=("tool_blocks",), min_length=1)
    """Selective strategies by name, tried in turn while the request is still short of room (S2.41-S2.44)."""

    tool_blocks_keep_recent: NonNegativeInt = 5
    """Tool blocks kept, newest first; older ones are dropped whole (S0.39)."""

    tool_call_threshold: PositiveInt = 500
    """Tokens above which (exclusive) a kept call's arguments are clipped (S0.40)."""

    tool_result_threshold: PositiveInt = 600
    """Tokens above which (exclusive) a kept result is clipped (S0.41)."""

    preview_tokens: PositiveInt = 200
    """Tokens that a clipped field keeps from its beginning (S0.42)."""

    keep_unread_results: bool = True
    """Leave results that the model has not read yet whole, where five blocks and the floor still fit so."""

    dialogue_rounds_keep_min: NonNegativeInt = 12
    """Rounds whose user and assistant messages are not deleted: the round floor (S0.43)."""

    dialogue_beyond_keep: NonNegativeInt = 5
    """Older user messages, and as many assistant messages, that are kept beyond the floor (S0.19)."""

    type_rules: dict[str, TypeRule] = TYPE_RULES
    """For each type of message what `typed_rules` does with it; what is given replaces the rules of these types."""

    @field_validator("type_rules")
    @classmethod
    def _beside_the_usual(cls, given: dict[str, TypeRule]) -> dict[str, TypeRule]:
        """The rules given and, for the other types, the usual ones; a name that is no type tells the nearest."""
        for kind in given:
            if kind not in PRIORITIES:
                raise ValueError(f"there is no type {kind!r} of message; {nearest(kind, PRIORITIES)}")
        return {**TYPE_RULES, **given}

    sliding_window_size: PositiveInt = 9
    """Newest messages that `sliding_window` keeps, widened to whole tool blocks (S2.45)."""

    sliding_window_quota: bool = False
    """Let `sliding_window` keep, of nine, the newest 5 of the model and 4 of all others, and not just the newest
    (S2.20)."""

    importance_score_threshold: float = Field(default=3.0, ge=0, le=10)
    """Score of 0 to 10 from which (inclusive) `importance` keeps a message (S2.46)."""

    importance_tool_base_score: float = Field(default=2.0, ge=0, le=10)
    """Score that a tool's result starts from; 0 is the original's, which drops nearly all of them."""

    importance_keep_low: NonNegativeInt = 5
    """Newest messages under the threshold that `importance` keeps too (S2.23)."""

    key_events_keep_other: NonNegativeInt = 5
    """Newest messages that are no key event which `key_events` keeps too (S2.25)."""

    incremental_summary_chunk_size: PositiveInt = 20
    """Units of a chunk of `incremental`; each chunk but the last is summarised by itself (S2.47)."""

    incremental_chunk_unit: Literal["turn", "message"] = "turn"
    """What a chunk counts (I10)."""

    incremental_chunk_from: Literal["start", "end"] = "end"
    """Where chunks are counted from: from the end, the chunk that stays is a full one."""

    task_type: TaskType | None = None
    """What the agent works at (S2.9); `None`: told from its tool calls and words."""

    adaptive_orders: AdaptiveOrders = AdaptiveOrders()
    """For each type of task the strategies that `adaptive` tries in turn."""

    adaptive_then: tuple[Progressive, ...] = ("sliding_window", "importance")
    """What is tried in turn after `adaptive` where its choice is not enough, in place of all further ones (S2.7)."""

    keyword_languages: tuple[Language, ...] = ("en", "zh")
    """Languages whose keywords `importance`, `key_events` and `adaptive` know."""

    recent_rounds_keep: NonNegativeInt = 2
    """Newest rounds that `recent_rounds` keeps whole; fewer where they do not fit (S4.28, S4.40)."""

    rounds_as: Literal["rounds", "message_pairs"] = "rounds"
    """Whether a round is a user message up to the next one, or two messages, as the original counted."""

    recent_tokens_keep: PositiveInt = 20_000
    """Tokens of newest messages that `recent_tokens` keeps."""

    ephemeral_keep: NonNegativeInt | None = None
    """Newest messages with the mark `ephemeral`, of each tool, that a call still sees whole (S1.4); `None`: all.
    A tool says its own number instead, by `metadata={"ephemeral": n}`."""
