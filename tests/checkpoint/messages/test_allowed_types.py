"""Classes of an application in a state: what allows them, and that the advice of the error is enough."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from langgraph_compaction.checkpoint import AsyncSQLAlchemySaver, Keyring, SQLAlchemySaver, ValueTypeError
from langgraph_compaction.checkpoint.errors import RowError
from langgraph_compaction.checkpoint.messages.allowed_types import classes_in
from langgraph_compaction.checkpoint.messages.strict_serde import StrictSerializer
from langgraph_compaction.graph import CompactionState
from tests.checkpoint import structured
from tests.checkpoint.structured import Data, Model, Place, Sky, State, Typed, Wind
from tests.graph.harness import agent, said

CONFIG: Any = {"configurable": {"thread_id": "1"}}
ASKED = {"messages": [("user", "how is the weather?")]}
ROOT = Path(__file__).parent.parent.parent
READING = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.checkpoint.structured import Model
from langgraph_compaction.checkpoint import SQLAlchemySaver
with SQLAlchemySaver.from_url(sys.argv[1], allow=[Model]) as saver:
    found = saver.get_tuple({CONFIG!r})
    print(repr(found.checkpoint["channel_values"]["structured_response"]))
"""
ADVICE = re.compile(r"allow=\[([^\]]+)\]")


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        (Model, {"Model", "Wind"}),
        (Data, {"Data", "Wind"}),
        (State, {"Data", "Wind", "Sky", "Place"}),
        (Model | Data, {"Model", "Data", "Wind"}),
        (Typed, set()),
        (CompactionState, set()),
        (("tests.checkpoint.structured", "Wind"), {"Wind"}),
    ],
    ids=["model", "dataclass", "state", "union", "typed dict", "our state", "name"],
)
def test_a_class_allows_those_that_it_holds(allowed: Any, names: set[str]) -> None:
    """Through fields, unions and containers; what LangGraph calls safe needs no leave."""
    assert classes_in([allowed]) == {("tests.checkpoint.structured", name) for name in names}


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


def test_a_state_allows_only_classes_that_hold_values() -> None:
    """Models, dataclasses, enumerations and named tuples; other classes are not rebuilt from stored data."""
    assert {name for _, name in classes_in([Sea])} == {"Wind"}


def advised(error: Exception) -> list[Any]:
    """The classes that an error says to allow."""
    found = ADVICE.search(str(error))
    assert found, str(error)
    return [getattr(structured, name) for name in found[1].split(", ")]


@pytest.mark.parametrize("kind", [Model, Data])
@pytest.mark.parametrize("keys", [None, Keyring({"k": b"k" * 32}, current="k")], ids=["plain", "encrypted"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_the_advice_of_the_error_is_enough(kind: Any, keys: Any, asynchronous: bool, tmp_path: Path) -> None:
    """With what the first error names the agent's answer is stored, read, copied and taken back as it was."""
    url, opens = f"sqlite:///{tmp_path / 'threads.db'}", AsyncSQLAlchemySaver if asynchronous else SQLAlchemySaver

    def answered(allow: list[Any]) -> Any:
        saver = opens(url, allow=allow, keys=keys)
        saver.database.setup()
        built = structured.agent(kind, saver)
        if not asynchronous:
            built.invoke(ASKED, CONFIG)
            return built.get_state(CONFIG)

        async def driven() -> Any:
            await built.ainvoke(ASKED, CONFIG)
            return await built.aget_state(CONFIG)

        return asyncio.run(driven())

    with pytest.raises(ValueTypeError, match="not among the types") as refused:
        answered([])
    state = answered(advised(refused.value))
    expected = kind(city="Paris", wind=Wind(3))
    assert state.values["structured_response"] == expected
    with SQLAlchemySaver.from_url(url, allow=[kind], keys=keys) as again:
        again.copy_thread("1", "copy")
        built = structured.agent(kind, again)
        forked = built.update_state({"configurable": {"thread_id": "copy"}}, {"messages": [("user", "and then?")]})
        for config in (CONFIG, forked):
            assert built.get_state(config).values["structured_response"] == expected


def test_a_typed_dict_needs_no_leave() -> None:
    """Its values are plain."""
    with SQLAlchemySaver.from_url("memory") as saver:
        saver.setup()
        built = structured.agent(Typed, saver)
        built.invoke(ASKED, CONFIG)
        assert built.get_state(CONFIG).values["structured_response"] == {"city": "Paris"}


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
    done = subprocess.run([sys.executable, "-c", READING, url], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr(Model(city="Paris", wind=Wind(3)))


def test_all_that_is_missing_is_named_at_once() -> None:
    """Also what stands in fields that say nothing of it."""
    with pytest.raises(ValueTypeError) as refused:
        StrictSerializer().dumps_typed({"all": [Data("Paris", Wind(3)), Sky.CLEAR, Place("x")]})
    assert {*advised(refused.value)} == {Data, Wind, Sky, Place}


def test_a_class_that_cannot_be_found_again_is_refused_when_it_is_written() -> None:
    """It would make the thread unreadable, however it is allowed; the error says where to define it."""

    class Hidden(BaseModel):
        city: str

    for allow in ([], [Hidden]):
        with pytest.raises(
            ValueTypeError, match=f"the module {__name__} has no class Hidden at its top level; define"
        ):
            StrictSerializer(allow=allow).dumps_typed(Hidden(city="Paris"))


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
    assert agent(checkpointer=saver).checkpointer is saver
    saver.close()


@pytest.mark.parametrize(
    ("value", "names", "verb"),
    [([Wind(3)], ["Wind"], "is"), ([Wind(3), Data("Paris", Wind(3)), Wind(4)], ["Wind", "Data"], "are")],
)
def test_an_error_names_each_refused_class_once(value: list[Any], names: list[str], verb: str) -> None:
    """With its module, and as an argument of the saver."""
    with pytest.raises(ValueTypeError) as refused:
        StrictSerializer().dumps_typed(value)
    dotted = ", ".join(f"tests.checkpoint.structured.{name}" for name in names)
    assert str(refused.value) == (
        f"{dotted} {verb} not among the types that may be stored and loaded; if you trust them, add them to the "
        f"argument `allow` of the saver: allow=[{', '.join(names)}]; in LangGraph's server, in "
        "LANGGRAPH_COMPACTION_ALLOW"
    )
