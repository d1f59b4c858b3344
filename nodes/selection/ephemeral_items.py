"""Find ephemeral results (older results of some tools) that one line replaces before the next model call."""

from collections import defaultdict
from collections.abc import Mapping

from langchain_core.messages import ToolMessage

from ..conversation.clipping import clip_result
from ..conversation.item_types import unread
from ..conversation.message_marks import marks
from ..conversation.transcript import Transcript, calls_of
from .selector import Choice, Selector


def outdated(selector: Selector, tools: Mapping[str, int]) -> Choice:
    """Choose all ephemeral results but the newest ones: one line replaces each of them.

    `tools` maps a tool's name to the number of its results that stay. Pinned messages and messages that the model has
    not read yet stay.
    """
    names, groups = _tool_names(selector.view), defaultdict[str, list[int]](list)
    for index, name in names.items():
        if name in tools:
            groups[name].append(index)
    old = {index for name, found in groups.items() for index in found[: max(0, len(found) - tools[name])]}
    old -= unread(selector.view) | selector.pinned
    clip = {index: short for index in sorted(old) if (short := _line(selector, index, names[index]))}
    return Choice(drop=frozenset(), clip=clip)


def _tool_names(view: Transcript) -> dict[int, str]:
    """Map the index of each result that answers a call to the tool's name."""
    called = ((calls_of(view.messages[block.start]), block.results) for block in view.blocks)
    return {
        index: name
        for calls, results in called
        for (_, name), index in zip(calls, results, strict=True)
        if index is not None
    }


def _line(selector: Selector, index: int, name: str) -> ToolMessage | None:
    """Return the line that replaces a result, with the original's handle; `None` if the line saves no tokens."""
    message, counter = selector.view.messages[index], selector.meter.counter
    if not isinstance(message, ToolMessage):
        return None
    short = clip_result(message, threshold=0, keep=0, counter=counter)
    name_of_original = marks(short).get("handle")
    where = f", in the archive under {name_of_original}" if name_of_original else ""
    line = short.model_copy(update={"content": f"[an older result of {name}, no longer in view{where}]"})
    return line if counter.message(line) < counter.message(message) else None
