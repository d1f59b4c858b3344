"""The conversation that every saver stores: an agent with a tool, real English text, about 1 kB a message."""

import random
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pydoc_data.topics import topics
from typing import Annotated, Any, TypedDict
from uuid import UUID

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph import message as reducers
from langgraph.types import Overwrite

PER_TURN = 4
"""Messages per turn: the user's, the call, its result, the answer."""

LONGEST = 1_100
"""Maximum number of turns for which there is text."""

DELTA_FREQUENCY = 50

_REDUCER: Any = reducers._messages_delta_reducer  # noqa: SLF001 - LangGraph's only one for it  # pyright: ignore[reportPrivateUsage]
_CHARACTERS = 670
_SHARE_OF_LETTERS = 0.85


class DeltaState(TypedDict):
    """`MessagesState` with a channel that stores changes and, at intervals, the whole list."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_REDUCER, snapshot_frequency=DELTA_FREQUENCY)]


def agent(saver: BaseCheckpointSaver[Any], *, delta: bool = False) -> Any:
    """Return a graph with a scripted model and a tool, which writes five checkpoints per turn."""
    schema: Any = DeltaState if delta else MessagesState

    def next_line(state: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [script()[len(state["messages"])]]}

    def after_model(state: dict[str, Any]) -> str:
        last = state["messages"][-1]
        return "tools" if isinstance(last, AIMessage) and last.tool_calls else END

    graph: Any = StateGraph(schema)
    graph.add_node("model", next_line, input_schema=schema)
    graph.add_node("tools", next_line, input_schema=schema)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", after_model, ["tools", END])
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


def question(turn: int) -> AnyMessage:
    """Return the user's text in this turn (counted from 0)."""
    return script()[turn * PER_TURN]


def compaction(messages: Sequence[AnyMessage], number: int) -> dict[str, Any]:
    """Return the update that replaces all messages but the last eight by a summary."""
    draw = random.Random(-1 - number)  # noqa: S311 - text that no other summary has
    text = " ".join(draw.sample(_paragraphs(), 6))[: 2 * _CHARACTERS]
    return {"messages": Overwrite([HumanMessage(text, id=_uuid(draw)), *messages[-8:]])}


@cache
def script() -> Sequence[AnyMessage]:
    """Return all messages of the longest thread, in order; texts and ids are the same on every run."""
    draw = random.Random(0)  # noqa: S311 - the same script every time
    texts = _texts(draw)
    return [message for turn in range(LONGEST) for message in _turn(turn, list(islice(texts, PER_TURN)), draw)]


def _turn(turn: int, texts: Sequence[str], draw: random.Random) -> list[AnyMessage]:
    asked, call, found, answer = texts
    call_id = f"call_{draw.getrandbits(96):024x}"
    arguments = {"query": found[:60], "limit": 5}
    return [
        HumanMessage(asked, id=_uuid(draw)),
        AIMessage(
            call[: _CHARACTERS // 2],
            id=f"lc_run--{_uuid(draw)}",
            tool_calls=[{"name": "search_documents", "args": arguments, "id": call_id, "type": "tool_call"}],
            **_metadata(turn, "tool_calls", draw),
        ),
        ToolMessage(found, tool_call_id=call_id, name="search_documents", id=_uuid(draw)),
        AIMessage(answer, id=f"lc_run--{_uuid(draw)}", **_metadata(turn, "stop", draw)),
    ]


def _metadata(turn: int, reason: str, draw: random.Random) -> dict[str, Any]:
    prompt, completion = 1_100 + 900 * turn, draw.randrange(90, 240)
    return {
        "response_metadata": {"model_name": "scripted-1", "finish_reason": reason, "model_provider": "openai"},
        "usage_metadata": {
            "input_tokens": prompt,
            "output_tokens": completion,
            "total_tokens": prompt + completion,
            "input_token_details": {"cache_read": prompt - 1_000},
        },
    }


def _texts(draw: random.Random) -> Iterator[str]:
    """Yield paragraphs in a new order on every pass, so that few repeat within some hundred messages."""
    paragraphs, made = _paragraphs(), ""
    while True:
        for paragraph in draw.sample(paragraphs, len(paragraphs)):
            made = f"{made} {paragraph}" if made else paragraph
            if len(made) >= _CHARACTERS:
                yield made
                made = ""


@cache
def _paragraphs() -> list[str]:
    """Return the prose of the language reference that Python ships, without grammar, code and tables."""
    raw = [part for name in sorted(topics) for part in topics[name].split("\n\n")]
    texts = [" ".join(part.split()) for part in raw if not part.startswith("   ")]
    return sorted({text for text in texts if len(text) >= 80 and _is_prose(text)})


def _is_prose(text: str) -> bool:
    letters = sum(character.isalpha() or character.isspace() for character in text)
    return letters > _SHARE_OF_LETTERS * len(text) and not any(mark in text for mark in ("::=", ">>>", "|"))


def _uuid(draw: random.Random) -> str:
    return str(UUID(int=draw.getrandbits(128), version=4))
