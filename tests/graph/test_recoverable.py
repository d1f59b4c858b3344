"""What one recall brings back of what a context has lost: by which words, by which handles, and never by peeking."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.checkpoint.compaction.recall_search import SearchHit
from langgraph_compaction.checkpoint.messages.message_codec import (
    handle,
)
from langgraph_compaction.graph.lab.evaluation.policies import BASELINES, compacted, count
from langgraph_compaction.graph.lab.evaluation.recall_questions import MAX_WORDS, needs, queries
from langgraph_compaction.graph.lab.evaluation.recoverable import Archive
from langgraph_compaction.graph.lab.evaluation.scores import measured, task
from langgraph_compaction.graph.lab.evaluation.survival import Cut, cut, text_of
from langgraph_compaction.graph.recall_tool import Wanted, look_up
from langgraph_compaction.nodes import CompactionSettings
from tests.histories import asks, meta, result

NOISE = [
    message
    for number in range(12)
    for message in (
        asks(f"n{number}", page=f"PG-{number}"),
        result(f"n{number}", f'{{"page": "PG-{number}", "text": "{"the sea was calm " * 60}"}}'),
    )
]
OLD: list[AnyMessage] = [
    HumanMessage("Where is my order FQ8APE? It was a present for Ana."),
    asks("a", order="FQ8APE"),
    result("a", '{"order": "FQ8APE", "carrier": "north", "parcel": "PX-1138", "weight": "heavy"}'),
    *NOISE,
    HumanMessage("I paid with the voucher VC-77 that you gave me."),
    AIMessage("Thank you. It is on its way."),
]
LATER: list[AnyMessage] = [
    HumanMessage("Then please send the present of order FQ8APE back."),
    asks("b", parcel_number="PX-1138", order="FQ8APE"),
    result("b", "done"),
    asks("c", note="refund by voucher VC-77 as before"),
    result("c", "done"),
]
VIEW = [HumanMessage("The user asked for an order.")]


def run_of(old: Sequence[AnyMessage], later: Sequence[AnyMessage]) -> Cut:
    """Return a run that was cut between these."""
    return cut("talk", [*old, *later], (len(old) + 0.5) / (len(old) + len(later)))


RUN = run_of(OLD, LATER)


@pytest.fixture
def archive() -> Any:
    """Return an archive of no run yet."""
    with Database.open() as database:
        database.setup()
        yield Archive(database)


def calls(archive: Archive, run: Cut, context: Sequence[BaseMessage]) -> dict[str, int | None]:
    """Return how many recalls each identifier takes that is needed later."""
    return {one.token: archive.calls(run, one) for one in archive.lost(run, context, sorted(run.identifiers))}


def asked(run: Cut, token: str, context: Sequence[AnyMessage]) -> list[str]:
    """Return the queries for an identifier."""
    return queries(needs(run)[token], context)


def test_the_words_of_the_call_bring_an_identifier_back(archive: Archive) -> None:
    """The argument's key and the other value that the user said again; a note by its own words."""
    assert RUN.identifiers == {"PX-1138", "VC-77"}
    assert asked(RUN, "PX-1138", VIEW)[0] == "parcel number FQ8APE"
    assert "refund voucher before" in asked(RUN, "VC-77", VIEW)
    assert calls(archive, RUN, VIEW) == {"PX-1138": 1, "VC-77": 2}


def test_what_no_question_leads_to_is_not_recoverable(archive: Archive) -> None:
    """The archive has it, among much that has nothing to do with what the agent knows."""
    later = [HumanMessage("Go on."), asks("b", zone="XK-5521"), result("b", "done")]
    old = [*NOISE, result("z", "tide XK-5521"), *NOISE]
    hidden = run_of(old, later)
    assert calls(archive, hidden, [HumanMessage("Good.")]) == {"XK-5521": None}
    said = run_of(old, [HumanMessage("It is about the same tide."), *later[1:]])
    assert calls(archive, said, []) == {"XK-5521": 2}


def test_a_query_is_short_and_never_holds_what_it_looks_for() -> None:
    """Nor a part of it, nor anything that holds it."""
    context = [HumanMessage("PX-11380 and PX and order FQ8APE of Ana, parcels of parcels, a present by the north.")]
    for token in RUN.identifiers:
        said = asked(RUN, token, context)
        assert said
        for query in said:
            words = query.split()
            assert 0 < len(words) <= MAX_WORDS
            assert not any(token in word or word in token for word in words)


