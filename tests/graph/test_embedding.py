from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Overwrite
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
    head = world.ledger[-1].compaction_id
    whole = records_of(world.inner).transcript(THREAD, "compact", world.messages, head=head)
    assert [message.id for message in whole if message.type == "human"] == [f"user-{turn}" for turn in range(10)]
    assert len(whole) == 20


@PERSIST
async def test_the_stored_namespace_has_no_task_ids(go: Drive, persist: str) -> None:
    """Rows of every turn stand under the node's name, in a chain and with a growing epoch."""
    world = World(persist)
    for turn in range(10):
        await go.invoke(world.graph, said(filler(100, f"t{turn}-")))
    rows = world.ledger
    assert {row.namespace for row in rows} == {"compact"}
    assert [row.epoch for row in rows] == list(range(len(rows)))
    assert [row.parent_id for row in rows] == [None, *(row.compaction_id for row in rows[:-1])]


async def test_a_nested_namespace_is_a_path(go: Drive) -> None:
    """Two levels down the names of the nodes stand one behind the other."""
    world = World()
    grand = StateGraph(CompactionState)
    grand.add_node("team", world.graph.builder.compile())
    grand.add_edge(START, "team")
    await go.invoke(grand.compile(checkpointer=InMemorySaver()), {"messages": rounds(8)})
    assert [row.namespace for row in world.ledger] == ["team|compact"]


@PERSIST
async def test_a_message_the_parent_deleted_stays_deleted(go: Drive, persist: str) -> None:
    """Neither a compaction nor the node's own memory brings it back."""
    world = World(persist)
    for turn in range(8):
        await go.invoke(world.graph, said(filler(100, f"t{turn}-"), f"user-{turn}"))
        if turn in (1, 6):
            world.graph.update_state(CONFIG, {"messages": [RemoveMessage(id=f"user-{turn}")]}, as_node="answer")
    assert "committed" in world.verdicts
    assert not {"user-1", "user-6"} & {message.id for message in world.messages}
    assert "t6-0" not in texts(world.model.received[-1])
    head = world.ledger[-1].compaction_id
    whole = records_of(world.inner).transcript(THREAD, "compact", world.messages, head=head)
    assert [m.id for m in whole if m.type == "human"] == [f"user-{turn}" for turn in (0, 2, 3, 4, 5, 7)]


@PERSIST
async def test_a_message_the_parent_edited_stays_edited(go: Drive, persist: str) -> None:
    """A message that a compaction clipped is the parent's to change: the next turn does not clip it again."""
    world = World(persist, model=ScriptedModel(), tool_result_threshold=120, preview_tokens=10)
    given = [*rounds(6), HumanMessage("look", id="look"), *tool_block(1, 130), AIMessage("seen", id="seen")]
    await go.invoke(world.graph, {"messages": [*given, HumanMessage("and now?")]})
    assert "TRUNCATED" in texts(world.messages)
    edited = ToolMessage("all of it", tool_call_id="call-1", id="result-1", name="read")
    world.graph.update_state(CONFIG, {"messages": [edited]}, as_node="answer")
    await go.invoke(world.graph, said("more"))
    assert edited in world.messages


@PERSIST
async def test_epoch_rung_and_streak_survive_from_turn_to_turn(go: Drive, persist: str) -> None:
    """A failed turn makes the next one take the next level, and two failures in a row start the cool-down."""
    world = World(persist, ScriptedModel(replies=[ValueError("down")]), model=ScriptedModel())
    await go.invoke(world.graph, {"messages": [*rounds(8), HumanMessage("one")]})
    await go.invoke(world.graph, said("two"))
    assert world.verdicts == ["failed_permanent", "degraded_deterministic"]
    assert [row.level for row in world.ledger] == [0, 2]


