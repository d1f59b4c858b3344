from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from pydantic import BaseModel

from langgraph_compaction.graph import (
    CompactionSettings,
    CompactionState,
    CompactionThread,
    MessageRefusedError,
    as_node,
    create_compaction_graph,
)
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes import render
from langgraph_compaction.nodes.compaction_request import CompactionRequest, Memory, RequestChannel
from langgraph_compaction.nodes.errors import EmbeddingError
from langgraph_compaction.nodes.state import CompactionChannel, merge
from tests.fakes import ScriptedModel, StreamingModel, clock_of, texts
from tests.graph.harness import (
    CONFIG,
    SMALL,
    SUMMARY,
    THREAD,
    WORDS,
    Clock,
    Drive,
    filler,
    full,
    request_tokens,
    rounds,
    said,
    tool_block,
    values,
)
from tests.graph.test_chained import copying, summaries
from tests.settings import settings as chosen_of

PERSIST = pytest.mark.parametrize("persist", ["parent", "subgraph"])


class World:
    """A parent graph with its own model node behind the compaction."""

    def __init__(self, persist: Any = "parent", summarizer: Any = None, model: Any = None, **settings: Any) -> None:
        self.model = model or ScriptedModel(replies=[filler(60)])
        self.summarizer = summarizer or ScriptedModel(replies=[SUMMARY])
        self.clock = Clock()
        with clock_of(self.clock):
            self.inner = create_compaction_graph(
                settings=chosen_of(SMALL, **settings),
                summarizer=self.summarizer,
                token_counter=WORDS,
            )
        node = as_node(self.inner, persist=persist)
        parent = StateGraph(CompactionState if persist == "parent" else MessagesState)
        parent.add_node("compact", node)
        parent.add_node("answer", self.answer)
        parent.add_edge(START, "compact")
        parent.add_edge("compact", "answer")
        self.graph = parent.compile(checkpointer=InMemorySaver())

    def answer(self, state: MessagesState) -> dict[str, Any]:
        """The parent's own model node."""
        return {"messages": [self.model.invoke(render(state["messages"]))]}

    @property
    def messages(self) -> list[AnyMessage]:
        """The parent's messages."""
        found: list[AnyMessage] = values(self.graph)["messages"]
        return found

    @property
    def ledger(self) -> Any:
        """The attempts of the parent's thread."""
        return records_of(self.inner).history(THREAD)

    @property
    def verdicts(self) -> list[str | None]:
        """Their verdicts."""
        return [row.verdict for row in self.ledger]


@PERSIST
async def test_ten_turns_with_two_compactions(go: Drive, persist: str) -> None:
    """The parent really shrinks, its next request holds the summary, and nothing said is lost."""
    world = World(persist, ScriptedModel(replies=[copying]))
    for turn in range(10):
        await go.invoke(world.graph, said(f"SENTINEL-{turn} {filler(100)}", f"user-{turn}"))
    assert world.verdicts.count("committed") >= 2
    assert set(world.verdicts) == {"committed"}
    assert max(map(request_tokens, world.model.received)) <= 1_000
    assert len(world.messages) < 12
    assert len(summaries(world.messages)) == 1
    assert all(f"SENTINEL-{turn}" in texts(world.model.received[-1]) for turn in range(10))
    assert {row.namespace for row in world.ledger} == {"compact"}
    head = world.ledger[-1].compaction_id
    whole = records_of(world.inner).transcript(THREAD, "compact", world.messages, head=head)
    assert [message.id for message in whole if message.type == "human"] == [f"user-{turn}" for turn in range(10)]
    assert len(whole) == 20


@PERSIST
async def test_what_the_parent_deleted_or_edited_stays_so(go: Drive, persist: str) -> None:
    """No compaction brings a message back, or shortens one again that the parent has made whole."""
    world = World(persist, model=ScriptedModel(), tool_result_threshold=120, preview_tokens=10)
    given = [*rounds(6), HumanMessage("look", id="look"), *tool_block(1, 130), AIMessage("seen", id="seen")]
    await go.invoke(world.graph, {"messages": [*given, HumanMessage("and now?")]})
    assert "TRUNCATED" in texts(world.messages)
    edited = ToolMessage("all of it", tool_call_id="call-1", id="result-1", name="read")
    world.graph.update_state(CONFIG, {"messages": [edited, RemoveMessage("look")]}, as_node="answer")
    await go.invoke(world.graph, said("more"))
    assert edited in world.messages
    assert "look" not in {message.id for message in world.messages}


