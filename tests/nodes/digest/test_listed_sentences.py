"""What a model lists next to its summary chooses among sentences of the conversation, and changes none."""

from collections.abc import Sequence

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.digest.digest import BESIDE_SUMMARY, Digest, digest
from langgraph_compaction.nodes.digest.listed_sentences import (
    NOTHING_LISTED,
    ListedSentences,
    is_listed,
    split_list,
)

COUNTER = tiktoken_counter()
RULE = "The address stays between us and the auditors."
FRIDAY = "Reports go to Anna each Friday."
INBOX = "Bob took over the reporting inbox."
CHOSEN = "We will use the blue pipeline for the nightly export."
TALK: list[AnyMessage] = [
    HumanMessage(f"{RULE} {FRIDAY}"),
    AIMessage("Noted."),
    HumanMessage("Which pipeline is it?"),
    AIMessage(CHOSEN),
    HumanMessage(f"Good. {INBOX}"),
    AIMessage("Noted, too."),
]


def found(
    listed: ListedSentences,
    messages: Sequence[AnyMessage] = TALK,
    earlier: Digest | None = None,
    budget: int = 300,
    beside: Sequence[AnyMessage] = (),
) -> Digest:
    """Return the facts beside a summary of these messages."""
    known = earlier.record if earlier else None
    return digest(
        messages,
        budget=budget,
        counter=COUNTER,
        previous=known,
        sections=BESIDE_SUMMARY,
        beside=beside,
        words_first=200,
        listed=listed,
    )


def test_a_list_is_taken_out_of_a_reply() -> None:
    """In each of its forms; bullets, bold names, quotation marks and escapes do not matter."""
    reply = (
        "<summary>All is well.</summary>\n<rules>\n- rule: One &lt; two.\n* **decision**: \u201cWe go.\u201d\n"
        "note: nothing\n\n</rules>\nThe end."
    )
    left, listed = split_list(reply)
    assert left == "<summary>All is well.</summary>\n\nThe end."
    assert listed == ListedSentences(("One < two.",), ("\u201cWe go.\u201d",))
    assert split_list(listed.written()) == ("", listed)


@pytest.mark.parametrize(
    "reply", ["", "No list.", "<rules>\nrule: never closed", "</rules> rule: x <rules>", "<rules>" * 9]
)
def test_a_reply_without_a_list_stays_as_it_is(reply: str) -> None:
    """An open tag is no list."""
    assert split_list(reply) == (reply, NOTHING_LISTED)
    assert not NOTHING_LISTED.written()


def test_a_list_of_many_lines_is_read_as_far_as_its_limit() -> None:
    """24 lines, of at most 800 characters each."""
    reply = "<rules>" + "\n".join(f"rule: sentence number {n} {'x' * 1_000}" for n in range(100)) + "</rules>"
    left, listed = split_list(reply)
    assert not left
    assert len(listed.rules) == 24
    assert all(len(rule) <= 800 for rule in listed.rules)


@pytest.mark.parametrize(
    ("line", "same"),
    [
        (RULE, True),
        (f'"{RULE.upper()}"', True),
        (f"{RULE} {FRIDAY}", True),
        ("The address stays between us", True),
        ("auditors", False),
        ("The address is public.", False),
        ("", False),
    ],
)
def test_a_line_names_a_sentence_by_its_letters(line: str, *, same: bool) -> None:
    """A line names a sentence if the line contains the sentence, or at least half of the sentence.

    No line names a sentence without letters.
    """
    assert is_listed(RULE, [line]) is same
    assert is_listed(RULE, [INBOX, line]) is same
    assert not is_listed("?!", [line])


def test_a_decision_that_the_user_let_stand_is_kept() -> None:
    """In the assistant's own words, through further compactions."""
    facts = found(ListedSentences(decisions=(CHOSEN,)))
    assert f'Decisions:\n- "{CHOSEN}"' in facts.text
    more: list[AnyMessage] = [HumanMessage("Use the red pipeline."), AIMessage("Done.")]
    assert CHOSEN in found(NOTHING_LISTED, more, facts).text


def test_a_decision_counts_only_once_the_user_went_on() -> None:
    """Not in the last answer, not a user's sentence, and not one that nobody said."""
    assert CHOSEN not in found(ListedSentences(decisions=(CHOSEN,)), TALK[:4]).text
    assert "Decisions" not in found(ListedSentences(decisions=(RULE, "We go."))).text
    beside = [HumanMessage("Good.")]
    listed = ListedSentences(decisions=(CHOSEN,))
    assert CHOSEN in found(listed, TALK[:4], beside=beside).text


@pytest.mark.parametrize(
    ("sentence", "line", "same"),
    [
        ("Use trams.", "Use trams. And trains.", True),
        ("Use tram.", "Use tram. And trains.", False),
        ("Use trams or planes.", "Use trams", True),
        ("Use trams or airships.", "Use trams", False),
        ("Use tram or bus.", "Use tram", False),
        ("Use tram.", "use tram", True),
    ],
)
def test_a_part_counts_from_eight_letters_and_half_of_the_sentence_on(
    sentence: str, line: str, *, same: bool
) -> None:
    """Shorter parts occur in many sentences; a copy of the whole sentence may have any length."""
    assert is_listed(sentence, [line]) is same


def test_a_listed_sentence_of_the_user_comes_before_others() -> None:
    """A sentence of common words that the model lists is shown first; one that nobody said is not shown."""
    names = [first + second for first in ("Bor", "Sund", "Vik", "Lind") for second in ("dal", "mark", "gard", "nes")]
    ships = [HumanMessage(f"Ship crate KX-{n} by the {name} ferry to {name}holm.") for n, name in enumerate(names)]
    plain = "It is to be as it was, if you can."
    again = [AIMessage(plain)] * 4
    talk = [HumanMessage("Hello."), *again, *ships, HumanMessage(plain), AIMessage("Noted.")]
    listed = ListedSentences(rules=(plain, "Never fly."))
    assert plain in found(listed, talk, budget=80).text
    assert plain not in found(NOTHING_LISTED, talk, budget=80).text
    assert "Never fly" not in found(listed, talk).text
