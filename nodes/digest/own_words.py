"""Extract the user's own words: sentences of earlier messages, verbatim, each with a worth.

A sentence is worth more if it has many rare words and many new pairs of words for its length. Words that tools or the
assistant said too are less rare. No list of words decides: what users say only once is what no other text repeats.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import fsum

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from langgraph_compaction.checkpoint.patterns import Anchored, Pattern
from langgraph_compaction.checkpoint.text_cache import cached_by_text

from ..conversation.message_marks import is_real_user
from ..conversation.tokens import texts_of
from ..conversation.transcript import Transcript
from ..text.quoting import one_line
from ..text.sentences import (
    SENTENCE_CHARS,
    count_words,
    own_sentences,
    rare_words,
    rare_words_of_long_text,
    word_pairs,
)
from .entry import Entry
from .listed_sentences import is_listed

_LEAST, _MOST, _DENSE, _DENSEST = 0.02, 2.4, 0.3, 4.0
"""Worth of a sentence without a rare word, and of one of the density `_DENSE`; the worth grows up to `_DENSEST` times
that density."""
_SHOWN = 0.4
"""Smallest worth of a sentence that is shown, except in the first message and in unanswered ones."""
_PADDING = 2
"""Number of words that are added to each sentence's length, so that very short sentences are not the densest."""

_IN_NUMBER, _BY_ASSISTANT, _IN_PAIR = 0.4, 0.3, 0.25
"""How much a word with a digit counts, a sentence of the assistant that has the same word, and a pair of words,
beside a word that counts 1."""

_EDGE = 4
"""Number of sentences at each end of a long message that count in full, and that come first in the first message and
in unanswered ones."""

_LINKING, _ALIKE = 4, 0.45
"""Two sentences are about the same subject if the words that they share, in at most `_LINKING` sentences each, have
at least this weight together. A word that only these two sentences have weighs 1/2."""

_PLACE = Anchored(r"(\d{1,6})/(\d{1,6})")
_TOKEN = Pattern(r"\w++(?:[.,:-]++\w++)*+")


@dataclass(frozen=True, slots=True)
class OwnWords:
    """The users' sentences, oldest first, and what decides which of them are shown."""

    entries: Sequence[Entry] = ()
    first: frozenset[int] = frozenset()
    """Indexes of the sentences that come before all others: of the first message and of unanswered ones."""
    links: Sequence[tuple[int, int]] = ()
    """Pairs of the index of a sentence and that of an earlier one about the same subject."""

    def ranked(self, worth: Sequence[float]) -> list[int]:
        """Return the indexes of the sentences in the order in which they get tokens; `worth` weighs them.

        A sentence ranks at least as high as an earlier one about the same subject, so that a correction is shown
        where the corrected sentence is.
        """
        rank = list(worth)
        for later, earlier in self.links:
            rank[later] = max(rank[later], worth[earlier])
        shown = (at for at, entry in enumerate(self.entries) if entry.worth >= _SHOWN or at in self.first)
        return sorted(shown, key=lambda at: (at not in self.first, -rank[at], -at))


def own_words(
    old: Sequence[AnyMessage],
    start: int,
    earlier: Sequence[Entry] = (),
    *,
    beside: Sequence[AnyMessage] = (),
    listed: Sequence[str] = (),
) -> OwnWords:
    """Return the `earlier` sentences, then those of the users' messages in `old`; of a repeated one the last.

    `start` is the position of the first message of `old`. `beside` are the messages that the model continues to see:
    their sentences are left out, and their words are less rare. A sentence that a model `listed` is worth as much as
    one of rare words only.
    """
    last: dict[str, Entry] = {}
    for entry in (*earlier, *_sentences(old, start)):
        last.pop(entry.value, None)
        last[entry.value] = entry
    seen = {entry.value for entry in _sentences(beside, 0)}
    entries = [entry for entry in last.values() if entry.value not in seen]
    if not entries:
        return OwnWords()
    words, pairs = [_words(entry.value) for entry in entries], [word_pairs(entry.value) for entry in entries]
    heard, repeated = _heard(old, beside)
    times = {word: count + heard.get(word, 0) for word, count in Counter(chain.from_iterable(words)).items()}
    weights = {word: (_IN_NUMBER if any(map(str.isdigit, word)) else 1) / count for word, count in times.items()}
    news = {
        pair: _IN_PAIR / (count**2 + repeated[pair]) for pair, count in Counter(chain.from_iterable(pairs)).items()
    }
    lengths = [_PADDING + count_words(entry.value) for entry in entries]
    # `fsum`, because the order of a set changes from process to process, and with it the last bits of a plain sum
    density = [fsum(weights[word] for word in own) / length for own, length in zip(words, lengths, strict=True)]
    covered = Counter[str]()
    for at in sorted(range(len(entries)), key=lambda at: (-density[at], -at)):
        said = fsum(weights[word] / (1 + covered[word]) for word in words[at]) + fsum(news[one] for one in pairs[at])
        worth = _LEAST + (_MOST - _LEAST) * min(_DENSEST, said / lengths[at] / _DENSE)
        entries[at] = replace(entries[at], worth=_worth(entries[at], worth, start, listed))
        covered.update(words[at])
    return OwnWords(
        entries, _first(entries, start + Transcript(old).last_answer), list(_links(entries, words, times))
    )


