"""Serializes values that are not messages, in LangGraph's format and only if their types are allowed.

`JsonPlusSerializer` reads a type that it does not know, or an object that it cannot build again, as a dict or as the
constructor's arguments. For a type that is not allowed, `StrictSerializer` raises an error that names the type, both
on writing and on reading. It builds no object before it has checked every type of the value.

Models, dataclasses, named tuples and enumerations are written with the values of their fields, and get exactly these
values back: neither validators nor `__init__` nor `__post_init__` have the last word. An object that cannot be built
so is refused when it is written. All other types are written as LangGraph writes them.
"""

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
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
from langgraph.checkpoint.serde.jsonplus import (
    _msgpack_default as langgraph_form,  # pyright: ignore[reportPrivateUsage] - it has no public name
)
from langgraph.checkpoint.serde.types import (
    _DeltaSnapshot as DeltaSnapshot,  # pyright: ignore[reportPrivateUsage] - it has no public name
)
from langgraph.types import Send
from pydantic import BaseModel, ValidationError

from ..errors import ValueTypeError
from .allowed_types import classes_in, is_named_tuple, name_of
from .message_codec import MESSAGES, PLAIN_OPTION, construct

_OPTION = ormsgpack.OPT_NON_STR_KEYS
_WRITTEN = PLAIN_OPTION | ormsgpack.OPT_REPLACE_SURROGATES
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
        if obj is None or isinstance(obj, bytes | bytearray):
            return super().dumps_typed(obj)
        writer = _Writer()
        try:
            data = writer.pack(obj)
        except (ormsgpack.MsgpackEncodeError, TypeError, ValueError) as error:
            if writer.refusals:  # ormsgpack replaces an error of `_Writer.form` by its own error
                raise writer.refusals[0] from None
            raise ValueTypeError(f"a {type(obj).__name__} cannot be serialized: {error}") from error
        if self._allow_all(data, written=True):
            _Walk(_build).unpack(data)
        return "msgpack", data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the value that `dumps_typed` wrote; raise `ValueTypeError` if a type in it is not allowed."""
        kind, payload = data
        if kind in _PLAIN:
            return super().loads_typed(data)
        if kind != "msgpack":
            raise ValueTypeError(f"a value of the form {kind!r} is never loaded")
        self._allow_all(payload)
        return _Walk(_build).unpack(payload)

    def _allow_all(self, data: bytes, *, written: bool = False) -> bool:
        """Raise `ValueTypeError`, naming all refused types, if a type in the data is not allowed.

        The check builds no object. With `written`, also raise the error if a class cannot be found by its name in its
        module, because a value of this class could not be read again; return whether only building the objects can
        tell that they can be read again.
        """
        allowed = self._allowed_msgpack_modules
        refused: dict[tuple[str, ...], None] = {}
        uncertain = False

        def visit(code: int, inside: Any) -> None:
            nonlocal uncertain
            if code in {EXT_NUMPY_ARRAY, EXT_DELTA_SNAPSHOT}:
                return
            name = tuple(inside[:2])
            if code == EXT_METHOD_SINGLE_ARG:
                if (*name, inside[3]) not in known.SAFE_MSGPACK_METHODS:
                    raise ValueTypeError(f"to load it, {'.'.join((*name, inside[3]))} would be called: not allowed")
            elif code not in _BUILT or len(name) < 2 or not all(isinstance(part, str) for part in name):  # noqa: PLR2004 - module, class
                raise ValueTypeError(f"extension {code} names no class that could be built")
            elif name not in known.SAFE_MSGPACK_TYPES:
                kind = _class_named(sys.modules.get(name[0]), name[1]) if written else None
                if written and not isinstance(kind, type):
                    raise ValueTypeError(_hidden(name))
                if not _in(allowed, name):
                    refused[name] = None
                uncertain |= written and not _is_exact(kind)

        _Walk(visit).unpack(data)
        if refused:
            raise ValueTypeError(_refusal(list(refused)))
        return uncertain


class _Writer:
    """Packs a value as LangGraph does, but models and dataclasses with the values of their fields, unchanged."""

    def __init__(self) -> None:
        self.refusals: list[ValueTypeError] = []

    def pack(self, value: Any) -> bytes:
        """Return a value in msgpack."""
        return ormsgpack.packb(value, default=self._form, option=_WRITTEN)

    def _form(self, value: Any) -> Any:
        """Return the extension that stands for a value which msgpack does not know."""
        kind: type = type(value)
        if isinstance(value, DeltaSnapshot):
            return ormsgpack.Ext(EXT_DELTA_SNAPSHOT, self.pack(value.value))
        if (kind.__module__, kind.__name__) in MESSAGES:
            return langgraph_form(value)
        if isinstance(value, BaseModel):
            return self._model(value)
        code = EXT_CONSTRUCTOR_SINGLE_ARG
        match value:
            case Enum():
                argument = self._member(value)
            case set() | frozenset() | deque():
                argument = tuple(value)
            case Send():
                code = EXT_CONSTRUCTOR_POS_ARGS
                argument = (value.node, value.arg, *(() if value.timeout is None else (value.timeout,)))
            case _ if is_named_tuple(kind):
                code, argument = EXT_CONSTRUCTOR_KW_ARGS, value._asdict()
            case _ if is_dataclass(kind):
                code, argument = EXT_CONSTRUCTOR_KW_ARGS, self._dataclass(value)
            case _:
                return langgraph_form(value)
        return self._extension(code, kind, argument)

    def _extension(self, code: int, kind: type, *parts: Any) -> ormsgpack.Ext:
        return ormsgpack.Ext(code, self.pack((*name_of(kind), *parts)))

    def _model(self, model: BaseModel) -> ormsgpack.Ext:
        """Return a model's fields and the names of those that were not set.

        A model whose fields only its own serializers can write is written by these; see `_made`.
        """
        kind, held = type(model), model.__dict__
        content = {name: held[name] for name in kind.model_fields if name in held} | (model.__pydantic_extra__ or {})
        try:
            return self._extension(
                EXT_PYDANTIC_V2, kind, content, [name for name in content if name not in model.model_fields_set]
            )
        except (ormsgpack.MsgpackEncodeError, TypeError, ValueError):
            if self.refusals:
                raise
        content = model.model_dump()
        with self._refusing(kind):
            kind(**content)
        return self._extension(EXT_PYDANTIC_V2, kind, content, "model_validate_json")

    def _member(self, member: Enum) -> Any:
        """Return the value of a member, if the member is found by its stored value."""
        if type(member.value) not in {str, int}:
            with self._refusing(type(member)):
                if _member(type(member), _Walk(_build).unpack(self.pack(member.value))) is not member:
                    raise ValueError(f"{member.name} has the same stored value as another member")
        return member.value

    def _dataclass(self, value: Any) -> dict[str, Any]:
        """Return the fields of a dataclass; its constructor must accept them if the object has further attributes."""
        content = {one.name: getattr(value, one.name) for one in fields(value)}
        with self._refusing(type(value)):
            object.__new__(type(value))
            if getattr(value, "__dict__", {}).keys() - content.keys():
                type(value)(**_arguments(type(value), content))
        return content

    @contextmanager
    def _refusing(self, kind: type) -> Generator[None]:
        try:
            yield
        except Exception as error:
            self.refusals.append(_unbuildable(".".join(name_of(kind)), error))
            raise self.refusals[-1] from error


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
    module, full, *_ = name
    by_langgraph = module, full.rpartition(".")[2]  # it leaves out the class around a class
    return allowed is True or (isinstance(allowed, set) and not allowed.isdisjoint({(module, full), by_langgraph}))


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


def _unbuildable(name: str, error: Exception) -> ValueTypeError:
    return ValueTypeError(
        f"{name} cannot be built again: {type(error).__name__}: {error}; store plain values, a pydantic model, or a "
        "dataclass whose constructor takes its fields"
    )


def _class_named(module: Any, name: str) -> Any:
    """Return the class with this name in a module, or within a class of the module; None if there is none."""
    found = getattr(module, name, None)
    if found is None:  # only then: the name of a generic model may contain dots
        found = module
        for part in name.split("."):
            found = getattr(found, part, None)
    return found


def _is_exact(kind: Any) -> bool:
    """Whether objects of a class can always be built again from what `_Writer` writes of them."""
    if issubclass(kind, BaseModel):
        return kind.__pydantic_post_init__ is None
    return issubclass(kind, Enum) or is_dataclass(kind) or is_named_tuple(kind)


def _build(code: int, inside: Any) -> Any:
    if code == EXT_DELTA_SNAPSHOT:
        return DeltaSnapshot(inside)
    if code == EXT_NUMPY_ARRAY:
        return _array(*inside)
    module, name, argument, *_ = inside
    if (kind := MESSAGES.get((module, name))) is not None:
        return construct(kind, argument)
    try:
        return _made(code, _class_named(import_module(module), name), inside)
    except Exception as error:
        raise _unbuildable(f"{module}.{name}", error) from error


def _made(code: int, kind: Any, inside: Any) -> Any:
    argument = inside[2]
    made: Any
    match code:
        case _ if code == EXT_CONSTRUCTOR_SINGLE_ARG and isinstance(kind, type) and issubclass(kind, Enum):
            made = _member(kind, argument)
        case _ if code == EXT_CONSTRUCTOR_KW_ARGS and is_named_tuple(kind) and argument.keys() == set(kind._fields):
            made = kind._make(argument[name] for name in kind._fields)
        case _ if code == EXT_CONSTRUCTOR_KW_ARGS and is_dataclass(kind):
            made = _dataclass(kind, argument)
        case _ if code == EXT_PYDANTIC_V2 and isinstance(inside[3], list):
            made = _exact_model(kind, argument, inside[3])
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


def _model(kind: Any, content: Any) -> Any:
    try:
        return kind(**content)
    except ValidationError:  # the state held these fields without validation, so they are not validated here either
        return kind.model_construct(**content)


def _exact_model(kind: Any, content: dict[str, Any], unset: list[str]) -> Any:
    """Return a model with exactly these fields; if its class has other fields by now, it validates them."""
    extra = {name: value for name, value in content.items() if name not in kind.model_fields}
    if not kind.model_fields.keys() <= content.keys() or (extra and kind.model_config.get("extra") != "allow"):
        return _model(kind, content)
    made = kind.model_construct(content.keys() - set(unset), **content)
    object.__setattr__(made, "__dict__", {name: content[name] for name in kind.model_fields})
    if extra:
        object.__setattr__(made, "__pydantic_extra__", extra)
    return made


def _dataclass(kind: Any, content: Mapping[str, Any]) -> Any:
    """Return a dataclass with exactly these fields; if its class has other fields by now, its constructor decides."""
    is_same = {*content} == {one.name for one in fields(kind)}
    try:
        made = kind(**_arguments(kind, content))
    except Exception:
        if not is_same:
            raise
        made = object.__new__(kind)
    for name, value in content.items():
        object.__setattr__(made, name, value)
    return made


def _arguments(kind: Any, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the constructor of a dataclass takes, and those that it does not know."""
    computed = {one.name for one in fields(kind) if not one.init}
    return {name: value for name, value in content.items() if name not in computed}


def _member(kind: type[Enum], value: Any) -> Enum:
    """Return the member of an enumeration by its value, in which tuples became lists."""
    try:
        return kind(value)
    except ValueError:
        packed = _Writer().pack(value)
        return next(member for member in kind if _Writer().pack(member.value) == packed)


def _array(dtype: str, shape: Any, order: Any, data: bytes) -> Any:
    try:
        import numpy as np  # noqa: PLC0415 - only where an application uses it
    except ModuleNotFoundError as error:
        raise ValueTypeError("a stored array needs the package numpy") from error
    return np.frombuffer(data, dtype=np.dtype(dtype)).reshape(shape, order=order)
