"""Rules that users revise: what a context shows of them after two compactions, in seven languages."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.graph.lab.evaluation.dialogues import ROUNDS, LossySummarizer, after_compactions, outcome
from langgraph_compaction.graph.lab.evaluation.revisions import REVISIONS, Revision
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.conversation.tokens import approximate_counter
from langgraph_compaction.nodes.digest.digest import Digest, digest, facts_of
from langgraph_compaction.nodes.digest.entry import REVISES

RULE = "Never email me about the order."
COUNTER = approximate_counter()
FAITHFUL = CompactionSettings(preset="faithful")


def told(*texts: str, previous: Digest | None = None) -> Digest:
    """A digest of what a user said, each message answered."""
    old: list[AnyMessage] = [m for text in texts for m in (HumanMessage(text), AIMessage("Fine."))]
    return digest(old, budget=400, counter=COUNTER, previous=previous.record if previous else None)


@pytest.mark.parametrize("revision", REVISIONS[::3], ids=lambda one: f"{one.language}: {one.rule}")
def test_no_revised_rule_stands_without_its_revision(revision: Revision) -> None:
    """After two compactions, the rule is shown only as the earlier form of what the user said later."""
    for seed, later in enumerate((revision.soft, revision.firm)):
        context = after_compactions({0: revision.rule, 4: later}, FAITHFUL, compactions=2, seed=seed)
        assert outcome(context, revision.rule, later) in ("marked", "new", "spoken")


@pytest.mark.parametrize(("summarizer", "compactions"), [("digest", 2), (LossySummarizer(), 4)])
@pytest.mark.parametrize("revision", REVISIONS[1::8], ids=lambda one: f"{one.language}: {one.rule}")
def test_a_revision_in_a_kept_message_revises_the_record(
    revision: Revision, summarizer: str | LossySummarizer, compactions: int
) -> None:
    """The user takes a rule back in the round before the second compaction; the rule has left the view by then."""
    said = {0: revision.rule, 2 * ROUNDS - 1: revision.soft}
    settings = CompactionSettings()
    context = after_compactions(said, settings, compactions=compactions, seed=3, summarizer=summarizer)
    assert outcome(context, revision.rule, revision.soft) in ("marked", "new", "spoken")


def test_a_revision_is_not_revised_by_its_own_message() -> None:
    """The kept message that revised a rule leaves the view later: the rule's line stays as it is."""
    said = HumanMessage("On reflection email is fine, forget what I said about that.")
    one = facts_of([HumanMessage(RULE)], None, budget=200, counter=COUNTER, beside=[said])
    two = facts_of([said], one.record, budget=200, counter=COUNTER)
    assert one.text == two.text == f"Rules:\n- {said.text} (was: {RULE})"


@pytest.mark.parametrize("later", ["soft", "firm"])
def test_nearly_all_revisions_are_found(later: str) -> None:
    """In a later digest, the rule is marked; also in facts beside a summary."""
    found = beside = 0
    for one in REVISIONS:
        first, said = told(f"Hello. {one.rule}"), getattr(one, later)
        found += f"(was: {one.rule})" in told(said, previous=first).text
        earlier = facts_of([HumanMessage(one.rule)], None, budget=200, counter=COUNTER)
        facts = facts_of([HumanMessage(said)], earlier.record, budget=200, counter=COUNTER)
        beside += f"(was: {one.rule})" in facts.text and one.rule not in facts.text.replace(f"(was: {one.rule})", "")
    assert found >= 0.98 * len(REVISIONS)
    assert beside >= 0.98 * len(REVISIONS)


def test_a_rule_and_its_revisions_are_one_line() -> None:
    """Each further revision takes the place of the last, so that none is dropped without the others."""
    one = told("Hello. Keep the hotel under 120 dollars a night.")
    two = told("The new limit for the hotel is 180 dollars a night.", previous=one)
    three = told("On second thought the hotel may cost 210 dollars a night.", previous=two)
    assert "120" not in three.text
    assert "Keep the hotel under" not in three.text
    assert (
        "- On second thought the hotel may cost 210 dollars a night. (was: The new limit for the hotel is 180 dollars"
        " a night.)" in three.text
    )


@pytest.mark.parametrize(
    "later",
    [
        "Also never email my wife about the order.",
        "Is email fine?",
        "Never share my address with the carrier.",
        "From now on use metric units.",
        "The train is fine.",
    ],
)
def test_what_revises_nothing_leaves_the_rule(later: str) -> None:
    """An addition, a question, and what is about something else."""
    text = told("Hello.", "Never email me about the order.", later).text
    assert "- Never email me about the order.\n" in f"{text}\n"
    assert "was:" not in text


def test_a_revision_of_something_unknown_is_marked() -> None:
    """Words that take back something stand above the rules, even if no rule has a word in common with them."""
    text = told("Hello.", "Never send parcels on Mondays.", "Forget what I said, you must do as you like.").text
    assert f"Forget what I said, you must do as you like. ({REVISES})" in text


def test_only_people_revise_rules() -> None:
    """What the assistant says changes no rule of the user."""
    old: list[AnyMessage] = [
        HumanMessage("Hello."),
        AIMessage("Hello."),
        HumanMessage("Never email me about the order."),
        AIMessage("On reflection email is fine, forget what I said about email."),
    ]
    text = digest(old, budget=400, counter=COUNTER).text
    assert "was:" not in text
    assert "- Never email me about the order." in text


def test_many_rules_take_linear_time() -> None:
    """A sentence is compared with a bounded number of rules, and a bounded number of sentences is compared."""
    text = " ".join(f"From now on you must never do thing {number}." for number in range(4_000))
    assert "From now on" in told("Hello.", text).text
