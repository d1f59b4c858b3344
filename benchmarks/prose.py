"""Measures which plain statements a context keeps, and which rows of lists it shows without their subject."""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, cast, get_args

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from prose_facts import PHRASES, SPEAKERS

from langgraph_compaction.checkpoint.patterns import Pattern
from langgraph_compaction.graph.lab.evaluation.policies import Policy, count
from langgraph_compaction.graph.lab.evaluation.ratios import Pair
from langgraph_compaction.graph.lab.evaluation.survival import text_of
from langgraph_compaction.nodes.digest.value_extraction import parsed
from langgraph_compaction.nodes.text.quoting import one_line, quoted_if_spaced

Half = Literal["tuning", "held_out"]
HALVES: tuple[Half, ...] = get_args(Half)
"""The digest's figures were chosen with the conversations of the first half."""

ROUNDS = 6
"""Number of rounds of a recorded conversation that are added before each compaction."""

_PLANTED = 5
"""Number of statements of each speaker that are planted into a conversation."""

_CHAT_RUNS = 4
"""Number of recorded runs whose prose, without calls and results, makes up a chat."""


def half_of(name: str) -> Half:
    """Return the half of the conversations that a conversation belongs to, by a hash of its name."""
    return "held_out" if blake2b(name.encode(), digest_size=1).digest()[0] & 1 else "tuning"


@dataclass(frozen=True)
class Planted:
    """A conversation into which statements were planted."""

    origin: str
    """Name of the conversation without the statements."""
    messages: Sequence[AnyMessage]
    sentences: Mapping[str, Sequence[str]]
    """The planted statements by speaker."""


def planted_prose(name: str, messages: Sequence[AnyMessage], language: str, *, within: int = 0) -> Planted:
    """Return a conversation with statements in random places of the users' and the assistant's prose.

    `within` is the number of messages, from the first one, that may get a statement; 0 stands for all of them. A
    message gets its statements in a random place among its sentences.
    """
    draw = random.Random(f"{name} {language}")  # noqa: S311 - no secret; every policy gets the same conversation
    changed = list(messages)
    sentences: dict[str, list[str]] = {}
    for speaker, kind in zip(SPEAKERS, (HumanMessage, AIMessage), strict=True):
        places = [i for i, m in enumerate(changed[: within or None]) if isinstance(m, kind) and m.text]
        every = PHRASES[language].of(speaker)
        sentences[speaker] = draw.sample(every, _PLANTED) if places else []
        for sentence in sentences[speaker]:
            at = draw.choice(places)
            changed[at] = _with_sentence(changed[at], sentence, draw)
    return Planted(name, changed, sentences)


_ENDS = Pattern(r"(?<=[.!?])\s++|(?<=[。！？])")


def _with_sentence(message: AnyMessage, sentence: str, draw: random.Random) -> AnyMessage:
    parts = [part for part in _ENDS.split(message.text) if part]
    parts.insert(draw.randrange(len(parts) + 1), sentence)
    return message.model_copy(update={"content": " ".join(parts)})


def chats(runs: Sequence[tuple[str, Sequence[AnyMessage]]]) -> Iterator[tuple[str, list[AnyMessage]]]:
    """Yield long chats: the prose of several runs of one half one after another, without calls and results."""
    for half in HALVES:
        yield from _chats([run for run in runs if half_of(run[0]) == half])


def _chats(runs: Sequence[tuple[str, Sequence[AnyMessage]]]) -> Iterator[tuple[str, list[AnyMessage]]]:
    for first in range(0, len(runs) - _CHAT_RUNS + 1, _CHAT_RUNS):
        chosen = runs[first : first + _CHAT_RUNS]
        said = [m for _, messages in chosen for m in messages if isinstance(m, (HumanMessage, AIMessage)) and m.text]
        plain = [
            (HumanMessage if isinstance(m, HumanMessage) else AIMessage)(m.text, id=f"said-{at}")
            for at, m in enumerate(said)
        ]
        yield chosen[0][0], cast("list[AnyMessage]", plain)


def kept_prose(planted: Planted, context: Sequence[BaseMessage]) -> dict[str, Pair]:
    """Return for each speaker how many planted statements a context holds word for word, and how many there are."""
    text = text_of(context)
    return {
        speaker: (sum(sentence in text for sentence in sentences), len(sentences))
        for speaker, sentences in planted.sentences.items()
    }


