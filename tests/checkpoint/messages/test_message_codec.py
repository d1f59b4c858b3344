import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from langgraph_compaction.checkpoint.errors import RowError
from langgraph_compaction.checkpoint.messages.message_codec import dumps, fingerprint, fingerprint_all, loads
from tests.checkpoint.samples import EVERY_KIND, talk

PYDANTIC = 5


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


def test_a_fingerprint_is_the_same_after_langgraphs_saver() -> None:
    """Which puts the details of the usage, as Anthropic's client adds them to an answer, into another order."""
    answer = AIMessage("ok", id="x")
    details = InputTokenDetails(cache_read=1, cache_creation=2)
    answer.usage_metadata = UsageMetadata(
        input_tokens=5, output_tokens=1, total_tokens=6, input_token_details=details
    )
    serde = JsonPlusSerializer()
    same = serde.loads_typed(serde.dumps_typed(answer))
    assert list(same.usage_metadata["input_token_details"]) != list(details)
    assert fingerprint(same) == fingerprint(answer)
    assert fingerprint_all([same]) == fingerprint_all([answer])
    other = answer.model_copy(update={"usage_metadata": {**same.usage_metadata, "input_tokens": 4}})
    assert fingerprint(other) != fingerprint(answer)


@given(
    text=st.text(),
    arguments=st.dictionaries(st.text(), st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats()),
)
def test_any_text_and_arguments_come_back(text: str, arguments: dict[str, object]) -> None:
    """Whatever text a message holds and a tool call carries, its bytes are the same after a round trip."""
    message = AIMessage(text, id="x", tool_calls=[{"name": "f", "args": arguments, "id": "c"}])
    assert dumps(loads(dumps(message))) == dumps(message)


FIRST_VERSION = bytes.fromhex(
    "c79f0594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586a763"
    "6f6e74656e74a568656c6c6fb16164646974696f6e616c5f6b776172677381aa636f6d70616374696f6e81a670696e6e6564"
    "c3b1726573706f6e73655f6d6574616461746180a474797065a568756d616ea46e616d65c0a26964a131b36d6f64656c5f76"
    "616c69646174655f6a736f6e"
)


def test_rows_of_earlier_versions_still_read() -> None:
    """Bytes as version 0.1 wrote them; fields that the class did not have then get their default values."""
    assert loads(FIRST_VERSION) == HumanMessage("hello", id="1", additional_kwargs={"compaction": {"pinned": True}})
    fields = {"type": "human", "content": "hello", "id": "1"}
    stored = packed(PYDANTIC, "langchain_core.messages.human", "HumanMessage", fields, "model_validate_json")
    assert loads(stored) == HumanMessage("hello", id="1")
    assert loads(stored).additional_kwargs == {}


def test_a_digest_sees_every_field() -> None:
    """Messages that differ in one field differ in their digest, and lists by order and repetition."""
    message = HumanMessage("text", id="1")
    marks = {"compaction": {"pinned": True}}
    others = [
        message.model_copy(update=change)
        for change in ({"content": "other"}, {"id": "other"}, {"name": "other"}, {"additional_kwargs": marks})
    ]
    assert len({fingerprint(one) for one in (message, *others)}) == 5
    one, two = talk(2)
    lists: list[list[BaseMessage]] = [[], [one], [one, two], [two, one], [one, one, two], [one, two, two]]
    assert len({fingerprint_all(messages) for messages in lists}) == len(lists)
    assert fingerprint_all(talk(2)) == fingerprint_all([one, two])


SOUND = dumps(talk(1)[0])  # a byte that says how many follow, a length of one byte, the extension's code
UNSOUND = {
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
}


@pytest.mark.parametrize("kind", UNSOUND)
def test_anything_but_a_message_is_refused_by_name(kind: str) -> None:
    """Bytes that are no message are an error that names the row; `test_forged_rows` has those that name code."""
    with pytest.raises(RowError, match="message 7 of thread 1"):
        loads(UNSOUND[kind], row="message 7 of thread 1")


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
