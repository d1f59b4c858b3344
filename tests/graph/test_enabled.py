"""`enabled=False`: nothing compacts by itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import HumanMessage

from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.nodes import ContextExhaustedError
from langgraph_compaction.nodes.config.settings import CompactionOverrides
from tests.fakes import ScriptedModel
from tests.graph.harness import CONFIG, Drive, agent, full, ledger, rounds, said, values, verdicts

OFF = {"enabled": False}


async def test_over_the_trigger_nothing_happens(go: Drive) -> None:
    """The turn is answered, and the ledger stays empty."""
    graph = agent(**OFF)
    result = await go.invoke(graph, full())
    assert len(result["messages"]) == len(full()["messages"]) + 1
    assert ledger(graph) == []


async def test_over_the_limit_is_an_error_that_says_what_to_do(go: Drive) -> None:
    """The request is not sent; the conversation stays, a person's wish compacts it, and the next turn is answered."""
    graph = agent(**OFF)
    given = {"messages": [*rounds(10), HumanMessage("and now?", id="question")]}
    with pytest.raises(ContextExhaustedError) as caught:
        await go.invoke(graph, given)
    assert str(caught.value) == (
        "the request holds 1086 tokens and the limit is 1000; it was not sent. Nothing compacts by itself with "
        "enabled=False: call CompactionThread(graph, config).compact(), or set it True."
    )
    assert [message.id for message in values(graph)["messages"]] == [message.id for message in given["messages"]]
    CompactionThread(graph, CONFIG).compact()
    assert verdicts(graph) == ["committed"]
    assert (await go.invoke(graph, said("go on")))["messages"][-1].type == "ai"


async def test_a_providers_overflow_goes_through(go: Drive) -> None:
    """The error is the caller's to handle, and the model is asked once."""
    model = ScriptedModel(replies=[ContextOverflowError("the prompt is too long"), "twelve"])
    graph = agent(model, **OFF)
    with pytest.raises(ContextOverflowError):
        await go.invoke(graph, {"messages": rounds(5)[:-1]})
    assert (len(model.received), verdicts(graph)) == (1, [])


async def test_a_run_may_switch_it_on(go: Drive) -> None:
    """As any setting of the builder's."""
    graph = agent(**OFF)
    await go.invoke(graph, full(), context=CompactionOverrides.model_validate({"enabled": True}))
    assert verdicts(graph) == ["committed"]


SERVED = """
import asyncio
from langgraph_compaction.graph.agent import agent
dependencies = asyncio.run(agent()).builder.nodes["token_check"].runnable.dependencies
print(dependencies.settings.model_dump_json(include={"preset", "context_window", "trigger_ratio", "target_ratio"}))
"""


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, '{"preset":"selective","context_window":null,"trigger_ratio":0.8,"target_ratio":0.5}'),
        (
            {"CONFIG": "agent.yaml", "TARGET_RATIO": "0.4"},
            '{"preset":"recent_rounds","context_window":9000,"trigger_ratio":0.7,"target_ratio":0.4}',
        ),
    ],
)
def test_the_servers_graph_reads_file_and_environment(variables: dict[str, str], said: str, tmp_path: Path) -> None:
    """The environment stands over the file; without a window of theirs the model's stands."""
    settings = "{preset: recent_rounds, max_context_tokens: 9000, trigger_ratio: 0.7, target_ratio: 0.3}"
    (tmp_path / "agent.yaml").write_text(f"context_compaction: {settings}", encoding="utf-8")
    served = _served(variables, tmp_path)
    assert (served.returncode, served.stdout.strip()) == (0, said)


def test_a_servers_setting_that_is_wrong_is_named(tmp_path: Path) -> None:
    """The server does not start, and says which variable it is."""
    served = _served({"TRIGGER_RATION": "0.7"}, tmp_path)
    assert served.returncode == 1
    assert served.stderr.splitlines()[-1].endswith(
        "SettingsError: LANGGRAPH_COMPACTION_TRIGGER_RATION: there is no such setting; did you mean "
        "LANGGRAPH_COMPACTION_TRIGGER_RATIO?"
    )


def test_importing_the_servers_module_opens_nothing(tmp_path: Path) -> None:
    """Neither the file of settings nor the database is looked at before the graph is asked for."""
    wrong = {"CONFIG": "none.yaml", "DATABASE_URL": "nonsense"}
    imported = _served(wrong, tmp_path, "import langgraph_compaction.graph.agent")
    assert (imported.returncode, imported.stderr) == (0, "")
    assert "none.yaml: cannot be read" in _served(wrong, tmp_path).stderr


def _served(variables: dict[str, str], folder: Path, code: str = SERVED) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("LANGGRAPH_COMPACTION_", "OPENAI_"))}
    given = {f"LANGGRAPH_COMPACTION_{name}": value for name, value in variables.items()}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, **given},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
