from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.graph.cli.commands.show_command import line_of
from langgraph_compaction.nodes.config.presets import Preset
from tests.fakes import ScriptedModel, usage
from tests.graph.cli.commanding import call, lines
from tests.graph.harness import CONFIG, SMALL, THREAD, agent, filler, full, said, tool_block, values

WINDOW = 4_000
CONFIGURED = "context_compaction:\n" + "".join(
    f"  {name}: {value}\n" for name, value in {**SMALL, "context_window": WINDOW, "trigger_ratio": 0.99}.items()
)
CLIPS = {"tool_result_threshold": 60, "preview_tokens": 20, "tool_blocks_keep_unread": False}


@pytest.fixture
def db(tmp_path: Path) -> str:
    """Return the URL of a new database."""
    return f"sqlite:///{tmp_path / 'agent.db'}"


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Return the path of the settings that the agent has."""
    path = tmp_path / "settings.yaml"
    path.write_text(CONFIGURED, encoding="utf-8")
    return str(path)


PROMPT = f"Be brief. {filler(40)}"


def talked(db: str, prompt: str | None) -> Any:
    """An agent with a long conversation, all in that database, that was never compacted."""
    saver = SQLAlchemySaver(db)
    saver.setup()
    model = ScriptedModel(replies=[usage(AIMessage("answered"), 3_600)])
    options: dict[str, Any] = {
        "summarizer": "digest",
        "context_window": WINDOW,
        "trigger_ratio": 0.99,
        "token_counter": None,
    }
    made = agent(model, checkpointer=saver, system_prompt=prompt, **options)
    made.invoke({"messages": [*full()["messages"], *tool_block(1, 100), *said("go on")["messages"]]}, CONFIG)
    return made


@pytest.fixture
def graph(db: str) -> Any:
    """One with a prompt."""
    return talked(db, PROMPT)


@pytest.mark.parametrize(
    ("preset", "prompt"),
    [(None, PROMPT), ("typed_rules", PROMPT), ("layered_defence", None)],  # the last counts in its own way
)
def test_it_says_what_the_function_says(db: str, config: str, preset: Preset | None, prompt: str | None) -> None:
    """From the checkpoint alone: the prompt's size and the provider's own counting are in the thread's state."""
    graph = talked(db, prompt)
    seen, named = CompactionThread(graph, CONFIG).preview(preset), [] if preset is None else ["--preset", preset]
    (told,) = lines("preview", THREAD, "--db", db, "--config", config, *named)
    assert not seen.reason
    for name in ("strategy", "summary", "ceiling", "floor", "reason", *TOKENS):
        assert told[name] == getattr(seen, name), name
    assert [one["id"] for one in told["dropped"]] == [one.id for one in seen.dropped]
    assert [one["content"] for one in told["clipped"]] == [old.content for old, _ in seen.clipped]
    assert (told["window"], told["limit"]) == (WINDOW, WINDOW)


TOKENS = ("tokens_before", "tokens_selected", "tokens_after_about")


def test_it_writes_nothing_and_is_what_then_happens(graph: Any, db: str, config: str) -> None:
    """In words: figures first, then what would go."""
    before = values(graph)
    (told,) = lines("preview", THREAD, "--db", db, "--config", config)
    shown = call("preview", THREAD, "--db", db, "--config", config).stdout
    assert values(graph) == before
    assert CompactionThread(graph, CONFIG).history() == []
    sizes = f"{told['tokens_before']:,} -> about {told['tokens_after_about']:,} tokens (trigger 3,920, limit 4,000)"
    assert shown.splitlines() == [
        f"{told['strategy']}, a summary: {sizes}",
        *("", f"would leave the view: {len(told['dropped'])} messages"),
        *(line_of(message, whole=False).plain for message in before["messages"][: len(told["dropped"])]),
    ]
    CompactionThread(graph, CONFIG).compact()
    left = {message.id for message in values(graph)["messages"]}
    assert [one["id"] for one in told["dropped"]] == [m.id for m in before["messages"] if m.id not in left]


