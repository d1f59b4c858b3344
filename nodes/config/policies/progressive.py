"""The policy `progressive` and its two variants."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from ..base_model import Frozen
from ..prompts import PromptName
from ..triggers import Hook
from .base import Policy, SummaryMode, hooks_of, strategies_of

TaskType = Literal["code", "analysis", "conversation", "mixed", "unknown"]
ProgressiveStrategy = Literal["sliding_window", "importance", "key_events", "incremental"]


class AdaptiveOrders(Frozen):
    """For each type of task, the strategies in the order in which `adaptive` tries them."""

    code: tuple[ProgressiveStrategy, ...] = ("sliding_window", "key_events", "incremental")
    analysis: tuple[ProgressiveStrategy, ...] = ("sliding_window", "importance", "incremental")
    conversation: tuple[ProgressiveStrategy, ...] = ("sliding_window", "importance", "incremental")
    mixed: tuple[ProgressiveStrategy, ...] = ("sliding_window", "incremental", "importance")
    unknown: tuple[ProgressiveStrategy, ...] = ("sliding_window", "importance", "incremental")

    def of(self, task: TaskType) -> tuple[ProgressiveStrategy, ...]:
        """Return the strategies of one type of task."""
        order: tuple[ProgressiveStrategy, ...] = getattr(self, task)
        return order


class ProgressivePolicy(Policy):
    """What the three progressive policies have."""

    hooks: tuple[Hook, ...] = hooks_of("pre_model", "on_overflow")
    prompt: ClassVar[PromptName] = "four_points"
    mode: ClassVar[SummaryMode] = "last_resort"
    facts_beside_summary: ClassVar[bool] = False
    next_after_failure: ClassVar[bool] = True
    adaptive_then: ClassVar[tuple[ProgressiveStrategy, ...]] = (
        "sliding_window",
        "importance",
        "key_events",
        "incremental",
    )
    """Strategies tried after `adaptive` if the one that it applied does not make enough room."""

    sliding_window_size: PositiveInt = Field(default=9, title="Messages kept by sliding_window")
    """Number of the newest messages that the strategy `sliding_window` keeps, tool blocks whole. It removes messages
    only if the conversation has more than twice this number."""

    importance_score_threshold: float = Field(default=3.0, ge=0, le=10, title="Score kept by importance")
    """The strategy `importance` scores each message from 0 to 10, and keeps those with at least this score."""

    incremental_summary_chunk_size: PositiveInt = Field(default=20, title="Turns of a chunk of incremental")
    """Number of turns in each chunk of the strategy `incremental`. The newest chunk stays; every other one gets a
    summary of its own. A conversation of at most two chunks is left alone."""

    conversation_turn_threshold: PositiveInt = Field(default=200, title="Calls of the model before a full summary")
    """After this number of calls of the model since the last compaction, the whole conversation is summarized. It is
    not used where `triggers` is given."""

    adaptive_task_type: TaskType | None = Field(default=None, title="Type of task")
    """The type of task that the agent works on. `None`: it is derived from the agent's tool calls and messages."""

    adaptive_orders: AdaptiveOrders = Field(default=AdaptiveOrders(), title="Strategies for each type of task")
    """For each type of task, the strategies that `adaptive` tries in this order, until one can remove messages."""

    @classmethod
    def shared(cls, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the four triggers of the document, and the key information that it always keeps."""
        limit = own.get("conversation_turn_threshold", 200)
        return {
            "trigger_ratio": None,
            "triggers": (
                {"kind": "remaining_ratio", "ratio": 0.25},
                {"kind": "count", "unit": "model_calls", "limit": limit, "full": True},
                {"kind": "marker"},
                {"kind": "command", "full": True},
            ),
            "key_information": ("goal", "pins", "memories", "tasks", "git_diff"),
        }


class Progressive(ProgressivePolicy):
    """Strategies in turn by the kind of task, lightest first; a full summary last."""

    name: Literal["progressive"] = "progressive"
    strategies: tuple[str, ...] = strategies_of(
        "adaptive", "sliding_window", "importance", "key_events", "incremental"
    )


class ProgressiveChart(ProgressivePolicy):
    """As progressive, with other orders for each kind of task."""

    name: Literal["progressive_chart"] = "progressive_chart"
    strategies: tuple[str, ...] = strategies_of(
        "adaptive", "importance", "key_events", "incremental", "sliding_window"
    )
    adaptive_then: ClassVar[tuple[ProgressiveStrategy, ...]] = ()

    adaptive_orders: AdaptiveOrders = Field(
        default=AdaptiveOrders(code=("key_events",), analysis=("importance",), conversation=("sliding_window",)),
        title="Strategies for each type of task",
    )
    """For each type of task, the strategies that `adaptive` tries in this order, until one can remove messages."""


class ProgressivePseudocode(ProgressivePolicy):
    """As progressive, with the sliding window last."""

    name: Literal["progressive_pseudocode"] = "progressive_pseudocode"
    strategies: tuple[str, ...] = strategies_of(
        "adaptive", "importance", "key_events", "incremental", "sliding_window"
    )
    adaptive_then: ClassVar[tuple[ProgressiveStrategy, ...]] = ("importance", "sliding_window")
