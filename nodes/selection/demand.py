"""What a compaction has to reach, in tokens of the whole request."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What the result of a selection has to reach, in tokens of the whole request."""

    before: int
    """What the request holds now."""
    ceiling: int
    """Must stay at or under this, summary included."""
    aim: int
    """Worked towards once the floor has to yield."""
    summary: int
    """What is kept free for the summary."""
    least: int = 0
    """The least that a summary needs, for a strategy that divides the room by itself."""
    messages: int | None = None
    """Most messages in view, where it was their number that fired; the summary is one of them."""
    summarize_all: bool = False
    """Whether the whole conversation is to be summarized, whatever the strategies would keep."""
    must_fit: bool = False
    """Whether the request cannot be sent as it is: it is over the limit, or the provider has refused it."""
    step_notice: int = 0
    """What the summary takes besides where it stands for a step that the model waits for."""

    @property
    def roomy(self) -> int:
        """What a result with the full floor must not exceed, or the next turn would compact again."""
        return self.ceiling - (self.ceiling - self.aim) // 3
