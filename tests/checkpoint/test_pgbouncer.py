"""PostgreSQL behind pgbouncer, which gives each transaction any of its connections."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import sqlalchemy as sa
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph import CompactionSettings, create_compacting_agent
from tests.checkpoint.contract.steps import where
from tests.fakes import ScriptedModel

BOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BOUNCER is None, reason="pgbouncer is not installed")]


@pytest.fixture
def pooled_url(session_url: Callable[[str], str]) -> Iterator[str]:
    """Start a pgbouncer with three connections in transaction mode; return the URL of the database behind it."""
    url = sa.make_url(session_url("postgresql"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with TemporaryDirectory() as folder:
        settings = Path(folder, "pgbouncer.ini")
        secret = f" password={url.password}" if url.password else ""
        settings.write_text(
            f"[databases]\n{url.database} = host={url.host} port={url.port or 5432} user={url.username}{secret}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\nunix_socket_dir =\n"
            "pool_mode = transaction\ndefault_pool_size = 3\n"
        )
        for path, mode in ((Path(folder), 0o755), (settings, 0o644)):
            path.chmod(mode)  # as root it changes to another user
        as_user = ["-u", "nobody"] if os.geteuid() == 0 else []
        with subprocess.Popen([str(BOUNCER), *as_user, str(settings)], stderr=subprocess.DEVNULL) as process:
            try:
                for _ in range(200):
                    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                        break
                    time.sleep(0.02)
                yield url.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
            finally:
                process.terminate()


def test_conversations_share_few_connections(pooled_url: str) -> None:
    """Nothing that a saver or a run's lease does outlives its transaction, if no statement is prepared."""
    with SQLAlchemySaver.from_url(f"{pooled_url}?prepare_threshold=none") as saver:
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
