from dataclasses import replace
from uuid import uuid4

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey
from langgraph_compaction.checkpoint.compaction.prepared import PREPARING
from tests.checkpoint.contract.steps import Steps
from tests.checkpoint.listening import statements
from tests.checkpoint.samples import COMMITTED, begin, key_of, opening, talk


def test_statistics_of_all_threads_are_one_statement(own_url: str) -> None:
    """They are those of each thread but for one number; the threads come in the order in which they were made."""
    with SQLAlchemySaver.from_url(own_url) as saver:
        saver.setup()
        names = [f"thread-{uuid4()}" for _ in range(3)]
        for name, count in zip(names, (3, 400, 1), strict=True):
            config = Steps(saver, name).put({"messages": talk(count), "text": "x" * 999})
            saver.put_writes(config, [("text", "y" * 99)], "task")
        begin(CompactionRecords(saver.database), names[2])
        one_by_one = [one for name in names for one in saver.stats(name)]
        with statements(saver.database) as texts:
            assert saver.stats() == [replace(one, unshared_message_bytes=None) for one in one_by_one]
        assert sum(text.startswith("SELECT") for text in texts) == 1
        few, large, _ = one_by_one
        assert few.message_bytes < large.message_bytes
        assert (large.messages, large.checkpoints, large.writes, large.compactions) == (400, 1, 1, 0)
        assert large.unshared_message_bytes is not None
        assert large.unshared_message_bytes > large.message_bytes > 400
        assert (one_by_one[2].snapshots, one_by_one[2].compactions) == (1, 1)
        assert saver.threads() == names
        assert saver.stats("missing") == []


def test_preparations_are_counted_apart_from_compactions(own_url: str) -> None:
    """A compaction with a prepared summary is one; a preparation under way is neither used nor unused."""
    with SQLAlchemySaver.from_url(own_url) as saver:
        saver.setup()
        records, name = CompactionRecords(saver.database), f"thread-{uuid4()}"
        keys = [AttemptKey(name, "", f"base {number}", 0, -1) for number in range(3)]

        def claim(key: AttemptKey) -> None:
            given = opening(trigger=PREPARING)
            assert records.claim_preparation(key, {"epoch": 0}, now=10.0, until=99.0, unused=9, **given) is None

        claim(keys[0])
        begin(records, name)
        records.commit(key_of(name, talk(5)), COMMITTED, archived=[], used=keys[0].compaction_id)
        claim(keys[1])
        records.settle_preparation(name, "", keys[1].compaction_id, verdict="stale", reason="x", now=12.0)
        claim(keys[2])
        (found,) = saver.stats(name)
        assert (found.compactions, found.preparations) == (1, 3)
        assert (found.preparations_used, found.preparations_unused) == (1, 1)
