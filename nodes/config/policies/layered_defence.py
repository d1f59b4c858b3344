"""The policy `layered_defence`."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from ..prompts import InputGuard, PromptName
from ..summary_format import SummaryForm
from ..triggers import Hook
from .base import Policy, hooks_of, strategies_of


class LayeredDefence(Policy):
    """Summarizes everything, in three layers of defence."""

    name: Literal["layered_defence"] = "layered_defence"
    strategies: tuple[str, ...] = strategies_of("full")
    hooks: tuple[Hook, ...] = hooks_of("pre_input", "pre_model", "on_overflow")
    prompt: ClassVar[PromptName] = "continuity"
    form: ClassVar[SummaryForm] = "cleared"
    input_guard: ClassVar[InputGuard | None] = InputGuard()
    facts_beside_summary: ClassVar[bool] = False

    @classmethod
    def shared(cls, own: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003 - it has no settings of its own
        """Return the two triggers of the document, and that the stored list stays short."""
        return {
            "trigger_ratio": None,
            "triggers": (
                {"kind": "used_ratio", "ratio": 0.9, "operator": ">"},
                {"kind": "count", "unit": "events", "limit": 700, "operator": ">"},
            ),
            "messages_in_state": 0,
        }
