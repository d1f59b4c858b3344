from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint import CompactionRecords, Database, DatabaseError, Keyring, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction import recall_search, search_index
from langgraph_compaction.checkpoint.compaction.attempt import Outcome
from langgraph_compaction.checkpoint.compaction.search_index import INDEXES, SearchIndexes
from langgraph_compaction.checkpoint.messages.message_codec import handle
from langgraph_compaction.checkpoint.messages.message_store import MessageStore, Thread
from tests.checkpoint.samples import key_of, opening

SAID: list[AnyMessage] = [
    HumanMessage("Please cancel reservation ZK-4471 for Ms. Ødegård", id="m0"),
    AIMessage("", id="m1", tool_calls=[{"name": "get_user", "args": {"user_id": "mia_li_3668"}, "id": "c1"}]),
    ToolMessage('{"card": "credit_card_4421486", "city": "Oslo"}', id="m2", tool_call_id="c1", name="get_user"),
    AIMessage("The refund goes to the card that ends in 4486.", id="m3"),
    HumanMessage("请把订单改到明天下午送达，不要打电话。", id="m4"),
    AIMessage("Edited src/app/main.py and ran the tests; 3 failed in testUserLogin.", id="m5"),
    HumanMessage("ok ok ok the the the", id="m6"),
]


def archive(records: CompactionRecords, thread_id: str, messages: list[AnyMessage] = SAID, now: float = 5.0) -> str:
    """Have a compaction archive messages; returns its id."""
    key = key_of(thread_id, messages)
    records.begin(key, messages, now=now, **opening())
    records.commit(key, Outcome(verdict="committed", now=now), archived=messages)
    return key.compaction_id


def found(records: CompactionRecords, thread_id: str, query: str, **options: Any) -> list[str | None]:
    """Return the ids of what a query finds, best first."""
    return [one.message.id for one in records.search(thread_id, query, **options)]


def first(records: CompactionRecords, thread_id: str, query: str, **options: Any) -> str | None:
    """Return the id of the best message for a query."""
    return next(iter(found(records, thread_id, query, **options)), None)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("ZK-4471", "m0"),
        ("zk 4471", "m0"),
        ("cancel reservation", "m0"),
        ("ØDEGÅRD", "m0"),
        ("mia_li_3668", "m1"),
        ("3668 user", "m1"),
        ("credit_card_4421486", "m2"),
        ("oslo", "m2"),
        ("refund card", "m3"),
        ("订单 明天", "m4"),
        ("打电话", "m4"),
        ("main.py", "m5"),
        ("user login failed", "m5"),
        ("the ok", "m6"),
    ],
)
def test_the_right_message_is_found_first(records: CompactionRecords, thread_id: str, query: str, first: str) -> None:
    """In English and Chinese, by words, identifiers and their parts, on every database."""
    archive(records, thread_id)
    assert found(records, thread_id, query)[0] == first


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "'; DROP TABLE",
        "a* OR",
        "NEAR(",
        "+-~<>()",
        "((",
        "\\",
        "%",
        "a & | !b:*",
        "--",
        "",
        "   ",
        "{x}",
        "col:",
        "-",
    ],
)
def test_no_query_is_an_error(records: CompactionRecords, thread_id: str, query: str) -> None:
    """What a query language would take for syntax is nothing but text here."""
    archive(records, thread_id)
    assert isinstance(found(records, thread_id, query), list)
    assert first(records, thread_id, "oslo") == "m2"


@pytest.mark.parametrize(
    ("handle", "is_one"),
    [
        ("0a" * 6, True),
        ("0A" * 6, True),
        ("0a" * 16, True),
        ("0123456789abcdefABCDEF", True),
        ("0a" * 5, False),
        ("0a" * 17, False),
        ("0a" * 6 + "0", False),
        ("0a" * 5 + "0g", False),
        ("0a 0a 0a 0a 0a ", False),
        ("", False),
    ],
)
def test_a_handle_is_12_to_32_hexadecimal_digits(handle: str, *, is_one: bool) -> None:
    """Any other text that a model passes to the tool is no handle, and no error."""
    assert recall_search.hash_prefix(handle) == (bytes.fromhex(handle) if is_one else None)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=40))
