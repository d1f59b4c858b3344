"""What counts as a summary: over a labeled file, over pairs that differ in little, and over anything at all.

An entry of `summaries.json` is a summarizer's reply, good or bad, with the contract it was asked under and, where
bad, the verdict and reason it must get. `set` says when it was written: 1 before there were rules, 2 to 4 each
after the rules had been fitted to the sets before; 5 is what a model of 135 million parameters really replied.
"""

import json
import random
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AnyMessage

from langgraph_compaction.graph.lab.recordings import read_recordings
from langgraph_compaction.nodes.config.prompts import FIVE_SECTIONS, WORDINGS
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter
from langgraph_compaction.nodes.digest.digest import digest
from langgraph_compaction.nodes.gate.invariants import Finding
from langgraph_compaction.nodes.gate.reply_checks import (
    Free,
    Reply,
    ReplyContract,
    Tags,
    not_a_summary,
    summary_text,
)
from langgraph_compaction.nodes.gate.reply_heuristics import refuses, sentences
from tests.graph.harness import filler
from tests.shared_data import shared_data

ENTRIES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("summaries.json").read_text())
GOOD = [entry for entry in ENTRIES if entry["label"] == "good"]
BAD = [entry for entry in ENTRIES if entry["label"] == "bad"]
CONTRACTS: dict[str, ReplyContract] = {"tags": Tags(), "free": Free()}

LENGTH = 200_000


def judged(entry: dict[str, Any]) -> str | Finding:
    """What the gate makes of an entry's reply: its summary's text, or a finding."""
    return summary_text(Reply(**entry["reply"], contract=CONTRACTS[entry["contract"]]))


def test_no_bad_reply_is_committed_and_hardly_a_good_one_rejected() -> None:
    """Of the labeled replies, false commits are none and false rejections at most one in twenty."""
    wrong_commits = [entry["id"] for entry in BAD if isinstance(judged(entry), str)]
    wrong_rejections = [entry["id"] for entry in GOOD if isinstance(judged(entry), Finding)]
    print(f"\nfalse commits {len(wrong_commits)} of {len(BAD)}")  # noqa: T201 - the issue asks for both rates
    print(f"false rejections {len(wrong_rejections)} of {len(GOOD)}")  # noqa: T201 - the same
    assert wrong_commits == []
    assert len(wrong_rejections) <= 0.05 * len(GOOD), wrong_rejections


