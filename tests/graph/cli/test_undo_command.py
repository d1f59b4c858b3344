import json
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import Mock

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.graph import START, StateGraph
from typer.testing import CliRunner

from langgraph_compaction.checkpoint import CompactionRecords, SQLAlchemySaver
from langgraph_compaction.checkpoint.compaction.attempt import AttemptKey
from langgraph_compaction.checkpoint.compaction.prepared import PREPARING
from langgraph_compaction.checkpoint.messages.message_codec import handle
from langgraph_compaction.graph import CompactionState, CompactionThread, as_node, create_compaction_graph
from langgraph_compaction.graph.cli.commands.show_command import line_of
from langgraph_compaction.graph.cli.commands.threads_command import format_time
from langgraph_compaction.graph.cli.find_compaction import find_compaction
from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.checkpoint.samples import opening
from tests.fakes import ScriptedModel
from tests.graph.cli.commanding import call, lines
from tests.graph.harness import (
    CONFIG,
    THREAD,
    WORDS,
    agent,
    filler,
    frozen,
    full,
    ledger,
    said,
    standing,
    tool_block,
    values,
    verdicts,
)

CLIPS = {"tool_result_threshold": 60, "preview_tokens": 20, "tool_blocks_keep_unread": False}


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


def test_an_undo_by_command_is_what_the_thread_goes_on_from(graph: Any, db: str) -> None:
    """The originals stand again, the ledger tells, nothing is compacted until it is released."""
    whole, head = CompactionThread(graph, CONFIG).transcript(), standing(graph)["head"]
    before = graph.get_state(CONFIG)
    assert call("undo", THREAD, "--db", db, "--force", width=60).stdout == (
        f"undone: {head}. 20 messages are in view, about 3,286 tokens (trigger 800, limit 1,000). "
        f"Automatic compactions pause until `release {THREAD}`.\n"
    )
    after = graph.get_state(CONFIG)
    assert after.metadata == {"source": "update", "step": before.metadata["step"] + 1, "parents": {}}
    assert (after.parent_config, after.next) == (before.config, ())
    assert frozen(after.values["messages"]) == frozen(whole)
    assert standing(graph)["held"]
    assert verdicts(graph)[-1] == "undone"
    assert call("history", THREAD, "--db", db).stdout.count(head[:8]) == 2, "the row of the undo names what it undid"
    graph.invoke(said("held"), CONFIG)
    assert standing(graph)["epoch"] == 1
    told = call("release", THREAD, "--db", db).stdout
    assert f"Automatic compactions of {THREAD} are allowed again." in told
    graph.invoke(said("released"), CONFIG)
    assert standing(graph)["epoch"] == 2


@pytest.mark.parametrize("command", [("undo", "--force"), ("release",)])
def test_a_thread_on_which_a_run_works_is_left_alone(graph: Any, db: str, command: tuple[str, ...]) -> None:
    """The command waits as long as it may, says what to do, and changes nothing."""
    run = graph.stream(said("more"), CONFIG)
    next(run)
    name, *options = command
    told = call(name, THREAD, "--db", db, "--wait", "0", *options, expect=1).stderr
    assert (
        "another run has been working on thread 'thread' for the 0 s that this run may wait for it (--wait)" in told
    )
    assert "start it again when the other one is over" in told
    list(run)
    assert values(graph)["messages"][-2].text == "more"
    assert not standing(graph).get("held")
    call(name, THREAD, "--db", db, "--wait", "0", *options)


def test_over_the_limit_it_wants_to_be_forced(graph: Any, db: str) -> None:
    """By the tokens that are counted here; nothing changes."""
    before = values(graph)
    assert "--force undoes it all the same" in call("undo", THREAD, "--db", db, expect=1).stderr
    assert values(graph) == before


@pytest.mark.parametrize("as_json", [False, True])
def test_an_undo_where_no_limit_is_stored_needs_no_force(graph: Any, db: str, as_json: bool) -> None:
    """The checkpoints of older versions of the package store no limit, so the command reports no limit."""
    graph.update_state(CONFIG, {"compaction": {"sizes": {}}}, as_node="commit")
    head = standing(graph)["head"]
    if as_json:
        told = {"thread_id": THREAD, "undone": [head], "messages": 20, "tokens_about": 3_286}
        assert lines("undo", THREAD, "--db", db) == [{**told, "trigger": None, "limit": None}]
    else:
        assert call("undo", THREAD, "--db", db).stdout == (
            f"undone: {head}. 20 messages are in view, about 3,286 tokens. "
            f"Automatic compactions pause until `release {THREAD}`.\n"
        )
    assert len(values(graph)["messages"]) == 20


