"""The summarisers that every peer is given: a chat model that writes what a rule finds in what it was shown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from langgraph_compaction.graph.evaluation.policies import COUNTER
from langgraph_compaction.graph.evaluation.survival import text_of
from langgraph_compaction.nodes.policies.digest import digest

_SENTENCE = re.compile(r"[^\n.!?。！？]*(?:[.!?。！？]+(?=\s|$)|[.!?。！？]+|\n|$)")


def digested(messages, tokens):
    return digest(messages, budget=tokens, counter=COUNTER).text

def digested_text(messages, tokens):
    return digest([HumanMessage(text_of(messages))], budget=tokens, counter=COUNTER).text

_ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")

def newest(messages, tokens):
    kept, left = [], tokens
    for s in reversed([p for p in _ENDS.split(text_of(messages)) if p.strip()]):
        n = COUNTER.text(s)+1
        if n > left: break
        kept.append(s); left -= n
    return "\n".join(reversed(kept))

class Summarizer(BaseChatModel):
    write: Any
    tokens: int = 0
    shown: list[int] = []
    @property
    def _llm_type(self): return "rule"
    def _generate(self, messages, stop=None, run_manager=None, **_):
        self.shown.append(len(messages))
        text = self.write(messages, self.tokens) if self.tokens > 0 else ""
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])
