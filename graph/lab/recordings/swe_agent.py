"""SWE-agent trajectories: the `history` of a `.traj` file.

Function-calling runs answer a call by `tool_call_ids`. Text-action runs have no calls: the action stands in
the assistant's text, what it printed in the next user message, and so both are kept.
"""

from collections.abc import Sequence

from langchain_core.messages import HumanMessage

from .fields import Record, mapping, sequence
from .openai_chat import message
from .recording import Said


def read(records: Sequence[Record]) -> list[Said]:
    """Read the entries one for one; a demonstration is no user's input and is marked so."""
    return [_said(record) for record in records]


def _said(record: Record) -> Said:
    where, entry = record.where, mapping(record.value, record.where, "a message")
    answered = sequence(entry.get("tool_call_ids"), where, "tool_call_ids")
    read_as = message({**entry, "tool_call_id": answered[0]} if answered else entry, where)
    if entry.get("is_demo") and isinstance(read_as, HumanMessage):
        read_as.additional_kwargs["compaction"] = {"is_meta": True}
    return Said(read_as)
