"""Find the label of each row of a list: the id or the name that the row's values belong to."""

from collections import defaultdict
from collections.abc import Sequence

from ..text.identifiers import is_id_key, is_name_key
from .entry import Entry


def labels(entries: Sequence[Entry]) -> dict[int, int]:
    """Return, for the index of each fact in a row that has a label, the index of the label.

    The label is the key under which an object lists the row, else the row's first id, else its first name; the label
    of a label is itself. If the arguments of a call and its result have rows at the same place, a value belongs to
    the label before it.
    """
    rows: defaultdict[tuple[int, str, str], list[int]] = defaultdict(list)
    for index, entry in enumerate(entries):
        if entry.section == "Facts" and entry.row:
            rows[entry.at, entry.path, entry.row].append(index)
    found = dict[int, int]()
    for row in rows.values():
        label_key, label = _label_key([entries[index] for index in row]), -1
        named = [index for index in row if entries[index].key == label_key]
        for index in row if named else ():
            label = index if entries[index].key == label_key else label
            found[index] = named[0] if label < 0 else label
    return found


def _label_key(row: Sequence[Entry]) -> str | None:
    """Return the key of a row's label; `None` if the row has none."""
    values = dict[str, str]()
    for entry in row:
        if "." not in entry.key and not entry.is_quotation:
            values.setdefault(entry.key, entry.value)
    named = [key for is_label in (is_id_key, is_name_key) for key in values if is_label(key)]
    if "" in values:  # if an id repeats the key under which an object lists the row, that key need not be shown too
        return next((key for key in named if values[key] == values[""]), "")
    return next(iter(named), None)
