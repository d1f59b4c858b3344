"""What left the view is found again: by words, by the handle of a message, and by the id of a compaction."""

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint import CompactionRecords, Database, Keyring, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction import archive as archive_rows
from langgraph_compaction.checkpoint.compaction import recall_search, search_index
from langgraph_compaction.checkpoint.compaction.attempt import Outcome
from langgraph_compaction.checkpoint.compaction.search_index import INDEXES, SearchIndexes
from langgraph_compaction.checkpoint.messages import items
from langgraph_compaction.checkpoint.messages.message_codec import content_hash, dumps, fingerprint, handle, loads
from langgraph_compaction.checkpoint.messages.sequence_runs import runs_of
from tests.checkpoint.samples import EVERY_KIND, key_of, opening, talk

KEYS = Keyring({"k": b"k" * 32}, current="k")
SAID: list[AnyMessage] = [
    HumanMessage("Please cancel reservation ZK-4471 for Ms. Ødegård", id="m0"),
    AIMessage("", id="m1", tool_calls=[{"name": "get_user", "args": {"user_id": "mia_li_3668"}, "id": "c1"}]),
    ToolMessage('{"card": "credit_card_4421486", "city": "Oslo"}', id="m2", tool_call_id="c1", name="get_user"),
    AIMessage("The refund goes to the card that ends in 4486.", id="m3"),
    HumanMessage("请把订单改到明天下午送达，不要打电话。", id="m4"),
    AIMessage("Edited src/app/main.py and ran the tests; 3 failed in testUserLogin.", id="m5"),
    HumanMessage("ok ok ok the the the", id="m6"),
]


def archive(records: CompactionRecords, thread_id: str, messages: list[Any] = SAID, now: float = 5.0) -> str:
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


@pytest.fixture
def memory() -> CompactionRecords:
    """Return records in memory with an archive."""
    records = CompactionRecords(Database.open("memory"))
    records.database.setup()
    archive(records, "t")
    return records


QUERIES = {
    "m0": ("ZK-4471", "zk 4471", "cancel reservation", "reservations", "ØDEGÅRD"),
    "m1": ("mia_li_3668", "3668 user"),
    "m2": ("credit_card_4421486", "oslo"),
    "m3": ("refund card", "refunded", "ending"),
    "m4": ("订单 明天", "打电话"),
    "m5": ("main.py", "user login failed", "editing"),
    "m6": ("the ok",),
}


@pytest.mark.parametrize("keys", [None, KEYS], ids=["plain", "encrypted"])
def test_the_right_message_is_found_first(keys: Keyring | None) -> None:
    """In English and Chinese, by words in other forms, by identifiers and their parts."""
    with Database.open(keys=keys) as database:
        database.setup()
        records = CompactionRecords(database)
        archive(records, "t")
        queries = [(name, query) for name, queries in QUERIES.items() for query in queries]
        assert [(first(records, "t", query), query) for _, query in queries] == queries


def test_words_are_stemmed_in_their_language(memory: CompactionRecords) -> None:
    """Several languages in one thread; a query may be in any of them."""
    sentences = {
        "de": "Wir haben die Buchung für den Flug und das Hotel nicht gefunden.",
        "es": "Quiero cancelar las reservaciones de mi hermano por la tarde.",
        "ru": "Отмените все заказы на завтра.",
        "en": "I never got the parcels.",
    }
    said: list[AnyMessage] = []
    for name, text in sentences.items():
        said += [HumanMessage(text, id=name), *(HumanMessage(f"filler {name}", id=f"{name}{n}") for n in range(4))]
    archive(memory, "languages", said)
    asked = {"de": "Buchungen", "es": "reservación", "ru": "заказ", "en": "parcel"}
    assert {name: first(memory, "languages", query) for name, query in asked.items()} == {
        name: name for name in asked
    }


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=40))
@example("я")
@example("'; DROP TABLE")
@example("a* OR NEAR( +-~<>() \\ % a & | !b:* -- {x} col: -")
def test_any_text_may_be_asked_for(memory: CompactionRecords, query: str) -> None:
    """What a query language would take for syntax is nothing but text here; also what no encoding holds."""
    assert isinstance(memory.search("t", query), list)
    assert first(memory, "t", "oslo") == "m2"


def test_what_is_archived_later_is_found_too(records: CompactionRecords, thread_id: str) -> None:
    """A search reads the archive as it stands."""
    archive(records, thread_id, SAID[:2])
    assert found(records, thread_id, "oslo") == []
    later = archive(records, thread_id, SAID[2:], now=9.0)
    one = records.search(thread_id, "oslo")[0]
    assert (one.message, one.handle, one.compaction_id, one.archived_at) == (SAID[2], handle(SAID[2]), later, 9.0)
    assert records.recall(thread_id, one.handle) == SAID[2]


