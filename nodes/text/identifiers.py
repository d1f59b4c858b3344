"""What looks like an identifier, and how often its like is needed again."""

import re
from collections.abc import Iterator
from functools import lru_cache

_TOKEN = re.compile(r"/?[A-Za-z0-9_]+(?:[-./@:#+]+[A-Za-z0-9_]+)*")
_LONGEST = 120
"""Characters beyond which a run is a blob (base64, a minified file) and no identifier."""

_SHORTEST = 3

_EXTENSIONS = (
    "c|cc|cfg|conf|cpp|cs|css|csv|docx?|go|h|hpp|html?|ini|ipynb|java|jpe?g|jsx?|json|jsonl|kt|lock|md|mjs|pdf|php"
    "|png|pptx?|py|rb|rs|rst|scss|sh|sql|sqlite|svg|swift|tar|toml|tsx?|txt|vue|xlsx?|xml|ya?ml|zip"
)

_KINDS: tuple[tuple[re.Pattern[str], float], ...] = (
    (re.compile(r"\d{4}-\d\d-\d\d"), 1.6),  # a date
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.+-]+|\d{1,2}:\d\d(:[\d.]+)?"), 0.1),  # a point in time
    (re.compile(r"\d{6,}"), 1.0),  # a number that counts nothing: an id
    (re.compile(r"[\d.,:/+-]+"), 0.7),  # an amount
    (re.compile(r"[A-Z]{6,}"), 0.15),  # a word in capitals
    (re.compile(r"[A-Z_]+"), 0.9),  # a code
    (re.compile(rf".*/.*|.+\.(?:{_EXTENSIONS})", re.IGNORECASE), 1.2),  # a path or a file
    (re.compile(r".*\d.*"), 1.0),  # letters and digits
)
_JOINED = 0.5

_ID_KEYS = frozenset({"id", "ids", "number", "no", "code", "key", "ref", "reference", "path", "file", "sku"})
_TIME_KEYS = frozenset({"at", "time", "timestamp", "created", "updated", "duration", "elapsed", "est", "utc"})
_WORD = re.compile(r"[A-Za-z][a-z]*")
_CAPITALS_BEFORE = re.compile(r"(?<![\w-])[A-Z]{2,} \Z")
_CAPITALS_AFTER = re.compile(r" [A-Z]{2,}(?![\w-])")
_NEXT = 24
"""Characters before a word in which the word before it is looked for, and the marks of a heading."""


def identifiers(text: str) -> list[str]:
    """Every identifier of a text in order: three characters or more with a digit, a joiner or all capitals."""
    return [token for token in _TOKEN.findall(text) if _is_identifier(token)]


def spans(text: str) -> Iterator[tuple[int, int, str]]:
    """`(start, end, identifier)` of every identifier of a text, in order."""
    for found in _TOKEN.finditer(text):
        if _is_identifier(found[0]):
            yield found.start(), found.end(), found[0]


def is_shouted(line: str, start: int, end: int) -> bool:
    """Whether what stands there is a plain word in capitals, beside another one or as a heading."""
    if not line[start:end].isalpha():
        return False
    if start <= _NEXT and line[end : end + 1] == ":" and not line[:start].strip(" #*>-"):
        return True
    return bool(_CAPITALS_BEFORE.search(line, max(0, start - _NEXT), start) or _CAPITALS_AFTER.match(line, end))


@lru_cache(maxsize=4_096)
def numbered(key: str) -> tuple[str, ...]:
    """The identifiers in a key that hold a digit, and so are no names made of words."""
    return tuple(token for token in identifiers(key) if any(map(str.isdigit, token)))


def _is_identifier(token: str) -> bool:
    if not _SHORTEST <= len(token) <= _LONGEST:
        return False
    return token.isupper() or not token.isalpha()


@lru_cache(maxsize=65_536)
def kind_worth(identifier: str) -> float:
    """How likely an identifier of this shape is needed again; 1.0 for letters with digits."""
    return next((worth for shape, worth in _KINDS if shape.fullmatch(identifier)), _JOINED)


@lru_cache(maxsize=4_096)
def key_worth(key: str) -> float:
    """How much the key that names a value tells of its use: `*_id` much, `*_at` little; 1.0 for others."""
    if is_id_key(key):
        return 2.5
    return 0.35 if _last_word(key) in _TIME_KEYS else 1.0


def is_id_key(key: str) -> bool:
    """Whether a key names an identifier by its last word."""
    return _last_word(key) in _ID_KEYS


def _last_word(key: str) -> str:
    words = _WORD.findall(key)
    return words[-1].lower() if words else ""
