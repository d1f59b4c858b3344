"""The page that a digest shows: its entries under headings, facts of one message on one line."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from .entries import SECTIONS, Entry, Section
from .quoting import ELLIPSIS

_FAR = 60
"""Characters after which a key is written again, so that each value stands beside its name (METRICS)."""

_ELSEWHERE: dict[Section, tuple[Section, ...]] = {
    "Rules": ("Goal", "Open"),
    "Open": ("Rules",),
    "Said": ("Goal", "Open", "Rules"),
}


def page(entries: Sequence[Entry]) -> str:
    """The entries as text; those of a section in the order given, none twice."""
    parts: list[str] = []
    for section in SECTIONS:
        own = [entry for entry in entries if entry.section == section]
        if section in _ELSEWHERE:
            own = [entry for entry in own if not _said(entry, entries)]
        lines = list(_fact_lines(own)) if section == "Facts" else [_line(entry) for entry in own]
        if section == "Goal" and lines:
            parts.append(f"{section}: {' '.join(lines)}")
        elif lines:
            parts.append("\n".join([f"{section}:", *(f"- {line}" for line in lines)]))
    return "\n".join(parts)


def _said(entry: Entry, entries: Sequence[Entry]) -> bool:
    """Whether a rule stands word for word in the goal or an open request, or a cut request in a rule."""
    elsewhere = _ELSEWHERE[entry.section]
    words = entry.value.rstrip(ELLIPSIS)
    return not entry.path and any(
        words in other.value and (entry.section != "Open" or words != other.value)
        for other in entries
        if other.section in elsewhere and not other.path  # with a path, it is a tool that speaks
    )


def _line(entry: Entry) -> str:
    if entry.section == "Said":
        return f'"{entry.value}"'  # what somebody said to someone is a quotation in a record
    return f"{entry.path}: {entry.value}" if entry.path else entry.value


def _fact_lines(own: Sequence[Entry]) -> Iterator[str]:
    """One line for each message; what stands in no list comes first, so that nothing is read as a row of one."""
    for _, group in groupby(own, key=lambda entry: entry.at):
        yield _fact_line(sorted(group, key=lambda entry: entry.path != ""))


def _fact_line(own: Sequence[Entry]) -> str:
    line, path, row, lead, named_at = "", "", "", "", 0
    for entry in own:
        far = len(line) - named_at > _FAR and not entry.value.startswith('"')
        new_path, new_row = entry.path != path or not line, entry.row != row
        if line:
            line += "; " if new_path or new_row else ", "
        if entry.path and (new_path or far):
            named_at = len(line)
            line += f"{entry.path}: "
        if entry.key and (new_path or far or not new_row or entry.key != lead):
            named_at = len(line)
            line += f"{entry.key} "
        lead = entry.key if new_path or new_row else lead
        line += entry.value
        path, row = entry.path, entry.row
    return line
