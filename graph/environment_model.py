"""The model that the environment names, for commands that can use one."""

import os

from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI

from langgraph_compaction.nodes import SettingsError

DEFAULT_MODEL = "gpt-4o-mini"


def chat_model() -> BaseChatModel:
    """A chat model from OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL; `SettingsError` without a key."""
    if not os.environ.get("OPENAI_API_KEY"):
        raise SettingsError(
            "a model needs OPENAI_API_KEY (and, for another server, OPENAI_BASE_URL and OPENAI_MODEL) in the "
            "environment; without one use --summarizer digest"
        )
    return ChatOpenAI(model=os.environ.get("OPENAI_MODEL", DEFAULT_MODEL), stream_usage=True)
