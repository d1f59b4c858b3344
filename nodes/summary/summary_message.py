"""A summary: what the summarizer is shown, what counts as a summary, and the message that carries it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from ..config.head_and_tail import InputGuard
from ..config.summary_format import USUAL, Shape, step_line
from ..conversation.clipping import recall_line
from ..conversation.message_marks import MARK, SUMMARY_KIND, is_summary, marks
from ..conversation.request import REASONING_BLOCKS
from ..conversation.tokens import TokenCounter, call_texts, texts_of
from ..conversation.transcript import message_id
from ..digest.digest import Facts, digest
from ..gate.invariants import Finding
from ..gate.reply_form import IN_TAGS, Contract, not_a_summary
from .key_information_text import blocks

MOST_EXTRACTED = 2_000
"""Tokens of what a digest may say in place of what a guard leaves out."""

EARLIER_HANDLES = 3
"""Earlier compactions that a summary names for `recall`; an archived summary names those before them."""

PINNED = "The user pinned these words; they hold as they stand:"

_CUT_SHORT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "incomplete"})
_WITHHELD = frozenset({"content_filter", "safety", "refusal", "blocklist", "prohibited_content", "recitation"})


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a summarizer gave back."""

    content: Any
    """Text, content blocks, or `None`."""
    finish_reason: str | None = None
    has_tool_calls: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    model: str | None = None
    record: Mapping[str, Any] | None = None
    """Structured content of a deterministic digest, which the next digest absorbs."""
    contract: Contract = IN_TAGS


@dataclass(frozen=True)
class Chunk:
    """One part of the old conversation, as quoted text, with what was cut of each message."""

    messages: tuple[AnyMessage, ...]
    text: str
    cut: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """By message id: tokens shown, of how many. What is not here was shown in full."""

    def tokens(self, counter: TokenCounter) -> int:
        """Tokens of the text."""
        return counter.text(self.text)


def old_part(messages: Sequence[AnyMessage], drop: frozenset[int]) -> list[AnyMessage]:
    """The messages a summary replaces, in order; earlier summaries are absorbed apart."""
    return [messages[index] for index in sorted(drop) if not is_summary(messages[index])]


def chunks(
    messages: Sequence[AnyMessage], budget: int, counter: TokenCounter, guard: InputGuard | None = None
) -> list[Chunk]:
    """The conversation in parts of at most `budget` tokens, so that the summarizer sees all of it.

    A single message over the budget is shown with its beginning and its end, and so is a conversation of more
    characters than a guard lets pass.
    """
    whole = [Chunk((message,), quoted(message)) for message in messages]
    groups: list[list[Chunk]] = []
    size = 0
    for chunk in _guarded(whole, guard, budget, counter) if guard else whole:
        shown = _shown(chunk, budget, counter)
        tokens = counter.text(shown.text) + 1
        if not groups or size + tokens > budget:
            groups.append([])
            size = 0
        groups[-1].append(shown)
        size += tokens
    return [_joined(group) for group in groups]


