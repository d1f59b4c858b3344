"""Find identifiers in a text, and estimate from its shape and key how likely each identifier is needed later."""

import operator
from collections.abc import Iterator, Sequence
from functools import lru_cache

from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, Anchored, Pattern

_TOKEN = Pattern(r"/?[A-Za-z0-9_]++(?:[-./@:#+]++[A-Za-z0-9_]++)*+")
_LONGEST = 120
"""Maximum length of an identifier in characters; a longer token is a blob such as base64 or a minified file."""

_SHORTEST = 3

_EXTENSION = Anchored(
    "c|cc|cfg|conf|cpp|cs|css|csv|docx?|go|h|hpp|html?|ini|ipynb|java|jpe?g|jsx?|json|jsonl|kt|lock|md|mjs|pdf|php"
    "|png|pptx?|py|rb|rs|rst|scss|sh|sql|sqlite|svg|swift|tar|toml|tsx?|txt|vue|xlsx?|xml|ya?ml|zip",
    IGNORE_CASE,
)

_KINDS: tuple[tuple[Anchored, float], ...] = (
    (Anchored(r"\d{4}-\d\d-\d\d"), 1.6),  # a date
    (Anchored(r"\d{4}-\d\d-\d\dT[\d:.+-]+|\d{1,2}:\d\d(:[\d.]+)?"), 0.1),  # a point in time
    (Anchored(r"\d{6,}"), 1.0),  # six digits or more: an id rather than a quantity
    (Anchored(r"[\d.,:/+-]+"), 0.7),  # a quantity
    (Anchored(r"[A-Z]{6,}"), 0.15),  # a word in capitals
    (Anchored(r"[A-Z_]+"), 0.9),  # a code
)
_PATH, _WITH_DIGIT, _JOINED = 1.2, 1.0, 0.5
"""Worth of a path or the name of a file, of letters and digits, and of any other identifier."""

_ID_KEYS = frozenset({"id", "ids", "number", "no", "code", "key", "ref", "reference", "path", "file", "sku"})
_NAME_KEYS = frozenset({"name", "title"})
_TIME_KEYS = frozenset({"at", "time", "timestamp", "created", "updated", "duration", "elapsed", "est", "utc"})
_WORD = Pattern(r"[A-Za-z][a-z]*")
_CAPITALS_BEFORE = Pattern(r"(?<![\w-])[A-Z]{2,}+ \Z")
_CAPITALS_AFTER = Anchored(r" [A-Z]{2,}+(?![\w-])")
_CONTEXT_CHARS = 24
"""How many characters before a word are searched for the previous word or for heading marks."""


def identifiers(text: str) -> list[str]:
    """Return the identifiers of a text in order.

    An identifier has 3 to 120 characters and contains a digit or a joining mark (such as `-` or `/`), or consists of
    capital letters only.
    """
    return [token for token in _TOKEN.findall(text) if _is_identifier(token)]


def has_identifier(text: str) -> bool:
    """Whether a text contains an identifier."""
    return any(_is_identifier(found[0]) for found in _TOKEN.finditer(text))


def spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield `(start, end, identifier)` for every identifier of a text, in order."""
    for found in _TOKEN.finditer(text):
        if _is_identifier(found[0]):
            yield found.start(), found.end(), found[0]


def is_capitalized_word(line: str, start: int, end: int) -> bool:
    """Whether `line[start:end]` is an ordinary word in capitals: next to another word in capitals, or a heading."""
    if not line[start:end].isalpha():
        return False
    if start <= _CONTEXT_CHARS and line[end : end + 1] == ":" and not line[:start].strip(" #*>-"):
        return True
    return bool(
        _CAPITALS_BEFORE.search(line, max(0, start - _CONTEXT_CHARS), start) or _CAPITALS_AFTER.match(line, end)
    )


@lru_cache(maxsize=4_096)
def identifiers_with_digit(key: str) -> tuple[str, ...]:
    """Return the identifiers in a key that contain a digit: ids rather than field names made of words."""
    return tuple(token for token in identifiers(key) if any(map(str.isdigit, token)))


def _is_identifier(token: str) -> bool:
    if not _SHORTEST <= len(token) <= _LONGEST:
        return False
    return token.isupper() or not token.isalpha()


@lru_cache(maxsize=65_536)
def kind_worth(identifier: str) -> float:
    """Return how likely an identifier of this shape is needed again, relative to 1.0 for letters with digits."""
    for shape, worth in _KINDS:
        if shape.fullmatch(identifier):
            return worth
    name, dot, extension = identifier.rpartition(".")
    if "/" in identifier or (name and dot and _EXTENSION.fullmatch(extension)):
        return _PATH
    return _WITH_DIGIT if any(map(str.isdigit, identifier)) else _JOINED


@lru_cache(maxsize=4_096)
def key_worth(key: str) -> float:
    """Return how likely a value under this key is needed again: 2.5 for ids, 0.35 for times, else 1."""
    if is_id_key(key):
        return 2.5
    return 0.35 if _last_word(key) in _TIME_KEYS else 1.0


def is_id_key(key: str) -> bool:
    """Whether the last word of a key says that its value is an identifier."""
    return _last_word(key) in _ID_KEYS


def is_name_key(key: str) -> bool:
    """Whether the last word of a key says that its value is a name."""
    return _last_word(key) in _NAME_KEYS


def label_place(keys: Sequence[str]) -> int | None:
    """Return the place of the key whose value says which thing a row of values describes; None without such a key.

    It is the first key of an id. Without one it is the empty key, whose value is the row's own key in a JSON object,
    or else the first key of a name.
    """
    for is_label in (is_id_key, operator.not_, is_name_key):
        for place, key in enumerate(keys):
            if is_label(key):
                return place
    return None


def _last_word(key: str) -> str:
    words = _WORD.findall(key)
    return words[-1].lower() if words else ""
