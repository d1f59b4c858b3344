import random
from enum import Enum
from typing import Any
from weakref import ref

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from langgraph_compaction.checkpoint.messages import change_detection
from langgraph_compaction.checkpoint.messages.change_detection import (
    BLOCK,
    ContentTracker,
    IdentityTracker,
    Tracker,
    observe,
)
from langgraph_compaction.checkpoint.messages.message_codec import fingerprint
from langgraph_compaction.checkpoint.messages.message_store import prepare
from langgraph_compaction.checkpoint.messages.write_cache import SerializedMessage, WriteCache
from tests.checkpoint.remembering import Remember, held, just_read, just_stored, remembered, shared
from tests.checkpoint.samples import EVERY_KIND, talk


def change(message: BaseMessage, name: str, value: Any) -> None:
    """Set a field of a message."""
    setattr(message, name, value)


class Name(str, Enum):  # noqa: UP042 - as applications wrote it before StrEnum
    """A text that equals another and is stored as something else."""

    X = "x"


def swap(message: BaseMessage) -> None:
    """Let two fields change their names, and leave their values where they are."""
    values = list(message.__dict__.items())
    at = {name: place for place, (name, _) in enumerate(values)}
    values[at["id"]], values[at["name"]] = ("name", message.id), ("id", message.name)
    message.__dict__ = dict(values)


CHANGES = {
    "content": lambda m: change(m, "content", "edited"),
    "id": lambda m: change(m, "id", "other"),
    "a block": lambda m: m.content[0].update(text="edited"),
    "a mark": lambda m: m.additional_kwargs["compaction"].update(pinned=True),
    "an argument": lambda m: m.tool_calls[0]["args"]["lines"].append(3),
    "a list within": lambda m: m.response_metadata.setdefault("seen", []).append(1),
    "a number": lambda m: m.usage_metadata.update(output_tokens=3),
    "a number's type": lambda m: m.usage_metadata.update(input_tokens=True),
    "a number's type deeper": lambda m: m.usage_metadata["input_token_details"].update(cache_read=1.0),
    "a number's type among texts": lambda m: m.additional_kwargs.update(index=True),
    "an equal dict of other numbers": lambda m: change(
        m, "usage_metadata", {**m.usage_metadata, "total_tokens": 3.0}
    ),
    "a new field": lambda m: change(m, "unheard_of", "new"),
    "a text of another type": lambda m: change(m, "id", Name.X),
    "the names of two fields": swap,
    "a field beside the others": lambda m: m.__dict__.update(unheard_of="new"),
}


ODD = AIMessage(
    [{"type": "text", "text": "said"}],
    id="x",
    tool_calls=[{"name": "read", "args": {"lines": [1, 2]}, "id": "c"}],
    additional_kwargs={"compaction": {}, "kind": "odd", "index": 1},
    usage_metadata={
        "input_tokens": 1,
        "output_tokens": 2,
        "total_tokens": 3,
        "input_token_details": {"cache_read": 1},
    },
)


@pytest.mark.parametrize("how", [ContentTracker, IdentityTracker])
def test_equal_messages_that_are_other_objects_are_not_taken_for_known(how: type[Tracker]) -> None:
    """A list is looked for by its first object: who brings another one is told nothing of what is there."""
    messages = talk(3)
    assert shared(remembered(messages, how=how), talk(3)) == 0
    assert shared(remembered(messages, how=how), [messages[0], *talk(3)[1:]]) == 1


@pytest.mark.parametrize("there", [just_stored, just_read])
def test_an_object_in_the_place_of_one_that_has_gone_is_another(there: Remember) -> None:
    """Who compares objects alone is not misled by memory that is used again, not even by an equal message."""
    messages = talk(3)
    there(cache := WriteCache(4, IdentityTracker), messages)
    used_again = 0
    for number in range(200):
        place = id(messages[2])
        del messages[2]
        messages.append(HumanMessage(f"another {number}", id="2"))
        used_again += id(messages[2]) == place
        assert shared(cache, messages) == 2
    assert used_again


@pytest.mark.parametrize("there", [just_stored, just_read])
def test_of_a_block_nothing_is_kept_once_its_first_or_last_message_has_gone(there: Remember) -> None:
    """Until then all of it is: to compare objects that are at hand costs least. What is in no block is not kept."""
    messages = talk(2 * BLOCK + 10)
    there(cache := WriteCache(4, IdentityTracker), messages)
    refs = [ref(one) for one in messages]
    kept = [messages[place] for place in (0, BLOCK, 2 * BLOCK + 1, BLOCK - 1)]
    messages.clear()
    alive = [one() is not None for one in refs]
    assert alive == [True] * (BLOCK + 1) + [False] * BLOCK + [True] + [False] * 8
    kept.pop()
    assert [place for place, one in enumerate(refs) if one()] == [0, BLOCK, 2 * BLOCK + 1]
    assert shared(cache, [kept[0]]) == 0
    kept.clear()
    assert not any(one() for one in refs)


