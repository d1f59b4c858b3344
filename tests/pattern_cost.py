r"""Compute how the time of a regular expression grows, from the parsed expression alone.

`steps` returns an upper bound of the characters that are compared for one start of a match, with every unbounded
repeat taken as `length` characters long. A pattern is linear if this bound is small although `length` is large.

A repeat whose text is scanned at most once whatever the number of starts counts as one step. There are two kinds:

* It follows a character that it cannot contain, as in `"[^"]*`: the stretches scanned from two starts are disjoint.
* Nothing that can fail follows, as in `\w+`: the match succeeds, and the search goes on behind it.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from re import _constants as const  # the parser of `re` has no public name
from re import _parser as parser
from typing import Any, NamedTuple

ALPHABET = frozenset(map(chr, range(128))) | frozenset(
    "éßÀж我不的用一。！？；：，、“”‘’「」『』«»〉》【】（）•–—…がァ가ก\u0430\u3000\u00a0\x85\u2028\ud800\U0001f600"
)
"""Sample of characters: two sets of characters count as disjoint if they share none of these."""

_CATEGORIES: dict[Any, Any] = {
    const.CATEGORY_DIGIT: str.isdecimal,
    const.CATEGORY_SPACE: str.isspace,
    const.CATEGORY_WORD: lambda character: character.isalnum() or character == "_",
}
_NEGATED: dict[Any, Any] = {
    const.CATEGORY_NOT_DIGIT: const.CATEGORY_DIGIT,
    const.CATEGORY_NOT_SPACE: const.CATEGORY_SPACE,
    const.CATEGORY_NOT_WORD: const.CATEGORY_WORD,
}
_SINGLE = (const.LITERAL, const.NOT_LITERAL, const.ANY, const.IN)
_REPEATS = (const.MAX_REPEAT, const.MIN_REPEAT, const.POSSESSIVE_REPEAT)
_FEW = 8
"""Number of repetitions up to which an ambiguous group may be repeated."""

Characters = frozenset[str]


class First(NamedTuple):
    """The characters with which an expression can begin, and whether it can match nothing."""

    characters: Characters
    empty: bool


class Work(NamedTuple):
    """An upper bound of the steps of one start, and of the ends at which the expression can match from there."""

    steps: float
    ends: float


class Around(NamedTuple):
    """What is known of the expressions before and after one."""

    flags: int
    follow: First
    before: tuple[Characters, ...] = ()
    """Sets of characters: one of each set was matched before, or, for the complement of a set, not matched."""
    last: bool = False
    """Whether nothing that can fail follows."""


def steps(source: str, flags: int = 0, *, length: int) -> float:
    """Return an upper bound of the steps that one start takes in a text of `length` characters."""
    parsed = parser.parse(source, flags)
    around = Around(parsed.state.flags, First(frozenset(), empty=True), last=True)
    return _sequence(list(parsed), around, length).steps / _literals(list(parsed))


def _sequence(items: Sequence[Any], around: Around, length: int) -> Work:
    firsts, never_fail = [around.follow], [around.last]
    for op, argument in reversed(items):
        own, after = _first(op, argument, around.flags), firsts[0]
        firsts.insert(0, First(own.characters | after.characters, after.empty) if own.empty else own)
        optional = op in _REPEATS and argument[0] == 0
        never_fail.insert(0, never_fail[0] and optional)
    done, ends, before = 0.0, 1.0, around.before
    for at, (op, argument) in enumerate(items):
        work = _one(op, argument, Around(around.flags, firsts[at + 1], before, never_fail[at + 1]), length)
        done += ends * work.steps
        ends *= max(1, work.ends / _literals(items[at + 1 :]))
        before += _mandatory(op, argument, around.flags)
    return Work(1 + done / length, ends) if items and _is_start(*items[0], around.flags) else Work(done, ends)


def _is_start(op: Any, argument: Any, flags: int) -> bool:
    """Whether this is the beginning of the text: of all starts, one goes further."""
    return op is const.AT and (
        argument is const.AT_BEGINNING_STRING or (argument is const.AT_BEGINNING and not flags & re.MULTILINE)
    )


def _literals(items: Sequence[Any]) -> int:
    """Return the number of characters of the word at the beginning: the word is at most in every so manieth place."""
    return max(1, len(list(takewhile(lambda item: item[0] is const.LITERAL, items))))


def _mandatory(op: Any, argument: Any, flags: int) -> tuple[Characters, ...]:  # noqa: PLR0911 - one for each kind
    """Return a set of which one character is matched for certain; for a start of a line, the line break before."""
    if op in _SINGLE:
        return (_characters(op, argument, flags),)
    if op is const.ASSERT and argument[0] < 0 and argument[1][-1][0] in _SINGLE:
        return (_characters(*argument[1][-1], flags),)
    if op is const.ASSERT_NOT and argument[0] < 0 and len(argument[1]) == 1 and argument[1][0][0] in _SINGLE:
        return (ALPHABET - _characters(*argument[1][0], flags),)
    if op is const.AT and argument is const.AT_BEGINNING and flags & re.MULTILINE:
        return (frozenset("\n"),)
    if _is_start(op, argument, flags):
        return (frozenset(),)
    if op in _REPEATS and argument[0] > 0 and len(argument[2]) == 1 and argument[2][0][0] in _SINGLE:
        return (_characters(*argument[2][0], flags),)
    return ()


def _one(op: Any, argument: Any, around: Around, length: int) -> Work:  # noqa: PLR0911 - one for each kind
    if op in _SINGLE or op is const.AT:
        return Work(1, 1)
    if op in (const.ASSERT, const.ASSERT_NOT):
        inside = Around(around.flags, First(frozenset(), empty=True), around.before)
        return Work(_sequence(list(argument[1]), inside, length).steps, 1)
    if op is const.SUBPATTERN:
        flags = (around.flags | argument[1]) & ~argument[2]
        return _sequence(list(argument[3]), around._replace(flags=flags), length)
    if op is const.ATOMIC_GROUP:
        return Work(_sequence(list(argument), around, length).steps, 1)
    if op is const.BRANCH:
        return _branch(argument[1], around, length)
    if op in _REPEATS:
        return _repeat(op, argument, around, length)
    return Work(length, 1)  # a reference to a group


def _branch(branches: Sequence[Any], around: Around, length: int) -> Work:
    """Return the largest work for any character: a branch that cannot begin with the character fails at once."""
    works = [(_first_of(list(branch), around.flags), _sequence(list(branch), around, length)) for branch in branches]
    by_character = [
        [work for first, work in works if first.empty or character in first.characters] for character in ALPHABET
    ]
    most = max(sum(work.steps for work in possible) for possible in by_character)
    return Work(most + 1, max(1, *(sum(work.ends for work in possible) for possible in by_character)))


def _repeat(op: Any, argument: Any, around: Around, length: int) -> Work:
    least, most, body = argument
    items, flags, times = list(body), around.flags, min(most, length)
    while len(items) == 1 and items[0][0] is const.SUBPATTERN:
        flags = (flags | items[0][1][1]) & ~items[0][1][2]
        items = list(items[0][1][3])
    first = _first_of(items, flags)
    apart = not around.follow.empty and not first.characters & around.follow.characters
    one_end = op is const.POSSESSIVE_REPEAT or apart or around.last
    if len(items) == 1 and items[0][0] in _SINGLE:
        once = around.last or any(not first.characters & before for before in around.before)
        return Work(1 if once else times, 1 if one_end else times - least + 1)
    follow = First(first.characters | around.follow.characters, around.follow.empty)
    work = _sequence(items, Around(flags, follow, around.before), length)
    if work.ends > 1 and op is not const.POSSESSIVE_REPEAT and times > _FEW:
        return Work(float("inf"), float("inf"))
    text = _every(items, flags)
    scanned_once = around.last or any(not text & before for before in around.before)
    if most == const.MAXREPEAT and scanned_once and one_end:
        return Work(work.steps, 1)
    ends = 1 if (one_end and work.ends == 1) or op is const.POSSESSIVE_REPEAT else work.ends**times + times - least
    return Work(work.steps * times * (work.ends ** max(0, times - 1) if work.ends > 1 and times <= _FEW else 1), ends)


def _every(items: Sequence[Any], flags: int) -> Characters:
    """Return the characters of a sequence; all characters if it has more than single ones in it."""
    if not all(op in _SINGLE for op, _ in items):
        return ALPHABET
    return frozenset[str]().union(*(_characters(op, argument, flags) for op, argument in items))


def _first_of(items: Sequence[Any], flags: int) -> First:
    found: Characters = frozenset()
    for op, argument in items:
        own = _first(op, argument, flags)
        found |= own.characters
        if not own.empty:
            return First(found, empty=False)
    return First(found, empty=True)


def _first(op: Any, argument: Any, flags: int) -> First:
    if op in _SINGLE:
        return First(_characters(op, argument, flags), empty=False)
    if op is const.SUBPATTERN:
        return _first_of(list(argument[3]), (flags | argument[1]) & ~argument[2])
    if op is const.ATOMIC_GROUP:
        return _first_of(list(argument), flags)
    if op is const.BRANCH:
        every = [_first_of(list(branch), flags) for branch in argument[1]]
        characters = frozenset[str]().union(*(one.characters for one in every))
        return First(characters, any(one.empty for one in every))
    if op in _REPEATS:
        inside = _first_of(list(argument[2]), flags)
        return First(inside.characters, inside.empty or argument[0] == 0)
    return First(ALPHABET if op is const.GROUPREF else frozenset(), empty=True)


def _characters(op: Any, argument: Any, flags: int) -> Characters:
    if op is const.ANY:
        return ALPHABET if flags & re.DOTALL else ALPHABET - {"\n"}
    if op in (const.LITERAL, const.NOT_LITERAL):
        found = _either_case(frozenset(chr(argument)), flags)
        return found if op is const.LITERAL else ALPHABET - found
    members, negated = frozenset[str](), False
    for kind, value in argument:
        if kind is const.NEGATE:
            negated = True
        elif kind is const.LITERAL:
            members |= {chr(value)}
        elif kind is const.RANGE:
            members |= {character for character in ALPHABET if value[0] <= ord(character) <= value[1]}
        else:
            members |= _category(value)
    members = _either_case(members, flags)
    return ALPHABET - members if negated else members


def _category(category: Any) -> Characters:
    if category in _NEGATED:
        return ALPHABET - _category(_NEGATED[category])
    return frozenset(filter(_CATEGORIES[category], ALPHABET))


def _either_case(characters: Characters, flags: int) -> Characters:
    if not flags & re.IGNORECASE:
        return characters
    return characters | {other for one in characters for other in (one.lower(), one.upper()) if len(other) == 1}
