"""The page that a digest shows: its entries under headings, facts of one message on one line."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from .entries import SECTIONS, Entry

_FAR = 60
"""Characters after which a key is written again, so that each value stands beside its name (METRICS)."""


def page(entries: Iterable[Entry]) -> str:
    """The entries as text; those of a section in the order given."""
    parts: list[str] = []
    chosen = list(entries)
    for section in SECTIONS:
        own = [entry for entry in chosen if entry.section == section]
        lines = list(_fact_lines(own)) if section == "Facts" else [_line(entry) for entry in own]
        if section == "Goal" and lines:
            parts.append(f"{section}: {' '.join(lines)}")
        elif lines:
            parts.append("\n".join([f"{section}:", *(f"- {line}" for line in lines)]))
    return "\n".join(parts)


def _line(entry: Entry) -> str:
    return f"{entry.path}: {entry.value}" if entry.path else entry.value


def _fact_lines(own: Sequence[Entry]) -> Iterator[str]:
    """One line for each message; what stands in no list comes first, so that nothing is read as a row of one."""
    for _, group in groupby(own, key=lambda entry: entry.at):
        yield _fact_line(sorted(group, key=lambda entry: entry.path != ""))


def _fact_line(own: Sequence[Entry]) -> str:
    line, path, row, lead, named_at = "", "", "", "", 0
    for entry in own:
        far = len(line) - named_at > _FAR
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