def test_a_search_can_be_narrowed(records: CompactionRecords, thread_id: str) -> None:
    """To one compaction, to a time, to a speaker; the ends count, and a summary is nobody's words."""
    before, after = archive(records, thread_id, SAID[:4], now=5.0), archive(records, thread_id, SAID[4:], now=9.0)
    assert found(records, thread_id, "card user", compaction_id=after) == ["m5", "m6", "m4"]
    assert set(found(records, thread_id, "card user", compaction_id=before)) == {"m0", "m1", "m2", "m3"}
    assert set(found(records, thread_id, "card user", since=5.0, until=5.0)) == {"m0", "m1", "m2", "m3"}
    assert first(records, thread_id, "card user", since=5.1) == "m5"
    assert found(records, thread_id, "card user", until=4.9) == []
    summary = HumanMessage("oslo reykjavik", id="s", additional_kwargs={"compaction": {"kind": "compaction_summary"}})
    archive(records, thread_id, [summary])
    expected: dict[str | None, set[str]] = {"user": {"m0", "m4"}, "assistant": {"m1", "m3"}, "tool": {"m2"}}
    for speaker, names in expected.items():
        assert set(found(records, thread_id, "oslo reykjavik", limit=9, speaker=speaker)) == names
    with pytest.raises(ValueError, match="'human' is none of 'user', 'assistant', 'tool'"):
        records.search(thread_id, "oslo", speaker="human")


def test_the_message_beside_a_hit_is_found_too(memory: CompactionRecords) -> None:
    """The question's words stand in one message, the value in the next; two messages away, no further."""
    said: list[AnyMessage] = [HumanMessage(f"entry {number}", id=f"e{number}") for number in range(9)]
    said[4:6] = [HumanMessage("And the wifi password?", id="asked"), AIMessage("tulip-77", id="told")]
    archive(memory, "beside", said)
    hits = memory.search("beside", "wifi password", limit=9)
    assert hits[0].message.id == "asked"
    assert {one.message.id for one in hits} == {"e2", "e3", "asked", "told", "e6"}


def test_an_identifier_counts_more_than_words(memory: CompactionRecords) -> None:
    """Three words of the query stand in one message, its identifier in another; words come first without it.

    With `follow=True` the search goes on with rare identifiers that it finds, and only then.
    """
    said: list[AnyMessage] = [
        HumanMessage("The teal parcel is at the harbor", id="words"),
        *(HumanMessage(f"calm sea on 2024-05-17, {number}", id=f"n{number}") for number in range(98)),
        AIMessage("RX-77 has left the building, with the tulips of 2024-05-17", id="named"),
        *(HumanMessage(f"rain {number}", id=f"r{number}") for number in range(9)),
        ToolMessage("RX-77: delayed", tool_call_id="c", id="same"),
    ]
    archive(memory, "named", said)
    assert found(memory, "named", "teal parcel harbor RX-77", limit=1)[0] in {"named", "same"}
    assert found(memory, "named", "teal parcel harbor left", limit=1) == ["words"]
    assert "same" not in found(memory, "named", "tulips", limit=9)
    followed = found(memory, "named", "tulips", limit=4, follow=True)
    assert (followed[0], "same" in followed) == ("named", True)
    assert "n60" not in found(memory, "named", "tulips", limit=99, follow=True)


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


def test_an_original_comes_before_a_summary_of_it(memory: CompactionRecords) -> None:
    """However many words of the query the summaries have; one is found where no original holds a word."""
    summaries: list[AnyMessage] = [SUMMARY.model_copy(update={"id": f"s{number}"}) for number in range(12)]
    archive(memory, "t", [*summaries, *SAID], now=9.0)
    assert first(memory, "t", "reservation ZK-4471 refund card Oslo", limit=2) == "m0"
    assert not {one.id for one in summaries} & {*found(memory, "t", "reservation ZK-4471 refund card Oslo", limit=5)}
    assert first(memory, "t", "traveller") in {one.id for one in summaries}


def test_what_stands_for_an_original_does_not_hide_it(memory: CompactionRecords) -> None:
    """What recall gave back, and what is left of a clipped message; alone, they are found."""
    text = f"[{handle(SAID[0])} human]\n{SAID[0].text}"
    call = AIMessage("", id="a", tool_calls=[{"name": "recall", "args": {"query": "reservation"}, "id": "r"}])
    answered = ToolMessage(text, id="r", tool_call_id="r", name="recall")
    own = ToolMessage("The reservation is in the drawer", id="o", tool_call_id="o", name="recall")
    archive(memory, "recalled", [call, answered, CLIPPED], now=9.0)
    assert {"a", "r"} <= {*found(memory, "recalled", "reservation", limit=9)}
    assert memory.search("recalled", "credit card")[0].message == CLIPPED
    archive(memory, "recalled", [*SAID, own], now=5.0)
    assert {"m0", "o"} <= set(found(memory, "recalled", "cancel reservation"))
    assert not {"a", "r"}.intersection(found(memory, "recalled", "cancel reservation", limit=20))
    messages = [one.message for one in memory.search("recalled", "credit card", limit=9)]
    assert SAID[2] in messages
    assert CLIPPED not in messages


