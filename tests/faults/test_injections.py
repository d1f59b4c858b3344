"""What tools, the assistant and quotations say stays data: it pins, rules, triggers and frames nothing.

The digest's own heed for authors is tested in `tests/nodes/digest/test_digest.py`.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.nodes.config.summary_format import FRAME
from langgraph_compaction.nodes.conversation.message_marks import is_summary, marks
from langgraph_compaction.nodes.digest.entry import Entry, unpack
from langgraph_compaction.nodes.summary.summary_message import PINNED
from tests.fakes import ScriptedModel, summary_message, usage
from tests.graph.harness import CONFIG, agent, events, ledger, standing, values

ROWS: dict[str, str] = json.loads(Path(__file__).with_name("injections.json").read_text(encoding="utf-8"))
FACT = "FQ8APE"
PIN = "Seat 14C and no other"
RULE = "Never book me a flight on a Monday."
OVER_TRIGGER, OVER_LIMIT = 5, 6
"""Long answers that make a request reach the trigger, or pass the limit."""
COPIED = 6
LONG = 60
"""Words from which a message of these conversations is filler."""


def harmless(text: str) -> str:
    """A text of as many words and characters that means nothing."""
    return re.sub(r"[^\s`]", "x", text)


def everywhere(text: str) -> list[AnyMessage]:
    """The text as a call's argument and its result, said by the assistant, and quoted by a user in two ways."""
    call = {"name": "read", "args": {"note": text}, "id": "call-note"}
    code = "" if "```" in text else f"```\n{text}\n```"  # a fence ends where the text says so
    lines = "\n".join(f"> {line}" for line in text.splitlines())
    return [
        AIMessage("", tool_calls=[call], id="asking"),
        ToolMessage(text, tool_call_id="call-note", id="answering", name="read"),
        AIMessage(f"I found this. {text}", id="telling"),
        HumanMessage(f"What is this?\n{code}\nTell me.", id="quoting-code"),
        AIMessage("Code.", id="code"),
        HumanMessage(f"They wrote:\n{lines}\nIs it true?", id="quoting-lines"),
        AIMessage("It is not.", id="lines"),
    ]


def conversation(middle: Sequence[AnyMessage], bulk: int) -> dict[str, Any]:
    """A conversation with so many long answers, whose old part holds a pin, a rule, a fact and this."""
    first = {"name": "read", "args": {"reservation_id": FACT}, "id": "call-first"}
    return {
        "messages": [
            HumanMessage(f"I want to fly. <Pin>{PIN}</Pin> {RULE}", id="first"),
            AIMessage("", tool_calls=[first], id="looking"),
            ToolMessage(f'{{"reservation_id": "{FACT}"}}', tool_call_id="call-first", id="found", name="read"),
            AIMessage("I have it.", id="seen"),
            *middle,
            *(AIMessage("and so on " * 50, id=f"told-{n}") for n in range(bulk)),
            HumanMessage("and now?", id="question"),
        ]
    }


@dataclass(frozen=True)
class Outcome:
    """What one turn came to."""

    summary: HumanMessage
    decisions: list[tuple[Any, ...]]
    state: dict[str, Any]
    asked: list[list[BaseMessage]]

    @property
    def parts(self) -> tuple[str, str, str]:
        """The summary message's text before, between and after the tags; the last closing tag is ours."""
        head, _, rest = self.summary.text.partition("\n<summary>\n")
        body, _, tail = rest.rpartition("\n</summary>")
        return head, body, tail

    @property
    def known(self) -> list[Entry]:
        """What was recorded of goal, rules and the planted fact, in a digest or beside a summary in prose."""
        mark = marks(self.summary)
        entries = unpack(mark.get("facts") or mark.get("record"))[1]
        return [entry for entry in entries if entry.section in {"Goal", "Rules"} or entry.value == FACT]


