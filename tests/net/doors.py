"""The doors of the package, each behind one small face: an agent of ours, LangChain's, an own graph, and a list.

A word costs 20 tokens, so that short texts fill a window of 30,000, which is also the limit.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from langgraph_compaction import CompactionMiddleware, SQLAlchemySaver
from langgraph_compaction.graph import (
    CompactionSettings,
    CompactionState,
    CompactionThread,
    compact_messages,
    create_compacting_agent,
    create_compaction_graph,
)
from langgraph_compaction.nodes import view
from langgraph_compaction.nodes.testing import ScriptedModel

WINDOW: Final = 30_000
A_WORD: Final = 20
ORDER: Final = re.compile(r"\[(?P<name>\w+)] (?P<verb>say|read) (?P<first>\d+) ?(?P<second>\d*)")
"""What an input tells the model to do: say so many words, or read so many pages of so many words, and then answer."""
SYSTEM: Final = "You keep the log of the harbor, and answer in one sentence."
SUMMARY: Final = """<summary>
## Goal
The user keeps a log of the crates in the northern shed.
## Progress
The entries were read and noted.
## Next steps
The next entry of the log.
</summary>"""
CONFIG: Any = {"configurable": {"thread_id": "net"}}
POLICIES = (
    *("selective", "typed_rules", "progressive", "progressive_chart", "progressive_pseudocode"),
    *("layered_defence", "recent_rounds", "reserve_tokens", "faithful"),
)


def count(messages: Sequence[Any]) -> int:
    """Tokens of messages: those of the words of texts and arguments, and of four words more a message."""
    calls = sum(len(str(call["args"]).split()) for message in messages for call in getattr(message, "tool_calls", ()))
    return A_WORD * (calls + sum(len(message.text.split()) + 4 for message in messages))


def log_of(name: str, words: int) -> str:
    """A text of about so many words, of which no two sentences are alike."""
    return " ".join(f"Entry {n} of {name}: crate {n}-{name} stays in the northern shed." for n in range(words // 10))


@tool
def read(page: str, words: int) -> str:
    """Read a page of the log."""
    return log_of(page, words)


class Died(Exception):  # noqa: N818 - what happened, not what is wrong
    """Stands for the end of a process."""


class Script:
    """The model of an application: what it was sent, what it answered, and everything that was said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        """Type and text of every message, in order."""
        self.dies = False
        """Whether the first request that is shorter than the one before it is not answered."""
        self.model = ScriptedModel(replies=[self._reply])

    @property
    def requests(self) -> list[list[BaseMessage]]:
        """Every request."""
        return self.model.received

    def _reply(self, request: list[BaseMessage]) -> Any:
        """Obey the newest input."""
        if self.dies and len(self.requests) > 1 and len(request) < len(self.requests[-2]):
            self.dies = False
            return Died("the process ends here")
        newest = next((m for m in reversed(request) if m.type == "tool" or ORDER.match(m.text)), request[-1])
        order = ORDER.match(newest.text) if newest.type == "human" else None
        if not order or order["verb"] == "say":
            answer = f"Answer {len(self.said)}. {log_of('answer', int(order['first'] if order else 0))}"
            self.said.append(("ai", answer))
            return answer
        arguments = [
            {"page": f"{order['name']}p{page}", "words": int(order["second"])} for page in range(int(order["first"]))
        ]
        self.said += [("ai", ""), *(("tool", log_of(given["page"], given["words"])) for given in arguments)]
        calls = [{"name": "read", "args": given, "id": f"call-{given['page']}"} for given in arguments]
        return AIMessage("", tool_calls=calls)


