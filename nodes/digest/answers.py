"""Extract statements of the assistant that say what no other sentence of the conversation says.

The worth of a statement grows with the number of its rare words per token: words that occur in few sentences of the
conversation, and neither in a better statement nor in a result of a tool.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from ..conversation.message_marks import is_real_user
from ..conversation.tokens import approximate_counter, texts_of
from ..text.identifiers import has_identifier
from ..text.quoting import one_line
from ..text.sentences import (
    SENTENCE_CHARS,
    is_statement,
    is_unspaced,
    own_sentences,
    rare_words,
    rare_words_of_long_text,
)
from .entry import Entry

_LEAST, _MOST = 0.003, 0.1
"""Worth of a statement without a rare word, and of one that has `_DENSE` rare words per token: less than that of
identifiers that are needed later."""
_DENSE = 0.4

_CHAT, _CHAT_MESSAGES = 2.5, 16
"""Factor for the worth of statements in a conversation of at least so many messages and without results of tools,
because prose is all that it has."""

_MOST_ANSWERS = 200
"""Maximum number of statements that are considered, the best ones."""

_PAIR = 0.5
"""How much a pair of characters counts in a script without spaces, where a word of two characters has about two."""

_COST = approximate_counter()


def answers(
    old: Sequence[AnyMessage], start: int, earlier: Sequence[Entry] = (), beside: Sequence[AnyMessage] = ()
) -> list[Entry]:
    """Return the `earlier` statements, then those of the assistant in `old`, verbatim, none twice.

    Sentences with identifiers are left out, because the identifiers are extracted as facts, and so are headings.
    `beside` are the messages that the model continues to see: their words are not rare. Words in results of tools
    count less too, because the results repeat them.
    """
    known = {entry.value for entry in earlier}
    found = {text: at for text, at in _statements(old, start) if text not in known}
    if not found:
        return list(earlier)
    covered = Counter(word for entry in earlier for word in rare_words(entry.value))
    covered.update(word for text in _results(old, beside) for word in rare_words_of_long_text(text))
    frequency = covered + Counter(word for text in _all_sentences(old, beside) for word in rare_words(text))
    factor = _CHAT if _is_chat([*old, *beside]) else 1.0
    made = list[Entry]()
    for text, at in sorted(found.items(), key=lambda item: (-_density(item[0], frequency, Counter()), item[1])):
        worth = _LEAST + (_MOST - _LEAST) * min(1.0, _density(text, frequency, covered) / _DENSE)
        made.append(Entry("Answers", at, factor * worth, text))
        covered.update(rare_words(text))
    best = sorted(made, key=lambda entry: -entry.worth)[:_MOST_ANSWERS]
    return [*earlier, *sorted(best, key=lambda entry: entry.at)]


def _is_chat(messages: Sequence[AnyMessage]) -> bool:
    return len(messages) >= _CHAT_MESSAGES and not any(isinstance(message, ToolMessage) for message in messages)


def _statements(old: Sequence[AnyMessage], start: int) -> Iterator[tuple[str, int]]:
    for index, message in enumerate(old):
        for sentence in own_sentences(message.text) if isinstance(message, AIMessage) else ():
            is_heading = sentence.rstrip("*_ ").endswith((":", "："))
            if not is_heading and is_statement(sentence) and not has_identifier(sentence):
                yield one_line(sentence, SENTENCE_CHARS), start + index


def _all_sentences(*parts: Iterable[AnyMessage]) -> Iterator[str]:
    for part in parts:
        for message in part:
            if isinstance(message, AIMessage) or is_real_user(message):
                yield from own_sentences(message.text)


def _results(*parts: Iterable[AnyMessage]) -> Iterator[str]:
    for part in parts:
        yield from (text for message in part if isinstance(message, ToolMessage) for text in texts_of(message))


def _density(text: str, frequency: Counter[str], covered: Counter[str]) -> float:
    """Return the number of rare words per token, each divided by the number of sentences that contain it.

    A word that better statements contain counts less, but not nothing, because it may be said of something else here.
    """
    weight = sum(
        (_PAIR if is_unspaced(word) else 1) / (max(1, frequency[word]) * (1 + covered[word]))
        for word in sorted(rare_words(text))
    )
    return weight / (1 + _COST.text(text))
