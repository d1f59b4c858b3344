"""What must not be told: an application's own redaction of a conversation, and keys in the texts of errors."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

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
"""Keys whose texts name things or hold media: to change them would break the message."""

_RAW_CALLS = frozenset({"tool_calls", "function_call"})

_SECRETS = re.compile(
    r"(?:\b(?:sk|pk|rk|xox[abprs]|gh[oprsu]|glpat|hf|gsk|xai|lsv2)[-_][\w*-]{6,}"
    r"|\bAKIA[0-9A-Z]{12,}|\bAIza[\w-]{20,}|\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]+)?"
    r"|(?<=://)[^\s/@:]*:[^\s/@]+(?=@)"
    r"|(?i:\bbearer\s+)[\w.~+/*-]{6,}=*"
    r"|(?i:\b(?:api[-_ ]?key|access[-_ ]?token|auth[-_ ]?token|token|secret|password|passwd|authorization)\b"
    r"['\"]?\s*(?:[:=]|provided:)\s*['\"]?(?:bearer\s+|basic\s+)?)[^\s'\",;}]{4,})"
)
_LONGEST = 500
"""Characters of an error's text that are told."""


@dataclass(frozen=True, kw_only=True)
class Redaction:
    """An application's own hook, with where it applies.

    The summarizer, the facts and the ledger are always given redacted text; with `store` also the archive and the
    snapshots, so that recall and undo give back redacted text.
    """

    hook: Callable[[str], str]
    store: bool = False

    def message(self, message: AnyMessage) -> AnyMessage:
        """The message with every text of it redacted: content, arguments of calls, artifact. Ids stay."""
        change = self.hook
        extra = {key: value for key, value in message.additional_kwargs.items() if key not in _RAW_CALLS}
        update = {
            "content": map_texts(message.content, change, but=_STRUCTURE),
            "additional_kwargs": {
                k: v if k == MARK else map_texts(v, change, but=_STRUCTURE) for k, v in extra.items()
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
    """The beginning of an error's text, without what looks like a key, a token or a password."""
    return _SECRETS.sub("[secret]", text[: 4 * _LONGEST])[:_LONGEST]
