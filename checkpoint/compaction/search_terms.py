"""The terms by which texts are searched: stemmed words, identifiers as a whole and in parts, and pairs of characters.

Words are compared in lower case and by their stem, so that `reservations` finds `reservation`. An identifier such as
`src/app.py` is one term as a whole, and each of its parts is a term too. In Chinese, Japanese, Thai and other scripts
where spaces or letters do not tell the words, and in Korean, pairs of neighboring characters are terms.

The language of a text in Latin letters is guessed by its frequent words. In other alphabets it follows from the
letters of each word.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache
from importlib import import_module
from threading import Lock
from typing import Any
from unicodedata import normalize

from ..patterns import Anchored, Pattern
from .common_words import COMMON_WORDS, MORE_ENGLISH

_WIDE = "\u0900-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = Pattern(rf"[{_WIDE}]++|[^\W{_WIDE}]++(?:[-./@:#+'’]++[^\W{_WIDE}]++)*+")
_IS_WIDE = Anchored(f"[{_WIDE}]")
_PART = Pattern(r"[^\W\d_]+|\d+")
_NUMBER = Pattern(r"\d{3,}")
_CAMEL = Pattern(r"[A-Z]{1,40}(?![a-z])|[A-Z]?[a-z]+|\d+")
_MAX_TOKENS = 20_000
"""Number of tokens, from the start of a text, that are compared; later tokens are ignored."""

DEFAULT = "en"
"""The language of a text whose language cannot be told."""
_STEMMERS = {
    "en": "english",
    "de": "german",
    "es": "spanish",
    "fr": "french",
    "pt": "portuguese",
    "it": "italian",
    "nl": "dutch",
    "pl": "polish",
    "tr": "turkish",
    "id": "indonesian",
    "sv": "swedish",
    "ru": "russian",
    "ar": "arabic",
}
"""The names of the stemmers, by language. Vietnamese has no endings."""
_ALPHABETS = (("\u0400", "\u04ff", "ru"), ("\u0600", "\u06ff", "ar"))
"""First and last letter of an alphabet, and the language whose stemmer is used for words in it."""
_LATIN_ENDS = "\u024f"
_LONGEST_STEMMED = 40
"""Words of more characters are terms as they are."""
_SHORTEST_IDENTIFIER = 3
_ENOUGH = 2
"""Number of different frequent words of a language that a text must contain to be in it."""
_LANGUAGES_OF_WORD: dict[str, list[str]] = {}
for _language, _words in COMMON_WORDS.items():
    for _word in _words:
        _LANGUAGES_OF_WORD.setdefault(_word, []).append(_language)

_stemmers: dict[str, Any] = {}
_stemming = Lock()


def terms(text: str, languages: Collection[str] = (DEFAULT,)) -> list[str]:
    """Return every term of a text in order, with repetitions; each word is stemmed in each of the languages."""
    key = tuple(languages)
    return [term for token in tokens(text) for term in _terms_of(token, key)]


def query_terms(text: str, languages: Collection[str]) -> list[str]:
    """Return the different terms of a query, in order, without frequent words unless there are no others."""
    said = tokens(text)
    frequent = MORE_ENGLISH.union(*(COMMON_WORDS[language] for language in languages if language in COMMON_WORDS))
    wanted = [token for token in said if _whole(token) not in frequent]
    key = tuple(languages)
    return list(dict.fromkeys(term for token in wanted or said for term in _terms_of(token, key)))


def identifier_terms(text: str) -> list[str]:
    """Return the different identifiers of a text as terms, in order: codes, paths, numbers, dates, names with `_`.

    An identifier is a token of at least three characters that has more than letters, or has capital letters only.
    Numbers of three digits or more in it are identifiers too.
    """
    long = (token for token in tokens(text) if len(token) >= _SHORTEST_IDENTIFIER and not _is_word(token))
    return list(dict.fromkeys(name for token in long for name in (_whole(token), *_NUMBER.findall(token))))


def _whole(token: str) -> str:
    return token.casefold().replace("’", "'")


def _is_word(token: str) -> bool:
    plain = token.replace("'", "").replace("’", "")
    return bool(_IS_WIDE.match(token)) or (plain.isalpha() and not plain.isupper())


def language_of(text: str) -> str:
    """Return the language in Latin letters whose frequent words a text contains; `DEFAULT` if it has too few."""
    known = (_LANGUAGES_OF_WORD.get(word, ()) for word in {token.casefold() for token in tokens(text)})
    hits = Counter(language for languages in known for language in languages)
    if not hits:
        return DEFAULT
    best, most = hits.most_common(1)[0]
    return best if most >= _ENOUGH and most > hits[DEFAULT] else DEFAULT


def tokens(text: str) -> list[str]:
    """Return the words, identifiers and sequences of wide characters of a text, in order."""
    return _TOKEN.findall(text if text.isascii() else normalize("NFKC", text))[:_MAX_TOKENS]


@lru_cache(maxsize=32_768)
def _terms_of(token: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    if _IS_WIDE.match(token):
        return tuple(token[at : at + 2] for at in range(max(1, len(token) - 1)))
    whole = _whole(token)
    parts = [part.casefold() for part in _parts_of(token)]
    stems = _stems(parts, languages)
    return tuple(stems if parts == [whole] else dict.fromkeys([whole, *stems]))


def _parts_of(token: str) -> list[str]:
    """Return the words and numbers in a token; `readFile2` consists of `read`, `File` and `2`."""
    return [part for run in _PART.findall(token) for part in (_CAMEL.findall(run) if run.isascii() else [run])]


def _stems(words: Iterable[str], languages: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(_stem(word, language) for word in words for language in _languages_for(word, languages))


def _languages_for(word: str, languages: Iterable[str]) -> Iterable[str]:
    if word[0] <= _LATIN_ENDS:
        return languages
    return [next((language for first, last, language in _ALPHABETS if first <= word[0] <= last), "")]


def _stem(word: str, language: str) -> str:
    if language not in _STEMMERS or len(word) > _LONGEST_STEMMED or word.isdigit():
        return word
    with _stemming:  # a stemmer holds the word that it works on
        if language not in _stemmers:
            # imported here: it takes longer than all else of this package, and many processes never search
            _stemmers[language] = import_module("snowballstemmer").stemmer(_STEMMERS[language])
        stem: str = _stemmers[language].stemWord(word)
    return stem
