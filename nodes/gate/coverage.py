"""Decide by the words of a conversation whether a reply covers it. A story, an outline or an echo does not.

Rare words are compared: words of five letters or more by their first five letters, pieces of unspaced text, and
tokens with a digit. A summary in the conversation's language repeats many of them, a summary in another language at
least numbers and identifiers.
"""

from collections import Counter
from html import unescape

from ..digest.languages import languages_of
from .too_little_content import TAG, all_terms, has_digit, terms, units

_FEW_KNOWN = 20
"""A conversation with fewer distinct words or pieces of unspaced text is not compared: it may have none to repeat."""

_LARGE = 600
"""Number of distinct terms from which a conversation counts as large. By chance a reply shares some words with it, so
that only words count which occur in it at least twice."""

_SHARE, _LARGE_SHARE = 0.2, 0.25
"""Smallest share of a reply's rare words that a conversation, and a large conversation, must contain."""

_LEAST = 2
"""Smallest number of rare words that a reply shares with the conversation, if it has so many."""

_NUMBERS = 3
"""Number of distinct tokens with a digit from which a conversation is expected to leave one in a summary in another
language."""

_RARE = 5
"""Number of letters from which a word counts as rare."""

_PAIR = 2
"""Number of characters of a piece of Chinese, Japanese or Korean text."""

_STRONG, _LARGE_STRONG = 3, 4
"""Number of characters of a token with a digit that alone shows that a conversation, or a large one, is covered."""

_ECHO_UNITS = 4
"""Smallest length, in units, of a reply that counts as an echo if the conversation contains all of it."""

_SAMPLE = 4_000
"""Number of characters at the end of a conversation by which its languages are guessed, line by line."""

_GENERIC_WORDS = """
    abstr above assis begin below chapt concl conta conte conti conve cover discu earli follo helpe histo intro
    loadi messa movin parti plan pleas previ reque remai revie sever sorry start summa task there thing those
    topic user usual would zusam folge gespr nutze inhal kapit anfan teiln theme unter beende einle schlu fortg
    forts wunsc кратк содер польз помощ участ вопро обсуд загру остал прило глава начал конец введе заклю диало
    разго ниже 用户 助手 摘要 总结 对话 内容 以下 继续 消息 帮助 提供 问题 讨论 引言 结语
"""
_GENERIC = frozenset(_GENERIC_WORDS.split())
"""Beginnings of words that replies about no subject at all consist of; they say nothing about a conversation."""


def covers_too_little(reply: str, conversation: str, earlier: str = "") -> str | None:
    """Return why a reply does not cover a conversation: `echo` or `nothing_covered`; `None` if it does.

    `conversation` is the text that the summarizer was shown, with its tags and HTML entities; `earlier` is the
    earlier summary, which a reply may repeat.
    """
    plain = unescape(TAG.sub(" ", conversation))
    if units(reply) >= _ECHO_UNITS and _flat(reply) in _flat(plain):
        return "echo"
    plain = f"{plain}\n{earlier}"
    known = Counter(all_terms(plain))
    if sum(not has_digit(term) for term in known) < _FEW_KNOWN:
        return None
    is_large = len(known) >= _LARGE
    own = {term for term in terms(reply) if _is_rare(term)} - _GENERIC
    shared = {term for term in own if known[term] > (is_large and not has_digit(term))}
    strong = _LARGE_STRONG if is_large else _STRONG
    if any(has_digit(term) and len(term) >= strong for term in shared):
        return None
    share = _LARGE_SHARE if is_large else _SHARE
    if own and len(shared) >= max(min(_LEAST, len(own)), share * len(own)):
        return None
    spoken = {language for line in plain[-_SAMPLE:].splitlines() for language in languages_of(line)}
    if not spoken.isdisjoint(languages_of(reply)):
        return "nothing_covered"
    numbers = sum(map(has_digit, known))
    return None if numbers < _NUMBERS or any(map(has_digit, shared)) else "nothing_covered"


def names_identifiers(reply: str, conversation: str) -> bool:
    """Whether a reply repeats two tokens with a digit of a conversation: it then reports, and explains no subject."""
    known = terms(unescape(TAG.sub(" ", conversation)))
    return sum(has_digit(term) and len(term) >= _LEAST for term in terms(reply) & known) >= _LEAST


def _is_rare(term: str) -> bool:
    unspaced = not term.isascii() and (len(term) == _PAIR or term >= "\u0e00")
    return unspaced or has_digit(term) or len(term) >= _RARE


def _flat(text: str) -> str:
    return " ".join(text.split())
