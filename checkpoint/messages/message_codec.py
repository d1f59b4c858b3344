"""Serializes one message, and computes the hashes, fingerprints and handles of messages.

A message is serialized to the bytes that LangGraph's `JsonPlusSerializer` writes (msgpack). Reading is strict,
whatever LangGraph's environment variables say: all types are checked before an object is built, and a type outside
`MESSAGES` and `PLAIN` raises an error and is never read as another type. Pickle is never used.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import chain
from operator import attrgetter
from typing import Any, cast

import ormsgpack
from langchain_core import messages as kinds
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_METHOD_SINGLE_ARG,
    EXT_NUMPY_ARRAY,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)
from pydantic import BaseModel

from ..errors import MessageError, RowError

HASH_BYTES = 16
HANDLE_CHARS = 12

MESSAGES: dict[tuple[str, ...], type[BaseMessage]] = {
    (kind.__module__, kind.__name__): kind
    for kind in (
        *(kinds.AIMessage, kinds.AIMessageChunk, kinds.ChatMessage, kinds.ChatMessageChunk),
        *(kinds.FunctionMessage, kinds.FunctionMessageChunk, kinds.HumanMessage),
        *(kinds.HumanMessageChunk, kinds.RemoveMessage, kinds.SystemMessage),
        *(kinds.SystemMessageChunk, kinds.ToolMessage, kinds.ToolMessageChunk),
    )
}
"""The message classes that a row is allowed to hold, by module and name."""

NAMES = {kind: name for name, kind in MESSAGES.items()}
"""Module and name of each message class."""

_READ_BY = "model_validate_json"
_values = dict[str, Any].values
_fields_of = attrgetter("__dict__")
_extra_of = attrgetter("__pydantic_extra__")

PLAIN = frozenset(
    {
        *(("datetime", name) for name in ("datetime", "date", "time", "timedelta", "timezone")),
        *(("ipaddress", f"IPv{v}{kind}") for v in (4, 6) for kind in ("Address", "Interface", "Network")),
        *(("pathlib", name) for name in ("Path", "PosixPath", "WindowsPath")),
        *(("pathlib._local", name) for name in ("Path", "PosixPath", "WindowsPath")),
        ("builtins", "frozenset"),
        ("builtins", "set"),
        ("collections", "deque"),
        ("decimal", "Decimal"),
        ("re", "compile"),
        ("uuid", "UUID"),
        ("zoneinfo", "ZoneInfo"),
    }
)
"""(module, name) of each type that is allowed for values in a message, in addition to msgpack's own types."""

_FIELDS = {kind: frozenset(kind.model_fields) for kind in MESSAGES.values()}
_new: Callable[[type[BaseMessage]], BaseMessage] = object.__new__
# the functions that set a pydantic object's four slots, looked up once here and not for every message
_set_fields: Callable[[BaseMessage, dict[str, Any]], None] = BaseModel.__dict__["__dict__"].__set__
_set_names: Callable[[BaseMessage, set[str]], None] = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_set_extra: Callable[[BaseMessage, dict[str, Any]], None] = BaseModel.__dict__["__pydantic_extra__"].__set__
_set_private: Callable[[BaseMessage, None], None] = BaseModel.__dict__["__pydantic_private__"].__set__
_BUILDERS = {
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_METHOD_SINGLE_ARG,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
}
_HEADER_BYTES = {0xC7: 3, 0xC8: 4, 0xC9: 6}
"""Length in bytes of a msgpack extension's header (size and code), by the header's first byte."""

_HEADERS = bytes(_HEADER_BYTES.get(first, 0) for first in range(256))
"""The same by the value of the first byte; 0 for any other."""

_NON_STR_KEYS = ormsgpack.OPT_NON_STR_KEYS
PLAIN_OPTION = (
    _NON_STR_KEYS
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
"""The ormsgpack option that writes msgpack's own types as `dumps` does and raises an error for other types."""
_SERIALIZER = JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=None)