@PERSIST
async def test_the_cool_down_holds_inside_a_parent(go: Drive, persist: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept with the rest of the compaction's memory, by the wall clock."""
    world = World(persist, model=ScriptedModel())
    monkeypatch.setattr(records_of(world.inner), "commit", refuse)
    for text in ("one", "two", "three"):
        await go.invoke(world.graph, {"messages": [*rounds(8), *said(text)["messages"]]})
    assert world.verdicts == ["failed_permanent", "failed_permanent", "deferred_cooldown"]
    world.clock.time += 8
    await go.invoke(world.graph, said("four"))
    assert world.verdicts[3] == "failed_permanent"


def refuse(*_: Any, **__: Any) -> None:
    """Fail like a disk."""
    raise OSError("read-only")


@PERSIST
async def test_a_message_sent_with_a_confirmation_is_kept(go: Drive, persist: str) -> None:
    """The draft is applied to the parent's list as it is when the answer comes."""
    world = World(persist, require_confirmation=True)
    await go.invoke(world.graph, {"messages": [*rounds(8), HumanMessage("and now?", id="question")]})
    assert world.graph.get_state(CONFIG).interrupts
    late = HumanMessage("and be quick", id="late")
    await go.invoke(world.graph, Command(resume={"accept": True, "focus": "eggs"}, update={"messages": [late]}))
    assert world.verdicts == ["committed"]
    assert [message.id for message in world.messages][-3:-1] == ["question", "late"]
    assert "eggs" in texts(world.summarizer.received[0])
    assert late in world.model.received[0]


@PERSIST
async def test_a_declined_question_leaves_the_parent_as_it_was(go: Drive, persist: str) -> None:
    """And it is remembered: a small growth does not ask again."""
    world = World(persist, require_confirmation=True, model=ScriptedModel())
    given = [*rounds(8), HumanMessage("and now?", id="question")]
    await go.invoke(world.graph, {"messages": given})
    await go.invoke(world.graph, Command(resume=False))
    assert [message.id for message in world.messages[:-1]] == [message.id for message in given]
    await go.invoke(world.graph, said("more"))
    assert not world.graph.get_state(CONFIG).interrupts
    assert world.verdicts == ["declined"]


@pytest.mark.parametrize("options", [{}, {"checkpointer": True}], ids=["plain", "own checkpointer"])
async def test_the_bare_graph_as_a_node_is_an_error(go: Drive, options: dict[str, Any]) -> None:
    """It could never shrink its parent; the error names the way that can."""
    bare = create_compaction_graph(settings=CompactionSettings(**SMALL), **options)
    parent = StateGraph(CompactionState)
    parent.add_node("compact", bare)
    parent.add_edge(START, "compact")
    with pytest.raises(EmbeddingError, match="as_node"):
        await go.invoke(parent.compile(checkpointer=InMemorySaver()), said("hello"))


@PERSIST
async def test_an_input_larger_than_the_window_is_refused(go: Drive, persist: str) -> None:
    """The parent's list holds the line in its place, and its model node is sent that."""
    world = World(persist, model=ScriptedModel())
    await go.invoke(world.graph, said(filler(1_200), "huge"))
    (stand_in, _) = world.messages
    assert stand_in.id == "huge"
    assert stand_in.text.startswith("[This message was not sent")
    assert world.verdicts == ["refused"]
    await go.invoke(world.graph, said("hello"))
    assert len(world.messages) == 4


@PERSIST
async def test_a_refusal_inside_a_parent_may_raise(go: Drive, persist: str) -> None:
    """With `on_refusal="raise"` the parent's model node is not reached, and the next input works."""
    world = World(persist, model=ScriptedModel(), on_refusal="raise")
    with pytest.raises(MessageRefusedError, match="1204"):
        await go.invoke(world.graph, said(filler(1_200), "huge"))
    assert world.model.received == []
    await go.invoke(world.graph, said("hello"))
    assert world.messages[-1].text == "ok"


@PERSIST
async def test_defects_in_the_parents_list_are_mended(go: Drive, persist: str) -> None:
    """Dicts, missing ids and repeated ids that other nodes left do not stop a compaction."""
    world = World(persist, model=ScriptedModel())
    odd: list[Any] = [{"role": "user", "content": filler(50)}, HumanMessage("same", id="r-user-1"), *rounds(8)]
    world.graph.update_state(CONFIG, {"messages": Overwrite(odd)}, as_node=START)
    await go.invoke(world.graph, None)
    assert world.verdicts == ["committed"]
    ids = [message.id for message in world.messages]
    assert len(set(ids)) == len(ids)


async def test_without_a_thread_nothing_is_written(go: Drive) -> None:
    """The draft alone carries the transaction."""
    world = World(model=ScriptedModel())
    graph = world.graph.builder.compile()
    result = await go.invoke(graph, {"messages": rounds(8)}, {"configurable": {}})
    assert result["compaction"]["epoch"] == 1
    assert records_of(world.inner).threads() == []


@PERSIST
async def test_only_the_parents_answer_streams(go: Drive, persist: str) -> None:
    """Neither the summary nor a restored message appears in the parent's message stream."""
    world = World(persist, StreamingModel(replies=[SUMMARY]), StreamingModel(replies=["here you are"]))
    chunks = await go.stream(world.graph, {"messages": rounds(8)}, stream_mode="messages")
    assert "".join(message.text for message, _ in chunks) == "here you are"
    assert world.verdicts == ["committed"]


async def test_a_node_may_stand_behind_the_answer_too(go: Drive) -> None:
    """Used twice in one parent, before and after the model, it is still one conversation."""
    world = World(model=ScriptedModel(replies=[filler(60)]))
    builder = StateGraph(CompactionState)
    builder.add_node("before", as_node(world.inner))
    builder.add_node("answer", world.answer)
    builder.add_node("after", as_node(world.inner))
    for source, target in ((START, "before"), ("before", "answer"), ("answer", "after"), ("after", END)):
        builder.add_edge(source, target)
    graph = builder.compile(checkpointer=InMemorySaver())
    await go.invoke(graph, {"messages": [*rounds(7), HumanMessage("and now?")]})
    assert values(graph)["compaction"]["epoch"] == 1
    assert [row.namespace for row in world.ledger] == ["after"]


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
