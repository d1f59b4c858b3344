"""Guess the language of a sentence, and find the cue words of rules and revisions in it."""

from functools import lru_cache

from langgraph_compaction.checkpoint.compaction.common_words import COMMON_WORDS
from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, Pattern

from .cue_words import SPACED, UNSPACED

_WORD = Pattern(r"[^\W\d_]+(?:['’](?:m|t)\b)?")
_SCRIPTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("\u0400-\u04ff", ("ru", "uk")),
    ("\u0600-\u06ff", ("ar",)),
    ("\u0900-\u097f", ("hi",)),
    ("\u0e00-\u0e7f", ("th",)),
    ("\uac00-\ud7a3", ("ko",)),
    ("\u3041-\u30ff", ("ja",)),
    ("\u4e00-\u9fff", ("zh",)),
)
"""By range of letters, the languages that are written in it. Of several ranges in a sentence the first one counts."""
_RANGES = tuple((Pattern(f"[{letters}]"), languages) for letters, languages in _SCRIPTS)

_UNKNOWN = len(COMMON_WORDS) - 2
"""Smallest number of languages in which a sentence without any frequent word may be written."""
_BY_ENDINGS = "tr"
"""A language whose cues are endings, which words such as "came" and "same" have by chance. It is possible only where
a frequent word or a letter speaks for it."""
_FEW = 2
"""Up to this number of frequent words, a language of which a sentence has one word less is possible too."""


@lru_cache(maxsize=4_096)
def languages_of(sentence: str) -> tuple[str, ...]:
    """Return the languages in which a sentence may be written: one or, if it is too short to decide, several."""
    for letters, languages in _RANGES:
        if letters.search(sentence):
            return languages
    words = {word.casefold().replace("’", "'") for word in _WORD.findall(sentence)}
    hits = {language: len(words & common) for language, common in COMMON_WORDS.items()}
    most = max(hits.values())
    if most and hits["en"] == most:
        return ("en",)
    least = most - 1 if most <= _FEW else most
    possible = [language for language, count in hits.items() if count >= least and language != "en"]
    if sentence.isascii() and not hits[_BY_ENDINGS] and _BY_ENDINGS in possible:
        possible.remove(_BY_ENDINGS)
    return tuple(possible)


def is_foreign(sentence: str) -> bool:
    """Whether a sentence is in another language than English that is written in Latin letters."""
    found = languages_of(sentence)
    return "en" not in found and found[0] in COMMON_WORDS and len(found) < _UNKNOWN


def guesses_rules(sentence: str) -> bool:
    """Whether a sentence is neither in English nor in Chinese, nor too short to tell."""
    found = languages_of(sentence)
    if found[0] not in COMMON_WORDS:
        return found[0] != "zh"
    return "en" not in found and (len(found) < _UNKNOWN or any(not c.isascii() and c.isalpha() for c in sentence))


@lru_cache(maxsize=256)
def cue(language: str, kind: str) -> Pattern | None:
    """Return the pattern of one kind of cue words of a language; `None` if the language has none of this kind."""
    words = getattr(SPACED.get(language) or UNSPACED[language], kind)
    if not words:
        return None
    return Pattern(rf"(?<!\w)(?:{words})(?!\w)" if language in SPACED else words, IGNORE_CASE)


@lru_cache(maxsize=4_096)
def has_cue(sentence: str, kind: str) -> bool:
    """Whether a sentence contains a cue word of this kind in one of its languages."""
    return any(pattern.occurs_in(sentence) for pattern in _cues(languages_of(sentence), kind))


@lru_cache(maxsize=256)
def _cues(languages: tuple[str, ...], kind: str) -> tuple[Pattern, ...]:
    """Return the patterns of one kind of cue words of these languages."""
    return tuple(pattern for language in languages if (pattern := cue(language, kind)))


def without_cues(sentence: str, *kinds: str) -> str:
    """Return a sentence with its cue words of these kinds replaced by spaces."""
    for language in languages_of(sentence):
        for kind in kinds:
            if pattern := cue(language, kind):
                sentence = pattern.sub(" ", sentence)
    return sentence


@lru_cache(maxsize=64)
def words_of_cues(language: str, *kinds: str) -> frozenset[str]:
    """Return the words of which the cue words of these kinds consist."""
    cues = SPACED.get(language) or UNSPACED[language]
    return frozenset(word for kind in kinds for word in _WORD.findall(getattr(cues, kind)))
