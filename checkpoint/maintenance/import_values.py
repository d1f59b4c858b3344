"""What an import needs to know of values: reading them fast and strictly, and whether two are the same."""

import json
from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any, cast

import ormsgpack
from langgraph.checkpoint.base import ChannelVersions, Checkpoint
from langgraph.checkpoint.serde.jsonplus import EXT_DELTA_SNAPSHOT, JsonPlusSerializer
from langgraph.checkpoint.serde.types import (
    _DeltaSnapshot as DeltaSnapshot,  # pyright: ignore[reportPrivateUsage] - what a delta channel's value is
)

from ..errors import CheckpointError, ValueTypeError
from ..messages.strict_serde import StrictSerializer

_REMEMBERED_BYTES = 64 * 1024 * 1024
_OPTION = ormsgpack.OPT_NON_STR_KEYS
_dumps = JsonPlusSerializer().dumps_typed
_CONSTRUCTORS = (1, 2)
"""Versions of LangChain's form of an object in JSON."""


class SourceSerializer(StrictSerializer):
    """Reads what the official savers wrote. ValueTypeError for what would not come out as it was put in.

    Successive checkpoints hold the same messages again: an object whose bytes were read before is given out a
    second time. Treat what is read as frozen.
    """

    def __init__(self, *, allow: Iterable[type] = ()) -> None:
        allowed = tuple(allow)
        super().__init__(allow=allowed)
        self._allowed_json_modules = {(*kind.__module__.split("."), kind.__name__) for kind in allowed}
        self._seen: dict[tuple[int, bytes], Any] = {}
        self._held = 0

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Read a value of the present form or of the JSON form of 2024."""
        kind, payload = data
        if "+" in kind:
            raise ValueTypeError(f"it is encrypted ({kind}): decrypt it first")
        if kind == "json":
            return json.loads(payload, object_hook=self._revived)
        return self._unpacked(payload) if kind == "msgpack" else super().loads_typed(data)

    def _unpacked(self, data: bytes) -> Any:
        failures: list[CheckpointError] = []

        def extension(code: int, payload: bytes) -> Any:
            try:
                return (
                    DeltaSnapshot(self._unpacked(payload))
                    if code == EXT_DELTA_SNAPSHOT
                    else self._object(code, payload)
                )
            except CheckpointError as error:  # ormsgpack would put an error of its own in its place
                failures.append(error)
                return None

        value = ormsgpack.unpackb(data, ext_hook=extension, option=_OPTION)
        if failures:
            raise failures[0]
        return value

    def _object(self, code: int, payload: bytes) -> Any:
        key = (code, payload)
        if key not in self._seen:
            if self._held > _REMEMBERED_BYTES:
                self._seen.clear()
                self._held = 0
            self._seen[key] = super().loads_typed(("msgpack", ormsgpack.packb(ormsgpack.Ext(code, payload))))
            self._held += len(payload)
        return self._seen[key]

    def _revived(self, value: dict[str, Any]) -> Any:
        try:
            revived = self._reviver(value)
        except (ValueError, TypeError, LookupError, ImportError, AttributeError, NotImplementedError) as error:
            raise ValueTypeError(f"{type(error).__name__}: {error}") from error
        meant = value.get("lc") in _CONSTRUCTORS and value.get("type") == "constructor"
        if meant and (revived is None or revived is value):
            name = ".".join(map(str, value.get("id", ())))
            raise ValueTypeError(f"{name} is not among the types that may be loaded, or cannot be built again")
        return revived


def with_int_versions(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint with the official savers' versions ("%032d.random") as the numbers they begin with.

    ValueTypeError for versions of another form, and where two that differ would become one.
    """
    channels: dict[str, dict[int, object]] = {}

    def number(channel: str, version: object) -> int | float:
        whole = _number(version)
        if isinstance(whole, int) and channels.setdefault(channel, {}).setdefault(whole, version) != version:
            raise ValueTypeError(f"channel {channel!r} has two versions with the number {whole}")
        return whole

    def numbers(versions: Mapping[str, object]) -> ChannelVersions:
        return {channel: number(channel, version) for channel, version in versions.items()}

    seen = {node: numbers(versions) for node, versions in checkpoint["versions_seen"].items()}
    return {**checkpoint, "channel_versions": numbers(checkpoint["channel_versions"]), "versions_seen": seen}


def _number(version: object) -> int | float:
    if isinstance(version, str):
        whole = version.partition(".")[0]
        if not (whole.isascii() and whole.isdigit()):
            raise ValueTypeError(f"{version!r} is no version of a channel")
        return int(whole)
    return cast("int | float", version)


class Comparison:
    """Compares values, stricter than `==`: 1, 1.0 and True differ, and so do equal objects of two classes.

    NaN is NaN; the order of a dict's keys is no difference. What was found to be the same is remembered, and kept,
    for values that are frozen: successive checkpoints hold the same messages again.
    """

    def __init__(self) -> None:
        self._pairs: dict[tuple[int, int], tuple[object, object]] = {}

    def difference(self, one: Any, other: Any, at: str) -> str | None:
        """Return the place, beginning with `at`, where the two first differ, or None where they are the same."""
        if one is other or type(one) is not type(other):
            return None if one is other else at
        match one:
            case str() | bytes() | bytearray() | int() | set() | frozenset():
                return None if one == other else at
            case float():
                return None if one == other or (isnan(one) and isnan(other)) else at
            case dict():
                return self._in_dict(one, other, at)
            case list() | tuple():
                return self._in_list(one, other, at)
            case _:
                return self._in_object(one, other, at)

    def _in_dict(self, one: Mapping[Any, Any], other: Mapping[Any, Any], at: str) -> str | None:
        if one.keys() != other.keys():
            return f"{at}.{min(map(str, one.keys() ^ other.keys()))}"
        return next((found for key in one if (found := self.difference(one[key], other[key], f"{at}.{key}"))), None)

    def _in_list(self, one: Sequence[Any], other: Sequence[Any], at: str) -> str | None:
        if len(one) != len(other):
            return f"{at} ({len(one)} items against {len(other)})"
        for place, pair in enumerate(zip(one, other, strict=True)):
            if (id(pair[0]), id(pair[1])) not in self._pairs and (found := self.difference(*pair, f"{at}[{place}]")):
                return found
        return None

    def _in_object(self, one: Any, other: Any, at: str) -> str | None:
        found = None if _dumps(one) == _dumps(other) else at
        if found is not None and hasattr(one, "__dict__"):  # a set in it may stand in another order
            found = self._in_dict(_fields(one), _fields(other), at)
        if found is None:
            self._pairs[id(one), id(other)] = (one, other)  # kept, or another object would get the id
        return found


def _fields(value: Any) -> dict[str, Any]:
    return {**vars(value), **(getattr(value, "model_extra", None) or {})}
