"""Plays recordings through the real graph, whose settings are the policies of the online evaluation."""

from collections.abc import Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage, BaseMessage

from langgraph_compaction.checkpoint import Database
from langgraph_compaction.nodes import CompactionError, CompactionSettings
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter

from ..evaluation.online import Online, PlayedRun, Run
from ..recordings import Recording
from .recorded_model import Playback
from .recorded_run import Options, Player, schema_tokens, schemas_of
from .user_parts import UserParts

COUNTER = tiktoken_counter()


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