def test_the_asker_knows_nothing_of_the_original() -> None:
    """Whatever stood before the cut, the same view asks the same."""
    other = [HumanMessage("PX-1138 VC-77, the crane is green."), *OLD[1:2], result("a", "crane PX-1138 green VC-77")]
    changed = run_of(other, LATER)
    assert changed.identifiers == RUN.identifiers
    for token in RUN.identifiers:
        assert asked(changed, token, VIEW) == asked(RUN, token, VIEW)


def test_names_that_stand_beside_the_calls_other_values_are_asked_for() -> None:
    """Those of the last place in view; fields, numbers, ordinals and times are no names."""
    context = [
        HumanMessage("FQ8APE is old. Later: hall H-4, order FQ8APE, dock_number D-9, 12:30, 4711, 24th, self-made")
    ]
    assert asked(run_of(OLD, LATER[1:]), "PX-1138", context)[1] == "H-4 D-9"


def test_the_last_query_is_the_nearest_value_and_the_words_before_it() -> None:
    """The value is in it even if the words alone would not lead to the row."""
    context = [HumanMessage("The quay keeper wrote about order FQ8APE.")]
    *_, last = asked(run_of(OLD, LATER[1:]), "PX-1138", context)
    assert last == "FQ8APE order about wrote"


@pytest.mark.parametrize(
    ("token", "args", "expected"),
    [
        (
            "PX-1138",
            {
                "hall": "H-44",
                "old_parcel_number": "PX-1138",
                "order": "FQ8APE",
                "gate": "G-12",
                "note": "the heavy one",
            },
            [
                "parcel number H-44 FQ8APE",
                "D-91 K-7x K-8x L-5y",
                "Then send back",
                "G-12 L-5y H-44 K-8x",
                "H-44 hall before stand",
            ],
        ),
        (
            "VC-77",
            {"note": "refund the fee by voucher VC-77 as they said"},
            ["note", "refund fee voucher they", "G-12 L-5y H-44 K-8x"],
        ),
    ],
    ids=["other values, and a value alone", "one text"],
)
def test_a_view_is_asked_in_the_order_of_the_kinds(token: str, args: dict[str, str], expected: list[str]) -> None:
    """The five kinds of queries have a fixed order.

    The queries use the key and other values of the call, names near these values, words of the argument or of the
    user, the newest names, and words before a value. A kind of query without words is omitted.
    """
    context = [
        HumanMessage("The quay keeper wrote about order FQ8APE near dock D-91."),
        HumanMessage("Crane K-7x and crane K-8x stand before hall H-44, lamps L-5y behind gate G-12."),
    ]
    said: list[AnyMessage] = [
        HumanMessage("Then please send it back."),
        meta("A gale was forecast."),
        AIMessage("Someone will see."),
    ]
    run = run_of(OLD, [*said, asks("b", **args)])
    assert asked(run, token, context) == expected


def test_a_word_that_is_in_reach_by_half_is_left_out() -> None:
    """The queries use names and words within 80 characters on either side of a value.

    A name or a word that extends beyond this range is omitted.
    """
    before, after = (
        "QXZ7 D-91 the cranes of the quay ".ljust(73, ".") + " order ",
        " on dock E-92 ".ljust(76, ".") + "LMN8",
    )
    assert (len(before), len(after)) == (80, 80)
    context = [HumanMessage(f"Beyond AB-{before}FQ8APE{after}-PQ")]
    run = run_of(OLD, [asks("b", parcel_number="PX-1138", order="FQ8APE")])
    assert asked(run, "PX-1138", context) == [
        "parcel number FQ8APE",
        "D-91 E-92",
        "Beyond QXZ cranes quay",
        "LMN8-PQ E-92 FQ8APE D-91",
        "FQ8APE order quay cranes",
    ]


def test_who_has_no_words_asks_nothing() -> None:
    """No query is made if the view contains no names, identifiers or user messages.

    The call in this test contains only the missing value.
    """
    run = run_of(OLD, [asks("b", **{"7": "PX-1138"})])
    assert asked(run, "PX-1138", [AIMessage("Good.")]) == []


def test_a_handle_beside_related_text_is_tried_first(archive: Archive) -> None:
    """One within 200 characters of two words that the identifier stood beside; no other."""
    name = handle(RUN.old[2])
    shown = [ToolMessage(f"carrier north, the parcel\n[recall: {name}]", tool_call_id="a")]
    assert calls(archive, RUN, shown)["PX-1138"] == 1
    lost = archive.lost(RUN, shown, ["PX-1138"])[0]
    assert lost.asked[0].handle == name
    for text in (f"calm seas\n[recall: {name}]", f"carrier north, the parcel{' .' * 150}\n[recall: {name}]"):
        one = archive.lost(RUN, [ToolMessage(text, tool_call_id="a")], ["PX-1138"])[0]
        assert not any(wanted.handle for wanted in one.asked)


