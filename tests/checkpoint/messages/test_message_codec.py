import pickle
from enum import Enum

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint.errors import MessageError, RowError
from langgraph_compaction.checkpoint.messages.message_codec import (
    check_readable,
    dumps,
    fingerprint,
    fingerprint_all,
    handle,
    loads,
    loads_plain,
)
from tests.checkpoint.samples import EVERY_KIND, talk

PYDANTIC = 5
POSITIONAL = 1


def packed(code: int, *content: object) -> bytes:
    """Return the bytes of an object that a row could be made to hold."""
    return ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(content)))


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_kind_comes_back_byte_for_byte(kind: str) -> None:
    """A message of any kind reads back as the same class, equal, and with the same digest."""
    message = EVERY_KIND[kind]
    same = loads(dumps(message))
    assert (type(same), same) == (type(message), message)
    assert dumps(same) == dumps(message)
    assert fingerprint(same) == fingerprint(message)
    check_readable(message, dumps(message))


def test_a_usual_message_is_built_without_a_search_for_other_types() -> None:
    """Only a message with a value that msgpack has no type for, such as a set, is decoded in the slower way."""
    usual, other = HumanMessage("x", id="1"), HumanMessage("x", id="1", additional_kwargs={"seen": {1, 2}})
    assert loads_plain(dumps(usual)) == usual
    assert loads_plain(dumps(other)) is None
    assert loads(dumps(other)) == other


FIRST_VERSION = bytes.fromhex(
    "c79f0594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a763"
    "6f6e74656e74a568656c6c6fb16164646974696f6e616c5f6b776172677381aa636f6d70616374696f6e81a670696e6e6564"
    "c3b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964a131b36d6f64656c5f76"
    "616c69646174655f6a736f6e"
)


def test_a_row_of_the_first_version_still_reads() -> None:
    """Bytes as version 0.1 wrote them are read by every later version."""
    assert loads(FIRST_VERSION) == HumanMessage("hello", id="1", additional_kwargs={"compaction": {"pinned": True}})


@given(
    text=st.text(),
    arguments=st.dictionaries(st.text(), st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats()),
)
def test_any_text_and_arguments_come_back(text: str, arguments: dict[str, object]) -> None:
    """Whatever text a message holds and a tool call carries, its bytes are the same after a round trip."""
    message = AIMessage(text, id="x", tool_calls=[{"name": "f", "args": arguments, "id": "c"}])
    assert dumps(loads(dumps(message))) == dumps(message)


def test_digests_and_handles_have_their_form() -> None:
    """A digest has 32 hexadecimal characters and the handle is its first 12."""
    message = EVERY_KIND["calls"]
    assert len(fingerprint(message)) == 32
    assert int(fingerprint(message), 16) > 0
    assert handle(message) == fingerprint(message)[:12]


