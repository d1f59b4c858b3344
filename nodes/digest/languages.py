"""Guess the language of a sentence, and find the cue words of rules and revisions in it."""

from collections.abc import Mapping
from functools import lru_cache

from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, Pattern

from .cue_words import SPACED, UNSPACED

_COMMON: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the and of you your with please this that it are would should i my to for not have be"
        " is i'm don't from in on at by an as if so we he she was were will can must only never"
        " always do does no or but about",
        "de": "der die das und ist ich nicht ein eine einen dem zu mit für auf sie mir mein meine"
        " meinen meinem bitte im in von bei wenn oder keine kein nie immer nur muss alle bis"
        " mich es ab am",
        "es": "el la los las que de un una y es no me mi por para con se en lo su del al te nunca"
        " siempre solo todo todos ahora desde hay soy tus",
        "fr": "le la les des un une et est je ne pas que de du en pour avec vous mon ma mes ce il qui"
        " au ou par jamais toujours tous toutes moi à on sont",
        "pt": "o a os as que de um uma e é não me meu minha por para com em do da no na ao nunca"
        " sempre só estava todos agora sou nas das",
        "it": "il lo la gli i le che di un una e è non mi mio mia per con in del della al alla mai"
        " sempre solo tutti nelle sono",
        "nl": "de het een en is ik niet van voor met op je mijn dat te zijn in wordt nooit altijd"
        " alleen alle geen aan u ben",
        "pl": "i w na z do się nie jest że to mi mój moja moją za po od dla nigdy zawsze tylko przed wszystkie",
        "tr": "ve bir için bu ile çok ben benim değil var mı da de ki asla her lütfen bütün önce",
        "vi": "tôi là và của cho không một các có này trước bằng bất đừng luôn chỉ phải",
        "id": "yang dan di ke saya untuk dengan ini itu tidak adalah semua hari jangan selalu hanya",
        "sv": "och att det är jag en ett inte på med för av mig min den som till aldrig alltid bara alla",
    }.items()
}
"""By language, frequent short words. They are counted to guess the language of a sentence in Latin letters."""

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

_UNKNOWN = len(_COMMON) - 1
"""Number of languages in which a sentence without any frequent word may be written."""
_FEW = 2
"""Up to this number of frequent words, a language of which a sentence has one word less is possible too."""


@lru_cache(maxsize=4_096)
def languages_of(sentence: str) -> tuple[str, ...]:
    """Return the languages in which a sentence may be written: one or, if it is too short to decide, several."""
    for letters, languages in _RANGES:
        if letters.search(sentence):
            return languages
    words = {word.casefold().replace("’", "'") for word in _WORD.findall(sentence)}
    hits = {language: len(words & common) for language, common in _COMMON.items()}
    most = max(hits.values())
    if most and hits["en"] == most:
        return ("en",)
    least = most - 1 if most <= _FEW else most
    return tuple(language for language, count in hits.items() if count >= least and language != "en")


def is_foreign(sentence: str) -> bool:
    """Whether a sentence is in another language than English that is written in Latin letters."""
    found = languages_of(sentence)
    return "en" not in found and found[0] in _COMMON and len(found) < _UNKNOWN


def guesses_rules(sentence: str) -> bool:
    """Whether a sentence is neither in English nor in Chinese, nor too short to tell."""
    found = languages_of(sentence)
    if found[0] not in _COMMON:
        return found[0] != "zh"
    return "en" not in found and (len(found) < _UNKNOWN or any(not c.isascii() and c.isalpha() for c in sentence))


@lru_cache(maxsize=256)
def cue(language: str, kind: str) -> Pattern | None:
    """Return the pattern of one kind of cue words of a language; `None` if the language has none of this kind."""
    words = getattr(SPACED.get(language) or UNSPACED[language], kind)
    if not words:
        return None
    return Pattern(rf"(?<!\w)(?:{words})(?!\w)" if language in SPACED else words, IGNORE_CASE)


def has_cue(sentence: str, kind: str) -> bool:
    """Whether a sentence contains a cue word of this kind in one of its languages."""
    patterns = (cue(language, kind) for language in languages_of(sentence))
    return any(pattern.search(sentence) for pattern in patterns if pattern)


def without_cues(sentence: str, *kinds: str) -> str:
    """Return a sentence with its cue words of these kinds replaced by spaces."""
    for language in languages_of(sentence):
        for pattern in (cue(language, kind) for kind in kinds):
            sentence = pattern.sub(" ", sentence) if pattern else sentence
    return sentence


@lru_cache(maxsize=64)
def words_of_cues(language: str, *kinds: str) -> frozenset[str]:
    """Return the words of which the cue words of these kinds consist."""
    cues = SPACED.get(language) or UNSPACED[language]
    return frozenset(word for kind in kinds for word in _WORD.findall(getattr(cues, kind)))