@example("я")
def test_any_text_may_be_asked_for(memory: CompactionRecords, query: str) -> None:
    """Also what no encoding holds."""
    assert isinstance(memory.search("t", query), list)


@pytest.fixture
def memory() -> CompactionRecords:
    """Return records in memory with an archive."""
    records = CompactionRecords(Database.open("memory"))
    records.database.setup()
    archive(records, "t")
    return records


def test_every_database_finds_and_ranks_alike(records: CompactionRecords, thread_id: str, memory: Any) -> None:
    """The index is in memory, whatever holds the archive."""
    archive(records, thread_id)
    for query in ("the card", "user", "ok the 订单", "4471 3668 main", "nothing of this"):
        assert found(records, thread_id, query, limit=9) == found(memory, "t", query, limit=9)


def test_what_is_archived_later_is_found_too(records: CompactionRecords, thread_id: str) -> None:
    """A search reads the archive as it stands."""
    archive(records, thread_id, SAID[:2])
    assert found(records, thread_id, "oslo") == []
    later = archive(records, thread_id, SAID[2:], now=9.0)
    one = records.search(thread_id, "oslo")[0]
    assert one.message == SAID[2]
    assert one.handle == handle(SAID[2])
    assert (one.compaction_id, one.archived_at) == (later, 9.0)
    assert records.recall(thread_id, one.handle) == SAID[2]


