"""Check of a summarizer's reply what can be known: it ended normally, is a text, and has to do with what it replaces.

Style, person, language and repetition are no reasons to reject a summary.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

from langchain_core.messages import AIMessage

from langgraph_compaction.checkpoint.patterns import Anchored, Pattern
from langgraph_compaction.checkpoint.usage import Usage

from ..config.prices import Price, usage_of
from ..conversation.bound_history import REASONING_BLOCKS
from ..providers.finish_reasons import Ending, ending_of
from ..text.quoting import between_tags
from ..text.sentences import rare_words_of_long_text
from .invariants import Finding

_TAG = "summary"
_THOUGHT = Anchored(r"<(think|thinking|thought|reasoning|analysis)>")

_UNFINISHED: Mapping[Ending, tuple[str, str]] = {
    "cut": ("max_tokens_truncated", "raise the summarizer's max_tokens, or ask for less in summary_prompt"),
    "broken_off": ("broken_off", "the provider broke the reply off"),
    "unknown": ("unknown_finish_reason", "the provider gave a reason that is not known to end a reply normally"),
}
"""For each ending of a reply that is not complete, the reason of the finding, and what it means or what to do."""

_UNIT = Pattern(r"[⺀-鿿]|[^\W⺀-鿿]+")
"""A word, or one character of a script that puts no spaces between words."""
_SHINGLE = 6
"""Number of words in a sequence so long that a reply shares the sequence with a prompt only by copying."""
_SHORTEST_ECHO = 4
"""Smallest number of words of a reply that counts as a copy if the conversation contains all of it."""

_MARKUP = Pattern(r"<[^<>\n]*+>")
_TOKEN = Pattern(r"[A-Za-z0-9]++")
_TELLING = 3
"""Number of characters from which a token with a digit alone shows that a reply is about the conversation."""
_FEW = 20
"""A conversation with fewer distinct rare words is not compared: a summary of it may repeat none."""
_SHARE = 0.2
"""Smallest share of a reply's rare words that the conversation contains."""
_LARGE = 600
"""Number of distinct words from which a conversation shares some with any text, so that only repeated ones count."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The reply of a summarizer: the content, and what the provider reported about the call."""

    content: Any
    """Text, content blocks, or `None`. If the text has `<summary>` tags, the summary is what stands between them."""
    finish_reason: str | None = None
    has_tool_calls: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    details: Mapping[str, Any] | None = None
    """The `usage_metadata` of a message, which also tells the tokens of the prompt cache and of the reasoning."""
    model: str | None = None
    record: Mapping[str, Any] | None = None
    """The record of a digest, as `Digest.record`, from which the next digest continues; `None` if a model wrote the
    reply."""

    def usage(self, prices: Mapping[str, Price] | None = None) -> Usage:
        """Return what the call took; without prices or a known model, its cost is not known."""
        counts = {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}
        return usage_of(self.details or counts, (self.model,), prices or {})


def summary_text(reply: Reply) -> str | Finding:
    """Return the summary's text, or a finding if the reply did not end normally, or holds no text."""
    text = text_of_reply(reply)
    return _defect(reply, text) or _body(text)


def is_between_tags(reply: Reply) -> bool:
    """Whether a reply holds a summary between tags."""
    return bool(between_tags(_spoken(text_of_reply(reply)), _TAG))


def _defect(reply: Reply, text: str) -> Finding | None:
    ending, named = ending_of(reply.finish_reason), f"finish_reason={reply.finish_reason}"
    if reply.has_tool_calls:
        return Finding("rejected_tool_call", "tool_call", "the summarizer called a tool: give it none")
    if ending == "withheld":
        return Finding("rejected_not_a_summary", "refusal", f"{named}: the model or its provider withheld the reply")
    if not text.strip():
        return Finding("rejected_empty", _why_empty(reply, ending), named)
    if ending != "ended":
        reason, meaning = _UNFINISHED[ending]
        return Finding("rejected_truncated", reason, f"{named}: {meaning}")
    return None


def _body(text: str) -> str | Finding:
    spoken = _spoken(text)
    found = between_tags(spoken, _TAG)
    if not found and spoken.startswith(f"<{_TAG}>"):
        return Finding(
            "rejected_truncated", "unclosed_summary_tag", f"the reply opens <{_TAG}> and does not close it"
        )
    if found and not any(map(str.strip, found)):
        return Finding("rejected_empty", "empty_tag_body")
    body = _spoken("\n".join(filter(None, map(str.strip, found)))) if found else spoken
    return body or Finding("rejected_empty", "thinking_only_no_content")