def test_a_second_undo_wants_to_be_forced_too(graph: Any, db: str) -> None:
    """The limit is known after a compaction was undone, or was tried in vain, as well."""
    for n in range(20):
        graph.invoke(said(filler(50, f"later{n}-")), CONFIG)
    assert standing(graph)["epoch"] > 1
    CompactionThread(graph, CONFIG).compact()
    call("undo", THREAD, "--db", db, "--force")
    before = values(graph)
    assert "the limit was 1,000" in call("undo", THREAD, "1", "--db", db, expect=1).stderr
    assert values(graph) == before
    told = json.loads(call("undo", THREAD, "1", "--db", db, "--force", "--json").stdout)
    assert (told["trigger"], told["limit"]) == (800, 1_000)


def test_what_cannot_be_undone_says_so(graph: Any, db: str) -> None:
    """A compaction the state does not rest on, a thread that is not there, a turn that is not over."""
    assert "`history" in call("undo", THREAD, "0" * 16, "--db", db, expect=2).stderr
    call("undo", THREAD, "1", "--db", db, "--force")
    call("release", THREAD, "--db", db)
    graph.invoke(said("more " * 300), CONFIG)
    assert "or several ids begin so" in call("undo", THREAD, "1", "--db", db, "--force", expect=1).stderr
    assert "there is no thread 'nobody'" in call("undo", "nobody", "--db", db, expect=2).stderr
    graph.update_state(CONFIG, {"compaction": {"step": "model"}}, as_node="token_check")
    assert "resume it first" in call("undo", THREAD, "--db", db, "--force", expect=1).stderr


class Notes(CompactionState):
    """A parent with a channel of its own."""

    notes: Annotated[list[str], lambda old, new: [*(old or []), *new]]


def test_other_channels_of_a_graph_stay(db: str) -> None:
    """The command knows nothing of the graph: what it does not change stays as it is."""
    saver = SQLAlchemySaver(db)
    saver.setup()
    settings = CompactionSettings(context_window=1_000, output_reserve=0, dialogue_rounds_keep_min=2)
    inner = create_compaction_graph(settings=settings, database=saver.database, token_counter=WORDS)
    builder = StateGraph(Notes)
    builder.add_node("compact", as_node(inner))
    builder.add_edge(START, "compact")
    parent = builder.compile(checkpointer=saver)
    given = [*full()["messages"][:-1], HumanMessage("last", id="last")]
    parent.invoke({"messages": given, "notes": ["mine"]}, CONFIG)
    assert any(map(is_summary, parent.get_state(CONFIG).values["messages"]))
    call("undo", THREAD, "--db", db, "--force")
    state = parent.get_state(CONFIG)
    assert frozen(state.values["messages"]) == frozen(given)
    assert state.values["notes"] == ["mine"]
    assert state.next == ()
    assert parent.invoke({"messages": [], "notes": ["more"]}, CONFIG)["notes"] == ["mine", "more"]


def test_a_compaction_is_shown(graph: Any, db: str) -> None:
    """`show` prints the figures, the summary, and one line for each removed message in a terminal of any width.

    With `--json`, `show` prints the same data as JSON.
    """
    (row,) = CompactionThread(graph, CONFIG).history()
    left = CompactionThread(graph, CONFIG).transcript()[: len(row.dropped)]
    figures = f"{format_time(row.started_at)}  committed  selective+model, trigger precheck: 870 -> 238 tokens"
    summary = ["", bold("summary"), *row.summary.splitlines(), "", bold("left the view: 14 messages")]
    for options, words, rest in (([], 30, " [... 339 characters]"), (["--whole"], 50, "")):
        shown = call("show", THREAD, row.compaction_id, "--db", db, *options, width=60, colors=True).stdout
        texts = [filler(words, f"r{who}{n}-") + rest for n in range(7) for who in "ua"]
        assert shown.splitlines() == [
            f"{figures}, 1 call of the summarizer",
            *summary,
            *map(listed, left, texts),
        ]
    (plain,) = lines("show", THREAD, row.compaction_id, "--db", db)
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
    assert line_of(message, whole=False).plain == f"{handle(message)}     ai {beginning}"
    assert line_of(message, whole=True).plain == f"{handle(message)}     ai {text}"


