from uuid import uuid4

import pytest
import sqlalchemy as sa

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey, Outcome
from langgraph_compaction.checkpoint.compaction.ledger import PREPARED, PREPARING, READY
from langgraph_compaction.checkpoint.db import tables
from langgraph_compaction.checkpoint.errors import RowError
from tests.checkpoint.contract.steps import Steps
from tests.checkpoint.listening import statements
from tests.checkpoint.samples import COMMITTED, begin, key_of, opening, talk


def test_statistics_of_all_threads_are_one_statement(own_url: str) -> None:
    """They are those of each thread; the threads come in the order in which they were made."""
    with SQLAlchemySaver.from_url(own_url) as saver:
        saver.setup()
        names = [f"thread-{uuid4()}" for _ in range(3)]
        for name, count in zip(names, (3, 400, 1), strict=True):
            config = Steps(saver, name).put({"messages": talk(count), "text": "x" * 999})
            saver.put_writes(config, [("text", "y" * 99)], "task")
        begin(CompactionRecords(saver.database), names[2])
        one_by_one = [one for name in names for one in saver.stats(name)]
        with statements(saver.database) as texts:
            found = saver.stats()
        assert found == one_by_one
        assert sum(text.startswith("SELECT") for text in texts) == 1
        few, large, _ = one_by_one
        assert few.message_bytes < large.message_bytes
        assert (large.messages, large.checkpoints, large.writes, large.compactions) == (400, 1, 1, 0)
        assert large.message_bytes > 400
        assert (one_by_one[2].snapshots, one_by_one[2].compactions) == (1, 1)
        with statements(saver.database) as texts:
            assert saver.threads() == names
        assert sum(text.startswith("SELECT") for text in texts) == 1
        assert saver.stats("missing") == []


def test_preparations_are_counted_apart_from_compactions(own_url: str) -> None:
    """A compaction with a prepared summary is one."""
    with SQLAlchemySaver.from_url(own_url) as saver:
        saver.setup()
        records, name = CompactionRecords(saver.database), f"thread-{uuid4()}"
        keys = [AttemptKey(name, "", f"base {number}", 0, -1) for number in range(2)]
        for key in keys:
            ready = Outcome(verdict=PREPARED, reason=READY, now=10.0)
            records.note(key, ready, **opening(trigger=PREPARING))
        begin(records, name)
        records.commit(key_of(name, talk(5)), COMMITTED, archived=[], used=keys[0].compaction_id)
        (found,) = saver.stats(name)
        assert (found.compactions, found.preparations, found.preparations_used) == (1, 2, 1)


def test_a_reference_to_a_message_that_never_existed_is_named() -> None:
    """If the counter of a thread's messages is too low, `prune` raises an error and changes nothing."""
    with SQLAlchemySaver.from_url("memory") as saver:
        saver.setup()
        config = Steps(saver, "t").put({"messages": talk(3)})
        with saver.database.write() as conn:
            conn.execute(sa.update(tables.thread).values(next_seq=2))
        with pytest.raises(RowError, match="message 2 of thread 1 't' never existed"):
            saver.prune(["t"])
        with saver.database.write() as conn:
            conn.execute(sa.update(tables.thread).values(next_seq=3))
        assert saver.get_tuple(config) is not None
