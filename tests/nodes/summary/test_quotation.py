"""The passages of found messages that a quotation shows: what the request does not contain, the best first."""

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint.compaction.recall_search import SearchHit
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.summary.quotation import CLOSING, OPENING, Passage, new_passages, quotation
from langgraph_compaction.nodes.summary.recall_answer import GAP

COUNTER = tiktoken_counter()
RECORD = ToolMessage(
    '{"parcel": "PX-1", "note": "a long note about the weather at sea, which says nothing that anybody will need", '
    '"invoice": "INV-77", "carrier": "sea", "remark": "another long text that is of no use to anybody who reads it"}',
    tool_call_id="c",
)


def found(*messages: AnyMessage) -> list[SearchHit]:
    """Hits, each with half of the score of the one before."""
    return [
        SearchHit(message=one, handle=f"{n:012x}", compaction_id="c", archived_at=0.0, score=2.0**-n)
        for n, one in enumerate(messages)
    ]


def passages(*messages: AnyMessage, view: str = "", query: str = "", max_tokens: int = 400) -> list[Passage]:
    """The passages of messages for a request."""
    return new_passages(found(*messages), query, view, max_tokens=max_tokens, counter=COUNTER)


def test_only_pieces_with_new_identifiers_are_quoted() -> None:
    """Not those that the view contains, nor the text between them."""
    (passage,) = passages(RECORD, view="Where is parcel PX-1?")
    assert "INV-77" in passage.text
    assert "PX-1" not in passage.text
    assert "no use" not in passage.text
    assert passages(RECORD, view="PX-1 has INV-77") == []


def test_words_of_the_query_are_quoted_without_an_identifier() -> None:
    """And before a long list of identifiers in a message that was found less well."""
    answer, log = (
        AIMessage("The harbor office is painted green."),
        AIMessage(" ".join(f"log-{n}" for n in range(400))),
    )
    every = passages(answer, log, query="What color is the harbor office?", max_tokens=120)
    assert answer.text in [one.text for one in every]


def test_a_quotation_is_within_its_tokens() -> None:
    """With its tags and headlines; empty where not even one piece fits."""
    log = AIMessage(" ".join(f"log-{n}" for n in range(4_000)))
    for most in (100, 200, 400):
        text = quotation(passages(RECORD, log, max_tokens=most))
        assert most / 2 < COUNTER.text(text) <= most
    assert passages(RECORD, log, max_tokens=60) == []
    assert quotation([]) == ""


def test_a_mark_stands_between_pieces_that_are_no_neighbors() -> None:
    """Neighboring pieces follow each other directly, and the beginning of a message has no mark before it."""
    first, second, last = "Invoice INV-11 was paid.", "Parcel PX-22 was sent.", "Buyer BU-33 waits for it."
    between = ["The weather at sea was fine, and nobody on board had anything to do."] * 3
    (whole,) = passages(AIMessage("\n".join([first, second, *between, last])))
    assert [line for line in whole.text.splitlines() if line] == [first, second, GAP, last]
    (end,) = passages(AIMessage("\n".join([*between, last])))
    assert end.text == f"{GAP}\n{last}"


def test_a_quoted_message_cannot_end_the_quotation() -> None:
    """Each line begins with a mark, tags are escaped, and control characters are not printed."""
    (hit,) = found(HumanMessage("x", id="x"))
    text = quotation([Passage(hit, f"before\n{CLOSING}\n\x1b[2Jafter", [1.0])])
    inner = text.removeprefix(OPENING).removesuffix(CLOSING).strip("\n").splitlines()
    assert inner[0].startswith(f"[{hit.handle}")
    assert all(line.startswith("> ") for line in inner[1:])
    assert len(inner) == 4
    assert CLOSING not in "\n".join(inner)
    assert all(line.isprintable() for line in inner)
    spaced = quotation([Passage(hit, "if paid:\n    total  <  INV-77", [1.0])])
    assert "\n> if paid:\n>     total  &lt;  INV-77\n" in spaced, "indentation stays"


def test_a_quotation_may_take_all_of_its_tokens() -> None:
    """A quotation of exactly `max_tokens` tokens fits, although escaped characters take more than estimated."""
    message = AIMessage(f"{'<' * 30}INV-77")
    needed = COUNTER.text(quotation(passages(message)))
    assert passages(message, max_tokens=needed) == passages(message)
    assert passages(message, max_tokens=needed - 1) == []
