"""What a model lists next to its summary chooses among sentences of the conversation, and changes none."""

from collections.abc import Sequence

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.digest.digest import Facts, digest, facts_of, rules_in
from langgraph_compaction.nodes.digest.entry import Entry
from langgraph_compaction.nodes.digest.listed_sentences import (
    NOTHING_LISTED,
    ListedSentences,
    is_listed,
    split_list,
    with_listed_rules,
)
from langgraph_compaction.nodes.digest.rules_and_requests import FIRM, rule_worth

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
    listed: ListedSentences, messages: Sequence[AnyMessage] = TALK, earlier: Facts | None = None, budget: int = 300
) -> Facts:
    """Return the facts beside a summary of these messages."""
    known = earlier.record if earlier else None
    return facts_of(messages, known, budget=budget, counter=COUNTER, rules_first=200, listed=listed)


def test_a_list_is_taken_out_of_a_reply() -> None:
    """In each of its forms; bullets, bold names, quotation marks and escapes do not matter."""
    reply = (
        "<summary>All is well.</summary>\n<rules>\n- rule: One &lt; two.\n* **decision**: \u201cWe go.\u201d\n"
        "revised: Old words => New words\nrevised: no arrow\nnote: nothing\n\n</rules>\nThe end."
    )
    left, listed = split_list(reply)
    assert left == "<summary>All is well.</summary>\n\nThe end."
    assert listed == ListedSentences(("One < two.",), ("\u201cWe go.\u201d",), (("Old words", "New words"),))
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


def test_a_listed_sentence_of_the_user_becomes_a_rule() -> None:
    """It is no rule by its words; what nobody said is ignored."""
    assert RULE not in found(NOTHING_LISTED).text
    facts = found(ListedSentences(rules=(RULE, "The moon is made of cheese.")))
    assert f"- {RULE}" in facts.text
    assert (RULE,) in facts.needed
    assert "cheese" not in facts.text
    later = found(NOTHING_LISTED, [HumanMessage("Go on."), AIMessage("Yes.")], earlier=facts)
    assert f"- {RULE}" in later.text


def test_a_listed_rule_is_worth_as_much_as_a_binding_one() -> None:
    """A rule that is worth more stays so, and the list does not change what other rules are worth."""
    least = rule_worth("", FIRM)
    slight, other, great = (
        Entry("Rules", 0, 1.0, RULE),
        Entry("Rules", 1, 1.0, FRIDAY),
        Entry("Rules", 2, 99.0, INBOX),
    )
    assert with_listed_rules([slight, other, great], ListedSentences(rules=(RULE, INBOX)), [], 0) == [
        Entry("Rules", 0, least, RULE),
        other,
        great,
    ]
    assert with_listed_rules([slight], NOTHING_LISTED, TALK, 0) == [slight]
    said = with_listed_rules([], ListedSentences(rules=(INBOX,)), TALK, 7)
    assert said == [Entry("Rules", 7 + 4, least, INBOX)]


@pytest.mark.parametrize(
    "message",
    [
        AIMessage(RULE),
        ToolMessage(RULE, tool_call_id="1"),
        HumanMessage(RULE, additional_kwargs={"compaction": {"is_meta": True}}),
        HumanMessage(f"> {RULE}"),
        HumanMessage(f"```\n{RULE}\n```"),
        HumanMessage(RULE.replace(".", "?")),
    ],
    ids=["assistant", "tool", "meta", "quoted", "code", "question"],
)
def test_only_words_of_the_user_become_rules(message: AnyMessage) -> None:
    """Neither those of the assistant, of tools and of the application, nor quotations and questions."""
    facts = found(ListedSentences(rules=(RULE,)), [HumanMessage("Hello there."), message, HumanMessage("And now?")])
    assert "Rules:" not in facts.text


def test_a_listed_revision_is_shown_beside_the_rule() -> None:
    """The rule stays, because only a model says that it was changed."""
    facts = found(ListedSentences(rules=(FRIDAY,), revised=((FRIDAY, INBOX),)))
    assert f"- {FRIDAY} (later: {INBOX})" in facts.text
    assert facts.text.count(INBOX) == 1
    again = found(
        ListedSentences(revised=((FRIDAY, "Send them to Carla."),)), [HumanMessage("Send them to Carla.")], facts
    )
    assert f"- {FRIDAY} (later: {INBOX} Send them to Carla.)" in again.text


def test_a_listed_revision_may_have_nothing_in_common_with_the_rule() -> None:
    """Nothing but the list says that the short sentence changes the rule."""
    bob = "Bob does."
    messages = [HumanMessage(FRIDAY), AIMessage("Noted."), HumanMessage(bob), AIMessage("Yes.")]
    assert f"- {FRIDAY}\n" in f"{found(ListedSentences(rules=(FRIDAY,)), messages).text}\n"
    facts = found(ListedSentences(rules=(FRIDAY,), revised=((FRIDAY, bob),)), messages)
    assert f"- {FRIDAY} (later: {bob})" in facts.text


