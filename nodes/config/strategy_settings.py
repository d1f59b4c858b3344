"""The figures of the selective strategies: what each keeps, and how much."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator

from .base_model import Frozen, nearest
from .prompts import Language

Action = Literal["drop", "truncate", "none"]
TaskType = Literal["code", "analysis", "conversation", "mixed", "unknown"]
Progressive = Literal["sliding_window", "importance", "key_events", "incremental"]

PRIORITIES: Mapping[str, int] = {
    "tool_result": 10,
    "skill_prompt": 20,
    "assistant_message": 30,
    "skill_metadata": 40,
    "user_message": 50,
    "developer_message": 60,
    "system_reminder": 70,
    "offload_placeholder": 75,
    "compaction_summary": 80,
    "skill_strategy": 90,
    "tool_strategy": 93,
    "mcp_tool": 94,
    "subagent_strategy": 95,
    "system_env": 100,
    "git_env": 100,
    "output_style": 100,
    "memory": 100,
    "agent_loop": 100,
    "system_prompt": 100,
}
"""Every type by its name, the mark `kind` of a message; the lowest priority leaves first."""


class TypeRule(Frozen):
    """What happens to the messages of one type."""

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
"""The rule of each type; a type without one is left alone."""


class AdaptiveOrders(Frozen):
    """For each type of task the strategies of which `adaptive` takes the first that applies."""

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
    """Selective strategies by name, tried in turn while the request is still short of room."""

    tool_blocks_keep_recent: NonNegativeInt = 5
    """Tool blocks kept, newest first; older ones are dropped whole."""

    tool_call_threshold: PositiveInt = 500
    """Tokens above which (exclusive) a kept call's arguments are clipped."""

    tool_result_threshold: PositiveInt = 600
    """Tokens above which (exclusive) a kept result is clipped."""

    preview_tokens: PositiveInt = 200
    """Tokens that a clipped field keeps from its beginning."""

    keep_unread_results: bool = True
    """Leave results that the model has not read yet whole, where five blocks and the floor still fit so."""

    dialogue_rounds_keep_min: NonNegativeInt = 12
    """Rounds whose user and assistant messages are not deleted: the round floor."""

    dialogue_beyond_keep: NonNegativeInt = 5
    """Older user messages, and as many assistant messages, that are kept beyond the floor."""

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
    """Newest messages that `sliding_window` keeps, widened to whole tool blocks."""

    sliding_window_quota: bool = False
    """Let `sliding_window` keep, of nine, the newest 5 of the model and 4 of all others, and not just the newest."""

    importance_score_threshold: float = Field(default=3.0, ge=0, le=10)
    """Score of 0 to 10 from which (inclusive) `importance` keeps a message."""

    importance_tool_base_score: float = Field(default=2.0, ge=0, le=10)
    """Score that a tool's result starts from; 0 is the original's, which drops nearly all of them."""

    importance_keep_low: NonNegativeInt = 5
    """Newest messages under the threshold that `importance` keeps too."""

    key_events_keep_other: NonNegativeInt = 5
    """Newest messages that are no key event which `key_events` keeps too."""

    incremental_summary_chunk_size: PositiveInt = 20
    """Units of a chunk of `incremental`; each chunk but the last is summarized by itself."""

    incremental_chunk_unit: Literal["turn", "message"] = "turn"
    """What a chunk counts."""

    incremental_chunk_from: Literal["start", "end"] = "end"
    """Where chunks are counted from: from the end, the chunk that stays is a full one."""

    task_type: TaskType | None = None
    """What the agent works at; `None`: told from its tool calls and words."""

    adaptive_orders: AdaptiveOrders = AdaptiveOrders()
    """For each type of task the strategies that `adaptive` tries in turn."""

    adaptive_then: tuple[Progressive, ...] = ("sliding_window", "importance")
    """What is tried in turn after `adaptive` where its choice is not enough, in place of all further ones."""

    keyword_languages: tuple[Language, ...] = ("en", "zh")
    """Languages whose keywords `importance`, `key_events` and `adaptive` know."""

    recent_rounds_keep: NonNegativeInt = 2
    """Newest rounds that `recent_rounds` keeps whole; fewer where they do not fit."""

    rounds_as: Literal["rounds", "message_pairs"] = "rounds"
    """Whether a round is a user message up to the next one, or two messages, as the original counted."""

    recent_tokens_keep: PositiveInt = 20_000
    """Tokens of newest messages that `recent_tokens` keeps."""

    ephemeral_keep: NonNegativeInt | None = None
    """Newest messages with the mark `ephemeral`, of each tool, that a call still sees whole; `None`: all.
    A tool says its own number instead, by `metadata={"ephemeral": n}`."""
