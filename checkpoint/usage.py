"""What calls of models took: tokens by kind, and dollars."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens and the cost of one or more calls, as the provider reported them."""

    calls: int = 0
    input_tokens: int = 0
    """All tokens of the requests, those of the cache among them."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    """All tokens of the answers, with the reasoning."""
    reasoning_tokens: int = 0
    cost: float | None = 0.0
    """Dollars; `None` if the usage or the price of a call is not known."""

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum, whose cost is unknown if one of the costs is."""
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost=None if self.cost is None or other.cost is None else self.cost + other.cost,
        )

    def named(self, prefix: str = "") -> dict[str, Any]:
        """Return the fields as plain values, by their names after a prefix."""
        return {prefix + name: getattr(self, name) for name in _NAMES}

    @classmethod
    def read(cls, values: Any, prefix: str = "") -> "Usage":
        """Return the usage in what `named` returned; what is missing is 0, and a missing cost unknown."""
        if not isinstance(values, Mapping):
            return cls()
        counts = {name: values.get(prefix + name) or 0 for name in _NAMES if name != "cost"}
        return cls(**counts, cost=values.get(prefix + "cost"))


_NAMES = [field.name for field in fields(Usage)]


FREE = Usage()
"""The usage of what calls no model."""
