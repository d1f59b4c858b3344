from uuid import uuid4

import pytest

from langgraph_compaction.checkpoint import SQLAlchemySaver
from tests.checkpoint.contract.steps import Steps
from tests.checkpoint.samples import talk


@pytest.mark.requirement("S3.21")
def test_messages_that_only_an_erased_run_has_had_are_erased(own_url: str) -> None:
    """Those that another run of the thread has, too, stay."""
    with SQLAlchemySaver.from_url(own_url) as saver:
        saver.setup()
        steps = Steps(saver, name := f"thread-{uuid4()}")
        for run, count in (("kept", 100), ("gone", 300), ("kept", 50)):
            steps.put({"messages": talk(count)}, run_id=f"{name}-{run}")
        saver.delete_for_runs([f"{name}-gone"])
        (there,) = saver.stats(name)
        assert (there.checkpoints, there.messages) == (2, 100)
