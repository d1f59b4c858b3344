"""What kind of work a conversation is: code, analysis, conversation, mixed or unknown."""

import re
from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage

from ..config.prompts import Language
from ..config.strategy_settings import TaskType
from ..conversation.transcript import calls_of, is_real_user
from .strategies.keywords import ANALYSIS, ANALYSIS_TOOLS, CODE, CODE_TOOLS, Words, said

SHORT_INPUT = 200
"""Characters under which what a person says is talk."""

_PART = re.compile(r"[a-z]+|[A-Z][a-z]*")


def task_type(messages: Sequence[AnyMessage], languages: Sequence[Language] = ("en", "zh")) -> TaskType:
    """The kind that most messages speak for; `mixed` where several do equally, `unknown` where none does.

    A message counts once for a kind: by its calls' names, or by its words where a person or the model says them.
    """
    counts: dict[TaskType, int] = {
        "code": sum(_is(message, CODE_TOOLS, CODE, languages) for message in messages),
        "analysis": sum(_is(message, ANALYSIS_TOOLS, ANALYSIS, languages) for message in messages),
        "conversation": sum(is_real_user(message) and len(message.text) < SHORT_INPUT for message in messages),
    }
    most = max(counts.values())
    leading: list[TaskType] = [kind for kind, count in counts.items() if count == most]
    if not most:
        return "unknown"
    return leading[0] if len(leading) == 1 else "mixed"


def _is(message: AnyMessage, tools: Words, words: Words, languages: Sequence[Language]) -> bool:
    if any(tools.within(_parts(name), ["en"]) for _, name in calls_of(message)):
        return True
    speaks = is_real_user(message) or isinstance(message, AIMessage)
    return speaks and words.within(said(message), languages)


def _parts(name: str) -> str:
    """The words of a tool's name apart: `edit_file` and `editFile` have two."""
    return " ".join(_PART.findall(name)).lower()
