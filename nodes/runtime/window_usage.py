"""What fills the model's context window, in tokens: the parts of a request, and a bar of them as text."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from langchain_core.messages import AnyMessage

from ..config.prompts import Language
from ..conversation.message_marks import earlier_summary, is_pinned, is_summary, marks
from ..conversation.request import render
from ..conversation.tokens import TokenCounter
from ..conversation.window_and_reserve import Sizes
from ..digest.entry import unpack

Part = Literal[
    "system prompt",
    "prompt and tools",
    "tools",
    "pins",
    "own words",
    "summary",
    "user",
    "assistant",
    "tool results",
    "free",
    "reserve",
]
"""What a token of the window belongs to; "prompt and tools" where their shares are not known."""


class Look(NamedTuple):
    """How a bar shows a part."""

    sign: str
    """The character that stands for it in a bar of text."""
    color: str
    """Its color in HTML, which can be seen on light and on dark pages."""
    zh: str
    """Its name in Chinese."""


LOOKS: Mapping[Part, Look] = {
    "system prompt": Look("P", "#4c78a8", "系统提示"),
    "prompt and tools": Look("P", "#4c78a8", "提示与工具"),
    "tools": Look("T", "#5fb3b3", "工具定义"),
    "pins": Look("!", "#e45756", "固定内容"),
    "own words": Look("W", "#b279a2", "用户原话"),
    "summary": Look("S", "#e3b92b", "摘要"),
    "user": Look("U", "#54a24b", "用户"),
    "assistant": Look("A", "#86b6e0", "助手"),
    "tool results": Look("R", "#f58518", "工具结果"),
    "free": Look("·", "#8882", "空闲"),
    "reserve": Look("░", "#8887", "预留"),
}
"""The parts in their order in a bar."""
_ROLES: Mapping[str, Part] = {"system": "system prompt", "ai": "assistant", "tool": "tool results"}


@dataclass(frozen=True, kw_only=True)
class WindowUsage:
    """The tokens of a request, with trigger, limit and window to compare it with."""

    tokens: int
    trigger: int
    limit: int
    window: int
    parts: Mapping[Part, int]
    """The tokens of `whole` by part, without empty parts."""

    @property
    def whole(self) -> int:
        """Number of tokens of the window, or of the request if it is larger."""
        return max(self.window, self.tokens)

    @property
    def left(self) -> int:
        """Number of tokens left below the limit; 0 if the request is over the limit."""
        return max(0, self.limit - self.tokens)


def window_usage(
    messages: Sequence[AnyMessage],
    sizes: Sizes,
    *,
    tokens: int,
    counter: TokenCounter,
    fixed: Mapping[Part, int],
    pins: Collection[str] = (),
    summary: int = 0,
) -> WindowUsage:
    """Return what fills the window in a request of `tokens` tokens with these messages in view.

    `fixed` is counted beside the messages, and so is `summary`, for one that is still to be written. What the counter
    counts is scaled to `tokens`, which may be the provider's figure.
    """
    counts = Counter[Part](fixed)
    counts["summary"] += summary
    for message in render(messages):
        counts.update(_counted(message, counter, pins))
    used = _divided(counts, tokens)
    beside: dict[Part, int] = {
        "free": max(0, sizes.limit - tokens),
        "reserve": max(0, sizes.window - max(sizes.limit, tokens)),
    }
    parts: dict[Part, int] = {name: count for name, count in (used | beside).items() if count}
    return WindowUsage(tokens=tokens, trigger=sizes.trigger, limit=sizes.limit, window=sizes.window, parts=parts)


def _counted(message: AnyMessage, counter: TokenCounter, pins: Collection[str]) -> dict[Part, int]:
    tokens = counter.message(message)
    if not is_summary(message):
        return {"pins" if is_pinned(message, pins) else _ROLES.get(message.type, "user"): tokens}
    earlier = earlier_summary([message])
    entries = unpack(earlier.record or earlier.facts)[1]
    words = [entry.value for entry in entries if entry.section == "Said" and entry.value in message.text]
    said, pinned = (sum(map(counter.text, texts)) for texts in (words, map(str, marks(message).get("pins", ()))))
    return {"own words": said, "pins": pinned, "summary": max(0, tokens - said - pinned)}


def _divided(parts: Mapping[Part, int], whole: int) -> dict[Part, int]:
    """Return the parts in their order, scaled so that their sum is `whole`."""
    total, upto, found = sum(parts.values()) or 1, 0, dict[Part, int]()
    for name in LOOKS:
        found[name] = (upto + parts.get(name, 0)) * whole // total - upto * whole // total
        upto += parts.get(name, 0)
    return found


def stored_usages(window: Sequence[Mapping[str, Any]] | None) -> list[WindowUsage]:
    """Return what filled the window before and after an attempt, from the `window` of its row."""
    return [WindowUsage(**usage) for usage in window or ()]


def bars(usages: Sequence[WindowUsage], width: int) -> list[str]:
    """Return a bar of each window on one scale, with the sign of each part and a `|` at a trigger not reached."""
    most = max(usage.whole for usage in usages)
    return [_bar(usage, width * usage.whole // most) for usage in usages]


def _bar(usage: WindowUsage, width: int) -> str:
    cells = [*"".join(LOOKS[name].sign * count for name, count in _divided(usage.parts, width).items())]
    at = min(width - 1, width * usage.trigger // usage.whole)
    if cells[at] == LOOKS["free"].sign:
        cells[at] = "|"
    return "".join(cells)


def legend(usages: Sequence[WindowUsage], language: Language = "en") -> Iterator[str]:
    """Yield a line for each part: its sign, its tokens in each of the usages, and its name."""
    for name, look in LOOKS.items():
        if any(name in usage.parts for usage in usages):
            figures = " -> ".join(f"{usage.parts.get(name, 0):>9,}" for usage in usages)
            yield f"{look.sign} {figures}  {look.zh if language == 'zh' else name}"
