"""The whole conversation, whatever compactions have removed from the state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.checkpoint.compaction.attempt import Outcome
from langgraph_compaction.checkpoint.compaction.original_conversation import join
from langgraph_compaction.checkpoint.errors import MessageError
from langgraph_compaction.checkpoint.messages.sequence_runs import Runs, runs_of
from tests.checkpoint.samples import key_of, opening, talk

HEADER = SystemMessage("You are helpful.", id="header")


def summary(number: int) -> HumanMessage:
    """Return the message that a compaction puts in the place of others."""
    marks = {"kind": "compaction_summary", "compaction": f"{number}"}
    return HumanMessage(f"summary {number}", id=f"summary-{number}", additional_kwargs={"compaction": marks})


class Conversation:
    """A thread that talks and compacts, and keeps what a transcript should hold."""

    def __init__(self, database: Database, thread_id: str) -> None:
        self.records = CompactionRecords(database)
        self.thread_id = thread_id
        self.messages: list[BaseMessage] = [HEADER]
        self.whole: list[BaseMessage] = [HEADER]
        self.head: str | None = None
        self.said = 0

    def talk(self, count: int) -> None:
        """Say that many messages."""
        new = talk(count, start=self.said)
        self.said += count
        self.messages += new
        self.whole += new

    def compact(self, *, keep: int, clip: dict[str, BaseMessage] | None = None, verdict: str = "committed") -> None:
        """Replace all but the header and the last `keep` by a summary, and clip some of those."""
        key = key_of(self.thread_id, self.messages)
        self.records.begin(key, self.messages, now=1.0, **opening(parent_id=self.head))
        gone, kept = self.messages[1:-keep], self.messages[-keep:]
        clipped = clip or {}
        archived = [*gone, *(message for message in kept if message.id in clipped)]
        self.records.commit(key, Outcome(verdict=verdict, now=2.0), archived=archived)
        kept = [clipped.get(message.id or "", message) for message in kept]
        self.messages = [HEADER, summary(self.said), *kept]
        self.head = key.compaction_id

    def is_whole(self) -> bool:
        """Whether the records say that the whole conversation is what was said."""
        return self.records.transcript(self.thread_id, "", self.messages, head=self.head) == self.whole


@pytest.fixture
def conversation(database: Database, thread_id: str) -> Conversation:
    """Return a conversation on a new thread."""
    return Conversation(database, thread_id)


@pytest.mark.parametrize("verdict", ["committed", "recovered", "degraded_deterministic", "undone"])
def test_after_many_compactions_nothing_is_missing(conversation: Conversation, verdict: str) -> None:
    """The whole conversation is there once, in order, without a summary; whatever the ledger was told later."""
    conversation.talk(5)
    assert conversation.is_whole()
    for keep in (4, 1, 6, 2, 3):
        conversation.talk(8)
        conversation.compact(keep=keep, verdict=verdict)
    conversation.talk(2)
    assert len(conversation.messages) == 7
    assert conversation.is_whole()


def test_a_clipped_message_appears_as_it_was(conversation: Conversation) -> None:
    """A message clipped in the view, and dropped by a later compaction, is in the transcript as it was said."""
    conversation.talk(6)
    short = AIMessage("message … [clipped]", id="m5", additional_kwargs={"compaction": {"handle": "0" * 12}})
    conversation.compact(keep=2, clip={"m5": short})
    assert short in conversation.messages
    assert conversation.is_whole()
    conversation.talk(3)
    conversation.compact(keep=1)
    assert conversation.is_whole()


def test_a_refused_message_appears_as_it_was(conversation: Conversation) -> None:
    """In full, in its place; what was archived under an id of another branch, or in another namespace, stays out."""
    conversation.talk(2)
    large = HumanMessage("x" * 5000, id="large")
    for number, (namespace, refused) in enumerate(
        [("", large), ("", HumanMessage("x", id="elsewhere")), ("sub", HumanMessage("x", id="m0"))]
    ):
        conversation.records.archive(conversation.thread_id, namespace, f"{number}" * 16, [refused], now=1.0)
    conversation.messages.append(HumanMessage("[refused: 5,000 characters]", id="large"))
    conversation.whole.append(large)
    conversation.talk(2)
    assert conversation.is_whole()
    conversation.compact(keep=1)
    assert conversation.is_whole()


def test_what_the_application_changes_is_changed(conversation: Conversation) -> None:
    """A kept message that it edits, deletes, or puts something before; later also from the archive."""
    conversation.talk(6)
    conversation.compact(keep=3)
    edited, inserted = AIMessage("edited", id="m5"), HumanMessage("between", id="b")
    for messages in (conversation.messages, conversation.whole):
        messages[-1] = edited
        del messages[-2]
        messages.insert(-1, inserted)
    assert conversation.is_whole()
    conversation.talk(2)
    conversation.compact(keep=1)
    assert conversation.is_whole()


def test_a_message_without_an_id_is_an_error(conversation: Conversation) -> None:
    """A transcript joins by ids, so a message without one is named and not lost."""
    with pytest.raises(MessageError, match="human message has no id"):
        conversation.records.transcript(conversation.thread_id, "", [HumanMessage("x")], head=None)


@given(st.data())
def test_any_history_of_growing_and_dropping_is_joined_in_order(data: st.DataObject) -> None:
    """However often a list grew and lost members to the archive, the join is everything ever said, in order."""
    view: list[BaseMessage] = []
    snapshots: dict[str, Runs] = {}
    archived: dict[str, Runs] = {}
    found: dict[int, BaseMessage] = {}
    said = 0
    for round_number in range(data.draw(st.integers(0, 5))):
        grown = data.draw(st.integers(0, 4))
        view += talk(grown, start=said)
        said += grown
        found |= {len(found) + n: message for n, message in enumerate(view[len(view) - grown :])}
        number = {id(message): seq for seq, message in found.items()}
        snapshots[str(round_number)] = runs_of([number[id(message)] for message in view])
        gone = data.draw(st.sets(st.sampled_from([m.id for m in view]))) if view else set()
        archived[str(round_number)] = runs_of([number[id(message)] for message in view if message.id in gone])
        place = data.draw(st.integers(0, len(view)))
        found[len(found)] = summary(round_number)
        view = [*view[:place], found[len(found) - 1], *view[place:]]
        view = [message for message in view if message.id not in gone]
    assert join(view, list(snapshots), snapshots, archived, found) == talk(said)
