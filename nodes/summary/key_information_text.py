"""Key information beside a summary, whatever the summarizer writes: rendered and bounded."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape, unescape

from langchain_core.messages import AnyMessage

from ..config.settings import CompactionSettings
from ..conversation.message_marks import is_real_user, is_summary, marks
from ..conversation.tokens import TokenCounter

ORDER = ("goal", "pins", "memories", "git_diff", "tasks")
"""The order in which key information stands; an application's own follows in the order of the setting."""

BEFORE_SUMMARY = frozenset({"goal", "pins", "memories"})
"""What stands before the summary, the goal at the very front; all else follows it."""

TITLES: Mapping[str, str] = {
    "goal": "What the user asked for at the beginning; it holds throughout:",
    "memories": "Recent memories, for reference:",
    "git_diff": "Changes in the repository, for reference:",
    "tasks": "Tasks and how far they are, for reference:",
}

LEAST_CUT = 8
"""Tokens under which no beginning of a text is worth its place."""

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]+")
_GOAL = re.compile(rf'{re.escape(TITLES["goal"])}\n<key name="goal">\n(.*?)\n</key>', re.DOTALL)


def key_share(settings: CompactionSettings, room: int) -> int:
    """Most tokens of key information beside the pins, of a room of so many."""
    wanted = any(name != "pins" for name in settings.key_information)
    return int(room * settings.key_information_share) if wanted else 0


def ordered(names: Iterable[str]) -> list[str]:
    """The names in the order in which they stand in a message, each once."""
    given = list(dict.fromkeys(names))
    return sorted(given, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


def blocks(key: Mapping[str, str], pinned: str) -> tuple[str, str]:
    """What stands before the summary and what follows it; `pinned` stands in the place of `pins`."""
    parts = {name: pinned if name == "pins" else section(name, text) for name, text in key.items()}
    before = [part for name, part in parts.items() if part and name in BEFORE_SUMMARY]
    after = [part for name, part in parts.items() if part and name not in BEFORE_SUMMARY]
    return "\n".join(before), "\n".join(after)


def section(name: str, text: str) -> str:
    """One piece of key information as a labeled quotation that its text cannot close."""
    title = TITLES.get(name, "Further information, for reference:")
    return f'{title}\n<key name="{name}">\n{escape(_UNPRINTABLE.sub(" ", text), quote=False)}\n</key>'


def fitted(texts: Mapping[str, str], budget: int, counter: TokenCounter) -> dict[str, str]:
    """The texts whose sections hold at most `budget` tokens together, earlier ones first; `pins` is only a place.

    One that does not fit is cut, with a note; it takes more than half of what is left only where the others need
    less.
    """
    sizes = {name: counter.text(section(name, text)) for name, text in texts.items() if name != "pins"}
    kept, waiting = dict[str, str](), sum(sizes.values())
    for name, text in texts.items():
        if name == "pins":
            kept[name] = ""
            continue
        waiting -= sizes[name]
        if not text.strip():
            continue
        most = max(budget // 2, budget - waiting)
        shown = text if sizes[name] <= most else _cut(name, text, most, counter)
        if shown:
            kept[name] = shown
            budget -= counter.text(section(name, shown))
    return kept


def _cut(name: str, text: str, most: int, counter: TokenCounter) -> str:
    """The beginning of a text with a note, so that its section holds at most `most` tokens; empty where none fits."""
    note = f"[... cut; {counter.text(text)} tokens in all]"
    room = most - counter.text(section(name, note))
    while room >= LEAST_CUT:
        short = f"{counter.head(text, room).rstrip()}\n{note}"
        if counter.text(section(name, short)) <= most:
            return short
        room = room * 3 // 4  # what had to be escaped takes more
    return ""


def original_request(messages: Sequence[AnyMessage]) -> str:
    """What the user asked for first: as an earlier summary tells it, else the first thing a person says here."""
    for message in messages:
        if is_summary(message) and (found := _GOAL.match(message.text[: marks(message).get("front", 0)])):
            return unescape(found[1])
    return next((message.text for message in messages if is_real_user(message)), "")
