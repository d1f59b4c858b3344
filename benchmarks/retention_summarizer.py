"""The summarizers of all compared systems: chat models that write by a rule, so that their text is reproducible."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage, HumanMessage

from langgraph_compaction.graph.lab.evaluation.policies import COUNTER
from langgraph_compaction.graph.lab.evaluation.survival import text_of
from langgraph_compaction.nodes.digest.digest import digest
from langgraph_compaction.nodes.testing import ScriptedModel

_ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")

_LEAST = 3
"""Tokens into which no sentence fits."""

Write = Callable[[Sequence[AnyMessage], int], str]
"""A function from the shown messages and the maximum tokens to a summary."""


@dataclass(frozen=True)
class Rule:
    """A rule by which a summary is written."""

    name: str
    write: Write
    takes_text: bool = False
    """Whether it is given the conversation as one text, as in a prompt; else it is given the messages themselves."""


def summarizer(rule: Rule, tokens: int) -> ScriptedModel:
    """Return a model that writes by a rule in at most `tokens` tokens, and nothing if that is 0."""
    return ScriptedModel(replies=[lambda messages: rule.write(messages, tokens) if tokens > 0 else ""])


def digest_of_messages(messages: Sequence[AnyMessage], tokens: int) -> str:
    """Return our digest of the messages."""
    return digest(messages, budget=tokens, counter=COUNTER).text


def digest_of_text(messages: Sequence[AnyMessage], tokens: int) -> str:
    """Return our digest of all text as one user message, so the roles are lost."""
    return digest_of_messages([HumanMessage(text_of(messages))], tokens)


def newest_sentences(messages: Sequence[AnyMessage], tokens: int) -> str:
    """Return the newest whole sentences or lines that fit, in their original order."""
    kept, left = list[str](), tokens
    for sentence in reversed(_ENDS.split(text_of(messages))):
        size = COUNTER.text(sentence) + 1
        if size <= left and sentence.strip():
            kept.append(sentence)
            left -= size
        if left <= _LEAST:
            break
    return "\n".join(reversed(kept))


DIGEST = Rule("digest", digest_of_messages)
DIGEST_OF_TEXT = Rule("digest of text", digest_of_text, takes_text=True)
NEWEST = Rule("newest sentences", newest_sentences)

SAID_OF_RULES: Mapping[str, str] = {
    DIGEST.name: "our own digest of the messages that the peer hands over: what ours write without a model",
    DIGEST_OF_TEXT.name: "the same digest of all that the peer hands over as the words of one user message",
    NEWEST.name: "the newest sentences that fit",
}
