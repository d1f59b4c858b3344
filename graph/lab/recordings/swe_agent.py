"""SWE-agent trajectories: the `history` of a `.traj` file.

In function-calling runs, a result names its call in `tool_call_ids`. Text-action runs have no calls: the action is in
the assistant's text, its output is in the next user message, and both messages are kept as they are.
"""

from collections.abc import Sequence

from langchain_core.messages import HumanMessage

from .fields import Record, mapping, sequence
from .openai_chat import message
from .recording import Said


def read(records: Sequence[Record]) -> list[Said]:
    """Read the entries one by one; mark the messages of a demonstration, which are not the user's own input."""
    return [_said(record) for record in records]


def _said(record: Record) -> Said:
    where, entry = record.where, mapping(record.value, record.where, "a message")
    answered = sequence(entry.get("tool_call_ids"), where, "tool_call_ids")
    read_as = message({**entry, "tool_call_id": answered[0]} if answered else entry, where)
    if entry.get("is_demo") and isinstance(read_as, HumanMessage):
        read_as.additional_kwargs["compaction"] = {"is_meta": True}
    return Said(read_as)
