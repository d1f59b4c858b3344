"""Classes of an application, and an agent that answers with one of them."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, NotRequired

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage
from pydantic import BaseModel
from typing_extensions import TypedDict

from langgraph_compaction.nodes.testing import ScriptedModel


class Sky(Enum):
    """An enumeration."""

    CLEAR = "clear"


class Place(NamedTuple):
    """A named tuple."""

    name: str


@dataclass
class Wind:
    """A dataclass."""

    speed: int


class Model(BaseModel):
    """A model with a model in it."""

    city: str
    wind: Wind | None = None


@dataclass
class Data:
    """A dataclass with one in it, which may come later."""

    city: str
    wind: Wind | None = None


class Typed(TypedDict):
    """A typed dict: what it makes is a dict."""

    city: str


class State(TypedDict):
    """A state that names classes in many ways."""

    many: dict[str, list[Data | None]]
    sky: NotRequired[Sky]
    place: Place


def agent(kind: Any, saver: Any) -> Any:
    """An agent that answers with this kind."""
    call = {"name": kind.__name__, "args": {"city": "Paris", "wind": {"speed": 3}}, "id": "c"}
    model = ScriptedModel(replies=[AIMessage("", tool_calls=[call])])
    return create_agent(model, tools=[], response_format=ToolStrategy(kind), checkpointer=saver)