def test_of_two_messages_with_one_handle_the_first_archived_one_is_returned(
    records: CompactionRecords, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hashes can begin alike. The database gives the newest message first, which may not be archived."""
    archive(records, thread_id)
    real = MessageStore.find_by_hash

    def alike(store: MessageStore, conn: sa.Connection, thread: Thread, _: bytes) -> list[int]:
        newest, older = (bytes.fromhex(handle(SAID[number])) for number in (4, 2))
        return [10**6, *real(store, conn, thread, newest), *real(store, conn, thread, older)]

    monkeypatch.setattr(MessageStore, "find_by_hash", alike)
    assert [one.message.id for one in records.by_handle(thread_id, handle(SAID[2]))] == ["m4"]


def test_a_search_can_be_narrowed(records: CompactionRecords, thread_id: str) -> None:
    """To one compaction, to a time; the ends count. Messages beside a hit are found only inside that."""
    before, after = archive(records, thread_id, SAID[:4], now=5.0), archive(records, thread_id, SAID[4:], now=9.0)
    assert found(records, thread_id, "card user", compaction_id=after) == ["m5", "m6", "m4"]
    assert set(found(records, thread_id, "card user", compaction_id=before)) == {"m0", "m1", "m2", "m3"}
    assert set(found(records, thread_id, "card user", since=5.0, until=5.0)) == {"m0", "m1", "m2", "m3"}
    assert first(records, thread_id, "card user", since=5.1) == "m5"
    assert found(records, thread_id, "card user", until=4.9) == []
    assert len(found(records, thread_id, "card user", limit=2)) == 2


@pytest.mark.parametrize(
    ("speaker", "expected"),
    [("user", {"m0", "m4"}), ("assistant", {"m1", "m3"}), ("tool", {"m2"}), (None, {"m0", "m1", "m2", "m3", "m4"})],
)
def test_a_search_can_be_narrowed_to_a_speaker(
    records: CompactionRecords, thread_id: str, speaker: Any, expected: set[str]
) -> None:
    """Who said the words, or something beside them; a summary is nobody's words."""
    summary = HumanMessage("oslo reykjavik", id="s", additional_kwargs={"compaction": {"kind": "compaction_summary"}})
    archive(records, thread_id, [*SAID, summary])
    assert set(found(records, thread_id, "oslo", limit=9, speaker=speaker)) == expected
    assert found(records, thread_id, "reykjavik", speaker=speaker) == ([] if speaker else ["s"])


def test_an_unknown_speaker_is_an_error(memory: CompactionRecords) -> None:
    """That names the speakers there are."""
    with pytest.raises(ValueError, match="'human' is none of 'user', 'assistant', 'tool'"):
        memory.search("t", "oslo", speaker="human")


def test_the_message_beside_a_hit_is_found_too(records: CompactionRecords, thread_id: str) -> None:
    """The question's words stand in one message, the value in the next; two messages away, no further."""
    said: list[AnyMessage] = [HumanMessage(f"entry {number}", id=f"e{number}") for number in range(9)]
    said[4:6] = [HumanMessage("And the wifi password?", id="asked"), AIMessage("tulip-77", id="told")]
    archive(records, thread_id, said)
    hits = records.search(thread_id, "wifi password", limit=9)
    assert hits[0].message.id == "asked"
    assert {one.message.id for one in hits} == {"e2", "e3", "asked", "told", "e6"}
    assert [one.score for one in hits[1:]] == [hits[0].score / 2] * 4


SUMMARY = HumanMessage(
    "Record: reservation ZK-4471 is cancelled, the refund goes to the card, Oslo; the traveller is content.",
    id="summary-1",
    additional_kwargs={"compaction": {"kind": "compaction_summary", "is_meta": True, "compaction": "1"}},
)
CLIPPED = ToolMessage(
    '{"card": "credit_card_4421486"\n[TRUNCATED original~20 tokens]',
    id="m2",
    tool_call_id="c1",
    name="get_user",
    additional_kwargs={"compaction": {"clipped": True, "handle": handle(SAID[2])}},
)


def test_an_identifier_counts_more_than_words(records: CompactionRecords, thread_id: str) -> None:
    """Three words of the query stand in one message, its identifier in another; words come first without it."""
    words = HumanMessage("The teal parcel is at the harbor", id="words")
    between: list[AnyMessage] = [HumanMessage(f"calm sea {n}", id=f"n{n}") for n in range(9)]
    archive(records, thread_id, [words, *between, AIMessage("RX-77 has left the building", id="named")])
    assert found(records, thread_id, "teal parcel harbor RX-77", limit=1) == ["named"]
    assert found(records, thread_id, "teal parcel harbor left", limit=1) == ["words"]


def test_a_search_can_follow_the_identifiers_that_it_finds(records: CompactionRecords, thread_id: str) -> None:
    """The search follows identifiers that occur in at most one of fifty messages, and only with `follow=True`."""
    about = AIMessage("The tulips are parcel PX-9, sent 2024-05-17", id="about")
    elsewhere = ToolMessage("PX-9: delayed", tool_call_id="c", id="same")
    days: list[AnyMessage] = [HumanMessage(f"calm sea on 2024-05-17, {n}", id=f"n{n}") for n in range(98)]
    archive(records, thread_id, [about, *days, elsewhere])
    assert "same" not in found(records, thread_id, "tulips", limit=9)
    followed = found(records, thread_id, "tulips", limit=4, follow=True)
    assert (followed[0], "same" in followed) == ("about", True)
    assert "n60" not in found(records, thread_id, "tulips", limit=99, follow=True)
    assert found(records, thread_id, "xylophone", follow=True) == []


def test_an_original_comes_before_a_summary_of_it(records: CompactionRecords, thread_id: str) -> None:
    """However many words of the query the summary has; it is found where no original holds a word."""
    first = archive(records, thread_id, SAID)
    second = archive(records, thread_id, [*SAID, SUMMARY], now=9.0)
    assert "summary-1" not in found(records, thread_id, "reservation ZK-4471 refund card Oslo", limit=9)
    assert found(records, thread_id, "reservation ZK-4471 refund card Oslo", limit=1) == ["m0"]
    assert found(records, thread_id, "traveller") == ["summary-1"]
    assert found(records, thread_id, "content reservation") == ["m0", "m2", "m1", "summary-1"]
    assert found(records, thread_id, "content reservation", limit=1) == ["m0"]
    assert found(records, thread_id, "traveller", compaction_id=first) == []
    assert found(records, thread_id, "traveller", compaction_id=second) == ["summary-1"]


def test_an_original_is_found_behind_many_summaries(records: CompactionRecords, thread_id: str) -> None:
    """More of them than are asked for."""
    summaries: list[AnyMessage] = [SUMMARY.model_copy(update={"id": f"s{number}"}) for number in range(12)]
    archive(records, thread_id, [*summaries, SAID[0]])
    assert found(records, thread_id, "reservation ZK-4471 refund traveller", limit=2) == ["m0", "s11"]


def test_what_recall_gave_back_does_not_hide_the_original(records: CompactionRecords, thread_id: str) -> None:
    """An answer that left the view in its turn holds the words too; another tool of that name is like any other."""
    text = f"[{handle(SAID[0])} human]\n{SAID[0].text}"
    answered = ToolMessage(text, id="r", tool_call_id="r", name="recall")
    own = ToolMessage("The reservation is in the drawer", id="o", tool_call_id="o", name="recall")
    call = AIMessage("", id="a", tool_calls=[{"name": "recall", "args": {"query": "reservation"}, "id": "r"}])
    archive(records, thread_id, [call, answered], now=9.0)
    assert set(found(records, thread_id, "reservation")) == {"a", "r"}
    archive(records, thread_id, [*SAID, own], now=5.0)
    assert {"m0", "o"} <= set(found(records, thread_id, "cancel reservation"))
    assert not {"a", "r"}.intersection(found(records, thread_id, "cancel reservation", limit=20))


def test_what_was_clipped_is_found_in_its_whole(records: CompactionRecords, thread_id: str) -> None:
    """What was left of it says nothing more; alone, it is found."""
    archive(records, thread_id, [CLIPPED], now=9.0)
    assert records.search(thread_id, "credit card")[0].message == CLIPPED
    archive(records, thread_id, SAID, now=5.0)
    messages = [one.message for one in records.search(thread_id, "credit card", limit=9)]
    assert SAID[2] in messages
    assert CLIPPED not in messages


@pytest.mark.parametrize(
    ("query", "expected"),
    [("reservations", "m0"), ("refunded", "m3"), ("ending", "m3"), ("tests", "m5"), ("editing", "m5")],
)
def test_a_word_is_found_in_other_forms(
    records: CompactionRecords, thread_id: str, query: str, expected: str
) -> None:
    """Whichever was said."""
    archive(records, thread_id)
    assert first(records, thread_id, query) == expected


def test_words_are_stemmed_in_their_language(records: CompactionRecords, thread_id: str) -> None:
    """Several languages in one thread; a query may be in any of them."""
    said: list[AnyMessage] = [
        HumanMessage("Wir haben die Buchung für den Flug und das Hotel nicht gefunden.", id="de"),
        *(HumanMessage(f"filler {number}", id=f"f{number}") for number in range(4)),
        HumanMessage("Quiero cancelar las reservaciones de mi hermano por la tarde.", id="es"),
        *(HumanMessage(f"filler {number}", id=f"g{number}") for number in range(4)),
        HumanMessage("Отмените все заказы на завтра.", id="ru"),
        *(HumanMessage(f"filler {number}", id=f"h{number}") for number in range(4)),
        HumanMessage("I never got the parcels.", id="en"),
    ]
    archive(records, thread_id, said)
    asked = {"de": "Buchungen", "es": "reservación", "ru": "заказ", "en": "parcel"}
    assert {name: first(records, thread_id, query) for name, query in asked.items()} == {name: name for name in asked}


def test_no_thread_finds_what_another_said(records: CompactionRecords, thread_id: str) -> None:
    """Each has its own words; one that is unknown has none."""
    archive(records, thread_id)
    archive(records, thread_id + "-other", [HumanMessage("nothing here", id="x")])
    assert found(records, thread_id + "-other", "oslo card") == []
    assert found(records, thread_id + "-nobody", "oslo") == []


def test_what_is_erased_is_found_no_more(records: CompactionRecords, thread_id: str) -> None:
    """With its thread, and with an archive that is dropped."""
    archive(records, thread_id)
    assert first(records, thread_id, "oslo") == "m2"
    saver = SQLAlchemySaver(records.database)
    saver.prune([thread_id], archive="drop")
    assert found(records, thread_id, "oslo") == []
    archive(records, thread_id)
    assert first(records, thread_id, "oslo") == "m2"
    records.forget(thread_id)
    assert found(records, thread_id, "oslo") == []


def test_an_index_with_an_erased_message_is_made_anew(records: CompactionRecords, thread_id: str) -> None:
    """It holds nothing then, and what is still in the archive is found again."""
    archive(records, thread_id)
    assert first(records, thread_id, "oslo") == "m2"
    with records.database.read() as conn:
        thread = records.store.find(conn, thread_id, lock=False)
        assert thread is not None
        with INDEXES.open(conn, thread, set(range(3))) as index:
            assert (index.held, index.originals, index.counts(["oslo"])) == ({}, [], {})
    assert first(records, thread_id, "oslo") == "m2"


def test_a_copy_is_searched_by_itself(records: CompactionRecords, thread_id: str) -> None:
    """It has an archive of its own."""
    archive(records, thread_id)
    saver = SQLAlchemySaver(records.database)
    found(records, thread_id, "oslo")
    saver.copy_thread(thread_id, thread_id + "-copy")
    saver.delete_thread(thread_id)
    assert first(records, thread_id + "-copy", "oslo") == "m2"


def test_with_a_key_the_same_is_found(tmp_path: Any) -> None:
    """The archive is decrypted to be read, and neither it nor its terms are on the disk."""
    url = f"sqlite:///{tmp_path / 'sealed.db'}"
    records = CompactionRecords(Database.open(url, keys=Keyring({"k": b"0" * 32}, current="k")))
    records.database.setup()
    archive(records, "t")
    assert first(records, "t", "oslo") == "m2"
    assert first(records, "t", "订单") == "m4"
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert written
    for word in ("oslo", "Oslo", "4421486", "ZK-4471", "zk-4471", "订单", "reserv"):
        assert word.encode() not in written
    plain = tmp_path / "plain.db"
    records = CompactionRecords(Database.open(f"sqlite:///{plain}"))
    records.database.setup()
    archive(records, "t")
    assert b"ZK-4471" in b"".join(path.read_bytes() for path in tmp_path.glob("plain.db*"))


def test_old_messages_are_found_in_a_long_archive(records: CompactionRecords, thread_id: str) -> None:
    """In packs and in rows of their own, behind hundreds of newer ones that hold the word too."""
    records.archive(thread_id, "", "old", [HumanMessage("teal teal", id="first")], now=1.0)
    newer: list[AnyMessage] = [
        HumanMessage(f"teal and {number} other words", id=f"n{number}") for number in range(500)
    ]
    records.archive(thread_id, "", "new", newer, now=2.0)
    assert first(records, thread_id, "teal") in {"first", "n0"}
    assert first(records, thread_id, "250") == "n250"


def test_a_message_is_read_once_for_the_index(
    records: CompactionRecords, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query without a word reads no message, the first search reads all, a later one what was archived since."""
    archive(records, thread_id, SAID[:4])
    read: list[str | None] = []
    monkeypatch.setattr(search_index, "text_of", lambda message: read.append(message.id) or message.text)
    for query, expected in (("?!", []), ("nowhere", ["m0", "m1", "m2", "m3"]), ("oslo", [])):
        found(records, thread_id, query)
        assert read == expected
        read.clear()
    archive(records, thread_id, SAID[4:], now=9.0)
    assert first(records, thread_id, "tests failed") == "m5"
    assert read == ["m4", "m5", "m6"]


def test_indexes_stay_within_their_bytes(monkeypatch: pytest.MonkeyPatch, memory: CompactionRecords) -> None:
    """All threads share the limit; the index that was searched longest ago is dropped, and built again when asked."""
    indexes = SearchIndexes(max_bytes=1)
    monkeypatch.setattr(recall_search, "INDEXES", indexes)
    assert first(memory, "t", "oslo") == "m2"
    assert len(indexes) == 0
    large = SearchIndexes(max_bytes=2**30)
    monkeypatch.setattr(recall_search, "INDEXES", large)
    assert first(memory, "t", "oslo") == "m2"
    filled = SearchIndexes(max_bytes=large.size)
    monkeypatch.setattr(recall_search, "INDEXES", filled)
    assert first(memory, "t", "oslo") == "m2"
    assert len(filled) == 1
    with_room = SearchIndexes(max_bytes=5 * 2**14)
    monkeypatch.setattr(recall_search, "INDEXES", with_room)
    for number in range(9):
        archive(memory, f"t{number}")
        assert first(memory, f"t{number}", "oslo") == "m2"
    assert 1 < len(with_room) < 9
    read: list[str | None] = []
    monkeypatch.setattr(search_index, "text_of", lambda message: read.append(message.id) or message.text)
    assert first(memory, "t8", "oslo") == first(memory, "t7", "oslo") == "m2"
    assert read == []
    assert first(memory, "t0", "oslo") == "m2"
    assert "m2" in read


def test_no_index_outlives_its_thread(records: CompactionRecords, thread_id: str) -> None:
    """Not one that this process erases, nor one that another process erases while this one searches others."""
    INDEXES._begin()
    for erase in (records.forget, SQLAlchemySaver(records.database).delete_thread):
        archive(records, thread_id)
        found(records, thread_id, "oslo")
        assert len(INDEXES) == 1
        erase(thread_id)
        assert len(INDEXES) == 0
    archive(records, thread_id)
    archive(records, thread_id + "-other")
    found(records, thread_id, "oslo")
    records._forget(thread_id)  # as another process does
    found(records, thread_id + "-other", "oslo")
    assert len(INDEXES) == 1
    records._forget(thread_id + "-other")
    assert found(records, thread_id + "-other", "oslo") == []
    assert len(INDEXES) == 0


def test_a_thread_that_was_erased_and_begun_again_has_a_new_index(records: CompactionRecords, thread_id: str) -> None:
    """Its sequence numbers begin anew."""
    archive(records, thread_id)
    assert first(records, thread_id, "oslo") == "m2"
    records._forget(thread_id)  # as another process does
    archive(records, thread_id, [HumanMessage("nothing of that", id=f"x{number}") for number in range(9)])
    assert found(records, thread_id, "oslo") == []


def test_an_sqlite_without_full_text_search_is_named(
    memory: CompactionRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what is missing."""
    monkeypatch.setattr(search_index, "_CREATE", search_index._CREATE.replace("fts5", "fts99"))
    with pytest.raises(DatabaseError, match="without FTS5"):
        memory.search("t", "oslo")


def test_many_threads_search_at_once(memory: CompactionRecords) -> None:
    """One index serves them in turn."""
    with ThreadPoolExecutor(8) as pool:
        hits = list(pool.map(lambda _: first(memory, "t", "oslo"), range(40)))
    assert hits == ["m2"] * 40


def test_the_score_of_a_message_is_the_sum_over_the_words_of_the_query(
    records: CompactionRecords, thread_id: str
) -> None:
    """For a query of two words, the score is the sum of the scores for each word alone."""
    said: list[AnyMessage] = [HumanMessage(f"entry {number}", id=f"e{number}") for number in range(20)]
    said[5] = HumanMessage("harbor lighthouse", id="both")
    archive(records, thread_id, said)
    both, harbor, lighthouse = (
        records.search(thread_id, query, limit=1)[0].score for query in ("harbor lighthouse", "harbor", "lighthouse")
    )
    assert both == pytest.approx(harbor + lighthouse)
