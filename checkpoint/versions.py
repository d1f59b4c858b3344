"""Versions of channels: whole numbers here, and in threads from other savers texts such as "0...02.0.7315".

LangGraph compares the versions of a checkpoint with each other and with those that its nodes have seen, so all must
be of one form. A thread keeps the form that it came with.
"""

import random
from collections.abc import Mapping
from itertools import chain
from typing import Any

_DIGITS = 16
"""Texts whose numbers have at least so many digits, all equally many, sort like their numbers and keep doing so."""


def next_version(current: Any) -> Any:
    """Return the version after `current`, in the same form; 1 where there is none.

    ValueError for a text that does not begin with a number.
    """
    if not isinstance(current, str):
        return 1 if current is None else current + 1
    if (number := _number(current)) is None:
        raise ValueError(
            f"{current!r} is no version that can be counted on: one is a number, or a text that begins with a number "
            'and a dot, as "%032d.%s"'
        )
    whole, dot, _ = current.partition(".")
    end = f".{random.random():016}" if dot else ""  # noqa: S311 - nobody's secret; other savers tell branches by it
    return f"{number + 1:0{len(whole)}}{end}"


def comparable(
    versions: dict[str, Any], seen: dict[str, dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the versions of a checkpoint's channels, and those its nodes have seen, so that they sort right.

    They are returned as they are where they are numbers, or texts of one width. A mixture of both, and texts such as
    "9.x" and "10.x", become the numbers that they begin with.
    """
    every = list(chain(versions.values(), *map(_values, seen.values())))
    texts = [one for one in every if isinstance(one, str)]
    if not texts or (len(texts) == len(every) and _sort_right(texts)):
        return versions, seen
    if any(_number(one) is None for one in texts):  # nothing is known of such texts; LangGraph compares them
        return versions, seen
    return _numbers(versions), {node: _numbers(held) for node, held in seen.items()}


def _sort_right(texts: list[str]) -> bool:
    widths = {len(one.partition(".")[0]) for one in texts}
    return len(widths) == 1 and min(widths) >= _DIGITS


def _numbers(versions: Mapping[str, Any]) -> dict[str, Any]:
    return {channel: _number(one) if isinstance(one, str) else one for channel, one in versions.items()}


def _number(text: str) -> int | None:
    whole = text.partition(".")[0]
    return int(whole) if whole.isascii() and whole.isdigit() else None


_values = dict[str, Any].values
