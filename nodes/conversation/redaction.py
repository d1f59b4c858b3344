"""Remove secrets: an application's redaction of messages, and the masking of keys in error texts."""

from collections.abc import Callable
from dataclasses import dataclass

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from langgraph_compaction.checkpoint.patterns import Pattern

from ..text.nested_texts import map_texts
from .message_marks import MARK

_STRUCTURE = frozenset(
    {
        "type",
        "id",
        "call_id",
        "tool_use_id",
        "tool_call_id",
        "name",
        "index",
        "media_type",
        "mime_type",
        "data",
        "url",
    }
)
"""Keys of content blocks whose values are not redacted: changing a type, id or media value breaks the message."""

_RAW_CALLS = frozenset({"tool_calls", "function_call"})

_SECRETS = Pattern(
    r"(?:\b(?:sk|pk|rk|xox[abprs]|gh[oprsu]|glpat|hf|gsk|xai|lsv2)[-_][\w*-]{6,}"
    r"|\bAKIA[0-9A-Z]{12,}|\bAIza[\w-]{20,}|\beyJ[\w-]{8,1000}+\.[\w-]++(?:\.[\w-]++)?"
    r"|(?<=://)[^\s/@:]*+:[^\s/@]++(?=@)"
    r"|(?i:\bbearer\s++)[\w.~+/*-]{6,}+=*+"
    r"|(?i:\b(?:api[-_ ]?key|access[-_ ]?token|auth[-_ ]?token|token|secret|password|passwd|authorization)\b"
    r"['\"]?\s{0,9}+(?:[:=]|provided:)\s{0,9}+['\"]?(?:bearer\s{1,9}+|basic\s{1,9}+)?)[^\s'\",;}]{4,})"
)
_LONGEST = 500
"""Maximum length, in characters, of an error text in events and logs."""


@dataclass(frozen=True, kw_only=True)
class Redaction:
    """An application's function that removes secrets from texts, and where it applies.

    The summarizer, the facts and the ledger always get redacted text. With `store` the archive and the snapshots also
    get redacted text, so that recall and undo return redacted text.
    """

    hook: Callable[[str], str]
    store: bool = False

    def message(self, message: AnyMessage) -> AnyMessage:
        """Return the message with its content, call arguments and artifact redacted. Ids do not change."""
        change = self.hook
        extra = {key: value for key, value in message.additional_kwargs.items() if key not in _RAW_CALLS}
        update = {
            "content": map_texts(message.content, change, except_keys=_STRUCTURE),
            "additional_kwargs": {
                k: v if k == MARK else map_texts(v, change, except_keys=_STRUCTURE) for k, v in extra.items()
            },
        }
        if isinstance(message, AIMessage):
            for calls in ("tool_calls", "invalid_tool_calls"):
                found = getattr(message, calls)
                update[calls] = [{**call, "args": map_texts(call["args"], change)} for call in found]
        if isinstance(message, ToolMessage):
            update["artifact"] = map_texts(message.artifact, change)
        return message.model_copy(update=update)


def masked(text: str) -> str:
    """Return at most 500 characters of an error's text, with keys, tokens and passwords replaced by `[secret]`."""
    return _SECRETS.sub("[secret]", text[: 4 * _LONGEST])[:_LONGEST]