class Door:
    """A conversation behind one of the doors."""

    has_thread = True

    def __init__(self, policy: str, summary: Any = SUMMARY, url: str = "sqlite://", **settings: Any) -> None:
        self.script, self.summarizer = Script(), ScriptedModel(replies=[summary])
        self.settings = CompactionSettings(
            **{
                "preset": policy,
                "context_window": WINDOW,
                "output_reserve": 0,
                "require_confirmation": False,
                "summary_ahead": False,
                **settings,
            }
        )
        self.url = url
        self.events: list[dict[str, Any]] = []
        """What the runs told a person."""
        self.open()

    def open(self) -> None:
        """Open the database and build the graph."""
        self.saver = SQLAlchemySaver(self.url)
        self.saver.setup()
        self.graph = self.build()

    @property
    def requests(self) -> list[list[BaseMessage]]:
        """Every request that the application's model was sent."""
        return self.script.requests

    @property
    def thread(self) -> CompactionThread:
        """The conversation's thread."""
        return CompactionThread(self.graph, CONFIG)

    def close(self) -> None:
        """Close the database."""
        self.saver.close()

    def build(self) -> Any:
        """Return the graph."""
        raise NotImplementedError

    def say(self, text: str, **mark: Any) -> None:
        """Take a turn."""
        self.script.said.append(("human", text))
        marks = {"compaction": mark} if mark else {}
        self.run({"messages": [HumanMessage(text, id=text.partition("]")[0][1:], additional_kwargs=marks)]})

    def run(self, given: Any) -> None:
        """Run the graph to its end, and keep what it tells a person."""
        for _, event in self.graph.stream(given, CONFIG, stream_mode="custom", subgraphs=True):
            self.events.append(event)


class Agent(Door):
    """`create_compacting_agent`."""

    def build(self) -> Any:
        """Return the agent."""
        return create_compacting_agent(
            self.script.model,
            [read],
            system_prompt=SYSTEM,
            settings=self.settings,
            summarizer=self.summarizer,
            token_counter=count,
            checkpointer=self.saver,
        )


class Middleware(Door):
    """`CompactionMiddleware` in LangChain's agent."""

    def build(self) -> Any:
        """Return the agent."""
        middleware = CompactionMiddleware(settings=self.settings, summarizer=self.summarizer, token_counter=count)
        return create_agent(
            self.script.model, [read], system_prompt=SYSTEM, middleware=[middleware], checkpointer=self.saver
        )


class OwnGraph(Door):
    """A graph of the application's own, with the compaction before each call of its model."""

    def build(self) -> Any:
        """Return the graph."""
        compaction = create_compaction_graph(
            settings=self.settings,
            summarizer=self.summarizer,
            system_prompt=SYSTEM,
            tools=[read],
            token_counter=count,
            checkpointer=self.saver,
        )
        parent: Any = StateGraph(CompactionState)
        parent.add_node("compact", compaction)
        parent.add_node("model", self._model)
        parent.add_node("tools", ToolNode([read]))
        parent.add_edge(START, "compact")
        parent.add_edge("compact", "model")
        parent.add_conditional_edges("model", tools_condition)
        parent.add_edge("tools", "compact")
        return parent.compile(checkpointer=self.saver)

    def _model(self, state: CompactionState) -> dict[str, Any]:
        return {"messages": [self.script.model.invoke([SystemMessage(SYSTEM), *view(state)])]}


class PlainList(Door):
    """`compact_messages` on a list that the application keeps."""

    has_thread = False

    def build(self) -> Any:
        """Begin the list."""
        self.messages: list[AnyMessage] = [SystemMessage(SYSTEM, id="system")]

    def run(self, given: Any) -> None:
        """Compact and call the model until it calls no tool."""
        kept = self.messages
        self.messages = [*kept, *given["messages"]]
        while True:
            try:
                self.messages = compact_messages(
                    self.messages,
                    max_tokens=WINDOW,
                    settings=self.settings,
                    summarizer=self.summarizer,
                    token_counter=count,
                    force=False,
                )
            except Exception:
                self.messages = kept
                raise
            answer = self.script.model.invoke(self.messages)
            results = [
                ToolMessage(read.invoke(call["args"]), tool_call_id=call["id"], id=f"result-{call['id']}")
                for call in answer.tool_calls
            ]
            self.messages = [*self.messages, answer, *results]
            if not results:
                return


DOORS: dict[str, Callable[..., Door]] = {
    "agent": Agent,
    "middleware": Middleware,
    "own graph": OwnGraph,
    "list": PlainList,
}
