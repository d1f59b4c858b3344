"""The policy `typed_rules`, its types of messages and their rules."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, NonNegativeInt, field_validator

from ..base_model import Frozen, nearest
from ..triggers import Hook
from .base import Policy, SummaryMode, hooks_of, strategies_of

Action = Literal["drop", "truncate", "none"]

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


class TypedRules(Policy):
    """A rule for each type of message; a summary only where that is not enough."""

    name: Literal["typed_rules"] = "typed_rules"
    strategies: tuple[str, ...] = strategies_of("typed_rules")
    hooks: tuple[Hook, ...] = hooks_of("post_model", "on_overflow")
    mode: ClassVar[SummaryMode] = "last_resort"
    facts_beside_summary: ClassVar[bool] = False

    type_rules: dict[str, TypeRule] = Field(default=TYPE_RULES, title="Rule of each message type")
    """What happens to each type of message. A rule given here replaces the usual rule of its type; all other types
    keep theirs."""

    @field_validator("type_rules")
    @classmethod
    def _with_usual_rules(cls, given: dict[str, TypeRule]) -> dict[str, TypeRule]:
        """Return the given rules and the usual ones of all other types; an error suggests the nearest type."""
        for kind in given:
            if kind not in PRIORITIES:
                raise ValueError(f"there is no type {kind!r} of message; {nearest(kind, PRIORITIES)}")
        return {**TYPE_RULES, **given}
