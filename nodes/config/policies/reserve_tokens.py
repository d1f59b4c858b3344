"""The policy `reserve_tokens`."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from ..prompts import PromptName
from .base import Policy, strategies_of


class ReserveTokens(Policy):
    """Keeps the newest tokens, and a reserve for the answer."""

    name: Literal["reserve_tokens"] = "reserve_tokens"
    strategies: tuple[str, ...] = strategies_of("recent_tokens")
    prompt: ClassVar[PromptName] = "structured"
    facts_beside_summary: ClassVar[bool] = False

    recent_tokens_keep: PositiveInt = Field(default=20_000, title="Tokens kept")
    """About this number of tokens of the newest messages stays."""

    @classmethod
    def shared(cls, own: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG003 - the same whatever is given
        """Return the trigger."""
        return {
            "trigger_ratio": None,
            "triggers": ({"kind": "reserve_tokens", "tokens": 16_384, "operator": ">"},),
        }
