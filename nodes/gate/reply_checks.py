"""Decide from its text alone, without a second model, whether a summarizer's reply is a summary."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from langchain_core.messages import AIMessage

from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, Anchored, Pattern

from ..config.prompts import PROMPTS, WORDINGS
from ..conversation.bound_history import REASONING_BLOCKS
from ..text.non_prose import is_call, is_data, is_repetitive, is_transcript
from ..text.quoting import between_tags
from .coverage import names_identifiers
from .invariants import Finding
from .reply_heuristics import continues_chat, explains_subject, refuses, sentences

_CUT_SHORT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "incomplete"})
"""Finish reasons, as providers name them, of a reply that ended at the output limit."""
_WITHHELD = frozenset({"content_filter", "safety", "refusal", "blocklist", "prohibited_content", "recitation"})
"""Finish reasons of a reply that the provider or the model withheld."""

_THOUGHT = Anchored(r"<(think|thinking|thought|reasoning|analysis)>")
_NUMBER = r"(?:\(?\d{1,2}[.)、]|[一二三四五六七八九十]{1,2}、)"
_LEADING = Anchored(rf"[\s>#*•-]*+{_NUMBER}?+[\s*]*+")
_SECTION = Anchored(
    r"task overview|current state|important discoveries|next steps?|context to preserve"
    r"|(?:conversation )?(?:summary|record|overview)|任务概[述览]|当前状态|重要发现|后续步骤|下一步"
    r"|需?要?[保留持]{2}的上下文|(?:对话)?(?:摘要|总结|记录|概述)",
    IGNORE_CASE,
)
_BOLD = Anchored(r"\*\*[^*\n]{1,80}+\*\*")
_PLACEHOLDER = Anchored(
    r"(?:n a|na|none|null|nil|nothing|empty|tbd|todo|unknown|not (?:applicable|available|specified|provided)"
    r"|ok|okay|done|understood|noted|sure|yes|no|好的?|收到|明白了?|完成|无|暂无|没有|空|待定|待补充|未知|不适用|略"
    r"|and)?"  # "and" stands between the tags in the prompt; a reply may copy it
)
_BLANK = Anchored(r"[\[<{【][^\]>}】\"\n]{0,160}+[\]>}】][.。]?")
_NAME = Pattern(r"summary|record|recap|摘要|总结|记录|概述", IGNORE_CASE)
_PREFACE = Anchored(
    r"(?:(?:sure|certainly|of course|okay|ok|absolutely|好的|当然|没问题)[,.!，。！\s]{1,3})?"
    r"(?:here(?:['’]s| is| are)|this is|below is|以下是?|下面是?|这是)",
    IGNORE_CASE,
)
_PREFACE_CHARS, _ANNOUNCEMENT_CHARS = 190, 140
"""Maximum length of a line that announces a summary by its first words, and of one that does so by a colon."""
_NO_SUMMARY = Pattern(
    r"\bno (?:(?:previous|prior|earlier) )?(?:summary|record|conversation|content|context|messages?|history)\b.{0,40}"
    r"\b(?:available|provided|given|found|present|generated|exists?|shared|yet|to summari[sz]e)"
    r"|^there (?:is|was|were|has been) no (?:\w{1,30} ){0,2}(?:conversation|summary|messages?|history|content)"
    r"|\bnothing (?:here )?to (?:be )?(?:summari[sz]ed?|record|report)"
    r"|\btoo (?:long|short|large) to (?:be )?summari[sz]ed?"
    r"|\bconversation (?:is|was|seems|appears)(?: to be)? (?:empty|missing|blank)"
    r"|^.{0,40}\b(?:summar(?:y|i[sz]ed)|record)\b.{0,12}"
    r"\b(?:generated|completed?|created|written|finished|successful(?:ly)?)\b.{0,16}$"
    r"|\bplease (?:paste|provide|share|supply|send)\b.{0,40}\b(?:conversation|text|transcript|content)"
    r"|(?:没有|未|无|暂无)(?:提供|收到|找到|任何|可供?|能|需要){0,3}.{0,6}(?:摘要|总结|对话|记录|概括|消息|上下文)"
    r"|^.{0,4}(?:摘要|总结|记录).{0,6}(?:生成|完成|写好|成功).{0,4}$"
    r"|对话(?:内容|记录)?.{0,2}(?:过长|太长|过短|太短|为空|缺失)|请(?:粘贴|提供|发送|上传).{0,12}(?:对话|内容|文本)",
    IGNORE_CASE,
)
_REPORTED = Pattern(r"\b(?:user|customer|client|patient)\b|用户|客户|患者|旅客", IGNORE_CASE)

_WORD = Pattern(r"\w+")
_UNIT = Pattern(r"[⺀-鿿]|[^\W⺀-鿿]+")
"""A word, or one character of a script that puts no spaces between words."""
_SHINGLE = 6
"""Number of words in a sequence so long that a reply shares the sequence with a prompt only by copying."""


class ReplyContract(Protocol):
    """The form that a set of prompts asks of a reply."""

    def body(self, text: str) -> str | Finding:
        """Return the summary's text, or a finding if the reply does not have the requested form."""
        ...


