"""What the summaries of earlier compactions hand on to the next one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage

from ..config.summary_format import read_back
from .transcript import is_summary, marks


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """What the earlier summary among the messages that leave hands on."""

    body: str = ""
    record: Mapping[str, Any] | None = None
    """Of a digest: what the whole of it rests on."""
    facts: Mapping[str, Any] | None = None
    """The record of the facts beside a summary in prose."""


def absorbed(leaving: Sequence[AnyMessage]) -> Earlier:
    """What the earlier summaries among the messages that leave hand on.

    Of several, as in lists that were joined, all texts; a record speaks for one summary only.
    """
    earlier = [message for message in leaving if is_summary(message)]
    alone = marks(earlier[0]) if len(earlier) == 1 else {}
    records = {name: found for name in ("record", "facts") if isinstance(found := alone.get(name), Mapping)}
    return Earlier(body="\n\n".join(map(_body, earlier)), **records)


def _body(message: AnyMessage) -> str:
    """The text of a summary message, without its frame and what stands beside it; inverse of `summary_message`."""
    mark = marks(message)
    return read_back(message.text[mark.get("front", 0) :], mark)