async def test_the_bare_graph_as_a_node_is_an_error(go: Drive) -> None:
    """It could never shrink its parent; the error names the way that can."""
    bare = create_compaction_graph(settings=CompactionSettings(**SMALL))
    parent = StateGraph(CompactionState)
    parent.add_node("compact", bare)
    parent.add_edge(START, "compact")
    with pytest.raises(EmbeddingError, match="as_node"):
        await go.invoke(parent.compile(checkpointer=InMemorySaver()), said("hello"))


@PERSIST
@pytest.mark.parametrize("on_refusal", ["message", "raise"])
async def test_an_input_larger_than_the_window_is_refused(go: Drive, persist: str, on_refusal: str) -> None:
    """The parent's model node is sent a line in its place, or not reached; the next input works."""
    world = World(persist, model=ScriptedModel(), on_refusal=on_refusal)
    if on_refusal == "raise":
        with pytest.raises(MessageRefusedError, match="1204"):
            await go.invoke(world.graph, said(filler(1_200), "huge"))
        assert world.model.received == []
    else:
        await go.invoke(world.graph, said(filler(1_200), "huge"))
        assert world.model.received[0][0].text.startswith("[This message was not sent")
    assert world.verdicts == ["refused"]
    await go.invoke(world.graph, said("hello"))
    assert world.messages[-1].text == "ok"


@PERSIST
async def test_only_the_parents_answer_streams(go: Drive, persist: str) -> None:
    """Neither the summary nor a restored message appears in the parent's message stream."""
    world = World(persist, StreamingModel(replies=[SUMMARY]), StreamingModel(replies=["here you are"]))
    chunks = await go.stream(world.graph, {"messages": rounds(8)}, stream_mode="messages")
    assert "".join(message.text for message, _ in chunks) == "here you are"
    assert world.verdicts == ["committed"]


@pytest.mark.parametrize("name", ["another", "zebra"])
async def test_a_message_of_a_branch_beside_the_node_is_kept(go: Drive, name: str) -> None:
    """Whichever of the two writes first, the message stands behind the compacted conversation."""
    inner = create_compaction_graph(settings=CompactionSettings(**SMALL), summarizer="digest", token_counter=WORDS)
    parent = StateGraph(CompactionState)
    parent.add_node("compact", as_node(inner))
    beside = [AIMessage("beside", id="beside"), RemoveMessage("r-user-0")]  # which the compaction removes, too
    parent.add_node(name, lambda _: {"messages": beside})
    parent.add_edge(START, "compact")
    parent.add_edge(START, name)
    graph = parent.compile(checkpointer=InMemorySaver())
    await go.invoke(graph, full())
    found = values(graph)["messages"]
    assert [message.id for message in found][-1] == "beside"
    assert len(summaries(found)) == 1


class Model(BaseModel):
    """A state that pydantic checks."""

    messages: Annotated[list[AnyMessage], add_messages] = []
    turns: int = 0


class OwnChannels(Model):
    """The same with the channels of a compaction."""

    compaction: Annotated[CompactionChannel, merge] = {}
    memory: Annotated[Memory, merge] = {}
    compaction_request: Annotated[CompactionRequest | None, RequestChannel] = None


@dataclass(slots=True)
class Data:
    """A state that is a dataclass."""

    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list[AnyMessage])
    turns: int = 0


@pytest.mark.parametrize("schema", [Model, Data, OwnChannels])
async def test_a_state_may_be_an_object(go: Drive, schema: type[Any]) -> None:
    """A model of pydantic or a dataclass; with the channels of a compaction, an undo works as well."""
    inner = create_compaction_graph(settings=CompactionSettings(**SMALL), summarizer="digest", token_counter=WORDS)
    has_channels = schema is OwnChannels
    parent = StateGraph(schema)
    parent.add_node("compact", as_node(inner, persist="parent" if has_channels else "subgraph"))
    shown: list[list[AnyMessage]] = []
    parent.add_node(
        "answer", lambda state: shown.append(CompactionThread(inner, CONFIG).render(state)) or {"turns": 1}
    )
    parent.add_edge(START, "compact")
    parent.add_edge("compact", "answer")
    graph = parent.compile(checkpointer=InMemorySaver())
    given = full()["messages"]
    await go.invoke(graph, {"messages": given})
    found = values(graph)["messages"]
    assert len(summaries(found)) == 1
    assert shown == [found]
    assert request_tokens(found) < request_tokens(given)
    if has_channels:
        CompactionThread(graph, CONFIG).undo(force=True)
        assert [message.id for message in values(graph)["messages"]] == [message.id for message in given]
