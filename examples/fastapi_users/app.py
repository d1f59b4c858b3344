"""Chats of several users: streamed answers, the whole history, and an endpoint that undoes a compaction."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from fastapi import Body, Depends, FastAPI, Header, Request
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from langchain_core.messages import AIMessageChunk, HumanMessage

from langgraph_compaction import (
    AsyncSQLAlchemySaver,
    CompactionError,
    CompactionThread,
    UnknownAttemptError,
    create_compacting_agent,
)
from langgraph_compaction.nodes.testing import StreamingModel

NAME = os.environ.get("MODEL")  # such as openai:gpt-4o-mini


def build(saver: AsyncSQLAlchemySaver) -> Any:
    """Build the agent that serves all requests; without MODEL, a script answers in a small window."""
    script = StreamingModel(replies=[lambda seen: f"I see {len(seen)} messages."], profile_window=4_000)
    return create_compacting_agent(
        NAME or script, system_prompt="You help.", summarizer=None if NAME else "digest", checkpointer=saver
    )


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the database, and create its tables if they are missing."""
    async with AsyncSQLAlchemySaver.from_url(os.environ.get("DATABASE_URL", "sqlite:///chats.db")) as saver:
        await saver.setup()
        app.state.agent = build(saver)
        yield


app = FastAPI(lifespan=lifespan)


def thread(request: Request, chat_id: UUID, x_user: Annotated[str, Header(max_length=100)]) -> CompactionThread:
    """Return one user's chat: the same id under another user is another chat."""
    return CompactionThread(request.app.state.agent, {"configurable": {"thread_id": f"{x_user}/{chat_id}"}})


Chat = Annotated[CompactionThread, Depends(thread)]
Text = Annotated[str, Body(embed=True, min_length=1, max_length=100_000)]


@app.get("/")
async def page() -> FileResponse:
    """Return a small interface."""
    return FileResponse(Path(__file__).with_name("page.html"))


@app.post("/chats/{chat_id}")
async def say(chat: Chat, text: Text) -> StreamingResponse:
    """Answer as a stream of server-sent events."""
    return StreamingResponse(events(chat, text), media_type="text/event-stream")


async def events(chat: CompactionThread, text: str) -> AsyncIterator[str]:
    """Run a turn: its text, what was compacted, and an error if there is one."""
    said, modes = {"messages": [HumanMessage(text)]}, ["messages", "custom"]
    try:
        async for mode, data in chat.graph.astream(said, chat.config, stream_mode=modes, durability="sync"):
            if mode == "custom":  # PreCompactEvent, CompactionEvent and the others
                yield event("compaction", data)
            elif isinstance(data[0], AIMessageChunk) and data[0].text:
                yield event("text", data[0].text)
        yield event("end", None)
    except CompactionError as error:  # ThreadBusyError, ContextExhaustedError, MessageRefusedError
        yield event("error", str(error))


def event(name: str, data: Any) -> str:
    """Return a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


@app.get("/chats/{chat_id}")
async def transcript(chat: Chat) -> list[dict[str, str]]:
    """Return all that was said, whatever has left the model's view."""
    return [{"type": message.type, "text": message.text} for message in await chat.atranscript()]


@app.post("/chats/{chat_id}/undo")
async def undo(chat: Chat, force: bool = False) -> dict[str, int]:
    """Let the model see what the last compaction hid; `force` also where the next request is then too large."""
    undone = await chat.aundo(force=force)
    return {"messages": undone.messages, "tokens": undone.tokens}


@app.delete("/chats/{chat_id}", status_code=204)
async def forget(chat: Chat) -> None:
    """Erase a chat."""
    await chat.aforget()


@app.exception_handler(UnknownAttemptError)  # there is no compaction to undo
@app.exception_handler(CompactionError)  # OverLimitError, ThreadBusyError
async def refused(_request: Request, error: Exception) -> JSONResponse:
    """Tell why a chat stays as it is."""
    return JSONResponse({"detail": str(error)}, status_code=409)