def test_the_labeled_file_is_large_and_mixed() -> None:
    """Sixty of each label at least, two in five in either language, every contract, no entry twice."""
    for entries in (GOOD, BAD):
        languages = Counter(entry["lang"] for entry in entries)
        assert len(entries) >= 60
        assert min(languages["en"], languages["zh"]) >= 0.4 * len(entries)
        assert {entry["contract"] for entry in entries} == set(CONTRACTS)
    assert len({entry["id"] for entry in ENTRIES}) == len({str(entry["reply"]) for entry in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize("entry", BAD, ids=lambda entry: f"{entry['id']}-{entry['kind']}")
def test_a_bad_reply_is_rejected_by_name(entry: dict[str, Any]) -> None:
    """Each has the verdict and the reason that its label says."""
    found = judged(entry)
    assert isinstance(found, Finding), found
    assert (found.verdict, found.reason) == (entry["verdict"], entry["reason"])


LOG = "User: hi\nAssistant: hello\nUser: bye\n"
RECORD = "The user asked for a cache of 2 GB. Eviction works. Metrics are still open."
LINES = "import os\nimport sys\nprint(os.sep)"
CODE = f"```python\n{LINES}\n```"
FINE = "It costs 4 euros. It is valid on Mondays. It is green. It is small."
COPIED = "record between <summary> and </summary>, and nothing outside."
"""These are the last eight words of a prompt.

A reply is rejected if more than two thirds of its words are copied from a prompt.
"""
STUCK = "The user wants e2e tests. Unit tests pass. Docker is missing. I cannot continue without it."


@pytest.mark.parametrize(
    ("bad", "reason", "good"),
    [
        ("I've booked it for you.", "continues_chat", "The user was told: “I've booked it for you.”"),
        ("I will send it by noon.", "continues_chat", "The assistant promised the user to send it by noon."),
        ("Would you like the details?", "continues_chat", 'The user was asked "Would you like the details?"'),
        ("Sure, the cache works.", "continues_chat", "The cache works; the user said sure."),
        ("> ok\nLet me read the file.", "continues_chat", "> Let me read the file.\nThe user agreed."),
        ("要我现在提交吗？", "continues_chat", "助手问了用户“要我现在提交吗？”"),
        (
            f"{RECORD} Shall I go on, or do you want to?",
            "continues_chat",
            f"{RECORD} Shall we go on, the user asked.",
        ),
        ("You must keep it.", "continues_chat", f"Rules:\n- You must keep it.\n- Ask me first!\nState: {RECORD}"),
        (
            f"You run it by make. {RECORD}",
            "continues_chat",
            "The user wants 2 GB. You run it by make. It works. It is open.",
        ),
        (f"{FINE} You show it to the agent.", "continues_chat", f"{FINE} The user shows it to the agent."),
        (f"I fixed it. {RECORD} It is red. Let me know!", "continues_chat", f"I fixed it. {RECORD} It is red."),
        (
            f"I fixed it. {RECORD} Which port is it?",
            "continues_chat",
            f"It is fixed. {RECORD} Which port is it?",
        ),
        (
            f"We met yesterday. {RECORD} Which port is it?",
            "continues_chat",
            f"We met the user. {RECORD} Which port is it?",
        ),
        ("TCP is reliable. UDP is quick.", "answers_user", "TCP is reliable. UDP is quick. The user chose UDP."),
        ("TCP 是可靠的。UDP 是快的。", "answers_user", "TCP 是可靠的。UDP 是快的。已选定 TCP。"),
        ("I'm sorry, I can't help.", "refusal", "The assistant refused: 'I'm sorry, I can't help.'"),
        (STUCK.rsplit(". ", maxsplit=1)[-1], "refusal", STUCK),
        ("抱歉，我无法总结。", "refusal", "助手说“抱歉，我无法总结。”，用户改了要求。"),
        ("Lo siento, no puedo.", "refusal", "The user wrote «Lo siento, no puedo.» and left."),
        ("Here is the summary:", "no_content", f"Here is the summary:\n{RECORD}"),
        ("## Task Overview\nNone", "no_content", "## Task Overview\nNone of the tests pass"),
        ("# Left\nTBD\n**Findings**\n- none\nOpen points:", "no_content", "# Left\nTBD\n**Findings**\n- none fit"),
        ("and", "no_content", "and then the user left"),
        ("[what the user asked]", "no_content", "[a.py] was renamed"),
        ("No conversation was provided.", "no_content", "The user said that no conversation was provided."),
        (FIVE_SECTIONS, "prompt_echo", f"{FIVE_SECTIONS.splitlines()[9]}\n{RECORD}"),
        (WORDINGS["en"].update, "prompt_echo", "An earlier record exists, the user says."),
        (f"The user wrote this: whole {COPIED}", "prompt_echo", f"The user wrote this: {COPIED}"),
        (LOG, "transcript_echo", f"{RECORD}\nGreetings:\n{LOG}{RECORD}\n{RECORD}"),
        (LOG, "transcript_echo", LOG.replace("Assistant: hello", "User: wants two of them")),
        ('<message role="user">\nhi', "transcript_echo", 'The parser splits at `<message role="user">`.'),
        ("<tool_call>\nread", "tool_call_text", "The tag `<tool_call>` is stripped."),
        ('{"name": "read", "arguments": {}}', "tool_call_text", 'Failing call: {"name": "read", "arguments": {}}'),
        (CODE, "raw_data", f"The separator is printed by\n{CODE}"),
        ("```bash\nmake test\n```", "raw_data", "```markdown\nThe user runs `make test`.\n```"),
        (LINES, "raw_data", f"{RECORD} {FINE}\n{LINES}"),
        ('{"rows": 3}', "raw_data", 'Result: {"rows": 3}'),
        ("<html><body>502</body></html>", "raw_data", "The proxy answers <html><body>502</body></html>."),
        ("Error: 429, retry later", "raw_data", "Error 429 was met by waiting; the user is content."),
        ("again and " * 50, "repetition", filler(900)),
        (filler(900) + " and so on" * 90, "repetition", filler(900) + " and so on" * 9),
        ("<think>The user wants", "thinking_only_no_content", "<think>Well.</think>The user wants trains."),
    ],
)
def test_little_makes_the_difference(bad: str, reason: str, good: str) -> None:
    """What is bad as the author's own words is good where it is quoted, told of, or part of a record."""
    assert not_a_summary(bad) == reason
    assert not_a_summary(good) is None


@pytest.mark.parametrize(
    "text",
    [
        "text",
        "2",
        "gist",
        "Cache: 2 GB. LRU. On sda. It is fast.",
        "12 earlier messages are no longer in view.",
        "a\n\nb < c",
    ],
)
def test_a_word_alone_speaks_against_nothing(text: str) -> None:
    """Only what shows in the form is rejected: how much a summary says is for the facts to prove."""
    assert not_a_summary(text) is None


@pytest.mark.parametrize(
    ("contract", "text", "expected"),
    [
        (Tags(), "Here:\n<summary>\n a \n</summary>\nDone.", "a"),
        (Tags(), "<think><summary>draft</summary></think><summary>a</summary>", "a"),
        (Tags(), "<summary><think>b</think>a</summary>", "a"),
        (Tags("record"), "<record>a</record>", "a"),
        (Tags("record"), "<summary>a</summary>", "no_summary_tags"),
        (Tags(), "a", "no_summary_tags"),
        (Tags(), "<summary>a", "unclosed_summary_tag"),
        (Tags(), "<summary>a</summary><summary>b</summary>", "several_summaries"),
        (Tags(), "<summary> </summary>", "empty_tag_body"),
        (Tags(), "<summary><think>b</think></summary>", "thinking_only_no_content"),
        (Tags(), "<think>b <summary>a</summary>", "thinking_only_no_content"),
        (Free(), " a <summary> of b ", "a <summary> of b"),
        (Free(), "<thinking>b</thinking>\na", "a"),
        (Free(), "<think>b", "thinking_only_no_content"),
        (Free(), "The tag <think> is hidden", "The tag <think> is hidden"),
        (Free(), "<summary>a</summary>", "a"),
        (Free(), "a <summary>b</summary> c", "a <summary>b</summary> c"),
        (Free(), "<summary>a</summary> b", "<summary>a</summary> b"),
        (Free(), "a <summary>b</summary>", "a <summary>b</summary>"),
        (Free(), "<summary>a</summary> <summary>b</summary>", "<summary>a</summary> <summary>b</summary>"),
    ],
)
def test_a_contract_gives_the_body_or_says_what_is_missing(contract: ReplyContract, text: str, expected: str) -> None:
    """Tags, headings, or any text; a thought before it is no part of it."""
    body = contract.body(text)
    assert (body.reason if isinstance(body, Finding) else body) == expected


@settings(deadline=None)
@given(st.text(max_size=400) | st.text("<>[]{}()`'\"*#:- \n.!?iI'我你请\ud800", max_size=400))
def test_any_text_is_judged(text: str) -> None:
    """Nothing raises, the answer is one of few words and always the same, white space around does not matter."""
    assert not_a_summary(text) == not_a_summary(f"\n{text} ")
    for contract in CONTRACTS.values():
        contract.body(text)


@pytest.mark.parametrize(
    "alphabet",
    [
        "*# \t",
        "\n \t",
        "\"' a",
        "`> \n",
        "<think/>",
        '[{("]}),:',
        "'‘“「a",
        "I can't ",
        "1.)、\n",
        "请我无法",
        "goal:- \n",
    ],
)
def test_a_long_hostile_text_comes_to_an_end(alphabet: str) -> None:
    """No pattern takes quadratic time: each of these would, on one that does, outlast the suite's patience."""
    draw = random.Random(alphabet)  # noqa: S311 - no secret
    for text in (
        "".join(draw.choices(alphabet, k=LENGTH)),
        alphabet[0] * LENGTH,
        alphabet * (LENGTH // len(alphabet)),
    ):
        for contract in CONTRACTS.values():
            contract.body(text)
        not_a_summary(text)
        not_a_summary(f"x{text}x")


@pytest.mark.parametrize(
    "file",
    [
        "tau-bench-airline/gpt-4o-airline-tasks-00-24.json",
        "pi-session/large-session.jsonl",
        "openhands/multi_swe_bench_output.jsonl",
        "swe-agent/humanevalfix-0.traj",
    ],
)
def test_digests_of_real_conversations_are_summaries(file: str) -> None:
    """What is extracted has the form of a record, though it repeats orders of the user word for word."""
    for run in islice(read_recordings(shared_data(file)), 8):
        messages = cast("list[AnyMessage]", run.messages)
        for budget in (120, 600, 3_000):
            text = digest(messages[: len(messages) // 2], budget=budget, counter=tiktoken_counter()).text
            assert not_a_summary(text or "nothing fits") is None, text


@pytest.mark.parametrize(("place", "refused"), [(0, True), (1, True), (2, False), (3, False)])
def test_only_the_beginning_of_a_reply_refuses(place: int, *, refused: bool) -> None:
    """Only the first two sentences count, because a later one may report a refusal."""
    said = ["The user wants tests.", "Docker is missing.", "Unit tests pass."]
    assert refuses([*said[:place], "I cannot continue without it.", *said[place:]]) is refused


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("One.\n```\ntwo\n```\nThree.", ["One.", "Three."]),
        ("One.\n```\ntwo\n```\nThree.\n```\nFour.", ["One.", "Three.", "Four."]),
        ("One.\n```\nTwo.", ["One.", "Two."]),
        ("> Quoted.\n1. One `two` and “three”. Four?", ["One   and  .", "Four?"]),
    ],
)
def test_code_and_quotations_are_not_judged(text: str, own: list[str]) -> None:
    """A fence without an end does not begin a block of code."""
    assert [one for one in sentences(text) if any(map(str.isalpha, one))] == own
