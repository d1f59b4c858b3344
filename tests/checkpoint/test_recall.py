import pytest
from langchain_core.messages import HumanMessage

from langgraph_compaction.checkpoint import CompactionRecords, Database, Keyring
from langgraph_compaction.checkpoint.compaction import archive
from langgraph_compaction.checkpoint.compaction.attempt import Outcome
from langgraph_compaction.checkpoint.messages.message_codec import (
    content_hash,
    dumps,
    fingerprint,
    handle,
    loads,
)
from langgraph_compaction.checkpoint.messages.message_store import PreparedMessage
from langgraph_compaction.checkpoint.messages.sequence_runs import (
    runs_of,
)
from tests.checkpoint.samples import EVERY_KIND, key_of, opening, talk

DONE = Outcome(verdict="committed", now=2.0)


def compact(records: CompactionRecords, thread_id: str) -> None:
    """Archive the first three of six messages."""
    key = key_of(thread_id, talk(6))
    records.begin(key, talk(6), now=1.0, **opening())
    records.commit(key, DONE, archived=talk(3))


def test_what_left_the_view_is_recalled_by_its_handle(records: CompactionRecords, thread_id: str) -> None:
    """An archived message comes back by the first 12 to 32 characters of its digest, in either case."""
    compact(records, thread_id)
    for message in talk(3):
        assert records.recall(thread_id, handle(message)) == message
        assert records.recall(thread_id, fingerprint(message)) == message
        assert records.recall(thread_id, handle(message).upper()) == message


def test_a_compaction_is_recalled_by_the_beginning_of_its_id(records: CompactionRecords, thread_id: str) -> None:
    """Twelve characters of it, as a summary shows; fewer are no handle."""
    compact(records, thread_id)
    name = key_of(thread_id, talk(6)).compaction_id
    for length in (12, 13, 16):
        for given in (name[:length], name[:length].upper()):
            assert [one.message for one in records.by_handle(thread_id, given)] == talk(3)
    assert records.by_handle(thread_id, name[:11]) == []
    assert records.by_handle(thread_id, f"{name}0") == []
    assert records.recall(thread_id, name[:12]) is None


def test_what_is_only_in_a_snapshot_is_not_in_the_archive(records: CompactionRecords, thread_id: str) -> None:
    """A message that never left the view has no archive entry."""
    compact(records, thread_id)
    assert records.recall(thread_id, handle(talk(6)[5])) is None


def test_another_threads_archive_is_closed(records: CompactionRecords, thread_id: str) -> None:
    """The same handle recalls nothing in a thread that did not archive it, nor in one that is unknown."""
    compact(records, thread_id)
    other = f"{thread_id}-other"
    records.begin(key_of(other, talk(6)), talk(6), now=1.0, **opening())
    assert records.recall(other, handle(talk(1)[0])) is None
    assert records.recall("nobody", handle(talk(1)[0])) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "xyz",
        "0" * 11,
        "0" * 12,
        "0" * 13,
        "0" * 33,
        "g" * 12,
        "%" * 12,
        "ab ab ab ab ",
        "١" * 12,
        "a1" + " " * 10,
    ],
)
def test_what_is_no_handle_recalls_nothing(records: CompactionRecords, thread_id: str, text: str) -> None:
    """A model may ask for anything: a text that is no handle, or an unknown one, is None and never an error."""
    compact(records, thread_id)
    assert records.recall(thread_id, text) is None


def test_a_handle_with_blanks_is_no_shorter_handle(records: CompactionRecords, thread_id: str) -> None:
    """The first two characters of a handle, filled up with blanks, find nothing."""
    compact(records, thread_id)
    assert records.recall(thread_id, handle(talk(1)[0])[:2].ljust(12)) is None


def test_messages_archived_without_a_snapshot_are_recalled(records: CompactionRecords, thread_id: str) -> None:
    """A refused message, whatever its kind, is in the archive under its handle."""
    for name, message in EVERY_KIND.items():
        records.archive(thread_id, "", f"refused-{name}", [message], now=1.0)
        assert records.recall(thread_id, handle(message)) == message


@pytest.mark.parametrize("keys", [None, Keyring({"k": b"k" * 32}, current="k")], ids=["plain", "encrypted"])
def test_a_handle_outlives_a_change_of_the_message_classes(keys: Keyring | None, thread_id: str) -> None:
    """A message that was written when its class had other fields is recalled by the handle it had then."""
    body = dumps(HumanMessage("said", id="m")).replace(b"\xa4name\xc0", b"\xa4game\xc0")
    old = loads(body)
    with Database.open(keys=keys) as database:
        database.setup()
        records = CompactionRecords(database)
        with database.write() as conn:
            thread = records.store.thread(conn, thread_id)
            seqs = records.store.add(conn, thread, [PreparedMessage(old, body, content_hash(body), None)])
            records.store.threads.save(conn, thread)
            archive.write(conn, thread, "", "compaction", runs_of(seqs), now=1.0)
        name = content_hash(body).hex()
        assert not fingerprint(old).startswith(name[:12])
        assert [records.recall(thread_id, name[:length]) for length in (12, 32)] == [old, old]
        assert records.recall(thread_id, name[:30] + "00") is None
