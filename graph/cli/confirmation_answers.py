"""What a person types at the question before a compaction: the prompt, and the answer that the line stands for."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

_ANSWERS = {
    **dict.fromkeys(("approve", "yes", "y", "是"), True),
    **dict.fromkeys(("reject", "no", "n", "否"), False),
}
"""The words that accept and those that decline, when a person types them."""

_FOCUS = ("keep", "focus", "保留", "重点")
"""Words before the colon of a line that says what the summary must keep."""


@dataclass(frozen=True, kw_only=True)
class Wording:
    """The texts around a question, in one language."""

    sizes: str
    """Sentence with the fields `current_tokens`, `max_tokens` and `limit`."""
    left: str
    """Sentence with the field `tokens_after_about`."""
    prompt: str
    """Prompt of the question in the soft zone."""
    unclear: str
    """Sentence for a line that neither accepts nor declines."""
    choices: Mapping[str, str]
    """By answer to the question over the limit, how the prompt shows it."""
    separator: str
    not_offered: str
    """Sentence for a line that is none of the answers over the limit."""


WORDINGS: Mapping[str, Wording] = {
    "en": Wording(
        sizes="It holds {current_tokens:,} of {max_tokens:,} tokens; at most {limit:,} can be sent.",
        left="About {tokens_after_about:,} would be left.",
        prompt="yes, no, or keep: WHAT THE SUMMARY MUST KEEP> ",
        unclear="Nothing is compacted yet: answer yes or no, or name what to keep, such as: keep: the prices",
        choices={},
        separator=", ",
        not_offered="Nothing is decided yet: answer with one of the words in the prompt.",
    ),
    "zh": Wording(
        sizes="当前对话占用 {current_tokens:,} / {max_tokens:,} 个 token；最多可发送 {limit:,} 个。",
        left="压缩后约剩 {tokens_after_about:,} 个。",
        prompt="是、否，或 保留：摘要必须保留的内容> ",
        unclear="尚未压缩：请回答“是”或“否”，或写明要保留的内容，例如 保留：价格",
        choices={
            "compact": "compact（压缩）",
            "drop_oldest": "drop_oldest（隐藏最早的消息）",
            "new_thread": "new_thread（开启新对话）",
            "raise": "raise（报错，不发送）",
        },
        separator="、",
        not_offered="尚未决定：请输入提示中的一个英文单词。",
    ),
}
"""By language of the settings, the texts around a question."""


def wording_of(question: Mapping[str, Any]) -> Wording:
    """Return the texts in the question's language."""
    return WORDINGS[question["language"]]


def over_limit(question: Mapping[str, Any]) -> bool:
    """Whether the question is the one over the limit, whose answers are words to choose from."""
    return "compact" in question["answers"]


def prompt_of(question: Mapping[str, Any]) -> str:
    """Return the prompt, which says what can be answered."""
    wording = wording_of(question)
    if not over_limit(question):
        return wording.prompt
    return wording.separator.join(wording.choices.get(answer, answer) for answer in question["answers"]) + "> "


def unclear(question: Mapping[str, Any]) -> str:
    """Return what to say about a line that `answer_of` cannot read."""
    wording = wording_of(question)
    return wording.not_offered if over_limit(question) else wording.unclear


def answer_of(line: str, question: Mapping[str, Any]) -> bool | str | dict[str, Any] | None:
    """Return the answer that a line stands for; `None` if the line does not say it clearly, so that one asks again.

    `keep: TEXT` accepts, with the text as the summary's focus; a program may write the JSON object that the question
    offers instead. Over the limit, the line is one of the question's answers; accepting means "compact", and
    declining means "raise".
    """
    said = line.strip()
    accepted = _ANSWERS.get(said.lower())
    if over_limit(question):
        if said.lower() in question["answers"]:
            return said.lower()
        ways: Mapping[bool | None, Literal["compact", "raise"]] = {True: "compact", False: "raise"}
        return ways.get(accepted)
    word, _, focus = said.replace("：", ":", 1).partition(":")
    if word.strip().lower() in _FOCUS and focus.strip():
        return {"accept": True, "focus": focus.strip()}
    return accepted if accepted is not None else _object(said)


def _object(line: str) -> dict[str, Any] | None:
    """Return a line that is a JSON object with the key `accept` as this object; `None` for any other line."""
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) and "accept" in found else None
