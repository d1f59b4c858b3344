"""`transcript`: the whole conversation of a thread."""

from langgraph_compaction.checkpoint import CompactionRecords

from ..history import transcript_in
from ..offline_edit import newest
from .options import AsJson, Db, Thread, open_existing
from .output import Output, message_data, message_line, print_json


def transcript(thread: Thread, *, db: Db, as_json: AsJson = False) -> None:
    """Print all messages of a conversation, also those that the model does not see."""
    with open_existing(db, thread) as saver:
        values = newest(saver, thread).checkpoint["channel_values"]
        messages = transcript_in(CompactionRecords(saver.database), thread, values)
    if as_json:
        print_json(message_data(messages))
        return
    console = Output()
    for message in messages:
        console.print(message_line(message, whole=True), soft_wrap=True)
