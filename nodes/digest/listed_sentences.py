"""Read the list of rules that a model adds to its summary, and find the listed sentences in the conversation.

The list only chooses among sentences of the conversation. A line whose sentence is not found word for word is
ignored, and what is shown is always copied from the conversation. A model can therefore neither invent a rule nor
change one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from html import unescape

from langchain_core.messages import AIMessage, AnyMessage

from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, Anchored

from ..conversation.message_marks import is_real_user
from ..text.quoting import one_line
from .entry import Entry
from .rules_and_requests import FIRM, is_statement, own_sentences, rule_worth

_BEGIN, _END = "<rules>", "</rules>"
"""The tags around the list."""

_ARROW = "=>"
"""The sign between an earlier sentence and the later one that changes it."""

_MOST_LINES, _LINE_CHARS = 24, 800
"""Maximum number of lines of a list that are read, and of characters of each line."""

_LINE = Anchored(r"[\s*•-]*+(rule|decision|revised)\s*+[*]{0,2}\s*+[:：]\s*+(\S.*)", IGNORE_CASE)

_SHOWN = 320
"""Maximum number of characters that are shown of a sentence."""

_RULE_WORDS, _DECISION_WORDS = 2, 3
"""Smallest number of words of a sentence that a line may name."""

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
    revised: tuple[tuple[str, str], ...] = ()
    """Pairs of an earlier sentence and the later sentence that changes or revokes it."""

    def __add__(self, other: "ListedSentences") -> "ListedSentences":
        """Return the lines of both lists."""
        return ListedSentences(
            self.rules + other.rules, self.decisions + other.decisions, self.revised + other.revised
        )

    def __bool__(self) -> bool:
        """Whether the list has a line."""
        return bool(self.rules or self.decisions or self.revised)

    def written(self) -> str:
        """Return the list as `split_list` reads it; empty if it has no line."""
        lines = [
            *(f"rule: {text}" for text in self.rules),
            *(f"decision: {text}" for text in self.decisions),
            *(f"revised: {earlier} {_ARROW} {later}" for earlier, later in self.revised),
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
    found: dict[str, list[str]] = {"rule": [], "decision": [], "revised": []}
    lines = (line for block in blocks for line in block.splitlines() if line.strip())
    for line, _ in zip(lines, range(_MOST_LINES), strict=False):
        if match := _LINE.match(line[:_LINE_CHARS]):
            found[match[1].lower()].append(unescape(match[2]).strip())
    pairs = (text.partition(_ARROW) for text in found["revised"])
    revised = tuple((old.strip(), new.strip()) for old, _, new in pairs if old.strip() and new.strip())
    left = "".join([*around, reply[at:]]).strip()
    return left, ListedSentences(tuple(found["rule"]), tuple(found["decision"]), revised)


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


def with_listed_rules(
    rules: Sequence[Entry], listed: ListedSentences, old: Sequence[AnyMessage], start: int
) -> list[Entry]:
    """Return the rules and the listed sentences of users, each with at least the worth of a binding rule.

    `rules` are those that were found without the list; `start` is the position of the first message of `old`.
    """
    if not listed.rules:
        return list(rules)
    least = rule_worth("", FIRM)
    found = {
        rule.value: replace(rule, worth=max(rule.worth, least)) if is_listed(rule.value, listed.rules) else rule
        for rule in rules
    }
    for index, message in enumerate(old):
        for sentence in own_sentences(message.text) if is_real_user(message) else ():
            if is_statement(sentence, _RULE_WORDS) and is_listed(sentence, listed.rules):
                line = one_line(sentence, _SHOWN)
                found.setdefault(line, Entry("Rules", start + index, least, line))
    return list(found.values())


def listed_decisions(
    listed: ListedSentences,
    old: Sequence[AnyMessage],
    start: int,
    earlier: Sequence[Entry] = (),
    beside: Sequence[AnyMessage] = (),
) -> list[Entry]:
    """Return the `earlier` decisions and the listed sentences of the assistant, none twice.

    A sentence counts only if a user wrote a message after it, in `old` or in the messages `beside` that stay. A
    decision leaves if the list says that a later sentence of the conversation changes it.
    """
    found = {entry.value: entry for entry in (*earlier, *_decisions(listed.decisions, old, start, beside))}
    for before, after in listed.revised:
        changed = max((start + index for index, message in enumerate(old) if _says(message, after)), default=0)
        for entry in list(found.values()):
            if entry.at < changed and is_listed(entry.value, [before]):
                del found[entry.value]
    return list(found.values())


def with_decisions_of(listed: ListedSentences, messages: Sequence[AnyMessage]) -> ListedSentences:
    """Return the list with only those decisions that the assistant stated in these messages."""
    answers = [message for message in messages if isinstance(message, AIMessage)]
    kept = [line for line in listed.decisions if any(_says(message, line) for message in answers)]
    return replace(listed, decisions=tuple(kept))


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
                yield Entry("Decisions", start + index, _DECISION_WORTH, one_line(sentence, _SHOWN))


def _says(message: AnyMessage, line: str) -> bool:
    if not isinstance(message, AIMessage) and not is_real_user(message):
        return False
    return any(is_listed(sentence, [line]) for sentence in own_sentences(message.text))