def test_what_is_erased_is_found_no_more(records: CompactionRecords, thread_id: str) -> None:
    """With its thread, by whichever process, and with an archive that is dropped; a new one is searched anew."""
    saver = SQLAlchemySaver(records.database)
    erasures = [
        lambda: saver.prune([thread_id], archive="drop"),
        lambda: records.forget(thread_id),
        lambda: saver.delete_thread(thread_id),
    ]
    for erase in erasures:
        archive(records, thread_id)
        assert first(records, thread_id, "oslo") == "m2"
        erase()
        assert found(records, thread_id, "oslo") == []
    archive(records, thread_id)
    assert first(records, thread_id, "oslo") == "m2"
    records._forget(thread_id)  # as another process does, which has no index
    archive(records, thread_id, [HumanMessage("nothing of that", id=f"x{number}") for number in range(9)])
    assert found(records, thread_id, "oslo") == []


def test_no_index_outlives_its_thread(records: CompactionRecords, thread_id: str) -> None:
    """Not one that this process erases, nor one that another process erases while this one searches others."""
    INDEXES._begin()
    for erase in (records.forget, SQLAlchemySaver(records.database).delete_thread):
        archive(records, thread_id)
        found(records, thread_id, "oslo")
        assert len(INDEXES) == 1
        erase(thread_id)
        assert len(INDEXES) == 0
    for name in (thread_id, f"{thread_id}-other"):
        archive(records, name)
    found(records, thread_id, "oslo")
    records._forget(thread_id)  # as another process does
    found(records, f"{thread_id}-other", "oslo")
    assert len(INDEXES) == 1


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
    indexes = SearchIndexes(max_bytes=5 * 2**14)
    monkeypatch.setattr(recall_search, "INDEXES", indexes)
    for number in range(9):
        archive(memory, f"t{number}")
    assert [first(memory, f"t{number}", "oslo") for number in (*range(9), 0)] == ["m2"] * 10
    assert 1 < len(indexes) < 9


def test_what_left_the_view_is_recalled_by_its_handle(records: CompactionRecords, thread_id: str) -> None:
    """By the first 12 to 32 characters of its digest, in either case, and by nothing else; each in its own thread."""
    key = key_of(thread_id, talk(6))
    records.begin(key, talk(6), now=1.0, **opening())
    records.commit(key, Outcome(verdict="committed", now=2.0), archived=talk(3))
    message = talk(1)[0]
    for named in (handle(message), fingerprint(message), handle(message).upper()):
        assert records.recall(thread_id, named) == message
    wrong = ["", "xyz", "0" * 11, "0" * 12, "0" * 13, "0" * 33, "g" * 12, "%" * 12, "ab ab ab ab ", "١" * 12]
    wrong += [handle(message)[:11], handle(message)[:2].ljust(12), handle(talk(6)[5])]  # the last one never left
    assert [records.recall(thread_id, text) for text in wrong] == [None] * len(wrong)
    other = f"{thread_id}-other"
    records.begin(key_of(other, talk(6)), talk(6), now=1.0, **opening())
    assert [records.recall(name, handle(message)) for name in (other, "nobody")] == [None, None]
    assert [found(records, name, "message") for name in (other, "nobody")] == [[], []]
    name = key.compaction_id
    for given_name in (name[:12], name[:13], name, name.upper()):
        assert [one.message for one in records.by_handle(thread_id, given_name)] == talk(3)
    assert [records.by_handle(thread_id, given_name) for given_name in (name[:11], f"{name}0")] == [[], []]
    assert records.recall(thread_id, name[:12]) is None


def test_messages_archived_without_a_snapshot_are_recalled(records: CompactionRecords, thread_id: str) -> None:
    """A refused message, whatever its kind, is in the archive under its handle."""
    for name, message in EVERY_KIND.items():
        records.archive(thread_id, "", f"refused-{name}", [message], now=1.0)
        assert records.recall(thread_id, handle(message)) == message


@pytest.mark.parametrize("keys", [None, KEYS], ids=["plain", "encrypted"])
def test_a_handle_outlives_a_change_of_the_message_classes(keys: Keyring | None) -> None:
    """A message that was written when its class had other fields is recalled by the handle it had then."""
    body = dumps(HumanMessage("said", id="m")).replace(b"\xa4name\xc0", b"\xa4game\xc0")
    old: BaseMessage = loads(body)
    with Database.open(keys=keys) as database:
        database.setup()
        records = CompactionRecords(database)
        with database.write() as conn:
            thread = records.store.threads.lock(conn, "t")
            thread.seqs = {}
            batch = items.Batch(thread)
            runs = runs_of([batch.add_message(body)])
            items.insert(conn, batch.items)
            batch.count()
            records.store.threads.save(conn, thread)
            archive_rows.write(conn, thread, "", "compaction", runs, now=1.0)
        name = content_hash(body).hex()
        assert not fingerprint(old).startswith(name[:12])
        assert [records.recall("t", name[:length]) for length in (12, 32)] == [old, old]
