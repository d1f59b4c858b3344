"""The policy `faithful`."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from ..prompts import PromptName
from ..summary_format import SummaryForm
from .base import Policy, strategies_of


class Faithful(Policy):
    """Keeps what later turns need: facts, rules, requests, and as many newest messages as are worth it."""

    name: Literal["faithful"] = "faithful"
    strategies: tuple[str, ...] = strategies_of("faithful")
    prompt: ClassVar[PromptName] = "structured"
    form: ClassVar[SummaryForm] = "terse"
    summarizer: ClassVar[Literal["model", "digest"]] = "digest"
    soft_zone: ClassVar[bool] = False
    facts_share: ClassVar[float] = 0.4

    @classmethod
    def shared(cls, own: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003 - the same whatever is given
        """Return the sizes and the recall of this policy."""
        return {"trigger_ratio": 1.0, "target_ratio": 0.4, "recall": "automatic"}