@pytest.mark.parametrize(("auto_recall", "after"), [(False, WINDOW), (True, WINDOW - 200)])
def test_tokens_for_a_quotation_are_kept_free_once_there_is_an_archive(
    db: str, config: str, auto_recall: bool, after: int
) -> None:
    """With `auto_recall`, the limit is lower by 5 % of the room, but only after the first compaction."""
    graph = talked(db, None)
    Path(config).write_text(f"{CONFIGURED}  auto_recall: {str(auto_recall).lower()}\n", encoding="utf-8")
    limits = [lines("preview", THREAD, "--db", db, "--config", config)[0]["limit"]]
    CompactionThread(graph, CONFIG).compact()
    limits += [lines("preview", THREAD, "--db", db, "--config", config)[0]["limit"]]
    assert limits == [WINDOW, after]


@pytest.mark.parametrize("prompt", [PROMPT, None])
def test_the_prompt_counts_after_a_compaction_too(db: str, config: str, prompt: str | None) -> None:
    """A compaction removes the stored token usage. Without a prompt and tools, only the messages count."""
    graph = talked(db, prompt)
    CompactionThread(graph, CONFIG).compact()
    (told,) = lines("preview", THREAD, "--db", db, "--config", config)
    assert told["tokens_before"] == CompactionThread(graph, CONFIG).preview().tokens_before


def test_a_window_is_all_it_needs(graph: Any, db: str) -> None:
    """The settings are the usual ones then. Where nothing would be done, it says why."""
    shown = call("preview", THREAD, "--db", db, "--window", "100000").stdout
    assert "(trigger 80,000, limit 90,000)" in shown
    short: Any = {"configurable": {"thread_id": "short"}}
    graph.invoke(said("hello"), short)
    shown = call("preview", "short", "--db", db, "--window", "100000").stdout
    assert shown.startswith(
        f"nothing would be done: {CompactionThread(graph, short).preview().reason}; the request holds "
    )


def test_what_would_be_shortened_is_shown(graph: Any, db: str, config: str) -> None:
    """Under a heading of its own."""
    clips = "".join(f"  {name}: {str(value).lower()}\n" for name, value in CLIPS.items())
    Path(config).write_text(CONFIGURED + clips, encoding="utf-8")
    seen = CompactionThread(graph, CONFIG).preview(settings=CLIPS)
    shown = call("preview", THREAD, "--db", db, "--config", config, width=60).stdout.splitlines()
    assert shown[shown.index("would be shortened: 1 messages") + 1 :] == [
        line_of(old, whole=False).plain for old, _ in seen.clipped
    ]


def test_a_compaction_without_a_summary_says_so(graph: Any, db: str, config: str) -> None:
    """The first line says that there is no summary and gives the sizes, and is not wrapped in a narrow terminal."""
    seen = CompactionThread(graph, CONFIG).preview("typed_rules")
    shown = call("preview", THREAD, "--db", db, "--config", config, "--preset", "typed_rules", width=60).stdout
    assert shown.splitlines()[0] == (
        f"{seen.strategy}, no summary: {seen.tokens_before:,} -> about {seen.tokens_after_about:,} tokens "
        "(trigger 3,920, limit 4,000)"
    )


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((THREAD, "--window", "25%"), 2, "25% is a share, and the model's own window is not known"),
        ((THREAD,), 2, "no window is known here"),
        ((THREAD, "--preset", "nonsense"), 2, "there is no preset 'nonsense'"),
        ((THREAD, "--window", "60", "--preset", "selective"), 2, "no room for a conversation"),
        ((THREAD, "--config", "missing.yaml"), 2, "missing.yaml"),
        (("nobody", "--window", "4000"), 2, "there is no thread 'nobody'"),
    ],
)
@pytest.mark.usefixtures("graph")
def test_what_cannot_be_tried_says_so(db: str, words: tuple[str, ...], code: int, told: str) -> None:
    """No window, no such preset, no room, no such file, no such thread."""
    assert told in call("preview", *words, "--db", db, expect=code).stderr


def test_a_thread_whose_checkpoints_are_elsewhere_says_so(db: str) -> None:
    """Its compactions are here, what is in view is not."""
    agent(database=db).invoke(full(), CONFIG)
    told = call("preview", THREAD, "--db", db, "--window", "1000", expect=1).stderr
    assert "no checkpoint of a compacting graph" in told
    assert "in Python" in told
