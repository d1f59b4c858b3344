"""A summary by sections: each chunk by itself, in one message."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import AnyMessage, HumanMessage

from langgraph_compaction.nodes import CompactionSettings, Reply, SummaryRequest
from langgraph_compaction.nodes.conversation.redaction import Redaction
from langgraph_compaction.nodes.conversation.request import Meter
from langgraph_compaction.nodes.conversation.window_and_reserve import sizes_of
from langgraph_compaction.nodes.runtime.effects import run
from langgraph_compaction.nodes.runtime.engine import Call
from langgraph_compaction.nodes.runtime.sections import LEAST_SECTION, summarize_by_sections
from langgraph_compaction.nodes.runtime.summarize_chunks import Work, WrittenSummary
from langgraph_compaction.nodes.summary.fallback_chain import Level
from langgraph_compaction.nodes.summary.summarizers import DigestSummarizer
from langgraph_compaction.nodes.summary.summary_message import summary_message
from tests.fakes import ReplyingSummarizer
from tests.graph.harness import WORDS, filler
from tests.histories import numbered

GOOD = "The user spoke of matter {}."


class Scripted(ReplyingSummarizer):
    """A summarizer that says these things in turn, then numbered summaries."""

    def __init__(self, *replies: str) -> None:
        super().__init__(None)
        self.replies = replies

    def summarize(self, request: SummaryRequest) -> Any:
        """Return the next reply, with the name of its model."""
        super().summarize(request)
        number = len(self.requests)
        text = self.replies[number - 1] if number <= len(self.replies) else GOOD.format(number)
        tagged = f"<summary>{text}</summary>" if text else ""
        return Reply(content=tagged, input_tokens=10, output_tokens=2, model="m")


def spoken(count: int, words: int = 100) -> list[AnyMessage]:
    """So many messages of so many words, each with a word of its own."""
    return numbered([HumanMessage(f"matter{n}. {filler(words)}") for n in range(count)])


def written(
    messages: Sequence[AnyMessage], summarizer: Any, sections: Sequence[Sequence[int]], **more: Any
) -> WrittenSummary:
    """Summarize all of these messages by sections."""
    in_pieces, hook = more.pop("in_pieces", False), more.pop("hook", None)
    budget = more.pop("budget", 400)
    chosen = {"context_window": 10_000, "output_reserve": 0, "summary_retries": 1, **more}
    settings = CompactionSettings.model_validate(chosen)
    call = Call(
        settings=settings,
        sizes=sizes_of(settings, window=10_000, fixed=0),
        meter=Meter(WORDS, 0),
        redaction=Redaction(hook=hook) if hook else None,
    )
    work = Work(
        call=call,
        level=Level(summarizer, "model", in_pieces=in_pieces),
        messages=messages,
        drop=frozenset(range(len(messages))),
        budget=budget,
        sections=tuple(map(frozenset, sections)),
    )
    return run(summarize_by_sections(work))


@pytest.mark.parametrize(
    ("language", "heading"), [("en", "[Summary of the history - Chunk {}]"), ("zh", "[历史摘要 - Chunk {}]")]
)
def test_each_section_is_summarized_by_itself(language: str, heading: str) -> None:
    """One call each, a share of the budget, one text with numbered headings, and all of it seen."""
    summarizer = Scripted()
    found = written(spoken(4), summarizer, [[0, 1], [2, 3]], language=language)
    lines = [heading.format(1), GOOD.format(1), heading.format(2), GOOD.format(2)]
    assert found.body.splitlines() == lines
    assert [["matter0." in r.conversation, "matter2." in r.conversation] for r in summarizer.requests] == [
        [True, False],
        [False, True],
    ]
    assert [request.earlier for request in summarizer.requests] == [None, None]
    headings = sum(WORDS.text(heading.format(n)) + 1 for n in (1, 2))
    assert {request.max_tokens for request in summarizer.requests} == {(400 - headings) // 2}
    assert (found.calls, found.input_tokens, found.output_tokens, found.model) == (2, 20, 4, "m")
    assert found.seen == {"full": ["m0", "m1", "m2", "m3"], "cut": {}}
    assert found.finding is None


def test_the_first_section_absorbs_an_earlier_summary() -> None:
    """It has two shares of the budget for it, and the next one does not see it."""
    summarizer = Scripted()
    found = written([summary_message("The user began.", "c"), *spoken(4)], summarizer, [[0, 1, 2], [3, 4]])
    assert [request.earlier for request in summarizer.requests] == ["The user began.", None]
    first, second = (request.max_tokens for request in summarizer.requests)
    assert first == 2 * second
    assert found.seen["full"] == ["m0", "m1", "m2", "m3"]


def test_a_large_section_is_shown_chunk_by_chunk() -> None:
    """Each chunk updates the summary of its own section."""
    summarizer = Scripted()
    found = written(spoken(6, 400), summarizer, [[0, 1, 2, 3], [4, 5]], summary_input_tokens=900)
    assert [r.earlier for r in summarizer.requests] == [None, GOOD.format(1), None]
    assert found.body.splitlines()[1::2] == [GOOD.format(2), GOOD.format(3)]
    assert found.calls == 3


def test_in_pieces_each_section_is_split() -> None:
    """As the level says: pieces, then all pieces of the section together."""
    summarizer = Scripted()
    found = written(spoken(8, 400), summarizer, [[0, 1, 2, 3], [4, 5, 6, 7]], in_pieces=True)
    assert found.calls == 2 * (4 + 1)
    assert found.body.splitlines()[1::2] == [GOOD.format(5), GOOD.format(10)]


def test_an_excerpt_stands_in_for_an_empty_summary() -> None:
    """Of the first three messages, 200 characters each and 500 in all; the ledger is told what was shown."""
    summarizer = Scripted("", "")
    found = written(spoken(6), summarizer, [[0, 1, 2, 3], [4, 5]], language="zh")
    head, excerpt, _, second = found.body.splitlines()
    assert head.endswith("1]")
    assert excerpt.startswith("[部分摘要] matter0. ")
    assert [f"matter{n}." in excerpt for n in range(4)] == [True, True, True, False]
    assert 400 < len(excerpt) <= 500
    assert second == GOOD.format(3)
    assert (found.finding, found.calls, found.seen["full"]) == (None, 3, ["m4", "m5"])
    assert [found.seen["cut"][f"m{n}"][0] > 0 for n in range(4)] == [True, True, True, False]


def test_an_excerpt_keeps_the_earlier_summary_and_the_budget() -> None:
    """It stands before it."""
    old = [summary_message("The user began.", "c"), *spoken(4)]
    found = written(old, Scripted("", ""), [[0, 1, 2], [3, 4]], budget=160)
    assert found.body.splitlines()[1] == "The user began."
    assert WORDS.text(found.body) <= 160


def test_where_all_sections_are_empty_the_attempt_has_failed() -> None:
    """The next level takes over: nothing but excerpts is no summary."""
    found = written(spoken(4), Scripted(*[""] * 4), [[0, 1], [2, 3]])
    assert found.finding is not None
    assert (found.finding.verdict, found.calls) == ("rejected_empty", 4)


def test_a_section_that_fails_otherwise_ends_the_attempt() -> None:
    """With its finding and all that was paid for; no further section is asked about."""
    summarizer = Scripted("The user began.", "I'm sorry, but I cannot help with that.", "I cannot help with that.")
    found = written(spoken(6), summarizer, [[0, 1], [2, 3], [4, 5]])
    assert found.finding is not None
    assert (found.finding.reason, found.calls, found.output_tokens) == ("refusal", 3, 6)


@pytest.mark.parametrize(("budget", "calls"), [(2 * LEAST_SECTION + 16, 2), (2 * LEAST_SECTION + 15, 1)])
def test_under_a_small_budget_one_summary_says_it_all(budget: int, calls: int) -> None:
    """Forty tokens a section, and the headings, are the least."""
    assert WORDS.text("[Summary of the history - Chunk 1]") + 1 == 8
    assert written(spoken(4), Scripted(), [[0, 1], [2, 3]], budget=budget).calls == calls


def test_a_digest_is_one_for_all() -> None:
    """Its record is absorbed by the next, whatever the strategy."""
    found = written(spoken(4), DigestSummarizer(), [[0, 1], [2, 3]])
    assert "Chunk" not in found.body
    assert found.record is not None
    assert found.seen["full"] == ["m0", "m1", "m2", "m3"]


def hidden(text: str) -> str:
    """Redact a word."""
    return text.replace("matter1.", "***")


def test_sections_are_redacted() -> None:
    """What the summarizer sees, and what an excerpt shows."""
    summarizer = Scripted("", "")
    found = written(spoken(4), summarizer, [[0, 1], [2, 3]], hook=hidden)
    assert not any("matter1." in request.conversation for request in summarizer.requests)
    assert "matter1." not in found.body
    assert "***" in found.body


class Renamed(Scripted):
    """A summarizer whose replies come from one model after another: m1, m2 and so on."""

    def summarize(self, request: SummaryRequest) -> Any:
        """Return the next reply, with the name of its model."""
        return replace(super().summarize(request), model=f"m{len(self.requests)}")


def test_the_model_that_wrote_the_last_section_is_recorded() -> None:
    """A summary by sections has one model, although each section is a call of its own."""
    assert written(spoken(6), Renamed(), [[0, 1], [2, 3], [4, 5]]).model == "m3"
