"""Find ephemeral messages (older results of some tools, reminders) for removal before the next model call."""

from collections import defaultdict
from collections.abc import Mapping

from langchain_core.messages import HumanMessage, ToolMessage

from ..conversation.clipping import clip_result
from ..conversation.item_types import unread
from ..conversation.message_marks import is_real_user, is_summary, marks
from ..conversation.transcript import Transcript, calls_of
from .selector import Choice, Selector


def outdated(selector: Selector, tools: Mapping[str, int]) -> Choice:
    """Choose all ephemeral messages but the newest ones: results are replaced by one line, meta messages are dropped.

    `tools` maps a tool's name to the number of its results that stay. For messages marked as ephemeral that number is
    `ephemeral_keep`. Pinned messages and messages that the model has not read yet stay.
    """
    messages, names = selector.view.messages, _tool_names(selector.view)
    groups = defaultdict[tuple[str, int], list[int]](list)
    for index, message in enumerate(messages):
        keep = tools.get(names.get(index, ""), selector.settings.ephemeral_keep if _is_marked(message) else None)
        if keep is not None and (index in names or _is_meta(message)):
            groups[names.get(index, ""), keep].append(index)
    old = {index for (_, keep), found in groups.items() for index in found[: max(0, len(found) - keep)]}
    old -= unread(selector.view) | selector.pinned
    clip = {index: short for index in old & names.keys() if (short := _line(selector, index, names[index]))}
    return Choice(drop=frozenset(old - names.keys()), clip=clip)


def _is_marked(message: object) -> bool:
    return isinstance(message, HumanMessage | ToolMessage) and bool(marks(message).get("ephemeral"))


def _is_meta(message: object) -> bool:
    """Whether the message is a user message that no person wrote; a person's message is never ephemeral."""
    return isinstance(message, HumanMessage) and not is_real_user(message) and not is_summary(message)


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