@pytest.mark.parametrize("there", [just_stored, just_read])
def test_a_message_that_stays_does_not_keep_its_conversation(there: Remember) -> None:
    """As the system's of a module, with which every thread begins; nor do a list and the same the other way round."""
    constant = SystemMessage("be brief", id="constant")
    messages = [constant, *talk(2 * BLOCK)]
    cache = WriteCache(4, IdentityTracker)
    there(cache, messages)
    there(cache, messages[::-1])
    refs = [ref(one) for one in messages[1:]]
    messages.clear()
    assert not any(one() for one in refs)


def test_what_grows_from_a_list_whose_messages_have_gone_is_not_mistaken() -> None:
    """Where the owner of a list empties it while it is written, what comes after it is in its place all the same."""
    messages = talk(2 * BLOCK + 10)
    kept = IdentityTracker()
    kept.add(messages, ())
    del messages[BLOCK:]
    new = talk(BLOCK, start=3 * BLOCK)
    grown = kept.prefix(BLOCK + 5)
    grown.add(new, ())
    assert len(grown) == 2 * BLOCK + 5
    assert grown.count_unchanged([*messages, *new], 2 * BLOCK) == BLOCK
    assert grown.count_unchanged([*messages, *new[-5:], *new], 2 * BLOCK + 5) == BLOCK


