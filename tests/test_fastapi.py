"""The application of the example for FastAPI, served in this process; a provider over HTTP answers."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from runpy import run_path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from blockbuster import BlockBuster

from tests.conftest import server_database
from tests.graph.cli.provider import Provider, provider
from tests.graph.test_who_summarizes import SUMMARY, WRITTEN, asks_for_summary

APP = Path(__file__).parents[1] / "examples" / "fastapi_users" / "app.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Provider]:
    """The provider, and the environment of the application."""
    with ExitStack() as stack:
        found = stack.enter_context(
            provider(answer=lambda asked: SUMMARY if asks_for_summary(asked) else "All is calm.")
        )
        on_postgresql = "TEST_POSTGRES_URL" in os.environ
        url = (
            stack.enter_context(server_database("postgresql")) if on_postgresql else f"sqlite:///{tmp_path / 'a.db'}"
        )
        for name, value in {**found.env, "DATABASE_URL": url, "MODEL": "openai:gpt-4o-mini"}.items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
async def client(script: Provider) -> AsyncIterator[httpx.AsyncClient]:  # noqa: ARG001 - its environment
    """A client of the started application; while it runs, no call may block the event loop."""
    app, guard = run_path(str(APP), run_name="app")["app"], BlockBuster()

    async def counted(scope: Any, receive: Any, send: Any) -> None:
        """Serve, and write the number of parts of the answer before its last part."""
        parts = 0

        async def sent(message: Any) -> None:
            nonlocal parts
            parts += bool(message.get("body"))
            last = message["type"] == "http.response.body" and not message.get("more_body")
            await send({**message, "body": b": %d parts\n" % parts} if last and parts > 1 else message)

        await app(scope, receive, sent)

    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(counted), base_url="http://app", timeout=60) as opened,
    ):
        guard.activate()
        try:
            yield opened
        finally:
            guard.deactivate()


async def said(client: httpx.AsyncClient, user: str, chat: str, text: str) -> list[tuple[str, Any]]:
    """The events of a turn; each was sent by itself."""
    answer = await client.post(f"/chats/{chat}", json={"text": text}, headers={"X-User": user})
    assert answer.status_code == 200, answer.text
    events = re.findall(r"event: (\w+)\ndata: (.*)\n\n", answer.text)
    assert answer.text.endswith(f": {len(events)} parts\n")
    return [(name, json.loads(data)) for name, data in events]


async def test_the_application(client: httpx.AsyncClient, script: Provider) -> None:
    """Two users under one id: streams, a compaction of the first one's chat, transcript, undo, and erasure."""
    chat, alma, berta = str(uuid4()), {"X-User": "alma"}, {"X-User": "berta"}
    texts = [f"Day {n}: {'the sea was calm and ' * 4_700}" for n in range(4)]
    for text in texts[:-1]:
        events, others = await asyncio.gather(said(client, "alma", chat, text), said(client, "berta", chat, "Hello."))
        for heard in (events, others):
            assert [name for name, _ in heard] == ["text", "text", "text", "end"]
            assert "".join(data for _, data in heard[:-1]).split() == ["All", "is", "calm."]
    script.counted = 110_000  # the provider's own figure for the next request: over the trigger, 102,400
    events = await said(client, "alma", chat, texts[-1])
    [told] = [data for name, data in events if name == "compaction" and data["event"] == "CompactionEvent"]
    assert (told["verdict"], events[-1]) == ("committed", ("end", None))
    assert WRITTEN not in "".join(data for name, data in events if name == "text")
    kept = (await client.get(f"/chats/{chat}", headers=alma)).json()
    assert [one["text"].strip() for one in kept] == [
        part for text in texts for part in (text.strip(), "All is calm.")
    ]
    assert len((await client.get(f"/chats/{chat}", headers=berta)).json()) == 6
    assert (await client.post(f"/chats/{chat}/undo", headers=berta)).status_code == 409
    undone = await client.post(f"/chats/{chat}/undo", headers=alma, params={"force": True})
    assert (undone.status_code, undone.json()["messages"]) == (200, 8)
    assert (await client.get(f"/chats/{chat}", headers=alma)).json() == kept
    assert (await client.delete(f"/chats/{chat}", headers=alma)).status_code == 204
    assert (await client.get(f"/chats/{chat}", headers=alma)).json() == []
    assert (await client.post(f"/chats/{chat}", json={"text": "Hello."})).status_code == 422, "who is it?"
    assert (await client.post("/chats/7", json={"text": "Hello."}, headers=alma)).status_code == 422
