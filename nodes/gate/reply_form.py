"""Whether a reply has the form of a summary: by its words alone, with no second model."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..config.prompts import PROMPTS, ReplyForm
from ..text.non_prose import is_call, is_data, is_repetitive, is_transcript
from ..text.quoting import between_tags
from .invariants import Finding
from .reply_heuristics import continues_chat, expounds, refuses, sentences

_THOUGHT = re.compile(r"\s*<(think|thinking|thought|reasoning|analysis)>.*?(?:</\1>|\Z)", re.DOTALL)
_NUMBER = r"(?:\(?\d{1,2}[.)、]|[一二三四五六七八九十]{1,2}、)"
_HEADING = re.compile(
    rf"\s*+(?:#{{1,6}}\s+\S|\*\*[^*\n]{{1,80}}\*\*|{_NUMBER}\s*+[^\n.。:：]{{1,60}}(?:[:：]|\s*+$)"
    r"|[^\n.。:：]{1,40}[:：]\s*+$)"
)

_LEADING = re.compile(rf"^[\s>#*•-]*{_NUMBER}?[\s*]*")
_SECTION = re.compile(
    r"task overview|current state|important discoveries|next steps?|context to preserve"
    r"|(?:conversation )?(?:summary|record|overview)|任务概[述览]|当前状态|重要发现|后续步骤|下一步"
    r"|需?要?[保留持]{2}的上下文|(?:对话)?(?:摘要|总结|记录|概述)",
    re.IGNORECASE,
)
_BOLD = re.compile(r"\s*\*\*[^*\n]{1,80}\*\*\s*")
_PLACEHOLDER = re.compile(
    r"(?:n a|na|none|null|nil|nothing|empty|tbd|todo|unknown|not (?:applicable|available|specified|provided)"
    r"|ok|okay|done|understood|noted|sure|yes|no|好的?|收到|明白了?|完成|无|暂无|没有|空|待定|待补充|未知|不适用|略"
    r"|and)?"  # "and" stands between the tags of the prompt itself, where that is copied
)
_BLANK = re.compile(r"\s*[\[<{【][^\]>}】\"\n]{0,160}[\]>}】][.。]?\s*")
_NAME = r"(?:summary|record|recap|摘要|总结|记录|概述)"
_PREFACE = re.compile(
    r"(?:(?:sure|certainly|of course|okay|ok|absolutely|好的|当然|没问题)[,.!，。！\s]{1,3})?"
    r"(?:(?:here(?:['’]s| is| are)|this is|below is|以下是?|下面是?|这是)"
    rf".{{0,80}}{_NAME}.{{0,80}}|.{{0,60}}{_NAME}.{{0,60}}[:：])",
    re.IGNORECASE,
)
_NO_SUMMARY = re.compile(
    r"\bno (?:(?:previous|prior|earlier) )?(?:summary|record|conversation|content|context|messages?|history)\b.{0,40}"
    r"\b(?:available|provided|given|found|present|generated|exists?|shared|yet|to summari[sz]e)"
    r"|^there (?:is|was|were|has been) no (?:\w+ ){0,2}(?:conversation|summary|messages?|history|content)"
    r"|\bnothing (?:here )?to (?:be )?(?:summari[sz]ed?|record|report)"
    r"|\btoo (?:long|short|large) to (?:be )?summari[sz]ed?"
    r"|\bconversation (?:is|was|seems|appears)(?: to be)? (?:empty|missing|blank)"
    r"|^.{0,40}\b(?:summar(?:y|i[sz]ed)|record)\b.{0,12}"
    r"\b(?:generated|completed?|created|written|finished|successful(?:ly)?)\b.{0,16}$"
    r"|\bplease (?:paste|provide|share|supply|send)\b.{0,40}\b(?:conversation|text|transcript|content)"
    r"|(?:没有|未|无|暂无)(?:提供|收到|找到|任何|可供?|能|需要){0,3}.{0,6}(?:摘要|总结|对话|记录|概括|消息|上下文)"
    r"|^.{0,4}(?:摘要|总结|记录).{0,6}(?:生成|完成|写好|成功).{0,4}$"
    r"|对话(?:内容|记录)?.{0,2}(?:过长|太长|过短|太短|为空|缺失)|请(?:粘贴|提供|发送|上传).{0,12}(?:对话|内容|文本)",
    re.IGNORECASE,
)
_REPORTED = re.compile(r"\b(?:user|customer|client|patient)\b|用户|客户|患者|旅客", re.IGNORECASE)

_WORD = re.compile(r"\w+")
_UNIT = re.compile(r"[⺀-鿿]|[^\W⺀-鿿]+")
"""A word, or a character of a script that sets no blanks between words."""
_SHINGLE = 6
"""Words in a row that only a copy has in common with the prompt."""


class Contract(Protocol):
    """The form that a prompt set asks of a reply."""

    def body(self, text: str) -> str | Finding:
        """The summary's text, or where the reply departs from the form."""
        ...


