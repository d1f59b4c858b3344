"""What the gate makes of a summarizer's reply: only what can be known is a reason.

`replies_by_language.json` holds conversations with summaries, and replies that are none; `{n}`, `{m}` and `{name}`
stand for drawn values. What is marked `held_out` was written after the check had been made.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from langgraph_compaction.nodes.config.prompts import PROMPTS, WORDINGS
from langgraph_compaction.nodes.gate.invariants import Finding
from langgraph_compaction.nodes.gate.reply_checks import Reply, mismatch, summary_text
from langgraph_compaction.nodes.providers.finish_reasons import finish_reason
from langgraph_compaction.nodes.summary.chunks import quoted

DATA: dict[str, Any] = json.loads(Path(__file__).with_name("replies_by_language.json").read_text())
PROMPT = [*PROMPTS.values(), *(wording.update for wording in WORDINGS.values())]
GOOD = "<summary>The login token of OPS-4412 now lives 3600 seconds; 41 tests passed.</summary>"


def judged(reply: Reply, conversation: str) -> Finding | None:
    """Return why a reply is refused, or `None`."""
    text = summary_text(reply)
    return text if isinstance(text, Finding) else mismatch(text, conversation=conversation, prompts=PROMPT)


def labeled(*, held_out: bool) -> Iterator[tuple[str, str, bool]]:
    """Yield a conversation, a reply, and whether the reply is a summary of the conversation."""
    draw = random.Random(28)  # noqa: S311 - no secret; the seed repeats the values
    nothing = [reply for one in DATA["nothing"] if one["held_out"] is held_out for reply in one["replies"]]
    for topic in (topic for topic in DATA["topics"] if topic["held_out"] is held_out for _ in range(2)):
        values = {"n": draw.randrange(11, 60), "m": draw.randrange(61, 499)}
        values["name"] = draw.choice(DATA["names"][topic["language"]])
        said = [text.format(**values) for text in topic["said"]]
        shown = "\n".join(quoted((AIMessage if place % 2 else HumanMessage)(text)) for place, text in enumerate(said))
        yield from ((shown, summary.format(**values), True) for summary in topic["summaries"])
        yield from (
            (shown, reply, False) for reply in (*nothing, *PROMPT, said[0], said[-2], f"{said[-2]}\n{said[-1]}")
        )


@pytest.mark.parametrize("held_out", [False, True])
def test_what_has_nothing_in_common_is_refused_and_no_summary_is(*, held_out: bool) -> None:
    """In four languages: at most 2 % of refusals, stories, outlines and copies are taken, and no summary refused."""
    own = [
        (judged(Reply(content=reply), shown), is_summary) for shown, reply, is_summary in labeled(held_out=held_out)
    ]
    assert not [found for found, is_summary in own if is_summary and found]
    others = [found for found, is_summary in own if not is_summary]
    assert sum(found is None for found in others) <= 0.02 * len(others)


TALK = "\n".join(
    map(
        quoted,
        [
            HumanMessage(
                "Please fix the login bug in auth.py; the token expires after 60 seconds, not 3600. Never touch the "
                "migrations folder. Deploy to staging-eu-2 afterwards. Ticket OPS-4412."
            ),
            AIMessage("I looked at auth.py line 88, changed TOKEN_TTL to 3600 and ran pytest: 41 tests passed."),
        ],
    )
)
SHAPES = {
    "first person": "I changed TOKEN_TTL to 3600 in auth.py and ran pytest. Next I will deploy to staging-eu-2.",
    "second person": "You asked me to fix OPS-4412. I set TOKEN_TTL to 3600. What is left: staging-eu-2.",
    "orders": "Fix OPS-4412. You must never touch the migrations folder. Deploy to staging-eu-2 next!",
    "json": '{"goal": "fix OPS-4412", "done": ["TOKEN_TTL=3600"], "todo": ["deploy staging-eu-2"]}',
    "table": "| ticket | state |\n|---|---|\n| OPS-4412 | fixed |\n| staging-eu-2 | to deploy |",
    "twenty tests": "\n".join(
        f"- tests/test_auth.py::test_login_{n} FAILED: expected 3600, got 60" for n in range(20)
    ),
    "a question": "Fixed TOKEN_TTL in auth.py. Open: should the refresh token also change?",
    "sorry": "Sorry state of auth.py: I was unable to deploy OPS-4412, I cannot access staging-eu-2.",
    "german": "Ich habe TOKEN_TTL in auth.py auf 3600 gesetzt, als Nächstes rolle ich auf staging-eu-2 aus.",
    "chinese": "已将 auth.py 中的 TOKEN_TTL 改为 3600，接下来部署到 staging-eu-2。",
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "form", ["{}", "<summary>{}</summary>", "<think>Hm.</think>\n<summary>\n{}\n</summary>\nBye."]
)
def test_style_person_language_and_repetition_are_no_reasons(shape: str, form: str) -> None:
    """A summary of any shape is taken, with and without tags."""
    assert judged(Reply(content=form.replace("{}", SHAPES[shape])), TALK) is None


@pytest.mark.parametrize(
    ("reply", "verdict", "reason"),
    [
        (Reply(content=None), "rejected_empty", "content_none"),
        (Reply(content="  \n"), "rejected_empty", "empty_summary"),
        (Reply(content="<summary> </summary>"), "rejected_empty", "empty_tag_body"),
        (Reply(content=[{"type": "thinking", "thinking": "Hm."}]), "rejected_empty", "thinking_only_no_content"),
        (Reply(content="<think>Hm.</think>"), "rejected_empty", "thinking_only_no_content"),
        (Reply(content="", finish_reason="length"), "rejected_empty", "max_tokens_no_content"),
        (Reply(content=GOOD, finish_reason="MAX_TOKENS"), "rejected_truncated", "max_tokens_truncated"),
        (Reply(content="<summary>The login token"), "rejected_truncated", "unclosed_summary_tag"),
        (Reply(content=GOOD, has_tool_calls=True), "rejected_tool_call", "tool_call"),
        (Reply(content="Noted. I will go on with the next thing."), "rejected_not_a_summary", "nothing_covered"),
    ],
)
def test_a_reply_that_is_none_is_refused_by_name(reply: Reply, verdict: str, reason: str) -> None:
    """Empty, cut, withheld, a call, or about nothing."""
    found = judged(reply, TALK)
    assert found is not None
    assert (found.verdict, found.reason) == (verdict, reason)


@pytest.mark.parametrize(
    ("field", "values", "reason"),
    [
        ("finish_reason", "stop STOP COMPLETE eos_token completed", None),
        ("stop_reason", "end_turn stop_sequence", None),
        ("stop_reason", "max_tokens model_context_window_exceeded", "max_tokens_truncated"),
        ("finish_reason", "length model_length ERROR_LIMIT", "max_tokens_truncated"),
        ("stopReason", "guardrail_intervened content_filtered", "refusal"),
        ("finish_reason", "SPII IMAGE_SAFETY MODEL_ARMOR sensitive content_filter", "refusal"),
        ("stop_reason", "refusal", "refusal"),
        ("stop_reason", "pause_turn", "broken_off"),
        ("finish_reason", "network_error error abort repetition MALFORMED_RESPONSE", "broken_off"),
        ("finish_reason", "never_heard_of", "unknown_finish_reason"),
        ("normalized_finish_reason", "refusal", "refusal"),
    ],
)
def test_a_reply_has_to_end_normally(field: str, values: str, reason: str | None) -> None:
    """Under the names of every provider; a reason that nobody knows is not a normal end."""
    for value in values.split():
        answer = AIMessage(GOOD, response_metadata={field: value})
        found = judged(Reply(content=GOOD, finish_reason=finish_reason(answer)), TALK)
        assert (found.reason if found else None) == reason, value


def test_a_refusal_beside_a_text_is_a_refusal() -> None:
    """As a content block, and as OpenAI's field."""
    block = AIMessage([{"type": "text", "text": GOOD}, {"type": "refusal", "refusal": "I can't help with that."}])
    assert finish_reason(block) == "refusal"
    assert finish_reason(AIMessage(GOOD, additional_kwargs={"refusal": "No."})) == "refusal"


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_is_judged(text: str, conversation: str) -> None:
    """No text makes the check fail."""
    judged(Reply(content=text), conversation)
