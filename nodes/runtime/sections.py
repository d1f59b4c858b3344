"""A summary by sections: parts of the removed messages are summarized separately and stored in one message."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from langgraph_compaction.checkpoint.usage import FREE

from ..config.prompts import Language
from ..conversation.transcript import message_id
from ..digest.listed_sentences import NOTHING_LISTED
from ..summary.chunks import Chunk, quoted
from ..text.quoting import clip, one_line
from .effects import Effects
from .summarize_chunks import Work, WrittenSummary, limited, seen_of, summarize

LEAST_SECTION = 40
"""Minimum number of tokens for each section's summary. If the budget allows less, one summary of all messages is
written."""

HEADINGS: Mapping[Language, str] = {"en": "[Summary of the history - Chunk {}]", "zh": "[历史摘要 - Chunk {}]"}
"""By language, the heading of a section, with a place for its number."""

EXCERPTS: Mapping[Language, str] = {"en": "[Excerpt]", "zh": "[部分摘要]"}
"""By language, the text before an excerpt: the beginnings of a section's messages, in place of an empty summary."""
EXCERPT_MESSAGES, EXCERPT_CHARS, EXCERPT_MOST = 3, 200, 500
"""Size of an excerpt: number of messages, characters of each, and characters in all."""


def summarize_by_sections(work: Work) -> Effects[WrittenSummary]:
    """Summarize the messages to be removed: by sections if the strategy made some, else in a single summary.

    An excerpt replaces a section's empty summary; if all summaries are empty, the attempt fails.
    """
    sections, done = _divided(work), list[WrittenSummary]()
    if not sections:
        return limited(work, (yield from summarize(work)))
    for section in sections:
        done.append((yield from summarize(section)))
        found = done[-1].finding
        if found and found.verdict != "rejected_empty":
            break
    else:
        if not all(written.finding for written in done):
            done = [
                _excerpted(part, each) if each.finding else each for part, each in zip(sections, done, strict=True)
            ]
    return limited(work, _joined_sections(done, HEADINGS[work.call.settings.language]))


def _divided(work: Work) -> list[Work]:
    """Return one task per section; none if a single summary covers all messages, as a digest does.

    A section that contains an earlier summary includes that summary's text, and so gets two shares of the budget. The
    last section also covers shortened messages.
    """
    if not work.sections or work.level.is_deterministic:
        return []
    counter, frame = work.call.meter.counter, HEADINGS[work.call.settings.language]
    parts = [replace(work, drop=part, shortened=frozenset(), sections=(), behind=()) for part in work.sections]
    parts[-1] = replace(parts[-1], shortened=work.shortened)
    shares = [2 if part.earlier().body else 1 for part in parts]
    headings = sum(counter.text(frame.format(place)) + 1 for place in range(1, len(parts) + 1))
    share = (work.budget - headings) // sum(shares)
    if share < LEAST_SECTION:
        return []
    return [replace(part, budget=share * count) for part, count in zip(parts, shares, strict=True)]


def _excerpted(work: Work, written: WrittenSummary) -> WrittenSummary:
    """Return the earlier summary plus the beginnings of the section's messages as the summary, within the budget."""
    counter, part = work.call.meter.counter, _excerpt(work)
    body = "\n".join(text for text in (work.earlier().body, part.text) if text)
    return replace(written, body=counter.head(body, work.budget), finding=None, seen=seen_of([part]))


def _excerpt(work: Work) -> Chunk:
    counter, old = work.call.meter.counter, work.old()
    shown = {message_id(message): one_line(message.text, EXCERPT_CHARS) for message in old[:EXCERPT_MESSAGES]}
    text = clip(" ".join([EXCERPTS[work.call.settings.language], *filter(None, shown.values())]), EXCERPT_MOST)
    told = {message_id(message): (shown.get(message_id(message), ""), quoted(message)) for message in old}
    return Chunk(tuple(old), text, {name: (counter.text(a), counter.text(b)) for name, (a, b) in told.items()})


def _joined_sections(sections: Sequence[WrittenSummary], heading: str) -> WrittenSummary:
    """Return the sections as one summary, with their total cost and the finding of the last section."""
    return WrittenSummary(
        body="\n".join(f"{heading.format(place)}\n{section.body}" for place, section in enumerate(sections, 1)),
        usage=sum((section.usage for section in sections), FREE),
        model=sections[-1].model,
        seen={
            "full": [name for section in sections for name in section.seen.get("full", ())],
            "cut": {name: sizes for section in sections for name, sizes in section.seen.get("cut", {}).items()},
        },
        listed=sum((section.listed for section in sections), NOTHING_LISTED),
        finding=sections[-1].finding,
    )