@dataclass(frozen=True)
class Tags:
    """All that counts stands between two tags, once."""

    name: str = "summary"

    def body(self, text: str) -> str | Finding:
        """What stands between the tags."""
        spoken = _spoken(text)
        if not spoken:
            return _NOTHING_SPOKEN
        found = between_tags(spoken, self.name)
        if len(found) > 1 or spoken.count(f"<{self.name}>") != len(found):
            return Finding("rejected_not_a_summary", "several_summaries" if found else "unclosed_summary_tag")
        if not found:
            return Finding(
                "rejected_not_a_summary", "no_summary_tags", f"the reply is not between <{self.name}> tags"
            )
        if not found[0].strip():
            return Finding("rejected_empty", "empty_tag_body")
        return _spoken(found[0]) or _NOTHING_SPOKEN


IN_TAGS = Tags()
"""What the usual prompts ask for."""


@dataclass(frozen=True)
class Headings:
    """At least so many headings: Markdown, bold, numbered, or a line with nothing behind its colon."""

    minimum: int = 3

    def body(self, text: str) -> str | Finding:
        """The whole text."""
        spoken = _untagged(_spoken(text))
        count = sum(bool(_HEADING.match(line)) for line in spoken.splitlines())
        if spoken and count < self.minimum:
            return Finding("rejected_not_a_summary", "too_few_headings", f"{count} headings, at least {self.minimum}")
        return spoken or _NOTHING_SPOKEN


@dataclass(frozen=True)
class Free:
    """Any text."""

    def body(self, text: str) -> str | Finding:
        """The whole text."""
        return _untagged(_spoken(text)) or _NOTHING_SPOKEN


CONTRACTS: Mapping[ReplyForm, Contract] = {"tags": IN_TAGS, "headings": Headings(), "free": Free()}
"""What each set of prompts asks for."""

_NOTHING_SPOKEN = Finding("rejected_empty", "thinking_only_no_content")


def _spoken(text: str) -> str:
    """The text without the thought it begins with."""
    thought = _THOUGHT.match(text)
    return (text[thought.end() :] if thought else text).strip()


def _untagged(text: str) -> str:
    """The text without the tags around all of it: some models write them unasked."""
    body = IN_TAGS.body(text) if text.startswith("<summary>") and text.endswith("</summary>") else text
    return body if isinstance(body, str) else text


def not_a_summary(text: str) -> str | None:
    """A word for what stands where a summary should, or `None`."""
    spoken = _spoken(text)
    return next((reason for reason, holds in _REASONS.items() if holds(spoken)), None)


def _lines(text: str) -> list[str]:
    """The lines that are not empty, without the announcement of a summary."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[1:] if lines and _PREFACE.fullmatch(lines[0].strip()) else lines


def _said(text: str) -> list[str]:
    return sentences("\n".join(_lines(text)))


def _is_hollow(text: str) -> bool:
    """Whether only headings, placeholders and words about a summary stand there."""
    return not any(map(_says_something, _lines(text)))


def _says_something(line: str) -> bool:
    bare = _LEADING.sub("", line, count=1).rstrip(" \t*:：")
    if line.lstrip().startswith("#") or line.rstrip().endswith((":", "：")) or _BOLD.fullmatch(line):
        return False
    if _SECTION.fullmatch(bare) or _BLANK.fullmatch(_value(bare)) or _PLACEHOLDER.fullmatch(_plain(_value(bare))):
        return False
    return not _NO_SUMMARY.search(line) or bool(_REPORTED.search(line))


def _value(line: str) -> str:
    """What stands behind a label."""
    return re.split("[:：]", line, maxsplit=1)[-1]


def _plain(value: str) -> str:
    """Words in lower case, without an aside."""
    return " ".join(_WORD.findall((re.split("[(（]", value)[0].strip() or value).lower())).strip("_ ")


def _copies_prompt(text: str) -> bool:
    """Whether more than two thirds of its words are the prompt's, in the prompt's order."""
    words = _UNIT.findall(text.lower())
    copied = {at + step for at, run in enumerate(_runs(words)) if run in _PROMPT for step in range(_SHINGLE)}
    return len(copied) * 3 > len(words) * 2


def _runs(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words[at : at + _SHINGLE]) for at in range(len(words) - _SHINGLE + 1)]


_PROMPT = {
    run
    for prompt in PROMPTS.values()
    for text in (prompt.system, prompt.update)
    for run in _runs(_UNIT.findall(text.lower()))
}

_REASONS: Mapping[str, Callable[[str], bool]] = {
    "thinking_only_no_content": lambda text: not text,
    "tool_call_text": is_call,
    "transcript_echo": is_transcript,
    "raw_data": is_data,
    "repetition": is_repetitive,
    "prompt_echo": _copies_prompt,
    "refusal": lambda text: refuses(_said(text)),
    "no_content": _is_hollow,
    "continues_chat": lambda text: continues_chat(_said(text)),
    "answers_user": lambda text: expounds(_said(text)),
}
"""What a text may be in place of a summary, in the order in which it is asked."""
