"""Examine a summary that was prepared ahead: whether it is complete, and still holds, after what was said since."""

from collections.abc import Iterable, Iterator, Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from langgraph_compaction.checkpoint.patterns import Pattern

from ..conversation.message_marks import is_real_user
from ..conversation.tokens import joined_texts, texts_of
from ..text.identifiers import contains_whole, identifiers, words_of_key
from ..text.quoting import one_line
from .entry import LATER, Entry
from .facts import Field, fields_of, object_lookups, place_of, superseded, superseded_fields
from .revisions import apply_revisions
from .rules_and_requests import earlier_lines, own_sentences, rules, strength_of
from .statements import rare_words
from .value_extraction import LONGEST_VALUE, extract_values, parsed, scalars

MOST_USED, MOST_RULES = 64, 8
"""Maximum number of identifiers and values, and of rules, that are returned: the last ones."""

_ALIKE, _STATED = 0.34, 0.6
"""Smallest share of a rule's rare words in a message that uses the rule, and in a summary that states it."""

_SHORTEST, _SHORTEST_UNSPACED = 3, 2
"""Smallest number of characters of a value that can be found again in prose: in ASCII, and in other scripts. Shorter
values, such as the numbers of attempts, occur everywhere."""

_KEY_WORD = 3
_SENTENCE = Pattern(r"(?<=[.!?;])\s++|(?<=[。！？；])|\n++")
_QUOTED = 120


def used_since(body: str, old: Sequence[AnyMessage], since: Sequence[AnyMessage]) -> list[str]:
    """Return what `since` uses again of the messages `old`, and the summary `body` does not state.

    These are identifiers, values of fields in calls and results, and rules of the user, as their entries among the
    facts show them. Used is what the user or the assistant writes, and what a call is given; results only bring new
    values.
    """
    spoken = [text for one in since if isinstance(one, AIMessage) or is_real_user(one) for text in texts_of(one)]
    if not any(spoken):
        return []
    named = dict.fromkeys(one for text in spoken for one in identifiers(text))
    known = {one for message in old for text in texts_of(message) for one in identifiers(text)} if named else set()
    again = [one for one in named if one in known and not contains_whole(body, one)]
    return [*[*again, *_values(body, old, spoken)][-MOST_USED:], *_rules(body, old, spoken)[-MOST_RULES:]]


def _values(body: str, old: Iterable[AnyMessage], spoken: Iterable[str]) -> Iterator[str]:
    """Yield the texts in fields, such as names, that are spoken of again and that the summary does not contain.

    Texts with identifiers are left out, and so are numbers, which are identifiers if they are long enough.
    """
    said, told = "\n".join(spoken).casefold(), body.casefold()
    for value in dict.fromkeys(leaf for one in old for leaf in _texts_in_fields(one) if leaf.casefold() in said):
        shown = value.casefold()
        again = contains_whole(said, shown) and not contains_whole(told, shown)
        if again and _is_long_enough(value) and rare_words(value) and not identifiers(value):
            yield one_line(value)


def _texts_in_fields(message: AnyMessage) -> Iterator[str]:
    """Yield the short texts in the fields of a result that is JSON, or of the arguments of calls."""
    if isinstance(message, ToolMessage):
        given = [parsed(joined_texts(message))]
    else:
        given = [call["args"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
    found = (leaf for value in given for *_, leaf in scalars(value))
    yield from (leaf for leaf in found if isinstance(leaf, str) and len(leaf) <= LONGEST_VALUE)


def _rules(body: str, old: Sequence[AnyMessage], spoken: Iterable[str]) -> list[str]:
    """Return the rules of which a text that was spoken uses the words, and which the summary does not state."""
    said = [{word for sentence in own_sentences(text) for word in rare_words(sentence)} for text in spoken]
    told = rare_words(body)
    lines = ((entry.value, rare_words(entry.value)) for entry in rules(old, 0))
    return [
        line
        for line, words in lines
        if words and any(len(words & one) >= _ALIKE * len(words) for one in said)
        if len(words & told) < _STATED * len(words)
    ]


def _is_long_enough(value: str) -> bool:
    """Whether a value can be found again in prose."""
    return len(value) >= (_SHORTEST if value.isascii() else _SHORTEST_UNSPACED)


def contradiction(body: str, old: Sequence[AnyMessage], since: Sequence[AnyMessage]) -> str | None:
    """Return the line or value of the summary `body` that the messages `since` contradict, or `None`.

    A line is contradicted by a user's sentence that revises or revokes it; a value by a later look-up of the same
    object that gives another one.
    """
    return _revised(body, since) or _changed(body, old, since)


def _revised(body: str, since: Sequence[AnyMessage]) -> str | None:
    if not any(map(is_real_user, since)):
        return None
    lines = [
        Entry("Rules" if strength_of(line.value) else "Said", -1, line.worth, line.value)
        for line in earlier_lines(body, -1)
    ]
    left = {entry.value for entry in apply_revisions(lines, since, 0, only_cues=True) if entry.path != LATER}
    return next((one_line(line.value, _QUOTED) for line in lines if line.value not in left), None)


def _changed(body: str, old: Sequence[AnyMessage], since: Sequence[AnyMessage]) -> str | None:
    if not any(isinstance(message, ToolMessage) for message in since):
        return None
    told = object_lookups(list(extract_values([*old, *since])))
    known = superseded([one for one in told if one.at < len(old)])
    fresh = [(one, field) for one, field in superseded_fields(told) if place_of(one) not in known]
    if not fresh:
        return None
    sentences, fields = [one.casefold() for one in _SENTENCE.split(body)], [field for _, field in fields_of(told)]
    changed = ((one, field) for one, field in fresh if _is_stated(sentences, one.value, field, fields))
    return next((f"{field[-1]} {one.value}"[:_QUOTED] for one, field in changed), None)


def _is_stated(sentences: Sequence[str], value: str, field: Field, fields: Sequence[Field]) -> bool:
    """Whether a sentence states a value of a field: it contains the value, and names the object.

    If no other object has such a field, the sentence need not name the object, but the field.
    """
    value = value.strip('"').casefold()
    if not _is_long_enough(value):
        return False
    owner = field[1].strip('"').casefold()
    is_only = all(one[1] == field[1] for one in fields if one[-1] == field[-1])
    return any(
        contains_whole(sentence, owner) or (is_only and _names_key(sentence, field[-1].rpartition(".")[2]))
        for sentence in sentences
        if contains_whole(sentence, value)
    )


def _names_key(sentence: str, key: str) -> bool:
    """Whether a sentence in lower case contains a key, or its words."""
    words = [word for word in words_of_key(key) if len(word) >= _KEY_WORD]
    return contains_whole(sentence, key.lower()) or (
        bool(words) and all(contains_whole(sentence, one) for one in words)
    )
