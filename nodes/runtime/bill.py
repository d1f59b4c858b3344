"""The bill of a thread: what the agent's own calls of its model took."""

from collections.abc import Iterable
from itertools import takewhile
from typing import Any

from langchain_core.messages import AIMessage

from langgraph_compaction.checkpoint.usage import Usage

from ..config.prices import usage_of
from ..conversation.message_marks import answers_for_model
from .node_context import NodeContext


def new_calls(context: NodeContext) -> list[Usage]:
    """Return what the calls since the last check took of a model that a graph around this one calls."""
    checked, said = context.compaction.get("checked"), context.conversation
    if not context.dependencies.embedded or (checked and all(message.id != checked for message in said)):
        return []  # the model of an agent is billed when it answers; of another list nobody knows what is new
    later = takewhile(lambda message: message.id != checked, reversed(said))
    answers = (one for one in later if isinstance(one, AIMessage) and not answers_for_model(one))
    return [usage_of_answer(context, answer) for answer in answers]


def billed(context: NodeContext, calls: Iterable[Usage]) -> dict[str, Any]:
    """Return the bill with these calls of the agent's model, for the channel `compaction`, without zeros."""
    total = sum(calls, Usage.read(context.compaction.get("bill"))).named()
    return {name: value for name, value in total.items() if value or (name == "cost" and value is not None)}


def usage_of_answer(context: NodeContext, answer: AIMessage) -> Usage:
    """Return what the call with this answer took, by the name of the model that the provider reports."""
    meta = answer.response_metadata
    names = (meta.get("model_name"), meta.get("model"), context.facts.name)
    return usage_of(answer.usage_metadata, names, context.dependencies.prices)
