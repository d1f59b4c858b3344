"""How the time of every function that reads text grows with the text: crafted texts, once and four times as long.

    python benchmarks/growth.py

CPU time of the one thread. A family is a unit repeated between a beginning and an end. Four times the text may take
at most `MOST` times the time; times below `SHORT_S` are not compared, and what grows faster is measured once more
with four times as long texts. Prints the worst families, writes
benchmarks/results/growth.json, and exits with 1 if a family grows faster.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from langgraph_compaction.checkpoint.compaction.search_index import ThreadIndex
from langgraph_compaction.checkpoint.text_cache import cached_by_text, forget_texts
from langgraph_compaction.graph.control_characters import in_line, json_line
from langgraph_compaction.nodes import ContextExhaustedError, compact_messages
from langgraph_compaction.nodes.config.summary_format import FORMATS
from langgraph_compaction.nodes.conversation.clipping import clip_at_sentence_end, clip_result
from langgraph_compaction.nodes.conversation.pin_tags import pins_in
from langgraph_compaction.nodes.conversation.redaction import masked
from langgraph_compaction.nodes.conversation.tokens import (
    approximate_counter,
    tiktoken_counter,
)
from langgraph_compaction.nodes.digest.digest import digest, weighted_entries
from langgraph_compaction.nodes.gate.reply_checks import Reply, mismatch, summary_text
from langgraph_compaction.nodes.providers.error_kind import classify
from langgraph_compaction.nodes.providers.overflow import overflow_sizes
from langgraph_compaction.nodes.selection.compaction_marker import remove_marker
from langgraph_compaction.nodes.selection.strategies.adaptive import task_type
from langgraph_compaction.nodes.selection.strategies.keywords import KEYWORDS, searchable_text
from langgraph_compaction.nodes.summary.recall_answer import excerpt
from langgraph_compaction.nodes.testing import ScriptedModel
from langgraph_compaction.nodes.text.identifiers import identifiers

LENGTH, TIMES, MOST = 6_000, 4, 6.0
"""Characters of the shorter text, how many times longer the other one is, and the most by which the time may grow."""

SHORT_S = 0.008
"""CPU seconds below which the time of the longer text is noise beside the clock and the collector of garbage."""

TRIES = 4
"""How often a family that seems to grow too fast is measured: the least time of each length counts."""

RESULTS = Path(__file__).parent / "results" / "growth.json"
Make = Callable[[int], str]

UNITS = (
    *(" ", "\n", "\t", " \n", "\r\n", "\u2028", ".", ". ", "...\n", "!", "! ", '!"', "!)", "?", "; ", ";", ",", ":"),
    *(
        "a",
        "A",
        "1",
        "a ",
        "A ",
        "0 ",
        "AB ",
        "AB-12 ",
        "AB: ",
        "a-",
        "a.",
        "a/",
        "a@",
        "a:",
        "1.",
        "1,",
        "-",
        "_",
        "/",
    ),
    *("=", "#", "# x\n", "*", "* ", "- \n", " - ", ">", ">\n", "> x\n", "|", "%", "$", "\\", "(", ")", "[", "]", "{"),
    *(
        "`",
        "``",
        "```\n",
        "```x ",
        "`a",
        "~~~\n",
        '"',
        '"a',
        "“a",
        "「a",
        " 'a",
        "’",
        "«a",
        "<",
        "<a",
        "<a>",
        "</",
        "&amp;",
    ),
    *(
        "<Pin>",
        "<pin></pin>",
        "<summary>",
        "</summary>",
        "<think>",
        "<tool_call",
        "<|im_start|>",
        "[TRUNCATED original~",
    ),
    *(
        "I can't ",
        "we can not ",
        "I am your ",
        "I am a ",
        "as an AI ",
        "ignore all ",
        "you ",
        "please ",
        "not ",
        "no ",
    ),
    *(
        "must ",
        "never ",
        "leave it ",
        "every one ",
        "all a ",
        "stop it",
        "than 1 ",
        "forgot",
        "and, ",
        "goal\n",
        "goal:\n",
    ),
    *(
        "我",
        "我不",
        "希望",
        "别",
        "先",
        "所有",
        "用",
        "等待",
        "。",
        "ก",
        "ァ",
        "가",
        "ж",
        "é",
        "\u200b",
        "\ud800",
        "😀",
    ),
    *("Error", "a.Error ", "Traceback ", "error: ", "at a(", 'File "', "import ", "from a", "2024-01-01 ", "12:30 "),
    *(
        "http://",
        "://a:",
        "token=",
        "bearer ",
        "sk-aaaaaa",
        "eyJaaaaaaaa.",
        "1 tokens ",
        "context length is 1 tokens ",
    ),
    *('{"a":', "[1,", '"\\', "INFO ", "user: ", "assistant: ", "1. a\n", "一、", "summary of ", "is a ", "Word "),
)
WRAPPED = {"between words": ("see", "below."), "after a heading": ("goal:\n", "\nx")}


def families() -> dict[str, Make]:
    """Return the texts by name: each unit alone, the shorter ones between words too, and texts that do not repeat."""
    found: dict[str, Make] = {}
    for unit in UNITS:
        found[repr(unit)] = lambda length, unit=unit: unit * (length // len(unit))
        if len(unit) <= 2:
            for name, (begin, end) in WRAPPED.items():
                found[f"{unit!r} {name}"] = lambda length, unit=unit, begin=begin, end=end: (
                    f"{begin}{unit * (length // len(unit))}{end}"
                )
    found["JSON keys"] = lambda length: json.dumps({f"id{n}": f"AB{n}" for n in range(length // 17)})
    found["JSON list"] = lambda length: json.dumps([1] * (length // 3))
    found["JSON with one long key"] = lambda length: json.dumps(
        {"k" * (length // 2): {f"a{n}": n for n in range(length // 24)}}
    )
    found["ids"] = lambda length: " ".join(f"AB-{n:06d}" for n in range(length // 10))
    found["mail"] = lambda length: " ".join(f"a{n}@b{n}.com" for n in range(length // 14))
    found["paths"] = lambda length: "\n".join(f"/usr/lib/x{n}.py" for n in range(length // 16))
    found["rules"] = lambda length: " ".join(f"You must never do thing {n}." for n in range(length // 28))
    found["questions"] = lambda length: " ".join(f"Is {n} what I asked for?" for n in range(length // 24))
    return found


def conversation(role: str, text: str) -> list[AnyMessage]:
    """Return a conversation in which this role says the text, early enough that it must leave."""
    call = {"name": "run", "args": {"text": text if role == "call" else "x"}, "id": "call-1"}
    said: list[AnyMessage] = [
        HumanMessage(text if role == "user" else "start AB12 please"),
        AIMessage(text if role == "assistant" else "", tool_calls=[call]),
        ToolMessage(text if role == "tool" else "done", tool_call_id="call-1"),
        AIMessage("It is done."),
    ]
    return said + [m for n in range(30) for m in (HumanMessage(f"question {n}"), AIMessage(f"answer {n}"))]


def searched(text: str, query: str) -> dict[int, float]:
    """Index a text as the only message of an archive and search it."""
    index = ThreadIndex()
    index.add([(1, HumanMessage(text))])
    return index.scores(index.terms_of(query))


def characters(messages: list[AnyMessage]) -> int:
    """Count cheaply, so that the time is that of the compaction."""
    return sum(4 + (len(m.text) + sum(len(str(c)) for c in getattr(m, "tool_calls", ()))) // 4 for m in messages)


def compacting(role: str, **settings: Any) -> Callable[[str], object]:
    """Return a function that compacts a conversation of which this role says most."""

    def work(text: str) -> None:
        with suppress(ContextExhaustedError):
            compact_messages(conversation(role, text), max_tokens=1_000, token_counter=characters, **settings)

    return work


COUNTER = approximate_counter()
GOOD_TEXT = "The user asked 30 questions. The assistant answered each of them."
GOOD = f"<summary>{GOOD_TEXT}</summary>"


def replying(reply: Callable[[str], str]) -> Callable[[str], object]:
    """Return a function that compacts a short conversation with a summarizer that replies with this text."""

    def work(text: str) -> None:
        model = ScriptedModel(replies=[reply(text)])
        with suppress(ContextExhaustedError):
            compact_messages(
                conversation("user", "word " * 900),
                max_tokens=1_000,
                token_counter=characters,
                summarizer=model,
            )

    return work


FUNCTIONS: Mapping[str, Callable[[str], object]] = {
    **{f"compaction, {role}": compacting(role) for role in ("user", "assistant", "tool", "call")},
    "compaction, faithful": compacting("user", preset="faithful"),
    "compaction, typed rules": compacting("tool", preset="typed_rules"),
    "compaction, progressive": compacting("assistant", preset="progressive"),
    "digest": lambda text: digest([HumanMessage(text)], budget=500, counter=COUNTER),
    "digest of a summary": lambda text: digest([HumanMessage("x")], budget=500, counter=COUNTER, previous_text=text),
    "importance": lambda text: weighted_entries([HumanMessage(text), AIMessage(text)]),
    "compaction, hostile list": replying(lambda text: f"<summary>{GOOD_TEXT}</summary><rules>rule: {text}</rules>"),
    "compaction, hostile reply": replying(lambda text: f"<summary>{GOOD_TEXT} {text}</summary>"),
    "compaction, bare reply": replying(lambda text: text),
    "compaction, by a model": compacting("user", summarizer=ScriptedModel(replies=[GOOD])),
    "gate, tags": lambda text: summary_text(Reply(content=f"<summary>{text}</summary>")),
    "gate, free": lambda text: summary_text(Reply(content=text)),
    "gate, shared words": lambda text: (
        mismatch("It was done.", conversation=text),
        mismatch(text, conversation=text),
    ),
    "summary format": lambda text: [one.read(one.written(text)) for one in FORMATS.values()],
    "pins": lambda text: pins_in(HumanMessage(f"<Pin>x</Pin>{text}")),
    "marker": lambda text: remove_marker(AIMessage(f"{text}[[compact]]"), "[[compact]]"),
    "keywords": lambda text: KEYWORDS.count(searchable_text(HumanMessage(text)), ("en", "zh")),
    "kind of task": lambda text: task_type([HumanMessage(text), AIMessage(text)]),
    "identifiers": identifiers,
    "recall, search": lambda text: searched(f"{text} order", "order AB-12 错误"),
    "recall, query": lambda text: searched("the order AB-12 is late", f"order {text}"),
    "recall, excerpt for a query": lambda text: excerpt(
        HumanMessage("the order AB-12 is late. " * 400), f"order {text}", max_tokens=300, counter=COUNTER
    ),
    "recall, excerpt": lambda text: excerpt(HumanMessage(text), "order AB-12", max_tokens=300, counter=COUNTER),
    "clip of a result": lambda text: clip_result(
        ToolMessage(text, tool_call_id="c"), threshold=50, keep=20, counter=COUNTER
    ),
    "clip at a sentence": lambda text: clip_at_sentence_end(text, counter=COUNTER, tokens=len(text) // 8),
    "tokens, approximate": COUNTER.text,
    "tokens, tiktoken": lambda text: tiktoken_counter(None).text(f"{text}{time.perf_counter_ns()}"),
    "provider's error": lambda text: (classify(ValueError(text)), overflow_sizes(ValueError(text))),
    "masked error": masked,
    "printed": lambda text: (in_line(text), json_line(text)),
}


def seconds(work: Callable[[str], object], text: str) -> float:
    """Return the CPU time that this thread takes for one call, in which no function remembers the text."""
    forget_texts()
    begun = time.thread_time()
    work(text)
    return time.thread_time() - begun


def growth(work: Callable[[str], object], make: Make, length: int = LENGTH) -> tuple[float, float]:
    """Return by how much the time grows from this length to `TIMES` times it, and the time for the longer text."""
    short = long = float("inf")
    for _ in range(TRIES):
        short, long = min(short, seconds(work, make(length))), min(long, seconds(work, make(length * TIMES)))
        if long < SHORT_S or long <= MOST * short:
            break
    factor = long / short if long >= SHORT_S else 0.0
    # a short text may end early on another path; what grows too fast does so at every length
    return growth(work, make, length * TIMES) if factor > MOST and length == LENGTH else (factor, long)


@cached_by_text
def quadratic(text: str) -> int:
    """Read a text in quadratic time, and remember the result."""
    return sum(text.count("q", start) for start in range(0, len(text), 8))


def main() -> int:
    """Measure every function with every family; return the exit code."""
    logging.disable(logging.CRITICAL)
    if growth(quadratic, lambda length: "a" * length)[0] <= MOST:
        print("the measurement is blind: a function that takes quadratic time was not found")
        return 2
    made, rows = families(), list[dict[str, Any]]()
    for name, work in FUNCTIONS.items():
        work("warm up: imports and tables")
        measured = list[tuple[float, float, str]]()
        for family, make in made.items():
            factor, long = growth(work, make)
            measured.append((factor, long, family))
            if factor > MOST:
                print(f"{name}: {family} takes {factor:.1f} times as long, {long:.3f} s")
        worst, slowest = max(measured), max(measured, key=lambda one: one[1])
        rows.append(
            {
                "function": name,
                "worst growth": round(worst[0], 1),
                "its family": worst[2],
                "most seconds": round(slowest[1], 3),
                "slowest family": slowest[2],
            }
        )
        print(f"{name:24} growth {worst[0]:4.1f} {worst[2]:32} most {slowest[1]:.3f} s {slowest[2]}", flush=True)
    RESULTS.write_text(
        json.dumps({"families": len(made), "characters": LENGTH * TIMES, "rows": rows}, indent=1, ensure_ascii=True)
        + "\n"
    )
    print(f"{len(made)} families, {len(rows)} functions; four times the text may take {MOST} times as long")
    return int(any(row["worst growth"] > MOST for row in rows))


if __name__ == "__main__":
    sys.exit(main())
