"""Serializes values that are not messages, in LangGraph's format and only if their types are allowed.

Values are serialized to the bytes that LangGraph's `JsonPlusSerializer` writes. `JsonPlusSerializer` reads a type
that it does not know as a dict, or as the constructor's arguments. For a type that is not allowed,
`StrictSerializer` raises an error that names the type, both on writing and on reading. It builds no object before it
has checked every type of the value.
"""

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde import _msgpack as known
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_DELTA_SNAPSHOT,
    EXT_METHOD_SINGLE_ARG,
    EXT_NUMPY_ARRAY,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)
from langgraph.checkpoint.serde.types import (
    _DeltaSnapshot as DeltaSnapshot,  # pyright: ignore[reportPrivateUsage] - it has no public name
)
from langgraph.types import Send
from pydantic import ValidationError

from ..errors import ValueTypeError
from .allowed_types import classes_in
from .message_codec import MESSAGES, construct

_OPTION = ormsgpack.OPT_NON_STR_KEYS
_PAIR = b"\x92"
_LAST = "end of the value"
_END = ormsgpack.packb(_LAST)
_PLAIN = frozenset({"null", "bytes", "bytearray"})
_BUILT = frozenset(
    {
        EXT_CONSTRUCTOR_SINGLE_ARG,
        EXT_CONSTRUCTOR_POS_ARGS,
        EXT_CONSTRUCTOR_KW_ARGS,
        EXT_PYDANTIC_V1,
        EXT_PYDANTIC_V2,
    }
)


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer, restricted to LangGraph's own safe types and the types in `allow`.

    `allow` holds classes, state schemas, unions of classes or schemas, or (module, name) of classes; see
    `classes_in`. Writing and reading raise `ValueTypeError`, naming the type, for a type that is not allowed or whose
    object cannot be built again. Pickle and JSON constructors are never used.
    """

    def __init__(self, *, allow: Iterable[Any] = ()) -> None:
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=tuple(classes_in(allow)) or None)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Serialize a value; raise `ValueTypeError` if the value could not be read again."""
        try:
            kind, data = super().dumps_typed(obj)
        except (ormsgpack.MsgpackEncodeError, TypeError, ValueError) as error:
            raise ValueTypeError(f"a {type(obj).__name__} cannot be serialized: {error}") from error
        if kind == "msgpack":
            self._allow_all(data, written=True)
        return kind, data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value that `dumps_typed` wrote; raise `ValueTypeError` if a type in it is not allowed."""
        kind, payload = data
        if kind in _PLAIN:
            return super().loads_typed(data)
        if kind != "msgpack":
            raise ValueTypeError(f"a value of the form {kind!r} is never loaded")
        self._allow_all(payload)
        return _Walk(_build).unpack(payload)

    def _allow_all(self, data: bytes, *, written: bool = False) -> None:
        """Raise `ValueTypeError`, naming all refused types, if a type in the data is not allowed.

        The check builds no object. With `written`, also raise the error if a class cannot be found by its name at the
        top level of its module, because a value of this class could not be read again.
        """
        allowed = self._allowed_msgpack_modules
        refused: dict[tuple[str, ...], None] = {}

        def visit(code: int, inside: Any) -> None:
            if code in {EXT_NUMPY_ARRAY, EXT_DELTA_SNAPSHOT}:
                return
            name = tuple(inside[:2])
            if code == EXT_METHOD_SINGLE_ARG:
                if (*name, inside[3]) not in known.SAFE_MSGPACK_METHODS:
                    raise ValueTypeError(f"to load it, {'.'.join((*name, inside[3]))} would be called: not allowed")
            elif code not in _BUILT or len(name) < 2 or not all(isinstance(part, str) for part in name):  # noqa: PLR2004 - module, class
                raise ValueTypeError(f"extension {code} names no class that could be built")
            elif name not in known.SAFE_MSGPACK_TYPES:
                if written and not isinstance(getattr(sys.modules.get(name[0]), name[1], None), type):
                    raise ValueTypeError(_hidden(name))
                if not _in(allowed, name):
                    refused[name] = None

        _Walk(visit).unpack(data)
        if refused:
            raise ValueTypeError(_refusal(list(refused)))


class _Walk:
    """Unpacks a value, and calls a visitor for each msgpack extension in it, innermost first."""

    def __init__(self, visit: Callable[[int, Any], Any]) -> None:
        self._visit = visit
        self._failures: list[ValueTypeError] = []

    def unpack(self, data: bytes) -> Any:
        """Return the unpacked value; raise `ValueTypeError` if the visitor does, or if the bytes are not a value."""
        try:
            # ormsgpack ignores bytes after a value; the end mark after the data reveals such bytes
            value, end = ormsgpack.unpackb(_PAIR + data + _END, ext_hook=self._extension, option=_OPTION)
        except ValueError as error:
            if self._failures:  # ormsgpack replaces the visitor's error by its own error
                raise self._failures[0] from None
            raise ValueTypeError(f"the bytes are not a serialized value: {error}") from error
        if end != _LAST:
            raise ValueTypeError("there are more bytes after the value")
        return value

    def _extension(self, code: int, payload: bytes) -> Any:
        inside = ormsgpack.unpackb(payload, ext_hook=self._extension, option=_OPTION)
        try:
            return self._visit(code, inside)
        except ValueTypeError as error:
            self._failures.append(error)
            raise
        except (TypeError, IndexError, LookupError) as error:
            self._failures.append(ValueTypeError(f"extension {code} does not hold what it should: {error}"))
            raise


def _in(allowed: object, name: tuple[str, ...]) -> bool:
    return allowed is True or (isinstance(allowed, set) and name in allowed)


def _refusal(names: list[tuple[str, ...]]) -> str:
    dotted, short = ", ".join(map(".".join, names)), ", ".join(name[-1] for name in names)
    verb = "is" if len(names) == 1 else "are"
    return (
        f"{dotted} {verb} not among the types that may be stored and loaded; if you trust them, add them to the "
        f"argument `allow` of the saver: allow=[{short}]; in LangGraph's server, in LANGGRAPH_COMPACTION_ALLOW"
    )


def _hidden(name: tuple[str, ...]) -> str:
    return (
        f"{'.'.join(name)} could not be loaded again: the module {name[0]} has no class {name[1]} at its top level; "
        "define the class there"
    )


def _build(code: int, inside: Any) -> Any:
    if code == EXT_DELTA_SNAPSHOT:
        return DeltaSnapshot(inside)
    if code == EXT_NUMPY_ARRAY:
        return _array(*inside)
    module, name, argument, *_ = inside
    if (kind := MESSAGES.get((module, name))) is not None:
        return construct(kind, argument)
    try:
        return _made(code, getattr(import_module(module), name), inside)
    except Exception as error:
        raise ValueTypeError(f"{module}.{name} cannot be built again: {type(error).__name__}: {error}") from error


def _made(code: int, kind: Any, inside: Any) -> Any:
    argument = inside[2]
    match code:
        case _ if code == EXT_METHOD_SINGLE_ARG:
            made = getattr(kind, inside[3])(argument)
        case _ if code == EXT_CONSTRUCTOR_SINGLE_ARG:
            made = kind(argument)
        case _ if code == EXT_CONSTRUCTOR_POS_ARGS:
            timed = kind is Send and len(argument) > 2  # noqa: PLR2004 - (node, argument) or (node, argument, timeout)
            made = Send(*argument[:2], timeout=argument[2]) if timed else kind(*argument)
        case _ if code == EXT_PYDANTIC_V1:
            made = kind.construct(**argument)
        case _ if code == EXT_PYDANTIC_V2:
            made = _model(kind, argument)
        case _:
            made = kind(**argument)
    return made


def _model(kind: Any, fields: Any) -> Any:
    try:
        return kind(**fields)
    except ValidationError:  # the state held these fields without validation, so they are not validated here either
        return kind.model_construct(**fields)


def _array(dtype: str, shape: Any, order: Any, data: bytes) -> Any:
    try:
        import numpy as np  # noqa: PLC0415 - only where an application uses it
    except ModuleNotFoundError as error:
        raise ValueTypeError("a stored array needs the package numpy") from error
    return np.frombuffer(data, dtype=np.dtype(dtype)).reshape(shape, order=order)
