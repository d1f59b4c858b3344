"""A thread with a compaction of every kind, and hostile text in it."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.graph.inspector.report import Report, report_of
from langgraph_compaction.graph.inspector.thread_data import read, stamp
from tests.fakes import ScriptedModel, usage
from tests.graph.harness import CONFIG, SUMMARY, THREAD, WORDS, agent, filler, full, rounds, said

HOSTILE = """</script><script>window.owned = 1</script><img src=x onerror="window.owned = 1"><svg/onload=owned=1>
<!--<script>--> {{ 7 * 7 }} ${window.owned = 1} javascript:owned=1 \u2028 " ' &lt;b&gt;"""


class Told:
    """A thread in an SQLite file, and the graph that wrote it."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'agent.db'}"
        self.saver = SQLAlchemySaver(self.url)
        self.saver.setup()
        model = ScriptedModel(replies=[usage(AIMessage("answered", id="the-answer"), 100), "later"])
        self.mute = True
        summarizer = ScriptedModel(replies=[lambda _: "" if self.mute else SUMMARY])
        self.graph = agent(model, summarizer, checkpointer=self.saver, on_summary_failure="digest")

    def report(self) -> Report:
        """Return the report of the thread."""
        return report_of(read(self.saver, THREAD), WORDS, known=stamp(self.saver, THREAD))

    def say(self, text: str, name: str | None = None) -> Any:
        """Run another turn."""
        return self.graph.invoke(said(text, name), CONFIG)

    def grow(self, tag: str) -> Any:
        """Run a turn whose input exceeds the trigger."""
        return self.graph.invoke({"messages": [*rounds(7, 50, tag), HumanMessage("on", id=f"{tag}-on")]}, CONFIG)


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """Return a thread with one attempt, which failed because the summary was empty."""
    made = Told(tmp_path)
    hostile = [HumanMessage(f"{HOSTILE} {filler(20, 'h')}", id="hostile"), AIMessage("I see", id="seen")]
    made.graph.invoke({"messages": [*hostile, *full()["messages"]]}, CONFIG)
    made.mute = False
    return made


@pytest.fixture
def every(told: Told) -> Told:
    """Return the thread with a compaction in force, one on another branch and one that was undone."""
    CompactionThread(told.graph, CONFIG).pin(message_id="seen")
    told.say("again", "again")
    fork = told.graph.get_state(CONFIG).config
    told.grow("b")
    told.graph.invoke(said("from an older checkpoint", "fork"), fork)
    told.grow("c")
    CompactionThread(told.graph, CONFIG).undo(force=True)
    return told
