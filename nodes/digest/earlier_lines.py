"""Extract the lines of a summary that a model wrote, for a digest that takes its place."""

from collections.abc import Sequence

from langgraph_compaction.checkpoint.patterns import Anchored, Pattern

from ..text.identifiers import identifiers
from ..text.quoting import one_line
from .entry import Entry

_LINE = 320
"""Number of characters that are kept of a line."""

_LINE_WORTH, _LINE_IDENTIFIER_WORTH = 0.5, 0.15

_TAGS = Pattern(r"</?summary>")
_DECORATION = Anchored(r"[\s#>*•-]+")


def earlier_lines(text: str | None, at: int, earlier: Sequence[Entry] = ()) -> list[Entry]:
    """Return lines of earlier summaries: `earlier`, then each line of `text`. Identifiers make a line worth more."""
    lines = [_DECORATION.remove_prefix(line).strip() for line in _TAGS.sub("", text or "").splitlines()]
    return [*earlier, *(Entry("Earlier", at, _worth(line), one_line(line, _LINE)) for line in lines if line)]


def _worth(line: str) -> float:
    return _LINE_WORTH + _LINE_IDENTIFIER_WORTH * min(4, len(identifiers(line)))