@pytest.mark.parametrize(
    "change",
    [
        {"content": "other"},
        {"id": "other"},
        {"name": "other"},
        {"additional_kwargs": {"compaction": {"pinned": True}}},
        {"response_metadata": {"model": "m"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_digest_sees_every_field(change: dict[str, object]) -> None:
    """Messages that differ in one field differ in their digest."""
    message = HumanMessage("text", id="1")
    assert fingerprint(message.model_copy(update=change)) != fingerprint(message)


def test_the_digest_of_a_list_depends_on_order_and_repetition() -> None:
    """Swapped, repeated, missing and regrouped messages all give another digest; an equal list the same."""
    one, two = talk(2)
    lists: list[list[BaseMessage]] = [[], [one], [one, two], [two, one], [one, one, two], [one, two, two]]
    assert len({fingerprint_all(messages) for messages in lists}) == len(lists)
    assert fingerprint_all(talk(2)) == fingerprint_all([one, two])
    assert len(fingerprint_all([])) == 32


class Attack:
    """Leaves a trace when it is built."""

    built = False

    def __init__(self, *_: object, **__: object) -> None:
        Attack.built = True


def test_a_message_that_was_stored_with_fewer_fields_has_the_others_too() -> None:
    """An earlier version of the class may have had fewer fields. The missing fields get their default values."""
    fields = {"type": "human", "content": "hello", "id": "1"}
    stored = packed(PYDANTIC, "langchain_core.messages.human", "HumanMessage", fields, "model_validate_json")
    assert loads(stored) == HumanMessage("hello", id="1")
    assert loads(stored).additional_kwargs == {}


SOUND = dumps(talk(1)[0])  # a byte that says how many follow, a length of one byte, the extension's code
ATTACKS = {
    "a class of ours": packed(PYDANTIC, __name__, "Attack", {}, "model_validate_json"),
    "a function": packed(POSITIONAL, "os", "putenv", ("COMPACTION_ATTACK", "1")),
    "a function of an allowed module": packed(POSITIONAL, "re", "sub", ("a", "b", "c")),
    "inside a message": packed(
        PYDANTIC,
        "langchain_core.messages.human",
        "HumanMessage",
        {
            "content": "x",
            "id": "1",
            "additional_kwargs": {"a": ormsgpack.Ext(0, ormsgpack.packb((__name__, "Attack", 1)))},
        },
        "model_validate_json",
    ),
    "an unknown extension": packed(99, "langchain_core.messages.human", "HumanMessage", {}),
    "two messages": ormsgpack.packb([ormsgpack.Ext(PYDANTIC, dumps(m)[3:]) for m in talk(2)]),
    "a message without fields": packed(PYDANTIC, "langchain_core.messages.human", "HumanMessage", {}, ""),
    "an abstract message": packed(
        PYDANTIC, "langchain_core.messages.base", "BaseMessage", {"type": "x", "content": ""}
    ),
    "an extension without a class": packed(PYDANTIC, 1, 2, 3),
    "a plain value": ormsgpack.packb({"content": "x"}),
    "nothing": b"",
    "half a message": SOUND[:-9],
    "more than a message": bytes([SOUND[0], SOUND[1] - 9]) + SOUND[2:],
    "a message as another extension": SOUND[:2] + bytes([4]) + SOUND[3:],
    "a pickle": pickle.dumps(Attack),
}


@pytest.mark.parametrize("kind", ATTACKS)
def test_anything_but_a_message_is_refused_by_name_and_runs_nothing(kind: str) -> None:
    """Bytes that are damaged or name another class or function raise an error naming the row; none runs."""
    Attack.built = False
    with pytest.raises(RowError, match="message 7 of thread 1"):
        loads(ATTACKS[kind], row="message 7 of thread 1")
    assert not Attack.built


class Color(Enum):
    """A value of a type that the reader does not know."""

    RED = 1


class OwnMessage(HumanMessage):
    """A class of messages that the reader does not know."""


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (ToolMessage("x", id="odd", tool_call_id="1", artifact=Color.RED), "Color"),
        (OwnMessage("x", id="odd"), "OwnMessage"),
    ],
    ids=["artifact", "subclass"],
)
def test_a_message_that_would_not_come_back_is_refused_when_written(message: BaseMessage, text: str) -> None:
    """A value or class that strict reading refuses is an error when it is stored, not when it is needed."""
    with pytest.raises(MessageError, match=f"'odd'.*{text}"):
        check_readable(message, dumps(message))


def test_fields_come_back_as_they_were_not_as_validation_would_have_them() -> None:
    """A message whose tool calls were taken out does not get them back from the provider's raw form."""
    raw = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = AIMessage("x", id="1", additional_kwargs={"tool_calls": [raw]})
    assert message.tool_calls
    message.tool_calls = []
    same = loads(dumps(message))
    assert isinstance(same, AIMessage)
    assert same.tool_calls == []
    assert fingerprint(same) == fingerprint(message)


def test_a_value_without_a_serialized_form_is_named() -> None:
    """A message that holds what msgpack cannot write raises an error that names the message."""
    with pytest.raises(MessageError, match="'odd' cannot be serialized"):
        dumps(ToolMessage("x", id="odd", tool_call_id="1", artifact=object()))
