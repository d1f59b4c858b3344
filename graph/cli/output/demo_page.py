"""What `demo` prints: an opening, a row for each compaction, and the page at the end."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from langgraph_compaction.nodes.summary.fallback_chain import COMMITTED

from ...lab.demo.findings import Findings
from ...lab.demo.investigation import Attempt, Restored
from ...window_usage import WindowUsage
from .printing import words
from .size_chart import chart

SHOWN = 40
"""Digits of a fingerprint that fit a line; `--json` has all."""

HEADER = f"{'turn':>4}  {'trigger':<9} {'strategy':<24} {'verdict':<23} {'tokens':>16}  {'blocks':>6}"


def opening(standing: WindowUsage, *, python: str, summarizer: str) -> str:
    """What is about to be seen."""
    return (
        "The model is scripted; tools, tokens, checkpoints and compactions are real.\n"
        f"It looks things up in the standard library of Python {python}: window {standing.window:,} tokens, limit "
        f"{standing.limit:,},\ntrigger {standing.trigger:,}. The summarizer is {summarizer}; one of its attempts is "
        "made to fail. All that is kept goes to one SQL database.\n"
    )


def row(attempt: Attempt) -> Text:
    """A compaction as a line under `HEADER`; a failed one with its reason below."""
    failed = attempt.verdict not in COMMITTED
    after = "as before" if failed else f"{attempt.tokens_after:,}"
    tokens = f"{attempt.tokens_before:,} → {after:>9}"
    line = (
        f"{attempt.turn:>4}  {attempt.trigger:<9} {attempt.strategy:<24} {attempt.verdict:<23} "
        f"{tokens:>16}  {attempt.blocks_dropped:>6}"
    )
    reason = f"\n{'':>16}{attempt.reason}: rolled back, and the model went on" if failed else ""
    return Text(line + reason, "yellow" if failed else "")


def page(shown: Findings, sizes: Sequence[int], standing: WindowUsage, *, width: int) -> RenderableType:
    """The figures of the finished work."""
    parts: list[RenderableType] = [
        Text(f"\nEach of the {len(sizes)} requests, in tokens", "bold"),
        chart(sizes, standing, width),
        *_rollback(shown),
        Text("Said in turn 1, and in the last request", "bold"),
        _pairs((fact.said, fact.where or "no longer; in the archive") for fact in shown.facts),
        Text("\nAt the end", "bold"),
        _pairs(_figures(shown)),
        Text("\nThe last compaction, undone", "bold"),
        _pairs(_undone(shown.undone)),
        words(f"\nIts last answer: {shown.answer}\n"),
        *(Text(problem, "red") for problem in shown.problems()),
    ]
    return Group(*parts)


def _rollback(shown: Findings) -> list[RenderableType]:
    if shown.rollback is None:
        return []
    verdict = "identical" if shown.rollback.identical else "DIFFERENT"
    pairs = [
        ("SHA-256 before the attempt", shown.rollback.before[:SHOWN]),
        ("SHA-256 after its rollback", shown.rollback.after[:SHOWN]),
    ]
    title = f"The summary that failed: the conversation in the checkpoints is {verdict}"
    return [Text(title, "bold"), _pairs(pairs), Text()]


def _figures(shown: Findings) -> Iterator[tuple[str, str]]:
    times = shown.tool_tokens / shown.window
    yield "tool calls", f"{shown.tool_calls} in {shown.turns} turns"
    yield "tokens that the tools said", f"{shown.tool_tokens:,}, {times:.1f} windows"
    yield (
        "largest request",
        f"{shown.max_request_tokens:,} of {shown.limit:,} tokens; {_none(shown.over_limit_requests)} over",
    )
    yield "messages in the state", str(shown.messages_in_state)
    yield "messages in the archive", str(shown.messages_in_archive)
    order = "in order" if shown.in_order else "out of order"
    yield "messages lost", f"{_none(shown.lost_messages)} of {shown.messages_said}, {order}"
    kept = f"{decimal(shown.stored_bytes)}; {decimal(shown.unshared_bytes)} if nothing were shared"
    yield "checkpoints read back", f"{shown.checkpoints}, in {kept}"
    yield "time", f"{shown.seconds} s"


def _undone(undone: Restored) -> Iterator[tuple[str, str]]:
    yield "messages in view", f"{undone.messages_before} → {undone.messages_after}, {undone.tokens_after:,} tokens"
    yield "came back as they were said", f"{undone.originals - undone.missing} of {undone.originals}"


def _none(count: int) -> str:
    return str(count) if count else "none"


def _pairs(pairs: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in pairs:
        table.add_row(f"  {name}", value)
    return table