def test_the_handle_of_all_of_it_scores_nothing(archive: Archive) -> None:
    """A compaction took everything: its handle is not tried."""
    shown = [HumanMessage("carrier north, the parcel, heavy\n[recall: 000000000000]")]
    lost = archive.lost(RUN, shown, ["PX-1138"])[0]
    assert not any(wanted.handle for wanted in lost.asked)


def test_a_headline_is_no_answer(archive: Archive) -> None:
    """A time of the archive's own is not what the tool once said."""
    said = [HumanMessage(text) for text in ("the ferry leaves", "one", "two", "at 00:00")]
    run = cut("talk", [*said, asks("b", ferry="00:00")], 0.9)
    (lost,) = archive.lost(run, [], ["00:00"])
    assert archive.calls(run, lost._replace(asked=(Wanted(query="ferry leaves"),))) is None
    assert archive.calls(run, lost._replace(asked=(Wanted(query="at"),))) == 1


def test_a_run_is_archived_once_and_a_question_answered_once(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many contexts are judged."""
    looked: list[Wanted] = []

    def counted(records: CompactionRecords, thread: str, wanted: Wanted) -> list[SearchHit]:
        looked.append(wanted)
        return look_up(records, thread, wanted)

    monkeypatch.setattr("langgraph_compaction.graph.lab.evaluation.recoverable.look_up", counted)
    first = calls(archive, RUN, VIEW)
    count = len(looked)
    assert count
    assert calls(archive, RUN, VIEW) == first
    assert len(looked) == count
    assert len(archive.records.threads()) == 1


def rows(policies: Any, runs: Sequence[Cut], budget: float) -> dict[str, dict[str, Any]]:
    """Return the figures of policies by their names."""
    tasks = [task(run, seed) for seed, run in enumerate(runs)]
    return {row["policy"]: row for row in measured(tasks, policies, [budget])}


def test_the_figures_are_of_what_was_lost() -> None:
    """With an interval and the recalls that it took; none for what keeps no archive, or loses nothing."""
    ours = {"it": (compacted(CompactionSettings()),)}
    found = rows({**ours, **BASELINES}, [RUN], 0.02)
    assert found["it"]["lost"] > 0
    assert found["it"]["recoverable"] == 1.0
    assert found["it"]["ci95"]["recoverable"] == [1.0, 1.0]
    assert 1 <= found["it"]["recall_calls"] <= 2
    assert found["it"]["recoverable_by_chance"] is None  # there is no other run
    every = rows(ours, [RUN], 1.0)["it"]
    for row in (found["trim_messages"], found["random exchanges"], every):
        assert (row["recoverable"], row["recall_calls"], row["lost"]) == (None, None, 0)
        assert "recoverable" not in row["ci95"]


def test_chance_is_what_the_questions_of_another_run_bring_back() -> None:
    """In a long conversation about another subject, the share is near zero. The recalls are a mean of all runs."""
    later = [HumanMessage("Then change the seat."), asks("s", seat_code="ST-12C"), result("s", "done")]
    old = [HumanMessage("Hello, a seat please."), result("q", "seat code ST-12C, window"), *NOISE]
    seats = run_of(old, later)
    assert seats.identifiers == {"ST-12C"}
    nothing = {"it": (compacted(CompactionSettings()),)}
    row = rows(nothing, [RUN, seats], 0.01)["it"]
    assert row["recoverable"] == 1.0
    assert row["recoverable_by_chance"] is not None
    assert row["recoverable_by_chance"] < row["recoverable"]
    assert row["recall_calls"] == 1.33  # for PX-1138 and ST-12C one each, for VC-77 two


def test_a_handle_in_a_context_is_one_of_the_archive(archive: Archive) -> None:
    """The messages of a cut have ids that stay, so that a clipped result names its original."""
    again = run_of(OLD, LATER)
    assert [handle(message) for message in again.old] == [handle(message) for message in RUN.old]
    assert all(message.id is None for message in OLD)
    settings = CompactionSettings(recall=True, tool_result_threshold=40, preview_tokens=20)
    context = compacted(settings)(RUN.old, count(RUN.old) * 4 // 5)
    shown = re.findall(r"\[recall: (\w+)\]", text_of(context))
    assert shown
    assert {handle(message) for message in RUN.old}.issuperset(shown)
    calls(archive, RUN, context)
    (thread,) = archive.records.threads()
    assert all(archive.records.recall(thread, name) for name in shown)
