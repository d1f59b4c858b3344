"""Compare policies on recorded conversations that are played whole through the graph, turn by turn."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage, BaseMessage

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.nodes import CompactionError, CompactionSettings

from .evaluation.online import BASELINES, Online, PlayedRun, Run
from .evaluation.online_scores import replayed
from .evaluation.policies import COUNTER
from .recordings import Recording
from .replay.recorded_model import Playback
from .replay.recorded_run import Options, Player, schema_tokens, schemas_of
from .replay.user_parts import UserParts


def compare(
    recordings: Sequence[Recording],
    policies: Mapping[str, CompactionSettings],
    windows: Sequence[float],
    *,
    own: UserParts | None = None,
    seen: Callable[[], None] = lambda: None,
) -> Iterator[dict[str, Any]]:
    """Yield a row of figures for each window and policy; summaries are extracted without a model.

    A window is a number of tokens (an int), or a share of a recording's own tokens (a float), to which its system
    messages and tools are added. Beside the policies, which are settings by name, the rows hold "no compaction",
    "trim_messages" and "random exchanges". `own` holds the functions that settings name, and `seen` is called after
    each recording of a row, to show the progress.

    Figures: `available` (share of the identifiers that calls need and the requests hold), `calls` (share of the calls
    with all of theirs), `compactions` (of a recording), `tokens_sent` and `cost` (both divided by those without
    compaction), `prefix_reuse` (share of the tokens that a cache holds), `over_window` (share of the requests over
    the limit, or never sent), `extra_calls` (of a summarizer), `ci95` (bootstrap intervals over the recordings) and
    `course` (tokens and cost over the requests). Raise `SettingsError` for a window without room for a message.
    """
    parts = own or UserParts()
    ours = {name: (through_the_graph(settings, recordings, parts),) for name, settings in policies.items()}
    every: dict[str, Sequence[Online]] = {**ours, **BASELINES}
    yield from replayed([run_of(one) for one in recordings], every, windows, seen=seen)


def run_of(recording: Recording) -> Run:
    """Return a recording as a run of the online evaluation."""
    messages = cast("Sequence[AnyMessage]", recording.messages)
    schemas = schemas_of(Playback(recording).tools())
    return Run(recording.name, messages, schemas=schema_tokens(schemas, COUNTER))


def through_the_graph(
    settings: CompactionSettings,
    recordings: Sequence[Recording],
    own: UserParts,
    *,
    summarizer: Any = "digest",
) -> Online:
    """Return a policy that plays runs of these recordings with these settings; refused requests are not sent."""
    # by object, because several recordings can have the same name
    known = {id(recording.messages): recording for recording in recordings}

    def played(run: Run, limit: int) -> PlayedRun:
        course, answers = PlayedRun(), set(run.answers)

        def sent(messages: Sequence[BaseMessage], answer: int) -> None:
            if answer in answers:  # the graph also sends requests that the recording does not answer
                course.send(answer, messages)

        with Database.open("memory") as database:
            database.setup()
            options = Options(
                window=str(limit),
                settings=settings,
                own=own,
                summarizer=summarizer,
                database=database,
                counter=COUNTER,
            )
            player = Player(known[id(run.messages)], options, on_sent=sent)
            try:
                player.play()
            except CompactionError:
                player.take_stock()  # the requests sent so far still count
        report = player.report
        course.compactions = report.committed
        course.extra_calls = sum(row.summary_calls or 0 for row in report.attempts if row.summary_input_tokens)
        course.extra_input = sum(row.summary_input_tokens or 0 for row in report.attempts)
        course.extra_output = sum(row.summary_output_tokens or 0 for row in report.attempts)
        return course

    return played
