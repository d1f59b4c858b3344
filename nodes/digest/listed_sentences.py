"""Read the list of sentences that a model adds to its summary, and find these sentences in the conversation.

The list only chooses among sentences of the conversation. A line whose sentence is not found word for word is
ignored, and what is shown is always copied from the conversation. A model can therefore neither invent a
sentence nor change one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import unescape

from langchain_core.messages import AIMessage, AnyMessage

from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, Anchored

from ..conversation.message_marks import is_real_user
from ..text.quoting import one_line
from ..text.sentences import SENTENCE_CHARS, is_statement, own_sentences
from .entry import Entry

_BEGIN, _END = "<rules>", "</rules>"
"""The tags around the list."""

_MOST_LINES, _LINE_CHARS = 24, 800
"""Maximum number of lines of a list that are read, and of characters of each line."""

_LINE = Anchored(r"[\s*•-]*+(rule|decision)\s*+[*]{0,2}\s*+[:：]\s*+(\S.*)", IGNORE_CASE)

_DECISION_WORDS = 3
"""Smallest number of words of a decision that a line may name."""

_DECISION_WORTH = 1.0

_LEAST_LETTERS, _LEAST_SHARE = 8, 0.5
"""Smallest number of letters and digits of a part that identifies a sentence or a line, and smallest share of a
sentence that a line has to copy."""


@dataclass(frozen=True, slots=True)
class ListedSentences:
    """What a model's list says, each text as the model copied it."""

    rules: tuple[str, ...] = ()
    """Sentences of the user that set a rule, a limit or a preference."""
    decisions: tuple[str, ...] = ()
    """Sentences of the assistant that state a decision."""

    def __add__(self, other: "ListedSentences") -> "ListedSentences":
        """Return the lines of both lists."""
        return ListedSentences(self.rules + other.rules, self.decisions + other.decisions)

    def __bool__(self) -> bool:
        """Whether the list has a line."""
        return bool(self.rules or self.decisions)

    def written(self) -> str:
        """Return the list as `split_list` reads it; empty if it has no line."""
        lines = [
            *(f"rule: {text}" for text in self.rules),
            *(f"decision: {text}" for text in self.decisions),
        ]
        return "\n".join([_BEGIN, *lines, _END]) if lines else ""


NOTHING_LISTED = ListedSentences()


def split_list(reply: str) -> tuple[str, ListedSentences]:
    """Return a model's reply without its lists of rules, and what the lists say.

    Only text between `<rules>` and `</rules>` is a list. Lines of another form, and lines after the first 24, are
    ignored.
    """
    around, blocks, at = list[str](), list[str](), 0
    while (begin := reply.find(_BEGIN, at)) >= 0 and (end := reply.find(_END, begin)) >= 0:
        around.append(reply[at:begin])
        blocks.append(reply[begin + len(_BEGIN) : end])
        at = end + len(_END)
    if not blocks:
        return reply, NOTHING_LISTED
    found: dict[str, list[str]] = {"rule": [], "decision": []}
    lines = (line for block in blocks for line in block.splitlines() if line.strip())
    for line, _ in zip(lines, range(_MOST_LINES), strict=False):
        if match := _LINE.match(line[:_LINE_CHARS]):
            found[match[1].lower()].append(unescape(match[2]).strip())
    left = "".join([*around, reply[at:]]).strip()
    return left, ListedSentences(tuple(found["rule"]), tuple(found["decision"]))


@lru_cache(maxsize=4_096)
def letters_of(text: str) -> str:
    """Return the letters and digits of a text in small letters, so that quotation marks and spaces do not matter."""
    return "".join(filter(str.isalnum, unescape(text).casefold()))


def is_listed(sentence: str, lines: Iterable[str]) -> bool:
    """Whether one of the lines is a copy of this sentence, of more than it, or of at least half of it."""
    own = letters_of(sentence)
    return any(_is_same(own, letters_of(line)) for line in lines) if own else False


def _is_same(sentence: str, line: str) -> bool:
    if sentence == line:
        return True
    if len(sentence) < _LEAST_LETTERS or len(line) < _LEAST_LETTERS:
        return False
    return sentence in line or (line in sentence and len(line) >= _LEAST_SHARE * len(sentence))


def listed_decisions(
    listed: ListedSentences,
    old: Sequence[AnyMessage],
    start: int,
    earlier: Sequence[Entry] = (),
    beside: Sequence[AnyMessage] = (),
) -> list[Entry]:
    """Return the `earlier` decisions and the listed sentences of the assistant, none twice.

    A sentence counts only if a user wrote a message after it, in `old` or in the messages `beside` that stay.
    """
    found = {entry.value: entry for entry in (*earlier, *_decisions(listed.decisions, old, start, beside))}
    return list(found.values())


def _decisions(
    lines: Sequence[str], old: Sequence[AnyMessage], start: int, beside: Sequence[AnyMessage]
) -> Iterator[Entry]:
    if not lines:
        return
    spoken = [index for index, message in enumerate(old) if is_real_user(message)]
    last = len(old) if any(map(is_real_user, beside)) else max(spoken, default=-1)
    for index, message in enumerate(old[: max(0, last)]):
        for sentence in own_sentences(message.text) if isinstance(message, AIMessage) else ():
            if is_statement(sentence, _DECISION_WORDS) and is_listed(sentence, lines):
                yield Entry("Decisions", start + index, _DECISION_WORTH, one_line(sentence, SENTENCE_CHARS))
