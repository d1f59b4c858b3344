"""Rows of lists in a digest: each value is shown with the label of its row, and the text has one meaning only."""

import json
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AnyMessage, HumanMessage

from langgraph_compaction.nodes.conversation.tokens import approximate_counter
from langgraph_compaction.nodes.digest.digest import digest
from langgraph_compaction.nodes.digest.entry import Entry
from langgraph_compaction.nodes.digest.facts import facts
from langgraph_compaction.nodes.digest.render import render_entries
from langgraph_compaction.nodes.text.identifiers import label_place
from tests.histories import asks, result

KEYS = ("id", "name", "price", "dob")
VALUES = ("HAT136", "7", '"Mia Li"', '"a, b; c d"', "2024-05-20")
ROWS = st.lists(
    st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES)), min_size=1, max_size=4), max_size=6
)
LISTS = st.lists(
    st.tuples(st.sampled_from(("flights", "user.passengers")), ROWS), max_size=4, unique_by=lambda one: one[0]
)
PLAIN = st.tuples(st.sampled_from(("reservations", "codes")), st.lists(st.sampled_from(VALUES), max_size=4))
CELL = re.compile(r'(?:(?P<key>[a-z_]+) )?(?P<value>"[^"]*"|[^\s",;]+)')
PASSENGERS = [{"first_name": "Ada", "dob": "1990-01-02"}, {"first_name": "Eli", "dob": "1991-03-04"}]


def read(line: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Read a line of facts: the path, keys and values of each row."""
    found, path, keys = list[tuple[str, list[tuple[str, str]]]](), "", list[str]()
    while line:
        if head := re.match(r"([a-z.]+): ", line):
            path, keys, line = head[1], [], line[head.end() :]
        row = list[tuple[str | None, str]]()
        while cell := CELL.match(line):
            row.append((cell["key"], cell["value"]))
            line = line[cell.end() :]
            if not line.startswith(", "):
                break
            line = line.removeprefix(", ")
        assert row, line
        line = line.removeprefix("; ")
        named = [key or (keys[at] if at < len(keys) else "") for at, (key, _) in enumerate(row)]
        keys = named
        found.append((path, list(zip(named, [value for _, value in row], strict=True))))
    return found


@given(LISTS, st.lists(PLAIN, max_size=2, unique_by=lambda one: one[0]))
def test_a_line_can_be_read_in_one_way(
    lists: list[tuple[str, list[list[tuple[str, str]]]]], plain: list[tuple[str, list[str]]]
) -> None:
    """Whatever keys the rows have: each value is read with its own key, beside the values of its own row."""
    every = [*lists, *((path, [[("", value)] for value in values]) for path, values in plain)]
    entries = [
        Entry("Facts", 0, 1.0, value, path=path, row=str(number), key=key)
        for path, rows in every
        for number, row in enumerate(rows)
        for key, value in row
    ]
    shown = render_entries(entries).removeprefix("Facts:\n- ")
    wanted = [(path, _label_first(row)) for path, rows in every for row in rows]
    assert read(shown) == wanted


def _label_first(row: list[tuple[str, str]]) -> list[tuple[str, str]]:
    place = label_place([key for key, _ in row])
    return row if place is None else [row[place], *row[:place], *row[place + 1 :]]


def test_a_value_is_shown_only_with_the_label_of_its_row() -> None:
    """However few tokens there are, and although the dates of birth are worth more than the first names."""
    old: list[AnyMessage] = [
        HumanMessage("Ada was born on 1990-01-02, Eli on 1991-03-04."),
        asks("a", reservation_id="ZX81QP"),
        result("a", json.dumps({"reservation_id": "ZX81QP", "passengers": PASSENGERS})),
    ]
    texts = [digest(old, budget=budget, counter=approximate_counter()).text for budget in range(8, 90)]
    lines = [line for text in texts for line in text.splitlines() if "passengers: " in line]
    rows = [row for line in lines for path, row in read(line.removeprefix("- ")) if path == "passengers"]
    assert all(row[0][0] == "first_name" for row in rows)
    assert any(key == "dob" for row in rows for key, _ in row)


@pytest.mark.parametrize(
    ("given", "found", "line"),
    [
        ({"sku": "A-1"}, {"sku": "A-1", "price": 5}, "items: sku A-1, price 5"),
        ({"sku": "A-1"}, {"sku": "B-2", "price": 5}, "items: sku A-1; B-2, price 5"),
        ({"sku": "A-1"}, {"price": 5}, "items: sku A-1; price 5"),
        ({"count": 2}, {"price": 5}, "items: count 2; price 5"),
    ],
)
def test_a_row_of_arguments_joins_a_row_of_the_result_only_with_the_same_label(
    given: dict[str, object], found: dict[str, object], line: str
) -> None:
    """Both lists have the same path, and their rows the same place; that alone does not make them one thing."""
    old: list[AnyMessage] = [asks("a", items=[given]), result("a", json.dumps({"items": [found]}))]
    assert render_entries(facts(old, 0)) == f"Facts:\n- {line}"


def test_rows_of_arguments_and_result_follow_each_other_by_path() -> None:
    """A row that both have is shown once, with the values of both."""
    rows = [{"sku": sku, "count": count} for sku, count in (("A-1", 2), ("B-2", 3))]
    prices = [{"sku": sku, "price": price} for sku, price in (("A-1", 50), ("B-2", 60))]
    old: list[AnyMessage] = [asks("a", items=rows), result("a", json.dumps({"items": prices}))]
    assert render_entries(facts(old, 0)) == "Facts:\n- items: sku A-1, count 2, price 50; B-2, 3, 60"


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        (("price", "name", "id"), 2),
        (("price", "", "name"), 1),
        (("price", "first_name"), 1),
        (("price", "dob"), None),
    ],
)
def test_an_id_labels_a_row_before_its_own_key_and_a_name(keys: tuple[str, ...], place: int | None) -> None:
    """A row without any of them has no label."""
    assert label_place(keys) == place


def test_every_order_of_keys_gives_the_label_first() -> None:
    """The label is the first value of its row, so that the rows that follow need not name it."""
    for keys in product(KEYS, repeat=2):
        entries = [Entry("Facts", 0, 1.0, f"v{at}", path="p", row="0", key=key) for at, key in enumerate(keys)]
        place = label_place(keys)
        assert place is None or render_entries(entries).startswith(f"Facts:\n- p: {keys[place]} v{place}")
