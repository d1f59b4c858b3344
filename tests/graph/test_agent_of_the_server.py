"""The graph and the checkpointer that `langgraph.json` names: what they take from the environment."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from langgraph_compaction.checkpoint import ValueTypeError
from langgraph_compaction.graph import agent as served
from langgraph_compaction.nodes import SettingsError
from tests.checkpoint import structured

CONFIG: Any = {"configurable": {"thread_id": "1"}}
ASKED = {"messages": [("user", "how is the weather?")]}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """Build the graph anew for each test, without a key, on a database of its own."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("LANGGRAPH_COMPACTION_DATABASE_URL", f"sqlite:///{tmp_path / 'threads.db'}")
    served._built.cache_clear()
    yield monkeypatch
    served._built.cache_clear()


async def answered() -> Any:
    """Ask an agent whose answer is an object of a class, on a thread of the server's checkpointer; read it back."""
    async with served.checkpointer() as saver:
        built = structured.agent(structured.Model, saver)
        await built.ainvoke(ASKED, CONFIG)
        return (await built.aget_state(CONFIG)).values["structured_response"]


async def test_the_checkpointer_stores_the_classes_that_the_variable_names(
    environment: pytest.MonkeyPatch,
) -> None:
    """And without the variable the error names the variable."""
    with pytest.raises(ValueTypeError, match="LANGGRAPH_COMPACTION_ALLOW"):
        await answered()
    served._built.cache_clear()
    module = structured.__name__
    environment.setenv("LANGGRAPH_COMPACTION_ALLOW", f"{module}:Model, {module}:Wind")
    assert await answered() == structured.Model(city="Paris", wind=structured.Wind(3))


async def test_a_wrong_name_of_a_class_stops_the_server_at_its_start(environment: pytest.MonkeyPatch) -> None:
    """The checkpointer is not opened."""
    environment.setenv("LANGGRAPH_COMPACTION_ALLOW", "Weather")
    with pytest.raises(SettingsError, match="write module:Class"):
        async with served.checkpointer():
            pass
