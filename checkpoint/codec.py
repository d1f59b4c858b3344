"""A message as bytes, and the names that follow from its bytes.

The bytes are those of LangGraph's `JsonPlusSerializer` (msgpack). Reading is strict, whatever the environment
says: the bytes are scanned before anything is built, and a type outside `MESSAGES` and `PLAIN` is an error,
never a silently different value. There is no pickle.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

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

from .errors import MessageError, RowError

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
"""The classes a row may hold, by module and name."""

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
"""(module, name) of the values a message may hold besides what msgpack knows by itself."""

_FIELDS = {kind: frozenset(kind.model_fields) for kind in MESSAGES.values()}
_SLOTS = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
_BUILDERS = {
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_METHOD_SINGLE_ARG,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
}
_NON_STR_KEYS = ormsgpack.OPT_NON_STR_KEYS
_SERIALIZER = JsonPlusSerializer(pickle_fallback=False, allowed_msgpack_modules=None)


def dumps(message: BaseMessage) -> bytes:
    """Serialise one message; MessageError names the message where a value in it has no serialised form.

    As with every LangGraph checkpointer tuples come back as lists, pydantic objects in an artifact as dicts,
    and an unpaired surrogate as a question mark.
    """
    try:
        _, data = _SERIALIZER.dumps_typed(message)
    except (ormsgpack.MsgpackEncodeError, TypeError, ValueError) as error:
        raise MessageError(f"message {message.id!r} cannot be serialised: {error}") from error
    return data


def loads(data: bytes, *, row: str = "the row") -> BaseMessage:
    """Build the message that `dumps` wrote; RowError, naming `row`, for all else, of which nothing is run.

    The fields are taken as they were written. Validation would change some messages: one whose tool calls
    were taken out would get them back from `additional_kwargs`.
    """
    payload, inside, plain = _scanned(data, row)
    # where no value but msgpack's own stands in it, the scan has built the fields already
    match inside if plain else _SERIALIZER.loads_typed(("msgpack", payload)):
        case [module, name, {"type": _, "content": _} as fields, *_] if set(map(type, fields)) == {str}:
            return construct(MESSAGES[module, name], fields)
        case _:
            raise RowError(f"{row} is damaged: it holds a message without fields")


def construct(kind: type[BaseMessage], fields: dict[str, Any]) -> BaseMessage:
    """Do what `model_construct` does, four times as fast where the fields are exactly the class's own."""
    if fields.keys() != _FIELDS[kind]:
        return kind.model_construct(None, **fields)
    message = kind.__new__(kind)
    for slot, value in zip(_SLOTS, (fields, set(fields), {}, None), strict=True):
        object.__setattr__(message, slot, value)
    return message


def prove(message: BaseMessage, data: bytes) -> None:
    """Raise MessageError unless `data`, which is `dumps(message)`, can be read again."""
    try:
        loads(data, row=f"message {message.id!r}")
    except RowError as error:
        raise MessageError(f"{error}: it could be written but not read again") from error


def content_hash(data: bytes) -> bytes:
    """Return the 16 bytes a serialised message is found by."""
    return blake2b(data, digest_size=HASH_BYTES).digest()


def digest(message: BaseMessage) -> str:
    """Return 32 hexadecimal characters that differ where messages differ in any field."""
    return content_hash(dumps(message)).hex()


def handle(message: BaseMessage) -> str:
    """Return the 12 characters by which a message is recalled from the archive: the start of its digest."""
    return digest(message)[:HANDLE_CHARS]


def digest_all(messages: Sequence[BaseMessage]) -> str:
    """Return 32 hexadecimal characters for a list of messages; order and repetitions count."""
    whole = blake2b(digest_size=HASH_BYTES)
    for message in messages:
        whole.update(content_hash(dumps(message)))
    return whole.hexdigest()


def _scanned(data: bytes, row: str) -> tuple[bytes, Any, bool]:
    """Return the inside of the one message in `data`, packed and unpacked, and whether it holds no extension.

    Every type in it is seen, and nothing is built.
    """
    found: list[tuple[bytes, Any]] = []
    values = 0
    foreign: list[str] = []

    def inside(code: int, payload: bytes) -> None:
        nonlocal values
        values += 1
        names = _names(ormsgpack.unpackb(payload, ext_hook=inside, option=_NON_STR_KEYS))
        if code != EXT_NUMPY_ARRAY and (code not in _BUILDERS or names not in PLAIN):
            foreign.append(".".join(names) or f"extension {code}")

    def outside(code: int, payload: bytes) -> None:
        parts = ormsgpack.unpackb(payload, ext_hook=inside, option=_NON_STR_KEYS)
        names = _names(parts)
        if code != EXT_PYDANTIC_V2 or names not in MESSAGES:
            foreign.append(".".join(names) or f"extension {code}")
        found.append((payload, parts))

    try:
        whole = ormsgpack.unpackb(data, ext_hook=outside, option=_NON_STR_KEYS)
    except ValueError as error:
        raise RowError(f"{row} is damaged: {error}") from error
    if foreign:
        raise RowError(f"{row} holds {', '.join(foreign)}, which may not be loaded")
    if whole is not None or len(found) != 1:
        raise RowError(f"{row} holds no message")
    return *found[0], not values


def _names(parts: Any) -> tuple[str, ...]:
    """Return (module, name) of what an extension would build, or () where it names nothing."""
    match parts:
        case [str(module), str(name), *_]:
            return module, name
        case _:
            return ()