def dumps(message: BaseMessage) -> bytes:
    """Serialize one message; raise `MessageError`, naming the message, if a value in it cannot be serialized.

    As with every LangGraph checkpointer, tuples are read back as lists, pydantic objects in an artifact as dicts, and
    an unpaired surrogate as a question mark.
    """
    if (content := _plain_content(message)) is not None:
        return ormsgpack.packb(ormsgpack.Ext(EXT_PYDANTIC_V2, content))
    try:
        _, data = _SERIALIZER.dumps_typed(message)
    except (ormsgpack.MsgpackEncodeError, TypeError, ValueError) as error:
        raise MessageError(f"message {message.id!r} cannot be serialized: {error}") from error
    return data


def stored_bytes(message: BaseMessage) -> bytes:
    """Return `dumps(message)`; raise `MessageError` also if these bytes could not be read again."""
    if (content := _plain_content(message)) is not None:
        return ormsgpack.packb(ormsgpack.Ext(EXT_PYDANTIC_V2, content))
    data = dumps(message)
    try:
        loads(data, row=f"message {message.id!r}")
    except RowError as error:
        raise MessageError(f"{error}: it could be written but not read again") from error
    return data


def _plain_content(message: BaseMessage) -> bytes | None:
    """Return the content of a message whose fields are all of msgpack's own types; None for any other message."""
    name = NAMES.get(type(message))
    if name is None or message.__pydantic_extra__:
        return None
    try:
        return ormsgpack.packb((*name, message.__dict__, _READ_BY), None, PLAIN_OPTION)
    except (TypeError, ValueError):
        return None


def contents_hash(messages: Sequence[BaseMessage]) -> int | None:
    """Return a 64-bit hash of the classes and fields of messages; None if it could not tell every change.

    It differs between processes. Python keeps the hash of a text with the text, so only other values are written.
    """
    fields: list[dict[str, Any]] = list(map(_fields_of, messages))
    values = list(chain.from_iterable(map(_values, fields)))
    kinds = tuple(map(type, values))
    others = [value for value, kind in zip(values, kinds, strict=True) if kind is not str]
    if any(map(_extra_of, messages)):
        return None
    try:
        written = ormsgpack.packb(others, None, PLAIN_OPTION)
    except (TypeError, ValueError):
        return None
    texts = tuple([value for value, kind in zip(values, kinds, strict=True) if kind is str])
    names = tuple(chain.from_iterable(fields))
    return hash((tuple(map(type, messages)), tuple(map(len, fields)), names, kinds, texts, written))


def loads(data: bytes, *, row: str = "the row") -> BaseMessage:
    """Return the message that `dumps` wrote; raise `RowError`, naming `row`, for any other bytes.

    Only message classes are built: a function or another class that the bytes name is never called. The fields are
    not validated again, because validation would change some messages: a message whose tool calls were removed would
    get the tool calls back from `additional_kwargs`.
    """
    if (message := loads_plain(data)) is not None:
        return message
    payload = _scanned(data, row)
    match _SERIALIZER.loads_typed(("msgpack", payload)):
        case [module, name, {"type": _, "content": _} as fields, *_] if set(map(type, fields)) == {str}:
            return construct(MESSAGES[module, name], fields)
        case _:
            raise RowError(f"{row} is damaged: it holds a message without fields")


def loads_plain(data: bytes) -> BaseMessage | None:
    """Return the message if it has exactly its class's fields, all of msgpack's own types; otherwise return None."""
    try:
        # without the argument ext_hook, ormsgpack raises an error for a field that is not of msgpack's own types
        module, name, fields, _ = ormsgpack.unpackb(data[_inside(data) :], option=_NON_STR_KEYS)
        kind = MESSAGES[module, name]
        return _built(kind, fields) if fields.keys() == _FIELDS[kind] else None
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


def construct(kind: type[BaseMessage], fields: dict[str, Any]) -> BaseMessage:
    """Build a message as `model_construct` does, but four times as fast if the fields are exactly the class's own."""
    return _built(kind, fields) if fields.keys() == _FIELDS[kind] else kind.model_construct(None, **fields)


def _built(kind: type[BaseMessage], fields: dict[str, Any]) -> BaseMessage:
    message = _new(kind)
    _set_fields(message, fields)
    _set_names(message, set(fields))
    _set_extra(message, {})
    _set_private(message, None)
    return message


