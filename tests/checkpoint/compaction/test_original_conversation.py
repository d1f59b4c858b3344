import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langgraph_compaction.checkpoint import CompactionRecords, Database
from langgraph_compaction.checkpoint.compaction.attempt import Outcome
from langgraph_compaction.checkpoint.compaction.original_conversation import chain, check_complete, join
from langgraph_compaction.checkpoint.errors import MessageError, RowError
from tests.checkpoint.samples import key_of, opening, talk

NOW = Outcome(verdict="committed", now=2.0)
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

    def transcript(self) -> list[BaseMessage]:
        """Return what the records say that the whole conversation is."""
        return self.records.transcript(self.thread_id, "", self.messages, head=self.head)


@pytest.fixture
def conversation(database: Database, thread_id: str) -> Conversation:
    """Return a conversation on a new thread."""
    return Conversation(database, thread_id)


def test_without_a_compaction_it_is_what_is_there(conversation: Conversation) -> None:
    """A thread that was never compacted, known to the records or not, is its messages."""
    assert conversation.transcript() == [HEADER]
    conversation.talk(5)
    conversation.records.begin(key_of(conversation.thread_id, talk(2)), talk(2), now=1.0, **opening())
    assert conversation.transcript() == conversation.whole


def test_after_many_compactions_nothing_is_missing(conversation: Conversation) -> None:
    """Five compactions later the whole conversation is there once, in order, without a summary."""
    for keep in (4, 1, 6, 2, 3):
        conversation.talk(8)
        conversation.compact(keep=keep)
    conversation.talk(2)
    assert len(conversation.messages) == 7
    assert conversation.transcript() == conversation.whole


def test_a_clipped_message_appears_as_it_was(conversation: Conversation) -> None:
    """A message clipped in the view, and dropped by a later compaction, is in the transcript as it was said."""
    conversation.talk(6)
    short = AIMessage("message … [clipped]", id="m5", additional_kwargs={"compaction": {"handle": "0" * 12}})
    conversation.compact(keep=2, clip={"m5": short})
    assert short in conversation.messages
    assert conversation.transcript() == conversation.whole
    conversation.talk(3)
    conversation.compact(keep=1)
    assert short not in conversation.messages
    assert conversation.transcript() == conversation.whole


def test_a_refused_message_appears_as_it_was(conversation: Conversation) -> None:
    """A message refused for its size is in the transcript in full, in its place, before and after compactions."""
    conversation.talk(2)
    large = HumanMessage("x" * 5000, id="large")
    conversation.records.archive(conversation.thread_id, "", "e" * 16, [large], now=1.0)
    conversation.messages.append(HumanMessage("[refused: 5,000 characters]", id="large"))
    conversation.whole.append(large)
    conversation.talk(2)
    assert conversation.transcript() == conversation.whole
    conversation.compact(keep=1)
    assert conversation.transcript() == conversation.whole


def test_a_refused_message_of_another_branch_stays_out(conversation: Conversation) -> None:
    """What was archived alone, and whose id neither state nor compactions know, is no part of this conversation."""
    conversation.talk(2)
    conversation.records.archive(conversation.thread_id, "", "e" * 16, [HumanMessage("x", id="elsewhere")], now=1.0)
    assert conversation.transcript() == conversation.whole


def test_what_the_application_deleted_stays_deleted(conversation: Conversation) -> None:
    """A message that a compaction kept and the application removed afterwards is not in the transcript."""
    conversation.talk(6)
    conversation.compact(keep=3)
    gone = conversation.messages.pop()
    conversation.whole.remove(gone)
    conversation.talk(2)
    assert conversation.transcript() == conversation.whole


def test_what_the_application_edited_appears_as_it_is_now(conversation: Conversation) -> None:
    """A kept message with new content has the new content, later also from the archive."""
    conversation.talk(6)
    conversation.compact(keep=2)
    edited = AIMessage("edited", id="m5")
    conversation.messages[-1] = conversation.whole[-1] = edited
    assert conversation.transcript() == conversation.whole
    conversation.talk(2)
    conversation.compact(keep=1)
    assert conversation.transcript() == conversation.whole


def test_what_the_application_inserted_has_its_place(conversation: Conversation) -> None:
    """A message put between two kept ones, and one put before the header, stand there in the transcript."""
    conversation.talk(6)
    conversation.compact(keep=3)
    for message, place in ((HumanMessage("between", id="b"), -1), (SystemMessage("first", id="f"), 0)):
        conversation.messages.insert(place, message)
        conversation.whole.insert(place, message)
    assert conversation.transcript() == conversation.whole


