"""`recall`: finds archived messages of a thread, in their original words."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from langgraph_compaction.checkpoint import CompactionRecords
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.summary.recall_answer import answer

from ..recall_tool import MAX_TOKENS, Speaker, Wanted, look_up
from .options import AsJson, Db, Thread, open_existing
from .output import message_data, print_json, print_line


def recall(
    thread: Thread,
    query: Annotated[
        list[str] | None, typer.Argument(metavar="[QUERY]...", help="The words or identifiers to search for.")
    ] = None,
    *,
    db: Db,
    handle: Annotated[
        str | None,
        typer.Option(help="The handle of a message, or the id of a compaction. A query then searches only there."),
    ] = None,
    since: Annotated[
        datetime | None, typer.Option(help="Search only messages that were archived at or after this time (UTC).")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(help="Search only messages that were archived at or before this time (UTC).")
    ] = None,
    speaker: Annotated[
        Speaker | None,
        typer.Option(help="With a query: search only the messages of the user, the assistant or tools."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum number of tokens to print.")] = MAX_TOKENS,
    as_json: AsJson = False,
) -> None:
    """Search the messages that compactions removed or shortened.

    With --json, the command prints the whole text of each message that it finds, the best match first. The option
    --max-tokens then has no effect.
    """
    wanted = " ".join(query or ())
    with open_existing(db, thread) as saver:
        asked = Wanted(
            query=wanted,
            handle=handle,
            since=_seconds(since),
            until=_seconds(until),
            speaker=speaker,
            max_tokens=max_tokens,
        )
        hits = look_up(CompactionRecords(saver.database), thread, asked)
    if as_json:
        messages = message_data([hit.message for hit in hits])
        print_json(
            {"compaction_id": hit.compaction_id, "archived_at": hit.archived_at, "score": hit.score, **message}
            for hit, message in zip(hits, messages, strict=True)
        )
    else:
        print_line(answer(hits, wanted, max_tokens=max_tokens, counter=tiktoken_counter()))


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.replace(tzinfo=UTC).timestamp()
