"""Extract statements of users and of the assistant that say what no other sentence of the conversation says.

The worth of a statement grows with the number of its rare words per token: words that occur in few sentences of the
conversation, and neither in a better statement nor in a result of a tool.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from langgraph_compaction.checkpoint.compaction.common_words import COMMON_WORDS, MORE_ENGLISH
from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, Pattern

from ..conversation.message_marks import is_real_user
from ..conversation.tokens import approximate_counter, texts_of
from ..text.identifiers import has_identifier
from ..text.quoting import one_line
from .entry import Entry, Section
from .languages import guesses_rules
from .rules_and_requests import (
    MILD,
    PLAIN,
    is_question,
    is_statement,
    own_sentences,
    sentences_of,
    share_of_sentence,
)

_CHARS = 320
"""Maximum number of characters of a statement."""

_LEAST, _MOST = 0.003, 0.1
"""Worth of a statement without a rare word, and of one that has `_DENSE` rare words per token: less than that of
identifiers that are needed later."""
_DENSE = 0.4

_CHAT, _CHAT_MESSAGES = 2.5, 16
"""Factor for the worth of statements in a conversation of at least so many messages and without results of tools,
because prose is all that it has."""

_FOREIGN_WORDS, _FOREIGN_WORTH = 2, 1.0
"""Smallest number of words, and least worth, of a user's statement in a language other than English and Chinese. An
unrecognized rule is likelier there, and the worth lets it stay in the digest."""

_MOST_ANSWERS = 200
"""Maximum number of the assistant's statements that are considered, the best ones."""

_COURTESY = Pattern(
    r"\b(?:feel free|let me know|(?:any|further|more|other|additional) questions|anything else|happy to help"
    r"|here to help|you['’]re (?:very )?welcome|(?:have|enjoy) a (?:\w{1,20} )?(?:day|flight|trip|time)|safe travels"
    r"|don['’]t hesitate|please (?:provide|confirm)|thank you for|apologi[sz]e for"
    r"|(?:weitere|noch) fragen|stehe? .{0,30}zur verfügung|gern geschehen|n['’]hésitez pas|d['’]autres questions"
    r"|no dudes? en|alguna otra pregunta|de nada|обращайтесь|ещё вопросы|пожалуйста, сообщите)\b"
    r"|随时(?:告诉|联系|问)|还有(?:其他|别的|什么)(?:问题|需要)|不客气|お気軽に|どういたしまして",
    IGNORE_CASE,
)
"""Phrases of politeness, which say nothing about the conversation's subject."""

_WORD = Pattern(r"[^\W\d_]+")
_SHORTEST, _STEM = 3, 6
_COMMON = frozenset[str]().union(*COMMON_WORDS.values(), MORE_ENGLISH)
_PAIR = 0.5
"""How much a pair of characters counts in a script without spaces, where a word of two characters has about two."""

_COST = approximate_counter()


@dataclass(frozen=True, slots=True)
class _Statement:
    section: Section
    at: int
    text: str
    share: float
    """Factor for the worth: 1, or less for a sentence in the middle of a long message."""


def statements(
    old: Sequence[AnyMessage], start: int, earlier: Sequence[Entry] = (), beside: Sequence[AnyMessage] = ()
) -> list[Entry]:
    """Return the `earlier` statements, then those of users and of the assistant in `old`, verbatim, none twice.

    Sentences with identifiers are left out, because the identifiers are extracted as facts, and so are the users'
    rules, and the assistant's courtesies and headings. `beside` are the messages that the model continues to see:
    their words are not rare. Words in results of tools count less too, because the results repeat them.
    """
    known = {entry.value for entry in earlier}
    found = list({one.text: one for one in _statements(old, start) if one.text not in known}.values())
    if not found:
        return list(earlier)
    covered = Counter(word for entry in earlier for word in rare_words(entry.value))
    covered.update(word for text in _results(old, beside) for word in _rare_words(text))
    frequency = covered + Counter(word for text in _all_sentences(old, beside) for word in rare_words(text))
    ranked = sorted(found, key=lambda one: (-_density(one.text, frequency, Counter()), one.at))
    factor = _CHAT if _is_chat([*old, *beside]) else 1.0
    worth: dict[str, float] = {}
    for one in ranked:
        worth[one.text] = factor * _worth(one, _density(one.text, frequency, covered))
        covered.update(rare_words(one.text))
    answers = sorted((one for one in found if one.section == "Answers"), key=lambda one: -worth[one.text])
    dropped = {one.text for one in answers[_MOST_ANSWERS:]}
    made = (Entry(one.section, one.at, worth[one.text], one.text) for one in found if one.text not in dropped)
    return [*earlier, *made]


