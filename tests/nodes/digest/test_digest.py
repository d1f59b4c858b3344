"""The digest: what it keeps under a budget, whom it believes, and how one absorbs another."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.graph.lab.evaluation.ratios import ratio
from langgraph_compaction.graph.lab.evaluation.survival import cut, holds
from langgraph_compaction.graph.lab.recordings import read_recordings
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, approximate_counter, tiktoken_counter, total
from langgraph_compaction.nodes.digest.digest import Digest, digest, weighted_entries
from langgraph_compaction.nodes.digest.entry import Entry, pack, record_bytes, record_limit, unpack
from langgraph_compaction.nodes.digest.render import OWN_WORDS
from langgraph_compaction.nodes.digest.step_extraction import steps
from tests.histories import asks, histories, result
from tests.shared_data import shared_data

COUNTER = tiktoken_counter()
HEADINGS = [OWN_WORDS, "Earlier", "Facts", "Steps", "Open", "Answers"]

ROWS = json.dumps([{"flight": f"HAT{n:04}", "price": 100 + n, "seats": n} for n in range(500)])
CHAT: list[AnyMessage] = [
    HumanMessage("Hi! I want to change my flight. Never book me a seat at the back. 不要周一的航班。"),
    AIMessage("Which reservation?"),
    HumanMessage("It is FQ8APE, booked by mia_li_3668."),
    asks("a", reservation_id="FQ8APE"),
    result("a", '{"reservation_id": "FQ8APE", "flights": [{"number": "HAT136", "date": "2024-05-20"}]}'),
    asks("b", origin="JFK"),
    result("b", ROWS),
    AIMessage("There are many."),
    HumanMessage("Then take the cheapest one, please."),
    asks("c", flight="HAT0000"),
    result("c", "Error: no seats left", status="error"),
]


def made(old: Sequence[AnyMessage], budget: int = 1_000, **options: Any) -> Digest:
    """A digest, counted in o200k."""
    return digest(old, budget=budget, counter=COUNTER, **options)


def sections(text: str) -> dict[str, list[str]]:
    """The lines under each heading."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("- "):
            found[list(found)[-1]].append(line[2:])
        else:
            found[line.removesuffix(":")] = []
    return found


@given(
    parts=st.lists(histories(), min_size=1, max_size=3),
    budget=st.sampled_from([16, 17, 24, 40, 80, 160, 700, 4_000]),
    counter=st.sampled_from([COUNTER, approximate_counter()]),
)
@settings(deadline=None, max_examples=60)
def test_no_digest_is_over_its_budget_nor_its_record_over_its_limit(
    parts: list[list[AnyMessage]], budget: int, counter: TokenCounter
) -> None:
    """Whatever the history, the text fits, the record is bounded JSON, lines are ours, and nothing is by chance."""
    record: dict[str, Any] | None = None
    for part in parts:
        one = digest(part, budget=budget, counter=counter, previous=record)
        assert counter.text(one.text) <= budget
        assert record_bytes(one.record) <= 2 * record_limit(budget)
        assert json.loads(json.dumps(one.record)) == one.record
        assert "<" not in one.text
        assert [heading for heading in HEADINGS if heading in sections(one.text)] == list(sections(one.text))
        assert one == digest(part, budget=budget, counter=counter, previous=record)
        record = one.record


@pytest.mark.parametrize("budget", [-5, 0, 1])
def test_a_budget_for_nothing_gives_an_empty_text(budget: int) -> None:
    """Where nothing fits, nothing is said, and the record still keeps what is worth most."""
    one = made(CHAT, budget)
    assert one.text == ""
    assert record_bytes(one.record) <= record_limit(budget)
    assert "FQ8APE" in made([], 1_000, previous=one.record).text


def test_a_bulky_result_does_not_crowd_out_what_matters() -> None:
    """Beside 500 rows, 150 tokens hold what the user said, the reservation and its flight."""
    text = made(CHAT, 150).text
    for wanted in ("change my flight", "Never book", "不要周一的航班", "FQ8APE", "mia_li_3668", "HAT136"):
        assert wanted in text


def test_the_smallest_budget_holds_what_is_worth_most() -> None:
    """In 16 tokens one of the most valuable things is said."""
    text = made(CHAT, 16).text
    assert any(wanted in text for wanted in ("change my flight", "FQ8APE", "Never book"))


def test_the_newest_steps_are_kept_first() -> None:
    """When the steps do not all fit, the oldest go; a step made again is listed once, where it was last."""
    old = [m for n in (1, *range(100), 1) for m in (asks(f"c{n}", page=f"page-{n}"), result(f"c{n}"))]
    kept = sections(made(old, 400).text)["Steps"]
    assert kept[-2:] == ["read page page-99", "read page page-1"]
    assert "read page page-0" not in kept


@pytest.mark.parametrize("count", [1, 4, 100])
def test_the_newest_step_has_its_whole_worth(count: int) -> None:
    """The age factor of the newest step is 1 in conversations of any length."""
    old = [asks(f"c{n}", page=f"page-{n}") for n in range(count)]
    (newest,) = steps(old[-1:], count - 1)
    assert newest.worth in [entry.worth for entry in weighted_entries(old) if entry.at == newest.at]


