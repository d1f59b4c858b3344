"""Classes of an application in a state: what allows them, and that the advice of the error is enough."""

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any, TypedDict

import pytest

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, SQLAlchemySaver, ValueTypeError
from langgraph_compaction.checkpoint.errors import RowError
from langgraph_compaction.checkpoint.messages.allowed_types import classes_in
from langgraph_compaction.checkpoint.messages.strict_serde import StrictSerializer
from langgraph_compaction.graph import CompactionState
from tests.checkpoint import structured
from tests.checkpoint.structured import Data, Model, Place, Sky, State, Typed, Wind
from tests.graph.harness import agent, said

CONFIG: Any = {"configurable": {"thread_id": "1"}}
ASKED = {"messages": [("user", "how is the weather?")]}
ROOT = Path(__file__).parent.parent.parent.parent
ADVICE = re.compile(r"allow=\[([^\]]+)\]")


class Pair(tuple[Wind, Wind]):
    """A tuple that names no fields."""

    __slots__ = ()


class Fielded:
    """A class that has names of fields, as nodes of a syntax tree have, and is no tuple."""

    _fields = ("wind",)
    wind: Wind


class Sea(TypedDict):
    """A state with such classes."""

    pair: Pair
    fielded: Fielded
    wind: Wind


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        (Model, {"Model", "Wind"}),
        (Data, {"Data", "Wind"}),
        (State, {"Data", "Wind", "Sky", "Place"}),
        (Model | Data, {"Model", "Data", "Wind"}),
        (Typed, set()),
        (CompactionState, set()),
        (Sea, {"Wind"}),
        (("tests.checkpoint.structured", "Wind"), {"Wind"}),
    ],
    ids=["model", "dataclass", "state", "union", "typed dict", "our state", "odd classes", "name"],
)
def test_a_class_allows_those_that_it_holds(allowed: Any, names: set[str]) -> None:
    """Through fields, unions and containers; only classes that hold values, and none that LangGraph calls safe."""
    assert classes_in([allowed]) == {("tests.checkpoint.structured", name) for name in names}


def advised(error: Exception) -> list[Any]:
    """The classes that an error says to allow."""
    found = ADVICE.search(str(error))
    assert found, str(error)
    return [getattr(structured, name) for name in found[1].split(", ")]


@pytest.mark.parametrize("kind", [Model, Data])
def test_the_advice_of_the_error_is_enough(kind: Any, tmp_path: Path) -> None:
    """With what the first error names the agent's answer is stored, read, copied and taken back as it was."""
    url = f"sqlite:///{tmp_path / 'threads.db'}"

    def answered(allow: list[Any]) -> Any:
        with SQLAlchemySaver.from_url(url, allow=allow) as saver:
            saver.setup()
            built = structured.agent(kind, saver)
            built.invoke(ASKED, CONFIG)
            return built.get_state(CONFIG)

    with pytest.raises(ValueTypeError, match="not among the types") as refused:
        answered([])
    state = answered(advised(refused.value))
    expected = kind(city="Paris", wind=Wind(3))
    assert state.values["structured_response"] == expected
    with SQLAlchemySaver.from_url(url, allow=[kind]) as again:
        again.copy_thread("1", "copy")
        built = structured.agent(kind, again)
        forked = built.update_state({"configurable": {"thread_id": "copy"}}, {"messages": [("user", "and then?")]})
        for config in (CONFIG, forked):
            assert built.get_state(config).values["structured_response"] == expected


def in_another_process(script: str, url: str, **environment: str) -> str:
    """Return what a script prints that finds a saver's URL in `url`."""
    script = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nurl = sys.argv[1]\n{dedent(script)}"
    command = [sys.executable, "-c", script, url]
    return subprocess.run(
        command, env={"PATH": "", **environment}, capture_output=True, text=True, timeout=120, check=True
    ).stdout.strip()


def test_another_process_reads_what_it_allows(tmp_path: Path) -> None:
    """Written here, read there; without leave the row is refused with the same advice."""
    url = f"sqlite:///{tmp_path / 'threads.db'}"
    with SQLAlchemySaver.from_url(url, allow=[Model]) as saver:
        saver.setup()
        structured.agent(Model, saver).invoke(ASKED, CONFIG)
    with (
        SQLAlchemySaver.from_url(url) as saver,
        pytest.raises(RowError, match=r"allow=\[Wind, Model\].*LANGGRAPH_COMPACTION_ALLOW"),
    ):
        saver.get_tuple(CONFIG)
    reading = """
        from tests.checkpoint.structured import Model
        from langgraph_compaction.checkpoint import SQLAlchemySaver
        with SQLAlchemySaver.from_url(url, allow=[Model]) as saver:
            found = saver.get_tuple({"configurable": {"thread_id": "1"}})
            print(found.checkpoint["channel_values"]["structured_response"] == Model(city="Paris", wind={"speed": 3}))
    """
    assert in_another_process(reading, url) == "True"


def test_langgraph_allows_the_types_of_a_strict_graph(tmp_path: Path) -> None:
    """With LANGGRAPH_STRICT_MSGPACK a graph's own state classes are stored without being named to the saver."""
    strict = """
        from langgraph.graph import START, StateGraph
        from langgraph_compaction.checkpoint import SQLAlchemySaver
        from tests.checkpoint.structured import Data, State
        with SQLAlchemySaver.from_url(url) as saver:
            saver.setup()
            builder = StateGraph(State).add_node("node", lambda state: {"many": {"a": [Data("Paris")]}})
            graph = builder.add_edge(START, "node").compile(checkpointer=saver)
            graph.invoke({"many": {}}, {"configurable": {"thread_id": "1"}})
            print(graph.get_state({"configurable": {"thread_id": "1"}}).values["many"])
    """
    url = f"sqlite:///{tmp_path / 'threads.db'}"
    assert (
        in_another_process(strict, url, LANGGRAPH_STRICT_MSGPACK="true") == "{'a': [Data(city='Paris', wind=None)]}"
    )


def test_all_that_is_missing_is_named_at_once() -> None:
    """Also what stands in fields that say nothing of it."""
    with pytest.raises(ValueTypeError) as refused:
        StrictSerializer().dumps_typed({"all": [Data("Paris", Wind(3)), Sky.CLEAR, Place("x")]})
    assert {*advised(refused.value)} == {Data, Wind, Sky, Place}


class OwnState(CompactionState):
    """The state of an agent of ours with a channel of the application's."""

    weather: Data


@pytest.mark.parametrize("kind", [SQLAlchemySaver, AsyncSQLAlchemySaver])
async def test_an_agent_of_ours_stores_what_its_state_names(kind: Any) -> None:
    """Nothing needs to be allowed beside."""
    saver = kind("memory")
    built = agent(checkpointer=saver, state_schema=OwnState)
    await built.ainvoke({**said("hello"), "weather": Data("Paris", Wind(3))}, CONFIG)
    assert (await built.aget_state(CONFIG)).values["weather"] == Data("Paris", Wind(3))
    saver.close()
