"""Compare policies on recorded conversations that are played whole through the graph, turn by turn."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, cast

from langchain_core.messages import AnyMessage, BaseMessage

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.nodes import CompactionError, CompactionSettings
from langgraph_compaction.nodes.config.policies import Preset

from ..build_dependencies import Extensions
from ..chart import Chart
from .evaluation.online import BASELINES, Online, PlayedRun, Run
from .evaluation.online_scores import replayed
from .evaluation.policies import COUNTER
from .heat_map import heat_map, html_table
from .recordings import Recording
from .replay.recorded_model import Playback
from .replay.recorded_run import Options, Player, schema_tokens, schemas_of


@dataclass(frozen=True, repr=False)
class Comparison:
    """Rows of figures of policies in windows. A notebook shows them as a table with shades."""

    rows: list[dict[str, Any]]
    """A row for each window and policy, as `compare` describes it; `pandas.DataFrame(rows)` takes them."""

    def plot(self, *figures: str) -> Chart:
        """Draw heat maps of policies and windows, by default of `available` and `cost`.

        Windows in which all policies have the same figures are left out. Raise `SettingsError` for a figure that is
        no share, and without matplotlib (the extra `lab`).
        """
        return heat_map(self.rows, figures or ("available", "cost"))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows."""
        return iter(self.rows)

    def __repr__(self) -> str:
        """Return the numbers of rows and runs; the rows can be long."""
        return f"<Comparison {len(self.rows)} rows of {self.rows[0]['runs'] if self.rows else 0} runs>"

    def _repr_html_(self) -> str | None:
        return html_table(self.rows) if self.rows and find_spec("jinja2") else None


def compare(
    recordings: Recording | Sequence[Recording],
    policies: Mapping[str, CompactionSettings] | Iterable[Preset],
    windows: Sequence[float],
    *,
    own: Extensions | None = None,
    seen: Callable[[], None] = lambda: None,
) -> Comparison:
    """Return a row of figures for each window and policy; summaries are extracted without a model.

    A policy is a preset, or settings under a name. A window is a number of tokens (an int), or a share of a
    recording's own tokens (a float), to which its system messages and tools are added. Beside the policies, the rows
    hold "no compaction", "trim_messages" and "random exchanges". `own` holds the functions that settings name, and
    `seen` is called after each recording of a row, to show the progress.

    Figures: `available` (share of the identifiers that calls need and the requests hold), `calls` (share of the calls
    with all of theirs), `compactions` (of a recording), `tokens_sent` and `cost` (both divided by those without
    compaction), `prefix_reuse` (share of the tokens that a cache holds), `over_window` (share of the requests over
    the limit, or never sent), `extra_calls` (of a summarizer), `ci95` (bootstrap intervals over the recordings) and
    `course` (tokens and cost over the requests). Raise `SettingsError` for a window without room for a message.
    """
    played = [recordings] if isinstance(recordings, Recording) else recordings
    named = (
        policies if isinstance(policies, Mapping) else {name: CompactionSettings(preset=name) for name in policies}
    )
    extensions = own or Extensions()
    ours = {name: (through_the_graph(settings, played, extensions),) for name, settings in named.items()}
    every: dict[str, Sequence[Online]] = {**ours, **BASELINES}
    return Comparison(list(replayed([run_of(one) for one in played], every, windows, seen=seen)))


def run_of(recording: Recording) -> Run:
    """Return a recording as a run of the online evaluation."""
    messages = cast("Sequence[AnyMessage]", recording.messages)
    schemas = schemas_of(Playback(recording).tools())
    return Run(recording.name, messages, schemas=schema_tokens(schemas, COUNTER))


def through_the_graph(
    settings: CompactionSettings,
    recordings: Sequence[Recording],
    own: Extensions,
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