@dataclass(frozen=True)
class Tags:
    """The reply has one pair of tags, and the summary is the text between them."""

    name: str = "summary"

    def body(self, text: str) -> str | Finding:
        """Return the text between the tags, or a finding unless there is exactly one pair of tags with text."""
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
"""The form that the default prompts ask for."""


@dataclass(frozen=True)
class Free:
    """The reply may be any text."""

    def body(self, text: str) -> str | Finding:
        """Return the whole text, or a finding if it is empty."""
        return _untagged(_spoken(text)) or _NOTHING_SPOKEN


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The reply of a summarizer: the content, and what the provider reported about the call."""

    content: Any
    """Text, content blocks, or `None`."""
    finish_reason: str | None = None
    has_tool_calls: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    model: str | None = None
    record: Mapping[str, Any] | None = None
    """The record of a digest, as `Digest.record`, from which the next digest continues; `None` if a model wrote the
    reply."""
    contract: ReplyContract = IN_TAGS


_NOTHING_SPOKEN = Finding("rejected_empty", "thinking_only_no_content")


def _spoken(text: str) -> str:
    """Return the text without reasoning in tags, such as `<think>`, with which some models begin."""
    bare = text.strip()
    thought = _THOUGHT.match(bare)
    return bare.partition(f"</{thought[1]}>")[2].strip() if thought else bare


def _untagged(text: str) -> str:
    """Return the text without summary tags around the whole text, which some models add unasked."""
    body = IN_TAGS.body(text) if text.startswith("<summary>") and text.endswith("</summary>") else text
    return body if isinstance(body, str) else text


def summary_text(reply: Reply, conversation: str = "") -> str | Finding:
    """Return the summary's text, or a finding that says why the reply is not a summary of the conversation."""
    text = text_of_reply(reply)
    finish = (reply.finish_reason or "").lower()
    if reply.has_tool_calls:
        return Finding("rejected_tool_call", "tool_call", "the summarizer called a tool")
    if finish in _WITHHELD:
        return Finding("rejected_not_a_summary", "refusal", f"finish_reason={finish}")
    if not text.strip():
        return Finding("rejected_empty", _why_empty(reply, finish), f"finish_reason={finish or None}")
    if finish in _CUT_SHORT:
        return Finding("rejected_truncated", "max_tokens_truncated", f"finish_reason={finish}")
    body = reply.contract.body(text)
    reason = not_a_summary(body, conversation) if isinstance(body, str) and reply.record is None else None
    return Finding("rejected_not_a_summary", reason) if reason else body


def text_of_reply(reply: Reply) -> str:
    """Return the text of a reply; empty if its content is neither a text nor a list of content blocks."""
    content = reply.content
    return content if isinstance(content, str) else AIMessage(content).text if isinstance(content, list) else ""