def _is_chat(messages: Sequence[AnyMessage]) -> bool:
    return len(messages) >= _CHAT_MESSAGES and not any(isinstance(message, ToolMessage) for message in messages)


def _all_sentences(*parts: Iterable[AnyMessage]) -> Iterator[str]:
    for part in parts:
        for message in part:
            if isinstance(message, AIMessage) or is_real_user(message):
                yield from own_sentences(message.text)


def _results(*parts: Iterable[AnyMessage]) -> Iterator[str]:
    for part in parts:
        yield from (text for message in part if isinstance(message, ToolMessage) for text in texts_of(message))


def _statements(old: Sequence[AnyMessage], start: int) -> Iterator[_Statement]:
    for index, message in enumerate(old):
        if isinstance(message, AIMessage):
            every: Sequence[tuple[str, int]] = [(sentence, PLAIN) for sentence in own_sentences(message.text)]
            section: Section = "Answers"
        elif is_real_user(message):
            every, section = sentences_of(message.text), "Said"
        else:
            continue
        for place, (sentence, strength) in enumerate(every):
            if _is_worth_a_line(sentence, strength, section):
                share = 1.0 if section == "Answers" else share_of_sentence(place, len(every))
                yield _Statement(section, start + index, one_line(sentence, _CHARS), share)


def _is_worth_a_line(sentence: str, strength: int, section: Section) -> bool:
    """Whether a sentence is a statement, or may be a rule that was not recognized as one."""
    if section == "Said" and guesses_rules(sentence):
        return strength <= MILD and not is_question(sentence) and is_statement(sentence, _FOREIGN_WORDS)
    if section == "Answers" and (sentence.rstrip("*_ ").endswith((":", "：")) or _COURTESY.occurs_in(sentence)):
        return False
    return not strength and is_statement(sentence) and not has_identifier(sentence)


def _worth(one: _Statement, density: float) -> float:
    worth = _LEAST + (_MOST - _LEAST) * min(1.0, density / _DENSE)
    if one.section == "Said" and guesses_rules(one.text):
        worth = max(worth, _FOREIGN_WORTH)
    return worth * one.share


def _density(text: str, frequency: Counter[str], covered: Counter[str]) -> float:
    """Return the number of rare words per token, each divided by the number of sentences that contain it.

    A word that better statements contain counts less, but not nothing, because it may be said of something else here.
    """
    weight = sum(
        (_PAIR if _is_unspaced(word) else 1) / (max(1, frequency[word]) * (1 + covered[word]))
        for word in sorted(rare_words(text))
    )
    return weight / (1 + _COST.text(text))


@lru_cache(maxsize=4_096)
def rare_words(text: str) -> frozenset[str]:
    """Return the stems of the words of a sentence that are not frequent in their language.

    In scripts without spaces, every two adjacent characters count as a word.
    """
    return _rare_words(text)


def _rare_words(text: str) -> frozenset[str]:
    """Return the same as `rare_words`, without keeping a long text in memory."""
    found = set[str]()
    for word in map(str.casefold, _WORD.findall(text)):
        if _is_unspaced(word):
            found.update(word[at : at + 2] for at in range(len(word) - 1))
        elif len(word) >= _SHORTEST and word not in _COMMON:
            found.add(word[:_STEM])
    return frozenset(found)


def _is_unspaced(word: str) -> bool:
    return "\u0e00" <= word[0] <= "\u0eff" or "\u3040" <= word[0] <= "\u9fff"
