"""`show` and `transcript`: what a compaction did and would do, and the whole conversation."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.checkpoint.messages.message_codec import handle
from langgraph_compaction.graph import CompactionThread
from langgraph_compaction.graph.cli.output import format_time, message_line
from langgraph_compaction.graph.inspector.page import CAUSES
from langgraph_compaction.nodes.config.policies import Preset
from langgraph_compaction.nodes.runtime.window_usage import WindowUsage, bars, legend, stored_usages
from tests.fakes import ScriptedModel, usage
from tests.graph.cli.commanding import call, lines
from tests.graph.harness import (
    CONFIG,
    SMALL,
    THREAD,
    agent,
    filler,
    full,
    ledger,
    said,
    standing,
    tool_block,
    values,
)

CLIPS: dict[str, Any] = {"tool_result_threshold": 60, "preview_tokens": 20, "tool_blocks_keep_unread": False}
WINDOW = 4_000
CONFIGURED = "context_compaction:\n" + "".join(
    f"  {name}: {value}\n" for name, value in {**SMALL, "context_window": WINDOW, "trigger_ratio": 0.99}.items()
)
PROMPT = f"Be brief. {filler(40)}"
TOKENS = ("tokens_before", "tokens_selected", "tokens_after_about")


@pytest.fixture
def db(tmp_path: Path) -> str:
    """Return the URL of a new database."""
    return f"sqlite:///{tmp_path / 'agent.db'}"


@pytest.fixture
def graph(db: str) -> Any:
    """An agent with a compaction behind it, all in that database."""
    saver = SQLAlchemySaver(db)
    saver.setup()
    made = agent(checkpointer=saver)
    made.invoke(full(), CONFIG)
    made.invoke(said("next", "next"), CONFIG)
    return made


@pytest.fixture
def growing(db: str) -> Any:
    """An agent with a long conversation in that database, which was never compacted."""
    return talked(db, PROMPT)


def test_a_compaction_is_shown(graph: Any, db: str) -> None:
    """`show` prints the figures, one line for each removed message in a terminal of any width, then the summary.

    With `--json`, `show` prints the same data as JSON.
    """
    (row,) = CompactionThread(graph, CONFIG).history()
    left = CompactionThread(graph, CONFIG).transcript()[: len(row.dropped)]
    head = (
        f"no. 1  {row.compaction_id}  {format_time(row.started_at)}  committed  selective+model",
        f"why   {CAUSES['precheck']}: 870 tokens; trigger 800, limit 1,000",
        f"left  14 messages left the view, 0 were shortened; 870 -> {row.tokens_after} tokens",
        f"cost  calls for the summary: 1, tokens not reported, price not known; {row.duration_s:.2f} s",
        f"undo  langgraph-compaction undo {THREAD} 1 --db {db}",
    )
    summary = ["", bold("summary"), *row.summary.splitlines()]
    for options, words, rest in (([], 30, " [... 339 characters]"), (["--whole"], 50, "")):
        shown = call("show", THREAD, row.compaction_id, "--db", db, *options, width=60, colors=True).stdout
        texts = [filler(words, f"r{who}{n}-") + rest for n in range(7) for who in "ua"]
        assert tuple(shown.splitlines()[:5]) == head
        assert shown.endswith(
            "\n".join(["", "", bold("left the view: 14 messages"), *map(listed, left, texts), *summary, ""])
        )
    (plain,) = lines("show", THREAD, row.compaction_id, "--db", db)
    usages = stored_usages(plain["window"])
    drawn = call("show", THREAD, row.compaction_id, "--db", db).stdout.splitlines()[5:]
    assert drawn[:2] == bars(usages, len(drawn[0])), "before and after, without colors"
    assert drawn[2:].index("") == len(list(legend(usages)))
    assert [message["id"] for message in plain["left"]] == list(row.dropped)
    assert [message["handle"] for message in plain["left"]] == list(map(handle, left))
    assert (plain["clipped"], plain["tokens_before"], plain["summary"]) == ([], 870, row.summary)
    assert "lists them" in call("show", THREAD, "0" * 16, "--db", db, expect=2).stderr


def bold(text: str) -> str:
    """Return the text as a heading in a terminal with colors."""
    return f"\x1b[1m{text}\x1b[0m"


def listed(message: AnyMessage, text: str) -> str:
    """Return the line that shows a message with this text in a terminal with colors."""
    return f"\x1b[2m{handle(message)} {message.type:>6} \x1b[0m{text}"


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("x" * 200, "x" * 200),
        ("one\n\ntwo", "one\n\ntwo"),
        ("x" * 201, f"{'x' * 200} [... 201 characters]"),
        (f"one\n\ntwo  {'x' * 2_000}", f"one two {'x' * 190} [... 2,010 characters]"),
    ],
)
def test_a_list_shows_two_hundred_characters_of_a_message(text: str, beginning: str) -> None:
    """A list cuts a text of more than 200 characters, and replaces each run of whitespace in the text with one space.

    The line then gives the length of the whole text.
    """
    message = AIMessage(text, id="m")
    assert message_line(message, whole=False).plain == f"{handle(message)}     ai {beginning}"
    assert message_line(message, whole=True).plain == f"{handle(message)}     ai {text}"


def test_a_diff_shows_what_went_and_what_came(graph: Any, db: str) -> None:
    """`diff` prints removed lines in red and added lines in green, and a narrow terminal does not break the lines."""
    (row,) = CompactionThread(graph, CONFIG).history()
    gone = [f"{kind}: {filler(50, f'r{who}{n}-')}" for n in range(8) for who, kind in (("u", "human"), ("a", "ai"))]
    new = [f"+human: {line}" for line in row.summary.splitlines()]
    told = [
        *(f"--- before {row.compaction_id}", "+++ now", f"@@ -1,17 +1,{len(new) + 6} @@"),
        *(f"-{line}" for line in gone[:14]),
        *new,
        *(f" {line}" for line in [*gone[14:], "human: and now?"]),
        *("+ai: ok", "+human: next", "+ai: ok"),
    ]
    whole = {"thread_id": THREAD, "compaction_id": row.compaction_id, "lines": told}
    assert lines("show", "--diff", THREAD, row.compaction_id, "--db", db) == [whole]
    codes = {"-": 31, "+": 32, "@": 36}
    assert call(
        "show", "--diff", THREAD, row.compaction_id, "--db", db, width=60, colors=True
    ).stdout.splitlines() == [f"\x1b[{codes[line[0]]}m{line}\x1b[0m" if line[0] in codes else line for line in told]


def test_the_transcript_is_whole(graph: Any, db: str) -> None:
    """The transcript contains the messages of the archive and of the state in order, with their handles.

    Each message is one line, even in a narrow terminal.
    """
    whole = CompactionThread(graph, CONFIG).transcript()
    found = lines("transcript", THREAD, "--db", db)
    assert [(message["id"], message["handle"]) for message in found] == [(one.id, handle(one)) for one in whole]
    shown = call("transcript", THREAD, "--db", db, width=60, colors=True).stdout
    assert shown.splitlines() == [listed(message, message.text) for message in whole]


def test_where_nothing_is_different_the_diff_says_so(graph: Any, db: str) -> None:
    """After an undo, and without the messages that came later."""
    name = standing(graph)["head"]
    assert call("show", "--diff", THREAD, name, "--db", db).stdout.startswith("--- before ")
    began = CompactionThread(graph, CONFIG).show(name).began_with
    CompactionThread(graph, CONFIG).undo(force=True)
    later = [RemoveMessage(str(message.id)) for message in values(graph)["messages"][len(began) :]]
    graph.update_state(CONFIG, {"messages": later}, as_node="commit")
    assert call("show", "--diff", THREAD, name, "--db", db).stdout == "There are no differences.\n"


@pytest.mark.parametrize(("summarizer", "told"), [("digest", False), (None, True)])
def test_only_a_summarizer_that_is_called_is_counted(db: str, summarizer: str | None, told: bool) -> None:
    """A digest is extracted, so `show` names no call of a summarizer."""
    with SQLAlchemySaver.from_url(db) as saver:
        saver.setup()
        agent(summarizer=summarizer, checkpointer=saver).invoke(full(), CONFIG)
    assert ("calls for the summary: 1" in call("show", THREAD, "last", "--db", db).stdout) is told


def test_an_attempt_that_did_not_compact_says_why(db: str) -> None:
    """The command prints the reason of an attempt in parentheses.

    The command omits the details, the strategy and the calls of the summarizer if an attempt has none.
    """
    with SQLAlchemySaver.from_url(db) as saver:
        saver.setup()
        graph = agent(summarizer=ScriptedModel(replies=[""]), checkpointer=saver)
        graph.invoke(full(), CONFIG)
        graph.invoke(said("x " * 1_200), CONFIG)
        rejected, _, refused = ledger(graph)
    shown = [call("show", THREAD, row.compaction_id, "--db", db).stdout.splitlines() for row in (rejected, refused)]
    ended = "rejected_empty (empty_summary: finish_reason=None)  selective+model"
    assert shown[0][0] == f"no. 1  {rejected.compaction_id}  {format_time(rejected.started_at)}  {ended}"
    assert shown[0][1] == f"why   {CAUSES['precheck']}: 870 tokens; trigger 800, limit 1,000"
    assert shown[0][2].startswith("cost  calls for the summary: 3, ")
    assert shown[1][0].endswith("  refused (message_over_limit)")
    assert shown[1][1] == f"why   {CAUSES['precheck']}: 1,204 tokens"


def test_what_a_compaction_shortened_is_shown_whole(db: str) -> None:
    """A separate heading lists the shortened messages with their original text.

    No message is listed as removed from the view.
    """
    with SQLAlchemySaver.from_url(db) as saver:
        saver.setup()
        graph = agent(checkpointer=saver, **CLIPS)
        blocks = [message for number in range(4) for message in tool_block(number, 200)]
        graph.invoke({"messages": [HumanMessage("first", id="q0"), *blocks, HumanMessage("go on", id="q1")]}, CONFIG)
    shown = call("show", THREAD, "1", "--db", db, "--whole").stdout.splitlines()
    results = [message for message in blocks if message.type == "tool"]
    listed_from = shown.index("shortened: 4 messages")
    assert shown[listed_from + 1 : shown.index("summary") - 1] == [
        f"{handle(message)}   tool {message.text}" for message in results
    ]
    assert "left  0 messages left the view, 4 were shortened; " in "\n".join(shown)
    assert not any(line.startswith("left the view") for line in shown)
    (plain,) = lines("show", THREAD, "1", "--db", db)
    assert (plain["left"], [message["id"] for message in plain["clipped"]]) == ([], [one.id for one in results])


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Return the path of the settings that the agent has."""
    path = tmp_path / "settings.yaml"
    path.write_text(CONFIGURED, encoding="utf-8")
    return str(path)


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


