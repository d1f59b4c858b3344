"""What calls of models took: tokens by kind, and dollars."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
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
        costs = (self.cost, other.cost)
        mine, added = asdict(self), asdict(other)
        counts = {name: count + added[name] for name, count in mine.items() if name != "cost"}
        return Usage(**counts, cost=None if None in costs else sum(cost for cost in costs if cost is not None))

    def named(self, prefix: str = "") -> dict[str, Any]:
        """Return the fields as plain values, by their names after a prefix."""
        return {prefix + name: value for name, value in asdict(self).items()}

    @classmethod
    def read(cls, values: Any, prefix: str = "") -> "Usage":
        """Return the usage in what `named` returned; what is missing is 0, and a missing cost unknown."""
        if not isinstance(values, Mapping):
            return cls()
        counts = {one.name: values.get(prefix + one.name) or 0 for one in fields(cls) if one.name != "cost"}
        return cls(**counts, cost=values.get(prefix + "cost"))


FREE = Usage()
"""The usage of what calls no model."""
