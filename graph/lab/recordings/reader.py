"""Reads the recordings in a file, whose format is recognized by the content, never by the file name extension."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import langchain_messages, openai_chat, openhands, pi_session, swe_agent
from .fields import Record, kind, mapping, numbered, schemas, sequence
from .recording import Recording, RecordingError, Said, recording

_EXPECTED = (
    "expected OpenAI chat messages, LangChain messages, a tau-bench result file, a SWE-agent trajectory, "
    "a pi session or an OpenHands log, as JSON or JSON lines"
)
_FORMATS = (openai_chat, pi_session, openhands, langchain_messages)
_LISTS = ("messages", "traj", "history")


class _Conversation(NamedTuple):
    """One conversation of a file, before its messages are read."""

    where: str
    label: str
    """The name that the file gives the conversation; empty if there is none."""
    records: Sequence[Record]
    tools: Sequence[dict[str, Any]] = ()
    swe_agent: bool = False


def read_recordings(path: str | Path) -> list[Recording]:
    """Read every conversation in a file; conversations without any message are left out.

    Raise `RecordingError` for a file that is missing, empty, binary, not JSON or in no known format, and for a
    message that cannot be read. The error names the file and the line, entry or message.
    """
    file = Path(path)
    records = _records(_text(file), str(file))
    found = _conversations(records, str(file))
    numbers = range(1, len(found) + 1) if len(found) > 1 else [None]
    read = [_recording(one, file.name, number) for one, number in zip(found, numbers, strict=True) if one.records]
    spoken = [one for one in read if one.messages]
    if not spoken:
        raise RecordingError(f"{file}: holds no messages; {_EXPECTED}")
    return _named_once(spoken)


def _text(file: Path) -> str:
    if file.is_dir():
        raise RecordingError(f"{file}: is a directory; expected a file")
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        raise RecordingError(f"{file}: no such file") from None
    except OSError as error:
        raise RecordingError(f"{file}: cannot be read ({error.strerror})") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordingError(f"{file}: no text in UTF-8 (byte {error.start}); {_EXPECTED}") from None
    if "\0" in text:
        raise RecordingError(f"{file}: a binary file; {_EXPECTED}")
    if not text.strip():
        raise RecordingError(f"{file}: is empty; {_EXPECTED}")
    return text


def _records(text: str, file: str) -> list[Record]:
    """Return the entries of a JSON list, the values of JSON lines, or the only JSON value."""
    try:
        whole = _parsed(text)
    except ValueError as error:
        return _lines(text, file, error)
    return numbered(whole, file, "entry") if isinstance(whole, list) else [Record(file, whole)]


def _lines(text: str, file: str, whole: ValueError) -> list[Record]:
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    records: list[Record] = []
    for number, line in lines:
        try:
            records.append(Record(f"{file}, line {number}", _parsed(line)))
        except ValueError as error:
            if not records or not isinstance(records[0].value, dict | list):
                raise RecordingError(f"{file}: not JSON ({whole}); {_EXPECTED}") from None
            raise RecordingError(
                f"{file}, line {number}: not JSON ({error}); expected one JSON value per line"
            ) from None
    return records


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return _without_surrogates(value) if "\\ud" in text.lower() else value


def _without_surrogates(value: Any) -> Any:
    """Return a value whose lone surrogates (from a cut inside an emoji) are replaced, as they cannot be encoded."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value


def _conversations(records: Sequence[Record], file: str) -> list[_Conversation]:
    """Return a file's conversations.

    If any record of the file holds a list of messages, each record is a conversation. Otherwise each record is a
    message, and all of them are one conversation.
    """
    if any(_holds_list(value) for _, value in records):
        return [_conversation(where, value) for where, value in records]
    return [_Conversation(file, "", records)]


def _holds_list(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, dict) and any(key in value for key in _LISTS))


def _conversation(where: str, value: Any) -> _Conversation:
    if isinstance(value, list):
        return _Conversation(where, "", numbered(value, where, "message"))
    value = mapping(value, where, "a conversation")
    key = next((key for key in _LISTS if key in value), None)
    if key is None:
        raise RecordingError(f"{where}: {kind(value)} among conversations; {_EXPECTED}")
    records = numbered(sequence(value[key], where, key), where, "entry" if key == "history" else "message")
    if key == "messages":
        return _Conversation(where, "", records, schemas(value.get("tools"), where))
    if key == "traj":
        return _Conversation(where, f"{value.get('task_id', '?')}-{value.get('trial', '?')}", records)
    swe = not any(openhands.recognizes(event) for _, event in records)
    return _Conversation(where, str(value.get("instance_id") or ""), records, swe_agent=swe)


def _recording(one: _Conversation, file: str, number: int | None) -> Recording:
    label = one.label or number
    said, tools = _read(one)
    return recording(f"{file}#{label}" if label else file, said, tools)


def _read(one: _Conversation) -> tuple[list[Said], Sequence[dict[str, Any]]]:
    if one.swe_agent:
        return swe_agent.read(one.records), one.tools
    reader = next((form for form in _FORMATS if any(form.recognizes(value) for _, value in one.records)), None)
    if reader is None:
        place, first = one.records[0]
        raise RecordingError(f"{place}: {kind(first)} is not a message; {_EXPECTED}")
    tools = openhands.tools(one.records) if reader is openhands else one.tools
    return reader.read(one.records), tools


def _named_once(recordings: Sequence[Recording]) -> list[Recording]:
    """Return the recordings with a number added to each name that an earlier recording has."""
    seen: Counter[str] = Counter()
    named: list[Recording] = []
    for one in recordings:
        seen[one.name] += 1
        name = one.name if seen[one.name] == 1 else f"{one.name}-{seen[one.name]}"
        named.append(Recording(name=name, messages=one.messages, tools=one.tools, usage=one.usage))
    return named
