"""The policy `recent_rounds`."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from ..prompts import PromptName
from ..triggers import Hook
from .base import Policy, hooks_of, strategies_of


class RecentRounds(Policy):
    """Keeps the newest rounds, summarizes the rest, and asks before."""

    name: Literal["recent_rounds"] = "recent_rounds"
    strategies: tuple[str, ...] = strategies_of("recent_rounds")
    hooks: tuple[Hook, ...] = hooks_of("pre_input", "on_overflow")
    prompt: ClassVar[PromptName] = "brief"
    facts_beside_summary: ClassVar[bool] = False

    keep_recent_rounds: NonNegativeInt = Field(default=2, title="Rounds kept")
    """Number of the newest rounds that stay whole; fewer if this number does not fit. A round is a user message and
    all messages up to the next user message."""

    summary_max_length: PositiveInt | None = Field(default=1_000, title="Most characters of a summary")
    """Maximum length of a summary in characters; a longer one is cut at the end of a line or sentence. `None`: no
    maximum."""

    @classmethod
    def shared(cls, own: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003 - the same whatever is given
        """Return the window, and that a person is asked."""
        return {"context_window": 80_000, "require_confirmation": True}