def test_a_compaction_is_named_in_short(graph: Any, db: str) -> None:
    """By its number in the list of them, as `last`, or by the beginning of its id, whichever the command."""
    for _ in range(2):
        graph.invoke(said("more " * 300), CONFIG)
    first, last = (row.compaction_id for row in CompactionThread(graph, CONFIG).history())
    listed = call("history", THREAD, "--db", db).stdout.splitlines()
    assert [line.split()[:2] for line in listed[-2:]] == [["1", first[:8]], ["2", last[:8]]]
    for name, meant in (("1", first), (first[:8], first), ("2", last), ("last", last)):
        (shown,) = lines("show", THREAD, name, "--db", db)
        assert shown["compaction_id"] == meant
        assert lines("diff", THREAD, name, "--db", db)[0]["compaction_id"] == meant
    assert lines("branch", THREAD, "1", "--db", db)[0]["from"] == THREAD
    assert lines("undo", THREAD, "1", "--db", db, "--force")[0]["undone"] == [first, last]
    (shown,) = lines("show", THREAD, "last", "--db", db)
    assert (shown["compaction_id"], shown["verdict"]) == (last, "committed")  # not the undo
    assert lines("threads", "--db", db)[0]["compactions"] == 2


def test_a_preparation_is_no_compaction(graph: Any, db: str, tmp_path: Path) -> None:
    """`last` is the compaction before it, and `threads` and `inspect` do not count it."""
    (row,) = CompactionThread(graph, CONFIG).history()
    with SQLAlchemySaver.from_url(db) as saver:
        records, given = CompactionRecords(saver.database), opening(trigger=PREPARING)
        key = AttemptKey(THREAD, "", "base", 0, -1)
        assert records.claim_preparation(key, {"epoch": 1}, now=10.0, until=99.0, unused=9, **given) is None
        assert len(records.history(THREAD)) == 2
    assert lines("show", THREAD, "last", "--db", db)[0]["compaction_id"] == row.compaction_id
    assert lines("threads", "--db", db)[0]["compactions"] == 1
    assert "compactions: 1)" in call("inspect", THREAD, "--db", db, "--out", str(tmp_path / "t.html")).stdout


def test_the_beginning_of_several_ids_names_none() -> None:
    """The error asks for more of the id."""
    rows = [Mock(compaction_id=f"abcd{n}") for n in range(2)]
    records: Any = Mock(history=lambda _thread: rows)
    assert find_compaction(records, "t", "abcd1") is rows[1]
    with pytest.raises(SettingsError, match="ids of 2 compactions of thread 't' begin with 'abcd'"):
        find_compaction(records, "t", "abcd")


def test_a_few_digits_are_a_number() -> None:
    """Also where an id begins with them; longer digits are the beginning of an id."""
    rows = [Mock(compaction_id="98012345aa"), Mock(compaction_id="1234567890")]
    records: Any = Mock(history=lambda _thread: rows)
    assert find_compaction(records, "t", "2") is rows[1]
    assert find_compaction(records, "t", "98012345") is rows[0]
    for name in ("9", "0", "1234567"):
        with pytest.raises(SettingsError, match=f"has no compaction '{name}': `history t` lists them"):
            find_compaction(records, "t", name)


