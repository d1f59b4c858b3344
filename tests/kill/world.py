"""A conversation on disk that any process can open: LangGraph's SQLite saver, our database, a scripted agent.

Tokens are words: limit 550, trigger 480. Ids and clock are fixed, so that two runs of one script end alike.
"""

import os
import shutil
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId, tool

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.graph import create_compacting_agent
from langgraph_compaction.nodes import Reply, SummaryRequest
from langgraph_compaction.nodes.conversation.tokens import TokenCounter
from tests.fakes import ScriptedModel, clock_of
from tests.kill.fuse import Fuse, FusedSaver
from tests.settings import settings

WORDS = TokenCounter("words", lambda text: len(text.split()))
CONFIG: RunnableConfig = {"configurable": {"thread_id": "t"}}
SETTINGS: dict[str, Any] = {
    "context_window": 600,
    "output_reserve": 50,
    "trigger_ratio": 480 / 550,  # of the limit: the reserve takes more than 5 % of the window
    "tool_blocks_keep_recent": 2,
    "dialogue_rounds_keep_min": 3,
    "dialogue_beyond_keep": 1,
    "summary_ahead": False,  # scenarios of their own switch it on
    "facts_beside_summary": False,  # the plays are weighed to the word
}
CALLS = "calls.txt"


@tool
def look(words: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
    """Return this number of words."""
    return ToolMessage(filler(words), tool_call_id=tool_call_id, id=f"t-{tool_call_id}", name="look")


def answer(messages: list[BaseMessage]) -> AIMessage:
    """Do what the newest message says: "look" at something, "say" a number of words, else answer briefly."""
    last = messages[-1]
    name = str(last.id)
    verb, _, number = last.text.partition(" ")
    if isinstance(last, HumanMessage) and verb == "look":
        call = {"name": "look", "args": {"words": 60}, "id": f"call-{name}"}
        return AIMessage("", id=f"c-{name}", tool_calls=[call])
    return AIMessage(filler(int(number)) if verb == "say" else "noted", id=f"a-{name}")


def filler(words: int) -> str:
    """Return a text of this number of words."""
    return " ".join(f"w{number}" for number in range(words))


@dataclass(frozen=True)
class Scribe:
    """A summarizer that logs each call to a file; a broken one then raises."""

    file: Path
    broken: bool = False
    name: str = "scripted"
    max_input_tokens: int = 3_000

    def summarize(self, request: SummaryRequest) -> Reply:
        """Log the request, and return a summary of fixed length."""
        shown = ",".join(str(message.id) for message in request.messages)
        with self.file.open("a") as calls:
            calls.write(f"{shown}\n")
            calls.flush()
            os.fsync(calls.fileno())
        if self.broken:
            raise ValueError("the summarizer is out of order")
        return Reply(content=f"<summary>what {len(request.messages)} messages said</summary>", model="scribe")

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Summarize, asynchronously."""
        return self.summarize(request)


@dataclass(frozen=True, kw_only=True)
class World:
    """The folder of a conversation, and the configuration of its agent."""

    folder: Path
    url: str | None = None
    """URL of our database; by default a second SQLite file in the folder."""
    now: float = 1_000.0
    broken: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    wait_s: float | None = 60.0

    @property
    def calls(self) -> list[str]:
        """Calls of the summarizer so far, each as the ids of its messages."""
        file = self.folder / CALLS
        return file.read_text().splitlines() if file.exists() else []

    def copied(self, folder: Path) -> "World":
        """Copy the conversation, to continue it in another way."""
        shutil.copytree(self.folder, folder)
        return replace(self, folder=folder)

    @contextmanager
    def saver(self, fuse: Fuse | None = None) -> Generator[FusedSaver]:
        """Open LangGraph's file."""
        with closing(sqlite3.connect(self.folder / "checkpoints.db", check_same_thread=False)) as connection:
            yield FusedSaver(connection, fuse or Fuse())

    @contextmanager
    def opened(self, fuse: Fuse | None = None) -> Generator[Any]:
        """Open both files and build the agent; its runs report every place to `fuse`."""
        with self.saver(fuse) as saver, self.records() as database:
            yield self.agent(saver, database)

    def records(self) -> Database:
        """Open our database."""
        return Database.open(self.url or f"sqlite:///{self.folder / 'compaction.db'}")

    def agent(self, saver: Any, database: Database | str) -> Any:
        """The agent of this conversation."""
        with clock_of(lambda: self.now):
            return create_compacting_agent(
                ScriptedModel(replies=[answer]),
                [look],
                settings=settings(**{**SETTINGS, **self.settings}),
                summarizer=Scribe(self.folder / CALLS, self.broken),
                checkpointer=saver,
                database=database,
                token_counter=WORDS,
            ).with_config(configurable={"turn_wait_s": self.wait_s})


def said(text: str, name: str) -> dict[str, Any]:
    """Return the input of a user message with this text and id."""
    return {"messages": [HumanMessage(text, id=name)]}


def tell(graph: Any, text: str, name: str, config: RunnableConfig = CONFIG) -> dict[str, Any]:
    """Run one turn to its end, with each step on disk before the next begins."""
    ended: dict[str, Any] = graph.invoke(said(text, name), config, durability="sync")
    return ended