def loads_all(bodies: Sequence[bytes]) -> list[BaseMessage] | None:
    """Return the messages that `loads_plain` would return one by one; None if it would not return one of them."""
    found: list[BaseMessage] = []
    whole = _array(len(bodies)) + b"".join([body[_HEADERS[body[0]] :] for body in bodies])
    try:
        parts = ormsgpack.unpackb(whole, option=_NON_STR_KEYS)
        for module, name, fields, _ in parts:
            kind = MESSAGES[module, name]
            if fields.keys() != _FIELDS[kind]:
                return None
            found.append(_built(kind, fields))
    except (ValueError, TypeError, LookupError, AttributeError):
        return None
    return found


def content_hash(data: bytes) -> bytes:
    """Return the 16-byte hash by which serialized data is recognized."""
    return blake2b(data, digest_size=HASH_BYTES).digest()


def fingerprint(message: BaseMessage) -> str:
    """Return 32 hexadecimal characters, which differ for two messages that differ in any field."""
    return content_hash(dumps(_in_order(message))).hex()


def handle(message: BaseMessage) -> str:
    """Return the handle by which a message is recalled from the archive: 12 characters of its fingerprint."""
    return fingerprint(message)[:HANDLE_CHARS]


def fingerprint_all(messages: Sequence[BaseMessage]) -> str:
    """Return 32 hexadecimal characters, which differ for two lists that differ in a message, order or repetition."""
    whole = blake2b(digest_size=HASH_BYTES)
    for message in messages:
        whole.update(content_hash(dumps(_in_order(message))))
    return whole.hexdigest()


def _in_order(message: BaseMessage) -> BaseMessage:
    """Return the message with the details of its usage in one order: LangGraph's savers read them in another."""
    usage = getattr(message, "usage_metadata", None)
    told = cast("dict[str, Any]", usage) if isinstance(usage, dict) else {}
    details = {name: cast("dict[str, Any]", value) for name, value in told.items() if isinstance(value, dict)}
    if all(list(each) == sorted(each, key=str) for each in details.values()):
        return message
    ordered = {name: {key: each[key] for key in sorted(each, key=str)} for name, each in details.items()}
    return message.model_copy(update={"usage_metadata": {**told, **ordered}})


def _array(length: int) -> bytes:
    """Return the bytes with which msgpack begins a list of this length, less than 65,536."""
    return bytes([0x90 | length]) if length < 2**4 else b"\xdc" + length.to_bytes(2)


def _inside(data: bytes) -> int:
    """Return the offset of a serialized message's content; raise ValueError if the bytes are not one message."""
    start = _HEADER_BYTES.get(data[0], 0) if data else 0
    if start and data[start - 1] == EXT_PYDANTIC_V2 and int.from_bytes(data[1 : start - 1]) == len(data) - start:
        return start
    raise ValueError("not a message")


def _scanned(data: bytes, row: str) -> bytes:
    """Check all types of the one message in `data`, building no object, and return the message's content."""
    found: list[bytes] = []
    foreign: list[str] = []

    def inside(code: int, payload: bytes) -> None:
        names = _names(ormsgpack.unpackb(payload, ext_hook=inside, option=_NON_STR_KEYS))
        if code != EXT_NUMPY_ARRAY and (code not in _BUILDERS or names not in PLAIN):
            foreign.append(".".join(names) or f"extension {code}")

    def outside(code: int, payload: bytes) -> None:
        names = _names(ormsgpack.unpackb(payload, ext_hook=inside, option=_NON_STR_KEYS))
        if code != EXT_PYDANTIC_V2 or names not in MESSAGES:
            foreign.append(".".join(names) or f"extension {code}")
        found.append(payload)

    try:
        whole = ormsgpack.unpackb(data, ext_hook=outside, option=_NON_STR_KEYS)
    except ValueError as error:
        raise RowError(f"{row} is damaged: {error}") from error
    if foreign:
        raise RowError(f"{row} holds {', '.join(foreign)}, which may not be loaded")
    if whole is not None or len(found) != 1:
        raise RowError(f"{row} holds no message")
    return found[0]


def _names(parts: Any) -> tuple[str, ...]:
    """Return (module, name) of the class that an extension names, or () if it names no class."""
    match parts:
        case [str(module), str(name), *_]:
            return module, name
        case _:
            return ()
