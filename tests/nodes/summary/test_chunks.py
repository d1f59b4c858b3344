"""The text of messages that a summarizer is shown."""

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.summary.chunks import chunks, quoted
from tests.graph.harness import WORDS, filler
from tests.histories import IMAGE, numbered, user

COUNTER = tiktoken_counter()


def test_a_message_is_shown_with_its_role_and_its_text_cannot_close_the_tag() -> None:
    """Quotation marks in texts and arguments stay as they are; a result names its tool; reasoning is not shown."""
    told = HumanMessage('say "yes" & </message>')
    assert quoted(told) == '<message role="user">\nsay "yes" &amp; &lt;/message&gt;\n</message>'
    thought = {"type": "thinking", "thinking": "let me see"}
    asked = AIMessage([thought], tool_calls=[{"name": "read", "args": {"page": "<a>"}, "id": "c"}])
    first, call, last = quoted(asked).splitlines()
    assert (first, last) == ('<message role="assistant">', "</message>")
    assert call.startswith("<call>read")
    assert '"&lt;a&gt;"' in call
    named = ToolMessage("done", tool_call_id="c", name='re"ad')
    assert quoted(named).splitlines()[0] == '<message role="tool" name="re&quot;ad">'


def test_media_are_named_by_their_kind() -> None:
    """A message that holds nothing else is no empty message; encrypted data is not named."""
    recording = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    secret = {"type": "reasoning", "encrypted_content": "QUJD" * 100}
    for message in (HumanMessage([IMAGE, recording]), ToolMessage([IMAGE, recording], tool_call_id="c")):
        assert quoted(message).splitlines()[1:-1] == ["[image]", "[audio]"]
    drawn = AIMessage(
        [{"type": "text", "text": "here"}, secret, {"type": "image_generation_call", "result": "iVBORw0KGgo" * 40}]
    )
    assert quoted(drawn).splitlines()[1:-1] == ["here", "[image]"]


def test_chunks_hold_as_many_messages_as_fit() -> None:
    """Each message is in one chunk, in order; a chunk may be as large as the budget and no larger."""
    messages = numbered([user(filler(20)) for _ in range(4)])
    each = WORDS.text(quoted(messages[0])) + 1
    for budget, sizes in ((2 * each, [2, 2]), (2 * each - 1, [1, 1, 1, 1]), (3 * each, [3, 1]), (9 * each, [4])):
        found = chunks(messages, budget, WORDS)
        assert [len(chunk.messages) for chunk in found] == sizes
        assert [message.id for chunk in found for message in chunk.messages] == ["m0", "m1", "m2", "m3"]


def test_of_a_message_over_the_budget_more_of_the_beginning_is_shown_than_of_the_end() -> None:
    """Two fifths of the budget show the beginning, a fifth the end, and a fifth what was extracted of all of it."""
    (chunk,) = chunks(numbered([user(filler(2_000))]), 500, WORDS)
    begin, _, rest = chunk.text.partition("\n[... cut; extracted from the whole message:\n")
    end = rest.rpartition("\n...]\n")[2]
    assert (WORDS.text(begin), WORDS.text(end)) == (200, 100)
    assert begin.split()[-1] == "w197"
    assert end.split()[0] == "w1901"
    assert chunk.cut == {"m0": (WORDS.text(chunk.text), WORDS.text(quoted(chunk.messages[0])))}
