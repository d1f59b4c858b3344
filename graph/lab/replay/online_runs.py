"""Online replays of recordings: a preset, or a strategy of one's own, drives each through the real graph."""

from collections.abc import Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage, BaseMessage

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.nodes import CompactionError, CompactionSettings
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter

from ..evaluation.online import Course, Online, Run
from ..recordings import Recording
from .recorded_run import Options, Player, schema_tokens, schemas_of
from .stand_ins import Playback
from .user_parts import OwnParts

COUNTER = tiktoken_counter()


def run_of(recording: Recording) -> Run:
    """A recording as a run that policies are measured on."""
    messages = cast("Sequence[AnyMessage]", recording.messages)
    schemas = schemas_of(Playback(recording).tools())
    return Run(recording.name, messages, schemas=schema_tokens(schemas, COUNTER))


def through_the_graph(
    settings: CompactionSettings,
    recordings: Sequence[Recording],
    own: OwnParts,
    *,
    summarizer: Any = "digest",
) -> Online:
    """Settings as a policy for the runs of these recordings; what the graph refuses to send is not sent."""
    known = {id(recording.messages): recording for recording in recordings}  # files may have the same name

    def played(run: Run, limit: int) -> Course:
        course, answers = Course(), set(run.answers)

        def sent(messages: Sequence[BaseMessage], answer: int) -> None:
            if answer in answers:  # a person who was never answered is asked for in the replay, and was not then
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
                player.take_stock()  # what was sent until then counts
        report = player.report
        course.compactions = report.committed
        course.extra_calls = sum(row.summary_calls or 0 for row in report.attempts if row.summary_input_tokens)
        course.extra_input = sum(row.summary_input_tokens or 0 for row in report.attempts)
        course.extra_output = sum(row.summary_output_tokens or 0 for row in report.attempts)
        return course

    return played