def test_a_revision_that_is_found_without_the_list_is_shown_once() -> None:
    """The list repeats it."""
    never, wife = "Never email me about the order.", "You can email my wife about the order after all."
    messages = [HumanMessage(never), AIMessage("Noted."), HumanMessage(wife), AIMessage("Noted, too.")]
    for listed in (NOTHING_LISTED, ListedSentences(revised=((never, wife),))):
        facts = found(listed, messages)
        assert f"- {never} (later: {wife})" in facts.text
        assert facts.text.count(wife) == 1


@pytest.mark.parametrize(
    "pair", [(FRIDAY, "Nobody said so."), ("Nobody said so.", INBOX), (INBOX, FRIDAY), (FRIDAY, CHOSEN)]
)
def test_a_model_cannot_revoke_a_rule(pair: tuple[str, str]) -> None:
    """Both sentences have to be the user's, and the later one has to be later."""
    facts = found(ListedSentences(rules=(FRIDAY,), revised=(pair,)))
    assert f"- {FRIDAY}\n" in f"{facts.text}\n"


def test_a_sentence_that_changes_nothing_can_itself_be_changed() -> None:
    """The list pairs it with words that nobody said; a later sentence still stands beside it."""
    carla = "Send them to Carla."
    listed = ListedSentences(rules=(INBOX,), revised=(("Nobody said so.", INBOX), (INBOX, carla)))
    assert f"- {INBOX} (later: {carla})" in found(listed, [*TALK, HumanMessage(carla), AIMessage("Yes.")]).text


def test_a_decision_that_the_user_let_stand_is_kept() -> None:
    """In the assistant's own words, through further compactions, until a later sentence changes it."""
    facts = found(ListedSentences(decisions=(CHOSEN,)))
    assert f'Decisions:\n- "{CHOSEN}"' in facts.text
    more: list[AnyMessage] = [HumanMessage("Use the red pipeline."), AIMessage("Done.")]
    assert CHOSEN in found(NOTHING_LISTED, more, facts).text
    assert CHOSEN not in found(ListedSentences(revised=((CHOSEN, "Use the red pipeline."),)), more, facts).text
    assert CHOSEN in found(ListedSentences(revised=((CHOSEN, "Nobody said so."),)), more, facts).text


def test_a_decision_is_not_changed_by_its_own_message() -> None:
    """Only a sentence in a later message can change a decision."""
    both = [*TALK[:3], AIMessage(f"{CHOSEN} It starts on Monday."), HumanMessage("Good."), AIMessage("Done.")]
    listed = ListedSentences(decisions=(CHOSEN,), revised=((CHOSEN, "It starts on Monday."),))
    assert CHOSEN in found(listed, both).text


def test_a_decision_counts_only_once_the_user_went_on() -> None:
    """Not in the last answer, not a user's sentence, and not one that nobody said."""
    assert CHOSEN not in found(ListedSentences(decisions=(CHOSEN,)), TALK[:4]).text
    assert "Decisions" not in found(ListedSentences(decisions=(RULE, "We go."))).text
    beside = [HumanMessage("Good.")]
    listed = ListedSentences(decisions=(CHOSEN,))
    assert CHOSEN in facts_of(TALK[:4], None, budget=300, counter=COUNTER, listed=listed, beside=beside).text


def test_a_digest_carries_what_was_listed() -> None:
    """After a summary by a model, the next one may be a digest."""
    facts = found(ListedSentences(rules=(RULE,), decisions=(CHOSEN,)))
    made = digest([HumanMessage("Go on.")], budget=300, counter=COUNTER, previous=facts.record)
    assert RULE in made.text
    assert CHOSEN in made.text
    assert rules_in(made.record) == (RULE, f'"{CHOSEN}"')


@pytest.mark.parametrize(
    "listed",
    [ListedSentences(rules=("a",)), ListedSentences(decisions=("b",)), ListedSentences(revised=(("c", "d"),))],
    ids=["rule", "decision", "revision"],
)
def test_a_list_with_one_line_of_any_kind_is_one(listed: ListedSentences) -> None:
    """Two lists joined have the lines of both."""
    assert listed
    assert not NOTHING_LISTED
    assert listed + NOTHING_LISTED == NOTHING_LISTED + listed == listed
    assert split_list((listed + listed).written()) == ("", listed + listed)


def test_two_listed_revisions_of_one_rule_stand_beside_it_once() -> None:
    """Both later sentences follow the rule, in the order of the conversation."""
    carla = "Send them to Carla."
    messages = [*TALK, HumanMessage(carla), AIMessage("Yes.")]
    facts = found(ListedSentences(rules=(FRIDAY,), revised=((FRIDAY, carla), (FRIDAY, INBOX))), messages)
    assert f"- {FRIDAY} (later: {INBOX} {carla})" in facts.text
    assert [facts.text.count(sentence) for sentence in (FRIDAY, INBOX, carla)] == [1, 1, 1]


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
