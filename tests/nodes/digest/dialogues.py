"""Generated dialogues in which users set and revise rules, and what is left of them after several compactions."""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage

from langgraph_compaction.graph.lab.evaluation.policies import count
from langgraph_compaction.graph.lab.evaluation.survival import text_of
from langgraph_compaction.nodes import CompactionSettings, compact_messages
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.gate.reply_checks import Free, Reply
from langgraph_compaction.nodes.summary.summarizers import SummaryRequest

Outcome = Literal["stale", "unmarked", "spoken", "marked", "new", "neither"]
"""What a context shows of a rule and its revision: only the rule; both, the rule without a mark in a summary; both,
the rule in the user's own message; both, one marked as the other's earlier or later words; only the revision;
nothing."""

CAP = 0.5
"""Share of the tokens of a context to which each compaction compacts it."""

ROUNDS = 6
"""Number of rounds that are added before each compaction."""

_CITIES = ("Oslo", "Porto", "Lyon", "Graz", "Turin", "Bergen", "Ghent", "Cork")
_ITEMS = ("lamp", "desk", "kettle", "monitor", "chair", "printer", "shelf", "fan")


def round_of(draw: random.Random, said: str = "") -> list[AnyMessage]:
    """Return one round: a user's question about an order, a call, its result and an answer.

    `said` is a sentence that the user adds.
    """
    order, item = f"ORD-{draw.randrange(10_000, 99_999)}", draw.choice(_ITEMS)
    rows = [
        {
            "parcel": f"PX{draw.randrange(100_000, 999_999)}",
            "city": draw.choice(_CITIES),
            "weight": draw.randrange(90),
        }
        for _ in range(draw.randrange(2, 7))
    ]
    call = {"name": "find_order", "args": {"order": order}, "id": f"call-{draw.randrange(10**9)}"}
    return [
        HumanMessage(f"Where is the {item} of order {order}? {said}".strip(), id=f"u-{draw.randrange(10**9)}"),
        AIMessage("", tool_calls=[call], id=f"c-{draw.randrange(10**9)}"),
        ToolMessage(
            json.dumps({"order": order, "item": item, "parcels": rows}),
            tool_call_id=call["id"],
            name="find_order",
            id=f"r-{draw.randrange(10**9)}",
        ),
        AIMessage(f"The {item} is in {rows[-1]['city']}.", id=f"a-{draw.randrange(10**9)}"),
    ]


@dataclass(frozen=True)
class LossySummarizer:
    """Stands for a model that loses much: it names some items and answers, and no rule."""

    name: str = "lossy"

    def summarize(self, request: SummaryRequest) -> Reply:
        """Return a summary of the assistant's answers."""
        answers = [m.text for m in request.messages if isinstance(m, AIMessage) and m.text]
        body = f"The user asked where several orders are, and the assistant looked them up. {' '.join(answers[-4:])}"
        return Reply(content=f"<summary>{body}</summary>", contract=Free())

    async def asummarize(self, request: SummaryRequest) -> Reply:
        """Asynchronous form of `summarize`."""
        return self.summarize(request)


def after_compactions(
    said: Mapping[int, str], settings: CompactionSettings, *, compactions: int, seed: int, summarizer: Any = "digest"
) -> list[AnyMessage]:
    """Return the context of a dialogue after so many compactions, each after `ROUNDS` further rounds.

    `said` maps the number of a round to a sentence that the user adds in this round.
    """
    draw, context = random.Random(seed), list[AnyMessage]()  # noqa: S311 - no secret; the seed repeats the dialogue
    for number in range(compactions * ROUNDS):
        context += round_of(draw, said.get(number, ""))
        if number % ROUNDS == ROUNDS - 1:
            cap = int(CAP * count(context))
            context = compact_messages(
                context, max_tokens=cap, token_counter=count, settings=settings, summarizer=summarizer
            )
    return context


def outcome(context: Sequence[BaseMessage], rule: str, revision: str) -> Outcome:
    """Return what a context shows of a rule and of the sentence that revised it."""
    text = text_of(context)
    summaries = text_of(message for message in context if is_summary(message))
    unmarked = [line for line in summaries.splitlines() if rule in line and not _is_marked(line, rule, revision)]
    if revision not in text:
        return "stale" if rule in text else "neither"
    if unmarked:
        return "unmarked"
    return "marked" if rule in summaries else "spoken" if rule in text else "new"


def _is_marked(line: str, rule: str, revision: str) -> bool:
    """Whether a line shows a rule as the earlier form of other words, or with the revision as its later words."""
    return f"(was: {rule})" in line or revision in line.partition(f"{rule} (later: ")[2]


def voided(context: Sequence[BaseMessage], rule: str) -> bool:
    """Whether a context shows a rule as one that no longer holds."""
    return f"(was: {rule})" in text_of(context)


def kept(context: Sequence[BaseMessage], sentences: Iterable[str]) -> int:
    """Return how many of these sentences a context still holds."""
    text = text_of(context)
    return sum(sentence in text for sentence in sentences)


def listed_rules(context: Sequence[BaseMessage]) -> list[str]:
    """Return the lines under the heading `Rules:` of the summaries in a context."""
    lines, found, inside = text_of(context).splitlines(), list[str](), False
    for line in lines:
        inside = (inside and line.startswith("- ")) or line == "Rules:"
        if inside and line.startswith("- "):
            found.append(line[2:])
    return found