@pytest.mark.parametrize("length", [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 9])
@pytest.mark.parametrize("how", [ContentTracker, IdentityTracker])
def test_what_is_kept_of_the_start_of_a_long_list_is_known_of_it(how: type[Tracker], length: int) -> None:
    """Also when other messages have come after it; contents are known up to the block that was cut."""
    messages, others = talk(2 * BLOCK + 10), talk(BLOCK, start=3 * BLOCK)
    kept = how()
    kept.add(messages, map(observe, messages))
    start = kept.prefix(length)
    start.add(others, map(observe, others))
    branch = [*messages[:length], *others]
    known = start.count_unchanged(branch, len(branch))
    branch[length - 1] = others[0]
    changed = start.count_unchanged(branch, len(branch))
    if how is IdentityTracker:
        assert (known, changed) == (len(branch), length - 1)
    else:
        assert known in {len(branch), length // BLOCK * BLOCK}
        assert (length - 1) // BLOCK * BLOCK <= changed < length
    assert kept.count_unchanged(messages, len(messages)) == len(messages)


@pytest.mark.parametrize("how", [ContentTracker, IdentityTracker])
def test_the_start_of_a_list_counts_its_share_of_the_bytes(how: type[Tracker]) -> None:
    """Half of the messages count half of the bytes, all of them count all, and the start of an empty list none."""
    kept = how()
    assert kept.prefix(0).size == 0
    for message in talk(2):
        kept.add([message], [observe(message)])
        assert kept.prefix(len(kept)).size == kept.size
    assert kept.prefix(1).size == kept.size // 2


@pytest.mark.parametrize("name", CHANGES)
def test_who_compares_objects_does_not_look_into_them(name: str) -> None:
    """What an application promises not to do is not looked for: the list is known whole."""
    messages = [*talk(5), odd := ODD.model_copy(deep=True)]
    cache = remembered(messages, how=IdentityTracker)
    CHANGES[name](odd)
    assert shared(cache, messages) == 6


def test_a_message_that_is_given_its_id_is_another() -> None:
    """LangGraph gives an id in place to what a node wrote without one, also where nothing else changes in place."""
    bare = HumanMessage("x")
    cache = WriteCache(4, IdentityTracker)
    cache.remember_messages("t", [one := held(bare, 7)])
    cache.remember_serialized(fresh := SerializedMessage(bare, observe(bare), prepare(bare)))
    assert (cache.find_message("t", bare), cache.find_serialized(bare)) == (one, fresh)
    bare.id = "given"
    assert (cache.find_message("t", bare), cache.find_serialized(bare)) == (None, None)


@pytest.mark.parametrize("there", [just_stored, just_read])
@pytest.mark.parametrize("name", CHANGES)
def test_a_message_that_was_changed_in_place_is_noticed(name: str, there: Remember) -> None:
    """However deep the change is, the message and what follows it are stored again like new ones."""
    odd = ODD.model_copy(deep=True)
    messages = [*talk(5), odd, *talk(5, start=5)]
    cache = WriteCache(4)
    there(cache, messages)
    CHANGES[name](odd)
    assert shared(cache, messages) == 5
    assert shared(cache, messages) == 5  # also once it is known what they looked like


@pytest.mark.parametrize("name", CHANGES)
def test_a_single_message_that_was_changed_in_place_is_noticed(name: str) -> None:
    """What was stored by itself is known as long as it looks as it did then."""
    odd = ODD.model_copy(deep=True)
    cache = WriteCache(4)
    cache.remember_messages("t", [one := held(odd, 7)])
    assert cache.find_message("t", odd) is one
    CHANGES[name](odd)
    assert cache.find_message("t", odd) is None


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_prepared_to_be_stored_is_good_while_the_message_is_unchanged(name: str) -> None:
    """A message is prepared once for the write and the state it stands in; changed in between, it is anew."""
    odd = ODD.model_copy(deep=True)
    cache = WriteCache(4)
    cache.remember_serialized(fresh := SerializedMessage(odd, observe(odd), prepare(odd)))
    assert cache.find_serialized(odd) is fresh
    assert cache.find_serialized(ODD) is None
    CHANGES[name](odd)
    assert cache.find_serialized(odd) is None


def test_a_message_that_was_not_changed_is_not_suspected() -> None:
    """Messages of every kind are known again, but for those that hold objects which could change unseen."""
    opaque = "values"  # sets, dates and decimals are not looked into
    plain = [message for name, message in EVERY_KIND.items() if name != opaque]
    assert shared(remembered(plain), plain) == len(plain)
    cache = WriteCache(4)
    just_read(cache, [ODD])
    assert shared(cache, [ODD]) == 1
    assert shared(remembered([EVERY_KIND[opaque]]), [EVERY_KIND[opaque]]) == 0


def test_a_value_without_a_truth_is_no_error() -> None:
    """An artifact that compares like an array makes its message a new one."""

    class Array:
        def __eq__(self, _other: object) -> Any:
            raise ValueError("the truth value is ambiguous")

        __hash__ = None  # type: ignore[assignment] # as arrays do

    message = ToolMessage("x", id="1", tool_call_id="1")
    cache = remembered([message])
    message.artifact = Array()
    assert shared(cache, [message]) == 0


def test_an_equal_message_in_the_place_of_another_is_stored_as_what_it_is() -> None:
    """Equal is not the same: a text may be an enum's, a dict in another order. What was read is compared as bytes."""
    messages = [*talk(3), HumanMessage("x", id="x", additional_kwargs={"a": {"b": "1", "c": "2"}})]
    other = messages[3].model_copy(update={"additional_kwargs": {"a": {"c": "2", "b": "1"}}})
    assert other == messages[3]
    assert shared(remembered(messages), [*messages[:3], other]) == 3
    for put, expected in ((other, 3), (messages[3].model_copy(deep=True), 4)):
        cache = WriteCache(4)
        just_read(cache, messages)
        assert shared(cache, [*messages[:3], put]) == expected


def test_an_array_in_a_message_that_is_new_is_no_error() -> None:
    """What a message looks like is asked without asking any value whether it is true, and no bytes are kept of it."""

    class Array:
        def __bool__(self) -> bool:
            raise ValueError("the truth value is ambiguous")

    message = ToolMessage("x", id="1", tool_call_id="1", artifact=Array())
    assert shared(remembered([message]), [message]) == 0
    tracker = ContentTracker()
    tracker.observe([message])
    assert (len(tracker), tracker.size) == (1, 0)


@pytest.mark.parametrize("there", [just_stored, just_read])
@pytest.mark.parametrize("how", [ContentTracker, IdentityTracker])
def test_an_equal_message_of_another_class_is_not_known(there: Remember, how: type[Tracker]) -> None:
    """A class of the application's own has the same fields, and must come back as what it was."""

    class Own(HumanMessage):
        pass

    messages = talk(3)
    cache = WriteCache(4, how)
    there(cache, messages)
    own = Own.model_construct(None, **messages[2].__dict__)
    assert own.__dict__ == messages[2].__dict__
    assert shared(cache, [*messages[:2], own]) == 2


@pytest.mark.parametrize("how", [ContentTracker, IdentityTracker])
def test_nothing_is_known_of_a_message_that_has_gone(how: type[Tracker]) -> None:
    """Where None stands in the place of one, it is not taken for what its reference now returns."""
    messages: list[Any] = talk(3)
    cache = remembered(messages, how=how)
    messages[1] = None
    assert shared(cache, messages) == 1
    messages[0] = None
    assert shared(cache, messages) == 0


def test_a_field_that_goes_from_a_message_to_the_next_is_noticed() -> None:
    """Though all fields of both, one after the other, are the same as before."""
    messages = talk(3)
    cache = remembered(messages)
    last = list(messages[1].__dict__)[-1]
    assert not hasattr(messages[2], last)
    moved = {last: messages[1].__dict__.pop(last)}
    messages[2].__dict__ = {**moved, **messages[2].__dict__}
    assert shared(cache, messages) == 1


@pytest.mark.parametrize("there", [just_stored, just_read])
@pytest.mark.parametrize("other", ["text", {"role": "user"}, None, 7], ids=["text", "dict", "none", "number"])
@pytest.mark.parametrize("how", [ContentTracker, IdentityTracker])
def test_what_is_no_message_ends_what_is_known(there: Remember, how: type[Tracker], other: Any) -> None:
    """A list that goes on with something else is known up to there."""
    messages: list[Any] = talk(3)
    cache = WriteCache(4, how)
    there(cache, messages)
    assert shared(cache, [*messages[:2], other, messages[2]]) == 2


def test_what_is_compared_is_the_class_too_whatever_stands_in_a_place() -> None:
    """Neither an equal object of another class nor something that is no message at all is taken for a message."""

    class Own(HumanMessage):
        pass

    messages = talk(3)
    others: list[Any] = ["text", None, Own.model_construct(None, **messages[2].__dict__)]
    for other in others:
        kept = ContentTracker()
        kept.observe(messages)
        assert kept.count_unchanged([*messages[:2], other], 3) == 2


def test_what_is_no_message_ends_what_was_read_of_a_long_list() -> None:
    """Messages that stood elsewhere before are not known by the places they have now."""
    messages = talk(2 * BLOCK + 10)
    cache = WriteCache(4)
    just_read(cache, messages)
    assert shared(cache, [*messages[:5], "text", *messages[5:]]) == 5  # type: ignore[list-item] # it may be anything


@pytest.mark.parametrize("left", [0, 5, BLOCK - 1, BLOCK, BLOCK + 5])
@pytest.mark.parametrize("how", [ContentTracker, IdentityTracker])
def test_a_list_that_is_cut_while_it_is_compared_is_known_up_to_its_end_at_most(
    how: type[Tracker], left: int
) -> None:
    """Its owner may take messages out in between: what is not there is not taken for known."""
    messages = talk(BLOCK + 10)
    kept = how()
    kept.add(messages, map(observe, messages))
    assert left // BLOCK * BLOCK <= kept.count_unchanged(messages[:left], len(messages)) <= left


@pytest.mark.parametrize("there", [just_stored, just_read])
@pytest.mark.parametrize("place", [0, 1, BLOCK - 1, BLOCK, BLOCK + 9, 2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 9])
def test_a_change_within_a_long_list_is_noticed(there: Remember, place: int) -> None:
    """What is known ends at the changed message, or at the start of the block in which it stands."""
    messages = talk(2 * BLOCK + 10)
    there(cache := WriteCache(4), messages)
    assert shared(cache, messages) == len(messages)
    messages[place].content = "edited"
    for _ in range(2):
        assert place // BLOCK * BLOCK <= shared(cache, messages) <= place


@pytest.mark.parametrize("seed", range(30))
def test_what_grows_and_forks_in_any_way_is_known_as_it_was(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists grow, others go on from their start, messages change: no change is missed, no whole block given up."""
    monkeypatch.setattr(change_detection, "BLOCK", 4)
    draw, numbers = random.Random(seed), iter(range(10_000))  # noqa: S311 - the same every time
    lists: list[tuple[ContentTracker, list[BaseMessage], list[str]]] = [(ContentTracker(), [], [])]
    cuts = {id(lists[0][0]): 10_000}  # from where on a block is cut
    for _ in range(60):
        kept, messages, were = draw.choice(lists)
        match draw.choice(["grow", "grow", "fork", "change"]):
            case "grow":
                new: list[BaseMessage] = [HumanMessage("x", id=f"{next(numbers)}") for _ in range(draw.randrange(6))]
                kept.add(new, list(map(observe, new)))
                messages += new
                were += map(fingerprint, new)
            case "fork":
                end = draw.randrange(len(messages) + 1)
                lists.append((fork := kept.prefix(end), messages[:end], were[:end]))
                cuts[id(fork)] = min(cuts[id(kept)], end // 4 * 4)
            case _ if messages:
                draw.choice(messages).additional_kwargs["seen"] = next(numbers)
            case _:
                pass
        for kept, messages, were in lists:
            now = list(map(fingerprint, messages))
            same = next((place for place, one in enumerate(were) if now[place] != one), len(were))
            assert len(kept) == len(messages)
            assert min(same, cuts[id(kept)]) // 4 * 4 <= kept.count_unchanged(messages, len(messages)) <= same
            most = draw.randrange(len(messages) + 1)
            assert kept.count_unchanged(messages, most) <= min(same, most)
