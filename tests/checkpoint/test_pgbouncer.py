"""PostgreSQL behind pgbouncer, which gives each transaction any of its connections."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph import CompactionSettings, create_compacting_agent
from tests.checkpoint.bouncer import BOUNCER, bouncer
from tests.checkpoint.contract.steps import where
from tests.fakes import ScriptedModel

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BOUNCER is None, reason="pgbouncer is not installed")]


@pytest.fixture
def pooled_url(session_url: Callable[[str], str]) -> Iterator[str]:
    """Return the URL of a database behind a pgbouncer with three connections."""
    with bouncer(sa.make_url(session_url("postgresql")), 3) as (url, _):
        yield url.render_as_string(hide_password=False)


def test_conversations_share_few_connections(pooled_url: str) -> None:
    """Nothing that a saver or a run's lease does outlives its transaction: no statement is prepared."""
    with SQLAlchemySaver.from_url(pooled_url) as saver:
        saver.setup()
        settings = CompactionSettings(context_window=100_000)
        model = ScriptedModel(replies=[AIMessage("fine")] * 48)
        agent = create_compacting_agent(model, settings=settings, summarizer="digest", checkpointer=saver)

        def talk(number: int) -> int:
            config = where(f"bounced-{number}")
            for _ in range(6):
                given: Any = {"messages": [HumanMessage("how?")]}
                agent.invoke(given, config, durability="sync")
            assert list(saver.list(config, filter={"source": "loop", "step": 2}))
            return len(agent.get_state(config).values["messages"])

        with ThreadPoolExecutor(8) as workers:
            assert list(workers.map(talk, range(8))) == [12] * 8