def test_the_database_may_be_named_by_the_environment(graph: Any, db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option overrides it."""
    assert standing(graph)["epoch"] == 1
    monkeypatch.setenv("LANGGRAPH_COMPACTION_DATABASE_URL", db)
    assert [row["thread_id"] for row in lines("threads")] == [THREAD]
    assert "there is no file" in call("threads", "--db", "sqlite:///elsewhere.db", expect=2).stderr


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
    assert lines("diff", THREAD, row.compaction_id, "--db", db) == [whole]
    codes = {"-": 31, "+": 32, "@": 36}
    assert call("diff", THREAD, row.compaction_id, "--db", db, width=60, colors=True).stdout.splitlines() == [
        f"\x1b[{codes[line[0]]}m{line}\x1b[0m" if line[0] in codes else line for line in told
    ]


def test_the_transcript_is_whole(graph: Any, db: str) -> None:
    """The transcript contains the messages of the archive and of the state in order, with their handles.

    Each message is one line, even in a narrow terminal.
    """
    whole = CompactionThread(graph, CONFIG).transcript()
    found = lines("transcript", THREAD, "--db", db)
    assert [(message["id"], message["handle"]) for message in found] == [(one.id, handle(one)) for one in whole]
    shown = call("transcript", THREAD, "--db", db, width=60, colors=True).stdout
    assert shown.splitlines() == [listed(message, message.text) for message in whole]


def test_a_branch_is_a_thread_to_talk_to(graph: Any, db: str) -> None:
    """It stands where the compaction began."""
    (row,) = CompactionThread(graph, CONFIG).history()
    (told,) = lines("branch", THREAD, row.compaction_id, "--db", db, "--as", "second")
    config = {"configurable": {"thread_id": "second"}}
    assert told["messages"] == len(values(graph, config)["messages"]) == 17
    assert (told["thread_id"], told["from"]) == ("second", THREAD)
    state = graph.get_state(config)
    assert (state.next, state.metadata) == ((), {"source": "update", "step": 0, "parents": {}})
    assert [standing(graph, config)[name] for name in ("step", "route")] == ["end", "end"], "its turn is over"
    assert len(graph.invoke(said("on"), config)["messages"]) > 1
    assert "already" in call("branch", THREAD, row.compaction_id, "--db", db, "--as", "second", expect=2).stderr


def test_a_thread_is_forgotten_only_after_a_yes(graph: Any, db: str) -> None:
    """It asks; `--yes` does not."""
    assert CliRunner().invoke(app, ["forget", THREAD, "--db", db], input="n\n").exit_code == 1
    assert values(graph)
    call("forget", THREAD, "--db", db, "--yes")
    assert graph.get_state(CONFIG).values == {}
    assert lines("threads", "--db", db) == []


def test_where_nothing_is_different_the_diff_says_so(graph: Any, db: str) -> None:
    """After an undo, and without the messages that came later."""
    name = standing(graph)["head"]
    assert call("diff", THREAD, name, "--db", db).stdout.startswith("--- before ")
    began = CompactionThread(graph, CONFIG).show(name).began_with
    CompactionThread(graph, CONFIG).undo(force=True)
    later = [RemoveMessage(str(message.id)) for message in values(graph)["messages"][len(began) :]]
    graph.update_state(CONFIG, {"messages": later}, as_node="commit")
    assert call("diff", THREAD, name, "--db", db).stdout == "There are no differences.\n"


@pytest.mark.parametrize(("summarizer", "told"), [("digest", False), (None, True)])
def test_only_a_summarizer_that_is_called_is_counted(db: str, summarizer: str | None, told: bool) -> None:
    """A digest is extracted, so `show` names no call of a summarizer."""
    with SQLAlchemySaver.from_url(db) as saver:
        saver.setup()
        agent(summarizer=summarizer, checkpointer=saver).invoke(full(), CONFIG)
    assert (", 1 call of the summarizer" in call("show", THREAD, "last", "--db", db).stdout) is told


def test_the_figures_of_an_attempt_are_one_line_however_long_the_reason(db: str) -> None:
    """A terminal breaks the line where it likes; a program that reads `show` finds the calls at its end."""
    failing = ScriptedModel(replies=[RuntimeError(filler(80, "why"))])
    with SQLAlchemySaver.from_url(db) as saver:
        saver.setup()
        agent(summarizer=failing, checkpointer=saver).invoke(full(), CONFIG)
    (line,) = call("show", THREAD, "1", "--db", db).stdout.splitlines()
    assert f"RuntimeError: {filler(80, 'why')})" in line
    assert line.endswith(", 3 calls of the summarizer")


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
    shown = [
        call("show", THREAD, row.compaction_id, "--db", db).stdout.splitlines()[0] for row in (rejected, refused)
    ]
    why = "rejected_empty (empty_summary: finish_reason=None)"
    sizes = "selective+model, trigger precheck: 870 tokens, 3 calls of the summarizer"
    assert shown == [
        f"{format_time(rejected.started_at)}  {why}  {sizes}",
        f"{format_time(refused.started_at)}  refused (message_over_limit)  trigger precheck: 1,204 tokens",
    ]


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
    assert shown[shown.index("</facts>") + 1 :] == [
        *("", "shortened: 4 messages"),
        *(f"{handle(message)}   tool {message.text}" for message in results),
    ]
    (plain,) = lines("show", THREAD, "1", "--db", db)
    assert (plain["left"], [message["id"] for message in plain["clipped"]]) == ([], [one.id for one in results])


def test_pins_stay_where_an_undo_by_command_gives_them_their_whole_text(db: str) -> None:
    """In their original form the pinned messages take more than half of the room. The undo keeps the pins."""
    with SQLAlchemySaver.from_url(db) as saver:
        saver.setup()
        graph = agent(checkpointer=saver, **CLIPS)
        blocks = [message for number in range(4) for message in tool_block(number, 200)]
        graph.invoke({"messages": [HumanMessage("first", id="q0"), *blocks, HumanMessage("go on", id="q1")]}, CONFIG)
        thread = CompactionThread(graph, CONFIG)
        pinned = [str(message.id) for message in values(graph)["messages"] if str(message.id).startswith("result-")]
        for name in pinned:
            thread.pin(message_id=name)
        call("undo", THREAD, "--db", db, "--force")
        chunks = list(graph.stream(said("next"), CONFIG, stream_mode="custom"))
        assert "PinsRefusedEvent" not in [event["event"] for event in chunks]
        assert [pin.message_id for pin in thread.pins()] == pinned
