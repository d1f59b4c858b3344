"""Fakes at the model's edge: the public fault kit under the name that the tests know it by."""

from langgraph_compaction.nodes.testing import (
    Reply,
    ReplyingSummarizer,
    ScriptedModel,
    StalledSummarizer,
    StreamingModel,
    calls,
    texts,
    usage,
)

__all__ = [
    "Reply",
    "ReplyingSummarizer",
    "ScriptedModel",
    "StalledSummarizer",
    "StreamingModel",
    "calls",
    "texts",
    "usage",
]