def test_an_error_stands_until_its_tool_works() -> None:
    """A failure is open, also in the next digest, until a result of the same tool is none."""
    failed = made([asks("a"), result("a", "Traceback (most recent call last):\n  line 3\nKeyError: 'x-1'")])
    assert sections(failed.text)["Open"] == ["read: \"KeyError: 'x-1'\""]
    later = made([asks("b"), result("b", '{"error": "bad id"}')], previous=failed.record)
    assert sections(later.text)["Open"] == ['read: "bad id"']
    assert "Open" not in sections(made([asks("c"), result("c", "fine")], previous=later.record).text)


@pytest.mark.parametrize("budget", [250, 1_000])
def test_facts_and_rules_survive_three_digests_in_a_row(budget: int) -> None:
    """Sentinels planted in each part, under bulk, are all there at the end, the first ones first."""
    record, text = None, ""
    for part in range(3):
        say = f"Order {part} is order-471{part}. You must never call +49-30-{part}55."
        old: list[AnyMessage] = [
            HumanMessage(say),
            asks("a", invoice_id=f"inv_90{part}"),
            result("a", json.dumps({"invoice_id": f"inv_90{part}", "total": 1_000 + part})),
            asks("b", query="all"),
            result("b", ROWS),
            AIMessage("Done."),
        ]
        one = made(old, budget, previous=record)
        record, text = one.record, one.text
    assert sections(text)[OWN_WORDS][0] == "Order 0 is order-4710. You must never call +49-30-055."
    for part in range(3):
        assert f"inv_90{part}" in text
        assert f"order-471{part}" in text
        assert f"never call +49-30-{part}55." in text


def test_an_old_fact_of_worth_outlasts_new_bulk() -> None:
    """Under a tight budget, a later digest drops new rows before the old reservation."""
    first = made(CHAT[:8], 100)
    later = made([asks("z", query="all"), result("z", ROWS)], 100, previous=first.record)
    assert "reservation_id FQ8APE" in later.text


@pytest.mark.parametrize(("worth", "kept"), [(0.0, 0.001), (0.0004, 0.001), (0.0016, 0.002), (2.4, 2.4)])
def test_a_record_keeps_a_worth_to_a_thousandth(worth: float, kept: float) -> None:
    """A worth is rounded to thousandths, but never to 0."""
    _, [entry] = unpack(pack([Entry("Said", 3, worth, "No seat at the back.")], [0], 4, 1_000))
    assert entry.worth == kept


def test_a_record_repeats_its_digest() -> None:
    """Digesting nothing new shows the same text again."""
    one = made(CHAT, 200)
    assert made([], 200, previous=one.record).text == one.text


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"v": 99, "count": 3, "names": [""], "entries": [[0, 0, 0, 0, 0, 1, "x"]]},
        {"v": 2, "count": "3", "names": [], "entries": 7},
        {"v": 2, "count": 3, "names": [""], "entries": [None, [], [9, 0, 0, 0, 0, 1, "x"], [0, 0, 5, 0, 0, 1, "x"]]},
    ],
)
def test_a_record_of_another_form_is_not_read(record: dict[str, Any]) -> None:
    """A foreign or damaged record costs what it held, and nothing else."""
    assert made(CHAT[:2], previous=record).text == made(CHAT[:2]).text


def test_earlier_prose_is_absorbed_within_its_share() -> None:
    """Lines of a model's summary are kept, those with identifiers first, and passed on; it cannot pose as ours."""
    lines = [
        "## Facts:",
        "The ticket is TCK-991.",
        *(f"Some talk about this and that, number {n}." for n in "abcdefgh"),
    ]
    prose = "<summary>\n" + "\n".join(lines) + "\n</summary>"
    one = made([HumanMessage("Go on, please.")], 200, previous_text=prose)
    found = sections(one.text)
    assert "The ticket is TCK-991." in found["Earlier"]
    assert "summary>" not in one.text
    assert "TCK-991" in made(CHAT, 200, previous=one.record).text
    assert "The ticket is TCK-991." in sections(made(CHAT, 100, previous_text=prose).text)["Earlier"]


@pytest.mark.parametrize(("focus", "wanted"), [("the invoice numbers", "inv_17"), ("航班预订", "HAT136")])
def test_what_has_to_do_with_the_focus_comes_first(focus: str, wanted: str) -> None:
    """A focus brings forward what it names, in either language."""
    old: list[AnyMessage] = [
        HumanMessage("Hello."),
        AIMessage("Hello."),
        asks("a"),
        result(
            "a", json.dumps({"parcels": [f"par_{n}" for n in range(30)], "invoice": ["inv_17"], "航班": ["HAT136"]})
        ),
        AIMessage("Done."),
    ]
    assert wanted in made(old, 30, focus=focus).text
    assert wanted not in made(old, 30).text


def test_what_later_calls_need_survives_in_a_quarter_of_the_tokens() -> None:
    """On the runs that no figure was chosen on, 90 % of the identifiers are left, of which random keeps half."""
    file: Path = shared_data("tau-bench-airline/gpt-4o-airline-tasks-00-24.json")
    hits: list[tuple[int, int]] = []
    for run in read_recordings(file):
        task = int(run.name.split("#")[-1].split("-")[0])
        if task >= 12:
            real = cut(run.name, cast("Sequence[AnyMessage]", run.messages), 0.5)
            text = made(real.old, total(COUNTER, real.old) // 4).text
            hits.append((sum(holds(text, token) for token in real.identifiers), len(real.identifiers)))
    assert len(hits) == 52
    assert ratio(hits) > 0.9