def _guarded(whole: Sequence[Chunk], guard: InputGuard, budget: int, counter: TokenCounter) -> Sequence[Chunk]:
    """Of more characters than the guard lets pass, beginning and end; between them, what a digest finds of the rest.

    Characters are those of the quoted messages, a line each.
    """
    hidden = guard.hidden(sum(len(chunk.text) + 1 for chunk in whole) - 1)
    if not hidden:
        return whole
    before, after, cut, begin = list[Chunk](), list[Chunk](), dict[str, tuple[int, int]](), 0
    partly: list[AnyMessage] = []
    for chunk in whole:
        end = begin + len(chunk.text)
        if end <= hidden.start:
            before.append(chunk)
        elif begin >= hidden.stop:
            after.append(chunk)
        else:
            head, tail = chunk.text[: max(0, hidden.start - begin)], chunk.text[max(0, hidden.stop - begin) :]
            before += [Chunk((), head)] if head else []
            after += [Chunk((), tail)] if tail else []
            partly += chunk.messages
            shown = counter.text(head) + counter.text(tail), chunk.tokens(counter)
            cut.update((message_id(message), shown) for message in chunk.messages)
        begin = end + 1
    found = digest(partly, budget=min(budget // 5, MOST_EXTRACTED), counter=counter).text
    left_out = f"[... {len(hidden)} characters left out; extracted from their messages:\n{found}\n...]"
    return [*before, Chunk(tuple(partly), left_out, cut), *after]


def _shown(chunk: Chunk, budget: int, counter: TokenCounter) -> Chunk:
    tokens = chunk.tokens(counter)
    if tokens <= budget:
        return chunk
    short = _ends(chunk, budget, counter)
    if (left := counter.text(short)) >= tokens:  # under a very small budget the extract takes more than is cut
        return chunk
    cut = {message_id(message): (left, tokens) for message in chunk.messages}
    return Chunk(chunk.messages, short, {**cut, **chunk.cut})


def _joined(group: Sequence[Chunk]) -> Chunk:
    return Chunk(
        tuple(message for part in group for message in part.messages),
        "\n".join(part.text for part in group),
        {key: shown for part in group for key, shown in part.cut.items()},
    )


def _ends(chunk: Chunk, budget: int, counter: TokenCounter) -> str:
    """Beginning and end of a quoted message, and between them what a digest finds in all of it."""
    text = chunk.text
    head, tail = counter.head(text, budget * 2 // 5), counter.head(text[::-1], budget // 5)[::-1]
    found = digest(chunk.messages, budget=budget // 5, counter=counter).text
    return f"{head}\n[... cut; extracted from the whole message:\n{found}\n...]\n{tail}"


def quoted(message: AnyMessage) -> str:
    """A message as escaped, labeled text: data that cannot close its own quotation."""
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    name = f' name="{escape(message.name)}"' if isinstance(message, ToolMessage) and message.name else ""
    lines = [escape(text, quote=False) for text in _spoken(message)]
    if isinstance(message, AIMessage):
        lines += [f"<call>{escape(text, quote=False)}</call>" for text in call_texts(message)]
    return f'<message role="{role}"{name}>\n' + "\n".join(lines) + "\n</message>"


def _spoken(message: AnyMessage) -> list[str]:
    """Texts without calls and without reasoning, which would fill the request."""
    if isinstance(message, AIMessage):
        return [message.text] if message.text else []
    return texts_of(message)


def extract(reply: Reply) -> str | Finding:
    """The summary's text, or what is wrong with the reply: a verdict with the seed's reason."""
    text = reply.content if isinstance(reply.content, str) else _text(reply.content)
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
    reason = not_a_summary(body) if isinstance(body, str) and reply.record is None else None
    return Finding("rejected_not_a_summary", reason) if reason else body


def _text(content: Any) -> str:
    return AIMessage(content).text if isinstance(content, list) else ""


def _why_empty(reply: Reply, finish: str) -> str:
    if finish in _CUT_SHORT:
        return "max_tokens_no_content"
    if reply.content is None:
        return "content_none"
    blocks = reply.content if isinstance(reply.content, list) else []
    thought = any(isinstance(block, dict) and block.get("type") in REASONING_BLOCKS for block in blocks)
    return "thinking_only_no_content" if thought else "empty_summary"


def handles_of(messages: Sequence[AnyMessage]) -> tuple[str, ...]:
    """The compactions that the summaries among these messages name, as many as the next one names beside its own."""
    named = (str(name) for message in messages if is_summary(message) for name in marks(message).get("handles", ()))
    return tuple(dict.fromkeys(named))[-EARLIER_HANDLES:]


def summary_message(
    body: str,
    compaction_id: str,
    record: Mapping[str, Any] | None = None,
    *,
    pins: Sequence[str] = (),
    facts: Facts | None = None,
    key_information: Mapping[str, str] | None = None,
    shape: Shape = USUAL,
    handles: Sequence[str] | None = None,
    step: tuple[int, int] | None = None,
) -> HumanMessage:
    """The message that stands for the old part: user role, the text in a frame that says what it is.

    Key information, facts and pinned texts are rendered here, whatever the summarizer wrote. Its id comes from the
    compaction, so that a step that runs again writes the same message. With `handles`, those of earlier compactions,
    a line names them and this one's for `recall`. `step` are the calls, and those with a result, of a step for which
    it stands and that the model has not gone on from: a line tells the model of it.
    """
    mark: dict[str, Any] = {"kind": SUMMARY_KIND, "is_meta": True, "compaction": compaction_id, **shape.mark}
    text = shape.frame.written(body)
    if record is not None:
        mark["record"] = dict(record)
    if facts is not None and facts.text:
        mark["facts"] = dict(facts.record)
        text += f"\n<facts>\n{facts.text}\n</facts>"
    pinned = "\n".join([PINNED, "<pinned>", *(f"- {pin}" for pin in pins), "</pinned>"]) if pins else ""
    before, after = blocks(key_information or {}, pinned)
    if pins:
        mark["pins"] = list(pins)
    if pins and "pins" not in (key_information or {}):
        after = "\n".join(filter(None, (pinned, after)))
    if after:
        text += f"\n{after}"
    if before:
        text = f"{before}\n{text}"
        mark["front"] = len(before) + 1
    if step is not None:
        text += f"\n{step_line(*step, shape.language)}"
    if handles is not None:
        mark["handles"] = [*handles, compaction_id]
        text += f"\n{recall_line(*mark['handles'])}"
    text += shape.frame.last_line(shape.rounds)
    return HumanMessage(
        text,
        id=f"summary-{compaction_id}",
        additional_kwargs={MARK: mark, "lc_source": "summarization"},
    )
