"""Split a text into its author's own sentences, and find the words that tell one sentence from others."""

from functools import lru_cache
from itertools import pairwise

from langgraph_compaction.checkpoint.compaction.common_words import COMMON_WORDS, MORE_ENGLISH
from langgraph_compaction.checkpoint.patterns import Anchored, Pattern
from langgraph_compaction.checkpoint.text_cache import cached_by_text

from .quoting import without_quotations

SENTENCE_CHARS = 320
"""Number of characters that are kept of a sentence; further characters are cut."""

_STATEMENT_WORDS = 4
"""Smallest number of words of a statement; two Chinese characters count as one word."""

_WRAPPED = Pattern(r"(?<=[a-z,])[ \t]*+\n[ \t]*+(?=[a-z])")
_BREAK = Pattern(
    r"(?<=[.!?])(?<!\d\.)[\"')\]]*+\s++(?=\S)|(?<=\d\.)[\"')\]]*+\s++(?=[A-Z])"
    r"|(?<=[。！？；।؟۔])|;\s++|\n++|(?<=\s)[-*•]\s++"
)
"""Pattern for the end of a sentence. No alternative starts with white space, because a long run of white space would
be scanned again from each of its characters. The caller strips white space around a sentence."""
_BULLET = Anchored(r"\s*+(?:(?:[-*•]|\d{1,2}[.)])\s++|\d{1,2}、\s*+)")

_WORD = Pattern(r"[^\W\d_]+")
_SHORTEST, _STEM = 3, 6
"""Smallest number of ASCII letters of a word that is compared, and number of letters by which words are compared."""
_COMMON = frozenset[str]().union(*COMMON_WORDS.values(), MORE_ENGLISH)


@cached_by_text
def own_sentences(text: str) -> tuple[str, ...]:
    """Return every sentence of a text that has a letter or digit, verbatim, without quoted code and quoted lines."""
    own = _WRAPPED.sub(" ", without_quotations(text))
    sentences = (_BULLET.remove_prefix(sentence.strip()).strip() for sentence in _BREAK.split(own))
    said = (sentence[:SENTENCE_CHARS] for sentence in sentences)
    return tuple(kept for kept in said if any(map(str.isalnum, kept)))


def count_words(text: str) -> float:
    """Return the number of words of a text; a Chinese or Japanese character counts as half a word."""
    wide = 0 if text.isascii() else sum("\u3040" <= character < "\uac00" for character in text)
    return len(text.split()) + wide / 2


def is_statement(sentence: str, words: int = _STATEMENT_WORDS) -> bool:
    """Whether a sentence is a statement of at least so many words, and not a question."""
    is_question = sentence.rstrip("\"'”’)").endswith(("?", "？", "؟"))
    return not is_question and count_words(sentence) >= words


@lru_cache(maxsize=4_096)
def rare_words(text: str) -> frozenset[str]:
    """Return the stems of the words of a sentence that are not frequent in their language.

    In scripts without spaces, every two adjacent characters count as a word.
    """
    return rare_words_of_long_text(text)


def rare_words_of_long_text(text: str) -> frozenset[str]:
    """Return the same as `rare_words`, without keeping the text in memory."""
    found = set[str]()
    for word in map(str.casefold, _WORD.findall(text)):
        if not word.isascii() and is_unspaced(word):
            found.update(word[at : at + 2] for at in range(len(word) - 1))
        elif len(word) >= _SHORTEST - (not word.isascii()) and word not in _COMMON:
            found.add(word[:_STEM])
    return frozenset(found)


def is_unspaced(word: str) -> bool:
    """Whether a word is in a script without spaces: Thai, Lao, Chinese or Japanese."""
    return "\u0e00" <= word[0] <= "\u0eff" or "\u3040" <= word[0] <= "\u9fff"


def word_pairs(text: str) -> frozenset[str]:
    """Return the pairs of adjacent words of a sentence, each as a text: the garbage collector visits every tuple."""
    return frozenset(map(" ".join, pairwise(_WORD.findall(text.casefold()))))
