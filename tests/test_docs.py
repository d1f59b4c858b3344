"""The guides tell the truth: what they show as the way it is done here runs, and does what they say."""

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

from langgraph_compaction.nodes.state import view
from langgraph_compaction.nodes.testing import ScriptedModel, texts
from tests.fakes import copying
from tests.invariants import check_request, is_summary

GUIDE = Path(__file__).parent.parent / "docs" / "migrate.md"
TEXT = GUIDE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
AGENTS = [block for block in BLOCKS if "agent = " in block]
LISTS = [block for block in BLOCKS if block not in AGENTS]
WINDOW = 2_000
NEEDLES = [f"NEEDLE-{n}" for n in range(20)]


def answer(messages: list[Any]) -> str:
    """A summary that copies every needle that it is shown, or an answer."""
    if "record of a conversation" in messages[0].text:
        return str(copying(r"NEEDLE-\d+")(messages))
    return "done"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    """Return what `init_chat_model` gives: a model with a small window that answers and summarizes."""
    scripted = ScriptedModel(replies=[answer], profile_window=WINDOW)
    monkeypatch.setattr("langchain.chat_models.init_chat_model", lambda _: scripted)
    return scripted


def run(block: str) -> dict[str, Any]:
    """The names that a block defines."""
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(block, str(GUIDE), "exec"), names)  # noqa: S102 - it is our own guide
    return names


@pytest.mark.parametrize("block", AGENTS, ids=range(len(AGENTS)))
def test_an_agent_of_a_guide_keeps_a_long_conversation(block: str, model: ScriptedModel) -> None:
    """Twenty turns in a small window: each answered, none over it, the old ones in a summary, nothing forgotten."""
    agent = run(block)["agent"]
    config: Any = {"configurable": {"thread_id": "1"}}
    for needle in NEEDLES:
        said = HumanMessage(f"Remember {needle}. {'It is a long story. ' * 50}")
        assert agent.invoke({"messages": [said]}, config)["messages"][-1].text == "done"
    state = agent.get_state(config).values
    assert len(state["messages"]) == 2 * len(NEEDLES)
    assert sum(map(is_summary, view(state))) == 1
    asked = [request for request in model.received if "record of a conversation" not in request[0].text]
    assert len(asked) == len(NEEDLES)
    for request in asked:
        check_request(request)
        assert count_tokens_approximately(request) <= WINDOW
    lost = [needle for needle in NEEDLES if needle not in texts(asked[-1])]
    assert len(lost) <= (0 if re.search(r"summarizer=|Middleware", block) else 2), (
        "the digest has a tenth of the room"
    )


def test_a_list_is_compacted_where_it_was_trimmed() -> None:
    """At the same number of tokens the old reservations are still known."""
    trimmed, compacted = (run(block)["messages"] for block in LISTS)
    for messages in (trimmed, compacted):
        assert count_tokens_approximately(messages) <= 1_000
    known = [
        [f"ZX81Q{n}" for n in range(20) if f"ZX81Q{n} " in f"{texts(m)} ".replace(".", " ")]
        for m in (trimmed, compacted)
    ]
    assert len(known[0]) < 10
    assert len(known[1]) > len(known[0])