def _worth(entry: Entry, worth: float, start: int, listed: Sequence[str]) -> float:
    if is_listed(entry.value, listed):
        return _MOST * _DENSEST
    return entry.worth * worth if entry.at >= start else min(entry.worth, worth)


def place_of(sentence: Entry) -> tuple[int, int]:
    """Return the place of a sentence in its message, and the number of sentences of the message."""
    found = _PLACE.match(sentence.key)
    return (int(found[1]), int(found[2])) if found else (0, 1)


def _sentences(old: Sequence[AnyMessage], start: int) -> Iterator[Entry]:
    """Yield an entry for each sentence; its worth is 1, and less in the middle of a long message."""
    for index, message in enumerate(old):
        count, lines = _lines(message.text) if is_real_user(message) else (0, ())
        for place, line in lines:
            is_edge = min(place, count - 1 - place) < _EDGE
            share = 1.0 if is_edge else (2 * _EDGE / count) ** 0.5
            yield Entry("Said", start + index, share, line, key=f"{place}/{count}")


@cached_by_text
def _lines(text: str) -> tuple[int, Sequence[tuple[int, str]]]:
    """Return the number of a text's sentences, and the place and the line of each; of a repeated one the last."""
    lines = [one_line(sentence, SENTENCE_CHARS) for sentence in own_sentences(text)]
    last = {line: place for place, line in enumerate(lines)}
    return len(lines), sorted((place, line) for line, place in last.items())


def _first(entries: Sequence[Entry], answered: int) -> frozenset[int]:
    """Return the indexes of the ends of the first message, and of those after the position `answered`."""
    return frozenset(
        index
        for index, entry in enumerate(entries)
        if entry.at == entries[0].at or entry.at > answered
        if min(place_of(entry)[0], place_of(entry)[1] - 1 - place_of(entry)[0]) < _EDGE
    )


def _links(
    entries: Sequence[Entry], words: Sequence[frozenset[str]], times: Mapping[str, float]
) -> Iterator[tuple[int, int]]:
    own = Counter(chain.from_iterable(words))
    known: defaultdict[str, list[int]] = defaultdict(list)
    for later in range(len(entries)):
        linking = [word for word in words[later] if own[word] <= _LINKING]
        for earlier in sorted({index for word in linking for index in known[word]}):
            if entries[earlier].at != entries[later].at:
                weight = fsum(1 / times[word] for word in words[later] & words[earlier])
                if weight >= _ALIKE:
                    yield later, earlier
        for word in linking:
            known[word].append(later)


def _words(text: str) -> frozenset[str]:
    return rare_words(text) | _numbers(text)


def _numbers(text: str) -> frozenset[str]:
    return frozenset(token.casefold() for token in _TOKEN.findall(text) if any(map(str.isdigit, token)))


def _heard(
    old: Sequence[AnyMessage], beside: Sequence[AnyMessage]
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Return how often the assistant, tools, and users in `beside` said each word and each pair of words."""
    words, pairs = defaultdict[str, float](float), defaultdict[str, float](float)
    answers, inputs = [one for one in (*old, *beside) if isinstance(one, AIMessage)], filter(is_real_user, beside)
    for messages, weight in ((answers, _BY_ASSISTANT), (inputs, 1.0)):
        for sentence, times in Counter(chain.from_iterable(own_sentences(one.text) for one in messages)).items():
            _add(words, _words(sentence), weight * times)
            _add(pairs, word_pairs(sentence), times)
    results = (text for one in (*old, *beside) if isinstance(one, ToolMessage) for text in texts_of(one))
    for text in chain((str(call["args"]) for one in answers for call in one.tool_calls), results):
        _add(words, _words_of_long_text(text))
    return words, pairs


def _add(heard: defaultdict[str, float], words: Iterable[str], weight: float = 1.0) -> None:
    for word in words:
        heard[word] += weight


def _words_of_long_text(text: str) -> frozenset[str]:
    return rare_words_of_long_text(text) | _numbers(text)