def text_of_reply(reply: Reply) -> str:
    """Return the text of a reply; empty if its content is neither a text nor a list of content blocks."""
    content = reply.content
    return content if isinstance(content, str) else AIMessage(content).text if isinstance(content, list) else ""


def _why_empty(reply: Reply, ending: Ending) -> str:
    if ending == "cut":
        return "max_tokens_no_content"
    if reply.content is None:
        return "content_none"
    blocks = reply.content if isinstance(reply.content, list) else []
    thought = any(isinstance(block, dict) and block.get("type") in REASONING_BLOCKS for block in blocks)
    return "thinking_only_no_content" if thought else "empty_summary"


def _spoken(text: str) -> str:
    """Return the text without reasoning in tags, such as `<think>`, with which some models begin."""
    bare = text.strip()
    thought = _THOUGHT.match(bare)
    return bare.partition(f"</{thought[1]}>")[2].strip() if thought else bare


def mismatch(text: str, *, conversation: str, earlier: str = "", prompts: Iterable[str] = ()) -> Finding | None:
    """Return why a text cannot be a summary of a conversation, or `None`.

    `conversation` is the text that the summarizer was shown, with its tags and HTML entities, `earlier` the earlier
    summary, which the text may repeat. A text is rejected if it is copied from the `prompts` or the conversation, or
    if it shares neither words nor identifiers nor numbers with what it replaces.
    """
    plain = unescape(_MARKUP.sub(" ", conversation))
    if _is_copied(text, prompts):
        return _mismatch("prompt_echo", "the reply repeats the prompt")
    if len(_UNIT.findall(text)) >= _SHORTEST_ECHO and " ".join(text.split()) in " ".join(plain.split()):
        return _mismatch("echo", "the reply is a part of the conversation")
    if not _shares(text, f"{plain}\n{earlier}"):
        return _mismatch("nothing_covered", "the reply has almost no word in common with what it replaces")
    return None


def _mismatch(reason: str, detail: str) -> Finding:
    return Finding("rejected_not_a_summary", reason, f"{detail} (accept_summary= decides otherwise)")


def _is_copied(text: str, prompts: Iterable[str]) -> bool:
    """Whether more than two thirds of the text's words belong to sequences of `_SHINGLE` words from a prompt."""
    words = _UNIT.findall(text.lower())
    known = {shingle for prompt in prompts for shingle in _shingles(_UNIT.findall(prompt.lower()))}
    starts = [at for at, shingle in enumerate(_shingles(words)) if shingle in known]
    return len({at + step for at in starts for step in range(_SHINGLE)}) * 3 > len(words) * 2


def _shingles(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Return every sequence of `_SHINGLE` consecutive words."""
    return [tuple(words[at : at + _SHINGLE]) for at in range(len(words) - _SHINGLE + 1)]


def _shares(text: str, replaced: str) -> bool:
    """Whether a text shares a telling token, or enough rare words, with what it replaces.

    Where the scripts differ, a text may share nothing; it is rejected only if there were numbers to share.
    """
    own_numbers, numbers = _numbers(text), _numbers(replaced)
    if any(len(number) >= _TELLING for number in own_numbers & numbers):
        return True
    known, own = _times(replaced), rare_words_of_long_text(text)
    if len(known) < _FEW:
        return True
    least = 1 + (len(known) >= _LARGE)
    if own and sum(known[word] >= least for word in own) >= max(1, _SHARE * len(own)):
        return True
    return not numbers and bool(own) and _scripts(own).isdisjoint(_scripts(known))


def _times(text: str) -> Counter[str]:
    """Return in how many lines of a text each of its rare words stands."""
    return Counter(word for line in text.splitlines() for word in rare_words_of_long_text(line))


def _numbers(text: str) -> set[str]:
    return {token.casefold() for token in _TOKEN.findall(text) if any(map(str.isdigit, token))}


def _scripts(words: Iterable[str]) -> set[int]:
    """Return in which blocks of 1,024 characters the words begin, which tells most scripts apart."""
    return {ord(word[0]) >> 10 for word in words}
