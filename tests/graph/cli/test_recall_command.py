from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.messages.message_codec import handle
from langgraph_compaction.graph import CompactionThread
from tests.graph.cli.commanding import call, lines
from tests.graph.harness import CONFIG, THREAD, agent, filler, full, ledger

FACT = HumanMessage(f"My booking is ZK-4471, seat 12C. {filler(60, 'b')}", id="fact")


@pytest.fixture
def db(tmp_path: Path) -> str:
    """Return the URL of a new database."""
    return f"sqlite:///{tmp_path / 'agent.db'}"


@pytest.fixture
def graph(db: str) -> Any:
    """An agent out of whose view a fact has left."""
    saver = SQLAlchemySaver(db)
    saver.setup()
    made = agent(checkpointer=saver)
    made.invoke({"messages": [FACT, AIMessage("noted", id="noted"), *full()["messages"]]}, CONFIG)
    return made


def test_what_left_the_view_is_found(graph: Any, db: str) -> None:
    """As the function in Python finds it; as JSON each message whole, with its place."""
    told = call("recall", THREAD, "booking", "ZK-4471", "--db", db).stdout
    assert told.rstrip("\n") == CompactionThread(graph, CONFIG).recall("booking ZK-4471")
    assert FACT.text in told
    first = lines("recall", THREAD, "booking", "ZK-4471", "--db", db)[0]
    assert (first["id"], first["content"], first["handle"]) == ("fact", FACT.text, handle(FACT))
    assert first["compaction_id"] == ledger(graph)[0].compaction_id
    assert first["score"] > 0


def test_it_is_found_by_its_handle_and_in_a_compaction(graph: Any, db: str) -> None:
    """A compaction alone gives all that it took, in order; with a query, what holds the words first."""
    assert FACT.text in call("recall", THREAD, "--handle", handle(FACT)[:12], "--db", db).stdout
    name = ledger(graph)[0].compaction_id
    assert [one["id"] for one in lines("recall", THREAD, "--handle", name, "--db", db)][:2] == ["fact", "noted"]
    assert lines("recall", THREAD, "ZK-4471", "--handle", name, "--db", db)[0]["id"] == "fact"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((THREAD,), 2, "give a query"),
        (("nobody", "x"), 2, "there is no thread 'nobody'"),
        ((THREAD, "x", "--since", "soon"), 2, "--since"),
        ((THREAD, "x", "--max-tokens", "0"), 2, "--max-tokens"),
    ],
)
@pytest.mark.usefixtures("graph")
def test_what_cannot_be_looked_for_says_so(db: str, words: tuple[str, ...], code: int, told: str) -> None:
    """Nothing asked, no such thread, no such time, no room."""
    assert told in call("recall", *words, "--db", db, expect=code).stderr
