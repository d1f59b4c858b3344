"""What people asked for: the goal, the rules they gave, and requests that have no answer yet."""

import math
import re
from collections.abc import Iterator, Sequence

from langchain_core.messages import AnyMessage

from ..conversation.transcript import Transcript, is_real_user
from ..text.identifiers import identifiers
from ..text.quoting import one_line
from .model import Entry
from .rules import FIRM, MILD, STRONG, asks, sentences_of, tells

_GOAL, _REQUEST, _RULE, _LINE = 600, 240, 320, 320
"""Characters kept of a goal, a request, a rule, a line of earlier prose."""

_GOAL_WORTH, _REQUEST_WORTH = 2.0, 0.9
_RULE_WORTH = {STRONG: 2.4, FIRM: 2.1, MILD: 0.15}
_SAID_WORTH = 0.06
_ASKED = 0.8
"""Worth of a rule that is put as a question beside one that is stated."""
_FEW, _EDGE = 8, 2
"""Sentences of one message that count in full: who says more may have pasted a manual; and those at its edges."""

_PROSE_WORTH, _PROSE_FACT = 0.5, 0.15

_TAGS = re.compile(r"</?summary>")
_DECORATION = re.compile(r"^[\s#>*•-]+")


def goal(old: Sequence[AnyMessage], start: int, earlier: Sequence[Entry] = ()) -> list[Entry]:
    """The user's first request, verbatim, clipped."""
    first = next((index for index, message in enumerate(old) if is_real_user(message) and message.text), None)
    if earlier or first is None:
        return list(earlier)
    return [Entry("Goal", start + first, _GOAL_WORTH, one_line(old[first].text, _GOAL))]


def rules(old: Sequence[AnyMessage], start: int, earlier: Sequence[Entry] = ()) -> list[Entry]:
    """What users demanded, in their words and order, none twice. No tool and no meta message has a say."""
    return _once(
        [
            *earlier,
            *(
                Entry("Rules", start + index, _rule_worth(sentence, strength) * share, one_line(sentence, _RULE))
                for index, sentence, strength, share in _sentences(old)
                if strength
            ),
        ]
    )


def _rule_worth(sentence: str, strength: int) -> float:
    return _RULE_WORTH[strength] * (_ASKED if asks(sentence) else 1)


def said(old: Sequence[AnyMessage], start: int, earlier: Sequence[Entry] = ()) -> list[Entry]:
    """What else users told, in their words, none twice: a rule that sounds like none; identifiers are facts."""
    return _once(
        [
            *earlier,
            *(
                Entry("Said", start + index, _SAID_WORTH * share, one_line(sentence, _RULE))
                for index, sentence, strength, share in _sentences(old)
                if not strength and tells(sentence) and not identifiers(sentence)
            ),
        ]
    )


def _sentences(old: Sequence[AnyMessage]) -> Iterator[tuple[int, str, int, float]]:
    """`(index, sentence, strength, share)`; of a long message, what stands at its edges counts in full."""
    for index, message in enumerate(old):
        every = sentences_of(message.text) if is_real_user(message) else []
        bulk = math.sqrt(_FEW / max(_FEW, len(every)))
        for place, (sentence, strength) in enumerate(every):
            at_edge = place < _EDGE or place >= len(every) - _EDGE
            yield index, sentence, strength, 1.0 if at_edge else bulk


def _once(entries: Sequence[Entry]) -> list[Entry]:
    first: dict[str, Entry] = {}
    for entry in entries:
        first.setdefault(entry.value, entry)
    return list(first.values())


def requests(old: Sequence[AnyMessage], start: int, earlier: Sequence[Entry] = ()) -> list[Entry]:
    """What users said after the last full answer."""
    view = Transcript(old)
    waiting = [index for index in view.round_starts if index > view.last_answer and old[index].text]
    return [
        *(earlier if view.last_answer < 0 else ()),
        *(Entry("Open", start + i, _REQUEST_WORTH, one_line(old[i].text, _REQUEST)) for i in waiting),
    ]


def prose(text: str | None, at: int, earlier: Sequence[Entry] = ()) -> list[Entry]:
    """The lines of an earlier summary; those with identifiers are worth more."""
    lines = [_DECORATION.sub("", line).strip() for line in _TAGS.sub("", text or "").splitlines()]
    return [
        *earlier,
        *(
            Entry(
                "Earlier",
                at,
                _PROSE_WORTH + _PROSE_FACT * min(4, len(identifiers(line))),
                one_line(line, _LINE),
            )
            for line in lines
            if line
        ),
    ]