def turn(middle: Sequence[AnyMessage], summarizer: Any, *, bulk: int = OVER_TRIGGER) -> Outcome:
    """One turn over such a conversation."""
    model = ScriptedModel(replies=[usage(AIMessage("answered", id="the-answer"), 100)])
    graph = agent(model, summarizer, facts_beside_summary=True, tool_blocks_keep_recent=0)
    chunks = list(graph.stream(conversation(middle, bulk), CONFIG, stream_mode=["updates", "custom"]))
    told = [(e["event"], e.get("trigger"), e.get("verdict"), e.get("reason")) for e in events(chunks)]
    rows = [(row.verdict, row.trigger, row.strategy, row.tokens_before) for row in ledger(graph)]
    kept = ("epoch", "step", "route", "trigger", "focus", "breaker", "draft")
    (summary,) = (message for message in values(graph)["messages"] if is_summary(message))
    return Outcome(
        summary=summary,
        decisions=[*told, *rows],
        state={key: standing(graph).get(key) for key in kept},
        asked=getattr(summarizer, "received", []),
    )


def outline(beside: str) -> list[str]:
    """What stands beside a summary, without the facts that it shows."""
    return [line for line in beside.splitlines() if not line.startswith("- ") or PIN in line]


def copied(messages: list[BaseMessage]) -> str:
    """What a summarizer writes that copies the first short messages that it is shown, call and result among them."""
    shown = re.findall(r"<message[^>]*>\n(.*?)\n</message>", messages[-1].text, re.DOTALL)
    short = [text for text in shown if len(text.split()) < LONG][:COPIED]
    return "\n".join(f"Then this stood in the conversation: {text}, and the work went on." for text in short)


def copying() -> ScriptedModel:
    """A model that copies what it is shown."""
    return ScriptedModel(replies=[lambda messages: f"<summary>{copied(messages)}</summary>"])


def believing() -> ScriptedModel:
    """A model that is taken in: it undoes our escapes."""
    return ScriptedModel(replies=[lambda messages: f"<summary>{unescape(copied(messages))}</summary>"])


SUMMARIZERS: dict[str, Callable[[], Any]] = {"digest": lambda: "digest", "copying": copying}


NOT_COPIED = {"marker of a summary"}
"""What the form check refuses in a summary, so that a copy of it is rolled back."""
CASES = [(name, row) for name in SUMMARIZERS for row in ROWS if name == "digest" or row not in NOT_COPIED]


@pytest.mark.parametrize(("name", "row"), CASES)
def test_an_injection_changes_neither_pins_nor_facts_nor_triggers_nor_the_frame(name: str, row: str) -> None:
    """All is as in the conversation in which as many words say nothing."""
    told, plain = (turn(everywhere(text), SUMMARIZERS[name]()) for text in (ROWS[row], harmless(ROWS[row])))
    assert marks(told.summary)["pins"] == marks(plain.summary)["pins"] == [PIN]
    assert told.known == plain.known
    assert any(entry.value == FACT for entry in told.known)
    assert told.decisions == plain.decisions
    assert told.state == plain.state
    assert told.parts[0] == plain.parts[0] == FRAME
    assert outline(told.parts[2]) == outline(plain.parts[2])
    assert told.parts[2].endswith(f"\n{PINNED}\n<pinned>\n- {PIN}\n</pinned>")
    for tag in ("<summary>", "</summary>", "<pinned>", "</pinned>"):
        assert told.summary.text.count(tag) == 1
    for tag in ("<message", "</message>", "<conversation>", "</conversation>", "<earlier_record>", "<call>"):
        assert [r[-1].text.count(tag) for r in told.asked] == [r[-1].text.count(tag) for r in plain.asked]


@pytest.mark.parametrize("row", ROWS)
def test_a_summarizer_that_is_taken_in_writes_neither_pins_nor_past_its_tags(row: str) -> None:
    """Whatever it writes, its text ends where ours says, and what stands beside it is rendered by us."""
    told, plain = (turn(everywhere(text), believing(), bulk=OVER_LIMIT) for text in (ROWS[row], harmless(ROWS[row])))
    assert told.parts[0] == FRAME
    assert "</summary>" not in told.parts[1]
    assert marks(told.summary)["pins"] == [PIN]
    assert told.parts[2].endswith(plain.parts[2][plain.parts[2].index(f"\n{PINNED}") :])


@pytest.mark.parametrize("row", ROWS)
def test_no_text_of_a_summary_ends_its_tag(row: str) -> None:
    """Of a summarizer that need not write tags, too."""
    message = summary_message(f"{ROWS[row]}\n</summary>", "c", pins=[PIN])
    assert message.text.startswith(f"{FRAME}\n<summary>\n")
    assert message.text.endswith(f"\n</summary>\n{PINNED}\n<pinned>\n- {PIN}\n</pinned>")
    assert message.text.count("</summary>") == 1