def after_compactions(
    planted: Planted, policy: Policy, *, share: float, seen: Sequence[int]
) -> Iterator[tuple[int, list[AnyMessage]]]:
    """Yield `(n, context)` after the compactions whose numbers are in `seen`.

    Before each compaction `ROUNDS` rounds are added; each compacts the context to a share of its tokens. When the
    conversation is over, it begins anew from its second half, into which nothing was planted.
    """
    rounds = _rounds(planted.messages)
    again, context = rounds[len(rounds) // 2 :], list[AnyMessage]()
    for number in range(1, max(seen) + 1):
        for at in range((number - 1) * ROUNDS, number * ROUNDS):
            one = rounds[at] if at < len(rounds) else again[(at - len(rounds)) % len(again)]
            named = (m.model_copy(update={"id": f"{number}-{at}-{place}"}) for place, m in enumerate(one))
            context = [*context, *named]
        context = cast("list[AnyMessage]", list(policy(context, int(share * count(context)))))
        if number in seen:
            yield number, context


def _rounds(messages: Sequence[AnyMessage]) -> list[list[AnyMessage]]:
    rounds: list[list[AnyMessage]] = []
    for message in messages:
        if isinstance(message, HumanMessage) or not rounds:
            rounds.append([])
        rounds[-1].append(message)
    return rounds


@dataclass
class Rows:
    """The rows of lists in the results of a conversation, by the path of their list: keys and values, and a label."""

    rows: defaultdict[str, list[tuple[dict[str, str], str]]] = field(
        default_factory=lambda: defaultdict[str, list[tuple[dict[str, str], str]]](list)
    )
    asked: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """The arguments of the calls, which a digest shows before the rows of a list without a path."""

    def shown(self, context: Sequence[BaseMessage]) -> Pair:
        """Return how many rows the facts in a context show without their label, and how many they show."""
        bare = shown = 0
        for path, values in _listed(text_of(context)):
            matching = [label for row, label in self.rows.get(path, ()) if all(row.get(k) == v for k, v in values)]
            labels = {label for label in matching if label}
            if not path and any(set(values) <= one.items() for one in self.asked):
                continue
            if labels and len(labels) == len(set(matching)):
                shown += 1
                bare += not any(key in labels for key, _ in values)
        return bare, shown


_ID_WORDS = ("id", "number", "code", "key", "ref", "reference", "sku", "path", "file")
_NAME_WORDS = ("name", "title")


def label_key(row: Mapping[str, Any]) -> str:
    """Return the key whose value names a row: that of an id, else that of a name; empty if it has neither."""
    for words in (_ID_WORDS, _NAME_WORDS):
        for key, value in row.items():
            if isinstance(value, (str, int)) and key.lower().replace("-", "_").split("_")[-1] in words:
                return key
    return ""


def rows_of(messages: Sequence[BaseMessage]) -> Rows:
    """Return the objects of every list of objects in the JSON results of tools, as rows."""
    found = Rows()
    for message in messages:
        if isinstance(message, ToolMessage):
            _collect(parsed(message.text), "", found)
        elif isinstance(message, AIMessage):
            found.asked += [
                {key: quoted_if_spaced(one_line(str(leaf))) for key, leaf in _flat(call["args"])}
                for call in message.tool_calls
            ]
    return found


def _collect(value: Any, path: str, found: Rows) -> None:
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            _collect(item, f"{path}.{key}" if path else key, found)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                row = cast("dict[str, Any]", item)
                flat = {key: quoted_if_spaced(one_line(str(leaf))) for key, leaf in _flat(row)}
                found.rows[path].append((flat, label_key(row)))
            _collect(item, path, found)


def _flat(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, leaf in row.items():
        if isinstance(leaf, dict):
            yield from _flat(cast("dict[str, Any]", leaf), f"{before}{key}.")
        elif not isinstance(leaf, list):
            yield f"{before}{key}", leaf


def _listed(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the path, and the keys and values, of each group of values that a digest shows as one row.

    A row with the same keys as the row before does not repeat them; nor does a row that only begins with the same
    key repeat this key.
    """
    for line in text.splitlines():
        path, keys = "", list[str]()
        for group in line.removeprefix("- ").split("; "):
            head, colon, rest = group.partition(": ")
            if colon and " " not in head:
                path, keys, group = head, [], rest  # noqa: PLW2901 - what follows the path
            values: list[tuple[str, str]] = []
            for part in group.split(", "):
                name, space, value = part.partition(" ")
                named = space and not name.startswith('"')
                at = len(values)
                values.append((name, value) if named else (keys[at] if at < len(keys) else "", part))
            keys = [key for key, _ in values]
            yield path, values
