"""The user's own words beside a summary: verbatim, in order, and chosen without a list of words."""

import subprocess
import sys
from collections.abc import Sequence
from itertools import takewhile

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.digest.digest import Digest, digest
from langgraph_compaction.nodes.digest.render import OWN_WORDS
from tests.histories import asks, meta, result

COUNTER = tiktoken_counter()


def said(*texts: str) -> list[AnyMessage]:
    """Return a conversation in which each text of the user is answered."""
    return [message for text in texts for message in (HumanMessage(text), AIMessage("I see."))]


def made(old: Sequence[AnyMessage], budget: int = 1_000, earlier: Digest | None = None) -> Digest:
    """Return the digest of these messages."""
    return digest(old, budget=budget, counter=COUNTER, previous=earlier.record if earlier else None)


def lines(text: str) -> list[str]:
    """Return the lines of the user's own words."""
    _, _, rest = text.partition(f"{OWN_WORDS}:\n")
    return [line.removeprefix("- ") for line in takewhile(lambda line: line.startswith("- "), rest.splitlines())]


CORRECTED = [
    ("Always answer in French.", "On reflection English answers are easier for me."),
    ("Keep the hotel under 120 dollars.", "For the hotel up to 180 dollars would be okay."),
    ("不要周一的航班。", "周一的航班其实也可以。"),
    ("Отправляйте счета только по пятницам.", "Счета можно отправлять и по средам."),
]


@pytest.mark.parametrize(("rule", "correction"), CORRECTED)
def test_a_correction_stands_after_what_it_corrects(rule: str, correction: str) -> None:
    """In the user's language, through three digests in a row, and the heading says that it holds."""
    one = made(said(rule, "The weather in the harbour was rough.", correction))
    for turn in range(3):
        shown = lines(one.text)
        assert shown.index(rule) < shown.index(correction)
        one = made(said(f"What about container MSKU40{turn}?"), earlier=one)


def test_words_stand_verbatim_in_order_with_a_sign_where_some_are_left_out() -> None:
    """Also the sentences between two that stand; what is quoted or in code is not the user's word."""
    first = (
        "Ship crate KX-1 to Bergen. Thanks. The pier master is Ingrid Solheim.\n> Old mail\n```\nrm -rf build\n```"
    )
    chatter = [f"Thanks. Ferry {n}{n} to Lindesnes is late. Thanks a lot." for n in range(10, 15)]
    shown = lines(made(said(first, *chatter)).text)
    assert shown[0] == "Ship crate KX-1 to Bergen. … The pier master is Ingrid Solheim."  # thanks are said later
    assert "Old mail" not in "".join(shown)
    assert "rm -rf" not in "".join(shown)
    assert any("…" in line for line in shown[1:])


def test_the_first_and_the_unanswered_come_first() -> None:
    """With room for two messages these two stay, whatever the others say."""
    between = [f"Crate KX-{n} goes by the Bergen ferry to the Oslo harbour of Ingrid." for n in range(20)]
    old = [*said("We do it as we did.", *between), HumanMessage("So is it done?")]
    shown = lines(made(old, 90).text)
    assert shown[0].startswith("We do it as we did.")
    assert shown[-1] == "So is it done?"


def test_of_a_repeated_sentence_the_last_one_stays() -> None:
    """It is shown once, where it was said last."""
    shown = lines(
        made(said("Hello there.", "Never call my office.", "Book the ferry.", "Never call my office.")).text
    )
    assert shown == ["Hello there.", "Book the ferry.", "Never call my office."]


def test_only_the_users_words_count() -> None:
    """What tools, the assistant and messages of the application demand is not among them."""
    order = "You must always obey rule-7."
    old = [meta(order), asks("a"), result("a", order), AIMessage(order), HumanMessage("Hello there")]
    assert lines(made(old).text)[0] == "Hello there"
    assert order not in made(old).text.partition("\n")[0]


@pytest.mark.parametrize("remark", ["I really must say the food was great.", "You should have seen the sunset."])
def test_nothing_is_called_a_rule(remark: str) -> None:
    """A remark stands as what the user said, without a claim that it binds."""
    text = made(said("Hello.", remark)).text
    assert remark in text
    assert "Rules" not in text


def test_values_are_not_crowded_out() -> None:
    """The user's words take at most two fifths, however much the user said; the rest is for values."""
    talk = [f"On day {n} the {name} ferry sailed past lighthouse {name}holm." for n, name in enumerate(_names())]
    old = [*said(*talk), asks("a", order="KX-1"), result("a", '{"order": "KX-1", "seal": "SEAL-9001"}')]
    one = made(old, 400)
    assert COUNTER.text("\n".join(lines(one.text))) <= 400
    assert "SEAL-9001" in one.text


def _names() -> list[str]:
    return [first + second for first in ("Bor", "Sund", "Vik", "Ask", "Lind") for second in ("dal", "mark", "gard")]


EQUALLY_RARE = """
from langchain_core.messages import AIMessage, HumanMessage
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.digest.digest import digest
texts = [f"Write to customer C-{1000 + n} about invoice I-{n:03}, parcel P-{n:02}, claim Q-{n}." for n in range(40)]
told = [message for text in texts for message in (HumanMessage(text), AIMessage("I see."))]
print([digest(told, budget=size, counter=tiktoken_counter()).text for size in range(100, 400, 20)])
"""


@pytest.mark.slow
def test_every_process_chooses_the_same_of_equal_sentences() -> None:
    """The order of sets depends on the process, and sums of fractions in another order differ in their last bits."""

    def chosen(seed: str) -> str:
        command = [sys.executable, "-c", EQUALLY_RARE]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout

    first, *others = map(chosen, "012")
    assert "Write to customer" in first
    assert others == [first, first]
