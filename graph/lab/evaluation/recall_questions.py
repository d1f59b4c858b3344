"""The queries by which an agent looks with `recall` for a value that it needs but that its context no longer holds.

The agent knows its next call except for the missing value, and it knows its view: the context and the later messages
of users and tools. The agent does not know the original text around the value. The agent makes one query of each kind
below, of at most four words; an identifier counts as one word, and no word contains the value:

1. the key of the argument, and identifiers in the call's other values that are in view, the nearest first;
2. names within 80 characters of such an identifier in view;
3. words within 80 characters of the missing value in the text of its argument; if there are none, words of the user's
   last message;
4. the newest names in view;
5. the nearest identifier of kind 1, and the words before it in view.

A name is an identifier that is neither a number, an ordinal or a time, nor joined words such as a field's name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolCall

from langgraph_compaction.checkpoint.patterns import Anchored, Pattern
from langgraph_compaction.nodes.conversation.message_marks import is_real_user

from .survival import FILLER, NEAR, Cut, asked, beside, holds, leaves, listed, text_of

MAX_WORDS = 4
"""Maximum number of words in a query."""

_VALUES = 3
"""Maximum number of identifiers of kind 1 (see the module) whose surroundings in the view are used for a query."""

_PART = Pattern(r"[A-Z]{1,40}(?![a-z])|[A-Z]?[a-z]+")
_WORD = Pattern(r"[^\W\d_]{3,}")
_FIELD = Anchored(r"[A-Za-z][a-z]*+(?:[_-][A-Z]?[a-z]++)*+")
_NUMBER, _TIME = Anchored(r"\d[\d.,:/+-]*+(?:st|nd|rd|th)?"), Pattern(r"\d:\d")
_MARKER = Pattern(r"\[(?:TRUNCATED|recall:)[^\[\]\n]*+\]")


@dataclass(frozen=True)
class Need:
    """The first call after the cut that needs a certain identifier from before the cut."""

    token: str
    call: ToolCall
    said: Sequence[AnyMessage]
    """Messages of users and tools after the cut and before the call."""


def needs(run: Cut) -> dict[str, Need]:
    """Return the first need of each identifier that is needed after the cut."""
    found: dict[str, Need] = {}
    said: list[AnyMessage] = []
    for message in run.later:
        if not isinstance(message, AIMessage):
            said.append(message)
            continue
        for call in message.tool_calls:
            for token in asked(call) & run.identifiers - found.keys():
                found[token] = Need(token, call, tuple(said))
    return found


def queries(need: Need, context: Sequence[BaseMessage]) -> list[str]:
    """Return the queries in the order of their kinds, without the kinds for which the agent has no words."""
    asker = _Asker(need, context)
    kinds = (
        [*asker.key, *asker.others],
        asker.beside_others,
        asker.own_words or asker.users_words,
        asker.newest,
        [*asker.others[:1], *asker.before_others],
    )
    said = (" ".join(list(dict.fromkeys(words))[:MAX_WORDS]) for words in kinds)
    return list(dict.fromkeys(filter(None, said)))


class _Asker:
    """The words for a query that an agent knows if it can make its next call except for one value, `token`."""

    def __init__(self, need: Need, context: Sequence[BaseMessage]) -> None:
        self.token, self.messages = need.token, [*context, *need.said]
        self.view = _MARKER.sub("", text_of(self.messages))
        self.leaves = list(leaves(need.call["args"]))

    @cached_property
    def key(self) -> list[str]:
        """The last two words of the name of the argument that needs the value: `order` and `id` for `order_id`."""
        return self._without([part.lower() for part in _PART.findall(self._place[0])])[-2:]

    @cached_property
    def others(self) -> list[str]:
        """Identifiers in the call's other values that the view contains, the nearest to the missing value first."""
        every = [token for _, text in self.leaves for token in listed(text)]
        at = every.index(self.token)
        near = sorted(range(len(every)), key=lambda place: (abs(place - at), place))
        return self._without(every[place] for place in near if holds(self.view, every[place]))

    @cached_property
    def beside_others(self) -> list[str]:
        """Names near the identifiers `others` in the view."""
        near = (" ".join(self._near(value)) for value in self.others[:_VALUES])
        return [name for text in near for name in self._names(text) if name not in self.others]

    @cached_property
    def before_others(self) -> list[str]:
        """Words before the identifiers `others` in the view, the nearest first."""
        near = (self._near(value)[0] for value in self.others[:_VALUES])
        return [word for text in near for word in reversed(self._words(text))]

    @cached_property
    def own_words(self) -> list[str]:
        """Words around the missing value in the text of the argument that contains it."""
        return self._words(" ".join(_last(self._place[1], self.token)))

    @cached_property
    def users_words(self) -> list[str]:
        """Words of the user's last message."""
        spoken = [message for message in self.messages if isinstance(message, HumanMessage) and is_real_user(message)]
        return self._words(spoken[-1].text) if spoken else []

    @cached_property
    def newest(self) -> list[str]:
        """Names in the view, the newest first."""
        return self._names(self.view)[::-1]

    @property
    def _place(self) -> tuple[str, str]:
        """Key and text of the argument that needs the value."""
        return next(leaf for leaf in self.leaves if self.token in listed(leaf[1]))

    def _near(self, value: str) -> tuple[str, str]:
        return _last(self.view, value)

    def _names(self, text: str) -> list[str]:
        """Return the names in a text, ordered by their last occurrence."""
        named = (token for token in reversed(listed(text)) if _is_name(token))
        return self._without(reversed(list(dict.fromkeys(named))))

    def _words(self, text: str) -> list[str]:
        return self._without(word for word in _WORD.findall(text) if not FILLER.fullmatch(word.lower()))

    def _without(self, words: Iterable[str]) -> list[str]:
        """Return the words without those that contain the value or are part of the value."""
        return [word for word in words if self.token not in word and word not in self.token]


def _last(text: str, token: str) -> tuple[str, str]:
    """Return up to 80 characters before and after the last occurrence of an identifier.

    A word at the outer end of either text that the limit has cut in two is left out.
    """
    before, after = [("", ""), *beside(text, token)][-1]
    start = before.find(" ") + 1 if len(before) == NEAR else 0
    end = after.rfind(" ") + 1 if len(after) == NEAR else len(after)
    return before[start:], after[:end]


def _is_name(token: str) -> bool:
    return not (_NUMBER.fullmatch(token) or _TIME.search(token) or _FIELD.fullmatch(token))
