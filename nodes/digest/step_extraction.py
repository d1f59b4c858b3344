"""Extract the agent's steps: a line for each tool call, and each tool's unresolved error."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, Anchored

from ..conversation.tokens import joined_texts
from ..conversation.transcript import Transcript
from ..text.quoting import ELLIPSIS, one_line, quoted, quoted_if_spaced
from .entry import Entry
from .value_extraction import parsed, scalars

_STEP, _NAME, _VALUE, _ERROR = 100, 48, 60, 140
"""Maximum number of characters of a step, of a name in a step, of a value in a step, and of an error."""

_STEP_WORTH, _ERROR_WORTH = 0.08, 0.7

_FAILED = Anchored(
    r"\W*+(?:Traceback\b|(?:\w{1,60} ){0,3}\[?(?:[\w.]{0,80}(?:Error|Exception)|failed|failure|fatal|panic)\b)",
    IGNORE_CASE,
)


def steps(old: Sequence[AnyMessage], start: int, earlier: Sequence[Entry] = ()) -> list[Entry]:
    """Return a short line for each call, oldest first; a repeated call appears only at its last position."""
    made = [
        Entry("Steps", start + index, _STEP_WORTH, _step(call["name"], call["args"]))
        for index, message in enumerate(old)
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    ]
    latest: dict[str, Entry] = {}
    for entry in [*earlier, *made]:
        latest.pop(entry.value, None)
        latest[entry.value] = entry
    return list(latest.values())


def _step(name: str, arguments: object) -> str:
    words = [quoted_if_spaced(one_line(name, _NAME))]
    left = _STEP - len(words[0])
    for _, _, key, leaf in scalars(arguments):
        given = f"{quoted_if_spaced(one_line(key, _NAME))} {quoted_if_spaced(one_line(str(leaf), _VALUE))}"
        left -= len(given) + 2
        if left < 0:
            return f"{words[0]} {', '.join([*words[1:], ELLIPSIS])}"
        words.append(given)
    return f"{words[0]} {', '.join(words[1:])}".strip()


def errors(old: Sequence[AnyMessage], start: int, earlier: Sequence[Entry] = ()) -> list[Entry]:
    """Return each tool's last failure, unless a later call of the tool succeeded."""
    view = Transcript(old)
    standing = {entry.path: entry for entry in earlier}
    for index, message in enumerate(old):
        if not isinstance(message, ToolMessage):
            continue
        name = quoted_if_spaced(one_line(_name(view, index, message), _NAME))
        standing.pop(name, None)
        if said := _failure(message):
            standing[name] = Entry("Open", start + index, _ERROR_WORTH, quoted(said), name)
    return list(standing.values())


def _name(view: Transcript, index: int, message: ToolMessage) -> str:
    block = view.block_of.get(index)
    if message.name or block is None:
        return message.name or "tool"
    calls = view.messages[block.start]
    position = block.position_of[index]
    named = calls.tool_calls if isinstance(calls, AIMessage) else []
    return named[position]["name"] if position < len(named) else "tool"


def _failure(message: ToolMessage) -> str:
    """Return a failed result's error on one line; an empty string if the result is not a failure."""
    text = joined_texts(message).strip()
    value = parsed(text)
    if isinstance(value, dict) and value.get("error"):
        return one_line(str(value["error"]), _ERROR)
    if message.status != "error" and (not _FAILED.match(text) or _is_denied(value)):
        return ""
    lines = text.splitlines() or [""]
    last_says_it = lines[0].startswith("Traceback")
    return one_line(lines[-1] if last_says_it else text, _ERROR)


def _is_denied(value: object) -> bool:
    """Whether the first key of a JSON object, or of the first one in a list, has an empty value or zero."""
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict) and bool(first) and not next(iter(first.values()))