@pytest.mark.parametrize(
    ("preset", "prompt"),
    [(None, PROMPT), ("typed_rules", PROMPT), ("layered_defence", None)],  # the last counts in its own way
)
def test_it_says_what_the_function_says(db: str, config: str, preset: Preset | None, prompt: str | None) -> None:
    """From the checkpoint alone: the prompt's size and the provider's own counting are in the thread's state."""
    graph = talked(db, prompt)
    if preset is not None:  # the settings of another policy do not go with it
        shared = [line for line in CONFIGURED.splitlines() if not line.startswith("  dialogue_")]
        Path(config).write_text("\n".join(shared), encoding="utf-8")
    seen, named = CompactionThread(graph, CONFIG).preview(preset), [] if preset is None else ["--preset", preset]
    (told,) = lines("show", "--preview", THREAD, "--db", db, "--config", config, *named)
    assert not seen.reason
    for name in ("strategy", "summary", "ceiling", "floor", "reason", *TOKENS):
        assert told[name] == getattr(seen, name), name
    assert [one["id"] for one in told["dropped"]] == [one.id for one in seen.dropped]
    assert [one["content"] for one in told["clipped"]] == [old.content for old, _ in seen.clipped]
    assert (told["window"], told["limit"]) == (WINDOW, WINDOW)