def test_what_arrived_and_left_between_snapshots_has_its_place() -> None:
    """A message that was archived without ever being in a snapshot stands before the next one that it preceded."""
    one, two, three, four = talk(4)
    assert join([four], [[one, three]], [one, two, three], ()) == [one, two, three, four]


def test_a_compaction_of_another_branch_adds_nothing(conversation: Conversation) -> None:
    """From a fork before the last compaction, neither its archive nor its later messages are seen."""
    conversation.talk(6)
    conversation.compact(keep=2)
    messages, whole, head = [*conversation.messages], [*conversation.whole], conversation.head
    conversation.talk(4)
    conversation.compact(keep=1)
    conversation.messages, conversation.whole, conversation.head = messages, whole, head
    conversation.messages.append(HumanMessage("another way", id="fork"))
    conversation.whole.append(conversation.messages[-1])
    assert conversation.transcript() == conversation.whole


@pytest.mark.parametrize("verdict", ["recovered", "degraded_deterministic", "undone"])
def test_the_state_says_what_was_committed_and_not_the_verdict(conversation: Conversation, verdict: str) -> None:
    """A state that rests on a compaction has its messages back, whatever the ledger was told later."""
    conversation.talk(6)
    conversation.compact(keep=2, verdict=verdict)
    assert conversation.transcript() == conversation.whole


def test_other_namespaces_are_apart(conversation: Conversation) -> None:
    """A message archived alone in another namespace does not replace one with the same id here."""
    conversation.talk(2)
    conversation.records.archive(conversation.thread_id, "sub", "e" * 16, [HumanMessage("x", id="m0")], now=1.0)
    assert conversation.transcript() == conversation.whole


def test_a_message_without_an_id_is_an_error(conversation: Conversation) -> None:
    """A transcript joins by ids, so a message without one is named and not lost."""
    with pytest.raises(MessageError, match="human message has no id"):
        conversation.records.transcript(conversation.thread_id, "", [HumanMessage("x")], head=None)


@pytest.mark.parametrize(
    ("head", "expected"),
    [(None, []), ("a", ["a"]), ("c", ["a", "b", "c"]), ("missing", []), ("d", ["d"])],
)
def test_the_chain_runs_from_the_head_to_its_first_parent(head: str | None, expected: list[str]) -> None:
    """The chain is oldest first; it ends at a parent that was pruned."""
    parents = {"a": None, "b": "a", "c": "b", "d": "pruned"}
    assert chain(parents, head, "t") == expected


@given(st.data())
def test_any_history_of_growing_and_dropping_is_joined_in_order(data: st.DataObject) -> None:
    """However often a list grew and lost members to the archive, the join is everything ever said, in order."""
    view: list[BaseMessage] = []
    snapshots: list[list[BaseMessage]] = []
    archived: list[BaseMessage] = []
    said = 0
    for round_number in range(data.draw(st.integers(0, 5))):
        grown = data.draw(st.integers(0, 4))
        view += talk(grown, start=said)
        said += grown
        snapshots.append([*view])
        gone = data.draw(st.sets(st.sampled_from([m.id for m in view]))) if view else set()
        archived += [message for message in view if message.id in gone]
        place = data.draw(st.integers(0, len(view)))
        view = [*view[:place], summary(round_number), *view[place:]]
        view = [message for message in view if message.id not in gone]
    joined = join(view, snapshots, archived, ())
    assert joined == talk(said)


@pytest.mark.parametrize(
    ("snapshots", "archived", "missing"),
    [({"a", "b"}, {"a"}, "archive row of compaction b"), ({"a"}, {"a", "b"}, "snapshot of compaction b")],
)
def test_half_of_what_a_commit_has_written_is_an_error(snapshots: set[str], archived: set[str], missing: str) -> None:
    """The error names what is missing, instead of a conversation that has lost messages."""
    with pytest.raises(RowError, match=f"the {missing} of thread 'chat' is missing"):
        check_complete(["a", "b"], snapshots, archived, "chat")


def test_what_retention_has_erased_is_no_error() -> None:
    """Neither a compaction with snapshot and archive, nor one whose both are gone, nor one of another branch."""
    check_complete(["a", "b"], {"a", "c"}, {"a"}, "chat")