def _why_empty(reply: Reply, finish: str) -> str:
    if finish in _CUT_SHORT:
        return "max_tokens_no_content"
    if reply.content is None:
        return "content_none"
    blocks = reply.content if isinstance(reply.content, list) else []
    thought = any(isinstance(block, dict) and block.get("type") in REASONING_BLOCKS for block in blocks)
    return "thinking_only_no_content" if thought else "empty_summary"


def not_a_summary(text: str, conversation: str = "") -> str | None:
    """Return the reason why a text is not a summary, such as `refusal` or `raw_data`, or `None` for a summary.

    A text that names identifiers of the conversation explains no subject in general.
    """
    spoken = _spoken(text)
    reason = next((reason for reason, holds in _REASONS.items() if holds(spoken)), None)
    return None if reason == _EXPLAINS and names_identifiers(spoken, conversation) else reason


def _lines(text: str) -> list[str]:
    """Return the non-empty lines, except a first line that only announces a summary."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[1:] if lines and _announces_summary(lines[0].strip()) else lines


def _announces_summary(line: str) -> bool:
    if len(line) > _PREFACE_CHARS or not _NAME.search(line):
        return False
    return bool(_PREFACE.match(line)) or (line.endswith((":", "：")) and len(line) <= _ANNOUNCEMENT_CHARS)


def _own_sentences(text: str) -> list[str]:
    return sentences("\n".join(_lines(text)))


def _is_hollow(text: str) -> bool:
    """Whether a text consists only of headings, placeholders and sentences about a summary."""
    return not any(map(_has_content, _lines(text)))


def _has_content(line: str) -> bool:
    bare = _LEADING.remove_prefix(line).rstrip(" \t*:：")
    if line.lstrip().startswith("#") or line.rstrip().endswith((":", "：")) or _BOLD.fullmatch(line.strip()):
        return False
    if (
        _SECTION.fullmatch(bare)
        or _BLANK.fullmatch(_value(bare).strip())
        or _PLACEHOLDER.fullmatch(_plain(_value(bare)))
    ):
        return False
    return not _NO_SUMMARY.search(line) or bool(_REPORTED.search(line))


def _value(line: str) -> str:
    """Return the text after the first colon of a line, or the whole line if it has no colon."""
    _, colon, value = line.replace("：", ":").partition(":")
    return value if colon else line


def _plain(value: str) -> str:
    """Return the words of a value in lower case: those before the first parenthesis if there are any, else all."""
    return " ".join(_WORD.findall((value.replace("（", "(").partition("(")[0].strip() or value).lower())).strip("_ ")


def _copies_prompt(text: str) -> bool:
    """Whether more than two thirds of the text's words belong to sequences of `_SHINGLE` words from a prompt."""
    words = _UNIT.findall(text.lower())
    starts = [at for at, shingle in enumerate(_shingles(words)) if shingle in _PROMPT_SHINGLES]
    return len({at + step for at in starts for step in range(_SHINGLE)}) * 3 > len(words) * 2


def _shingles(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Return every sequence of `_SHINGLE` consecutive words."""
    return [tuple(words[at : at + _SHINGLE]) for at in range(len(words) - _SHINGLE + 1)]


_PROMPT_SHINGLES = {
    shingle
    for text in (*PROMPTS.values(), *(said.update for said in WORDINGS.values()))
    for shingle in _shingles(_UNIT.findall(text.lower()))
}

_EXPLAINS = "answers_user"
_REASONS: Mapping[str, Callable[[str], bool]] = {
    "thinking_only_no_content": lambda text: not text,
    "tool_call_text": is_call,
    "transcript_echo": is_transcript,
    "raw_data": is_data,
    "repetition": is_repetitive,
    "prompt_echo": _copies_prompt,
    "refusal": lambda text: refuses(_own_sentences(text)),
    "no_content": _is_hollow,
    "continues_chat": lambda text: continues_chat(_own_sentences(text)),
    _EXPLAINS: lambda text: explains_subject(_own_sentences(text)),
}
"""Reasons why a text is not a summary, each with its test; the first reason that applies is reported."""
