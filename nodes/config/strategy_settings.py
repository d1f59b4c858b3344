"""Settings of the strategies: which are tried, and how much each keeps."""

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
"""Message types with their priorities; messages of the lowest priority are removed first. A message's `kind` mark
names its type."""


class TypeRule(Frozen):
    """What happens to the messages of one type."""

    action: Action
    keep_recent: NonNegativeInt = 0
    """Number of newest messages of the type that `truncate` keeps."""


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
"""The usual rule of each type; messages of a type without a rule stay."""


class AdaptiveOrders(Frozen):
    """For each type of task, the strategies in the order in which `adaptive` tries them."""

    code: tuple[Progressive, ...] = ("sliding_window", "key_events", "incremental")
    analysis: tuple[Progressive, ...] = ("sliding_window", "importance", "incremental")
    conversation: tuple[Progressive, ...] = ("sliding_window", "importance", "incremental")
    mixed: tuple[Progressive, ...] = ("sliding_window", "incremental", "importance")
    unknown: tuple[Progressive, ...] = ("sliding_window", "importance", "incremental")

    def of(self, task: TaskType) -> tuple[Progressive, ...]:
        """Return the strategies of one type of task."""
        order: tuple[Progressive, ...] = getattr(self, task)
        return order


class StrategySettings(Frozen):
    """These settings decide which strategies choose the messages to keep, and how much each strategy keeps."""

    strategies: tuple[str, ...] = Field(default=("tool_blocks",), min_length=1, title="Strategies")
    """Names of strategies, tried in this order until the request is small enough."""

    tool_blocks_keep_recent: NonNegativeInt = Field(default=5, title="tool_blocks: blocks kept")
    """The strategy `tool_blocks` keeps this number of the newest tool blocks, and removes each older block as a
    whole. A tool block is an assistant message with tool calls, together with the results of these calls."""

    tool_blocks_keep_unread: bool = Field(default=True, title="tool_blocks: keep unread results whole")
    """Whether tool results that the model has not read yet stay whole. If they do not fit into the limit together
    with what else has to stay, they are shortened to the room that is left, to their beginnings and ends. If false,
    they are shortened as all other results."""

    tool_call_threshold: PositiveInt = Field(default=500, title="tool_blocks: longest call (tokens)")
    """The arguments of a kept tool call are shortened if they have more than this number of tokens."""

    tool_result_threshold: PositiveInt = Field(default=600, title="tool_blocks: longest result (tokens)")
    """The result of a kept tool call is shortened if it has more than this number of tokens."""

    preview_tokens: PositiveInt = Field(default=200, title="tool_blocks: beginning of a clipped field (tokens)")
    """Number of tokens kept at the beginning of a shortened argument or result."""

    dialogue_rounds_keep_min: NonNegativeInt = Field(default=12, title="tool_blocks: rounds kept")
    """The strategy `tool_blocks` keeps the user messages, and the assistant messages without tool calls, of this
    number of the newest rounds. A round is a user message and all messages up to the next user message. If the
    request would not fit otherwise, or if the next turn would compact again, the strategy first keeps fewer tool
    blocks, and then fewer rounds."""

    dialogue_beyond_keep: NonNegativeInt = Field(default=5, title="tool_blocks: messages kept beyond the rounds")
    """From the messages before the kept rounds, the strategy `tool_blocks` keeps this number of the newest user
    messages and the same number of the newest assistant messages."""

    type_rules: dict[str, TypeRule] = Field(default=TYPE_RULES, title="typed_rules: rule of each message type")
    """What the strategy `typed_rules` does with each type of message. A rule given here replaces the default rule for
    its type. All other types keep their default rules."""

    @field_validator("type_rules")
    @classmethod
    def _with_usual_rules(cls, given: dict[str, TypeRule]) -> dict[str, TypeRule]:
        """Return the given rules and the usual ones of all other types; an error suggests the nearest type."""
        for kind in given:
            if kind not in PRIORITIES:
                raise ValueError(f"there is no type {kind!r} of message; {nearest(kind, PRIORITIES)}")
        return {**TYPE_RULES, **given}

    sliding_window_size: PositiveInt = Field(default=9, title="sliding_window: messages kept")
    """Number of the newest messages that the strategy `sliding_window` keeps. If the oldest of them belongs to a tool
    block, the whole block is kept. The strategy removes messages only if the conversation has more than
    twice this number of messages."""

    sliding_window_quota: bool = Field(default=False, title="sliding_window: quota for each role")
    """Let `sliding_window` count the model's messages and all other messages separately. With
    `sliding_window_size=9`, the strategy keeps the newest five messages of the model and the newest four other
    messages."""

    importance_score_threshold: float = Field(default=3.0, ge=0, le=10, title="importance: score to stay")
    """The strategy `importance` gives each message a score from 0 to 10, and keeps the messages whose score is at
    least this threshold."""

    importance_tool_base_score: float = Field(default=2.0, ge=0, le=10, title="importance: score of a tool result")
    """Score that `importance` gives to a tool result before it adds points for keywords. With the value 0, nearly all
    tool results are removed."""

    importance_keep_low: NonNegativeInt = Field(default=5, title="importance: low scores kept")
    """The strategy `importance` also keeps this number of the newest messages whose score is below the threshold."""

    key_events_keep_other: NonNegativeInt = Field(default=5, title="key_events: other messages kept")
    """The strategy `key_events` keeps user messages, tool calls, and messages about problems, decisions or results.
    Of all remaining messages, the strategy keeps this number of the newest."""

    incremental_summary_chunk_size: PositiveInt = Field(default=20, title="incremental: size of a chunk")
    """Size of the chunks into which the strategy `incremental` divides the conversation, in the unit
    `incremental_chunk_unit`. The newest chunk stays in the view; every other chunk gets its own summary. If the
    conversation has at most two chunks, the strategy removes nothing."""

    incremental_chunk_unit: Literal["turn", "message"] = Field(default="turn", title="incremental: unit of a chunk")
    """Whether `incremental_summary_chunk_size` is a number of turns or of messages. Here, a turn is a user message
    and all messages up to the next user message."""

    incremental_chunk_from: Literal["start", "end"] = Field(default="end", title="incremental: where chunks start")
    """Whether the strategy `incremental` counts chunks from the start or from the end of the conversation. With
    `end`, the newest chunk, which stays in view, always has the full size. With `start`, this chunk can be
    smaller."""

    adaptive_task_type: TaskType | None = Field(default=None, title="adaptive: type of task")
    """The type of task that the agent works on. `None`: the strategy `adaptive` derives the type from the agent's
    tool calls and messages."""

    adaptive_orders: AdaptiveOrders = Field(default=AdaptiveOrders(), title="adaptive: strategies for each task")
    """For each type of task, the strategies that `adaptive` tries, in this order, until one of them can remove
    messages."""

    adaptive_then: tuple[Progressive, ...] = Field(
        default=("sliding_window", "importance"), title="adaptive: strategies tried next"
    )
    """Strategies tried after `adaptive` if the strategy that `adaptive` applied does not make enough room. In this
    case, they replace the strategies that follow `adaptive` in the setting `strategies`."""

    keyword_languages: tuple[Language, ...] = Field(default=("en", "zh"), title="adaptive: languages of keywords")
    """Languages of the keywords that the strategies `importance`, `key_events` and `adaptive` look for."""

    recent_rounds_keep: NonNegativeInt = Field(default=2, title="recent_rounds: rounds kept")
    """Number of the newest rounds that the strategy `recent_rounds` keeps whole. The strategy keeps fewer rounds if
    this number does not fit."""

    recent_rounds_as: Literal["rounds", "message_pairs"] = Field(default="rounds", title="recent_rounds: meaning")
    """What the strategy `recent_rounds` counts as a round. `rounds`: a user message and all messages up to the next
    user message. `message_pairs`: two messages in succession."""

    recent_tokens_keep: PositiveInt = Field(default=20_000, title="recent_tokens: tokens kept")
    """The strategy `recent_tokens` keeps about this number of tokens of the newest messages."""
