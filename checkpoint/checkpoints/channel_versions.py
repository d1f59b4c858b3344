"""Versions of channels: whole numbers here, and in threads from other savers texts such as "0...02.0.7315".

LangGraph compares the versions of a checkpoint with each other and with those that its nodes have seen, so all must
be of one form. A thread keeps the form that it came with; a checkpoint is read with the versions it was stored with.
"""

import random
from typing import Any


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


def _number(text: str) -> int | None:
    whole = text.partition(".")[0]
    return int(whole) if whole.isascii() and whole.isdigit() else None