def test_it_writes_nothing_and_is_what_then_happens(growing: Any, db: str, config: str) -> None:
    """In words: figures first, then what would go."""
    before = values(growing)
    (told,) = lines("show", "--preview", THREAD, "--db", db, "--config", config)
    shown = call("show", "--preview", THREAD, "--db", db, "--config", config).stdout
    assert values(growing) == before
    assert CompactionThread(growing, CONFIG).history() == []
    sizes = f"{told['tokens_before']:,} -> about {told['tokens_after_about']:,} tokens (trigger 3,920, limit 4,000)"
    usages = [WindowUsage(**usage) for usage in told["usages"]]
    assert [usage.tokens for usage in usages] == [told["tokens_before"], told["tokens_after_about"]]
    assert shown.splitlines() == [
        f"{told['strategy']}, a summary: {sizes}",
        *(*bars(usages, 100), *legend(usages)),
        *("", f"would leave the view: {len(told['dropped'])} messages"),
        *(message_line(message, whole=False).plain for message in before["messages"][: len(told["dropped"])]),
    ]
    CompactionThread(growing, CONFIG).compact()
    left = {message.id for message in values(growing)["messages"]}
    assert [one["id"] for one in told["dropped"]] == [m.id for m in before["messages"] if m.id not in left]


def test_a_window_is_all_it_needs(growing: Any, db: str) -> None:
    """The settings are the usual ones then. Where nothing would be done, it says why."""
    shown = call("show", "--preview", THREAD, "--db", db, "--window", "100000").stdout
    assert "(trigger 80,000, limit 90,000)" in shown
    short: Any = {"configurable": {"thread_id": "short"}}
    growing.invoke(said("hello"), short)
    shown = call("show", "--preview", "short", "--db", db, "--window", "100000").stdout
    assert shown.startswith(
        f"nothing would be done: {CompactionThread(growing, short).preview().reason}; the request holds "
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
@pytest.mark.usefixtures("growing")
def test_what_cannot_be_tried_says_so(db: str, words: tuple[str, ...], code: int, told: str) -> None:
    """No window, no such preset, no room, no such file, no such thread."""
    assert told in call("show", "--preview", *words, "--db", db, expect=code).stderr


def test_the_window_is_that_of_the_last_compaction(graph: Any, db: str) -> None:
    """Where it was stored, it need not be given, and a share is one of it."""
    assert "(trigger 800, limit 900)" in call("show", "--preview", THREAD, "--db", db).stdout
    assert "(trigger 400, limit 450)" in call("show", "--preview", THREAD, "--window", "50%", "--db", db).stdout
    assert CompactionThread(graph, CONFIG).history()[0].window is not None


def test_a_thread_whose_checkpoints_are_elsewhere_says_so(db: str) -> None:
    """Its compactions are here, what is in view is not."""
    agent(database=db).invoke(full(), CONFIG)
    told = call("show", "--preview", THREAD, "--db", db, "--window", "1000", expect=1).stderr
    assert "no checkpoint of a compacting graph" in told
    assert "in Python" in told
