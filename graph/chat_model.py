"""Open chat models by their names, or as environment variables say."""

import os
from typing import Any, cast

from langchain_core.language_models import BaseChatModel

from langgraph_compaction.checkpoint.extras import how_to_install
from langgraph_compaction.nodes import CompactionSettings, SettingsError
from langgraph_compaction.nodes.config.settings import chosen

from .library_model import LibraryModel

DEFAULT_MODEL = "gpt-4o-mini"
SCRIPTED_WINDOW = 4_000
"""Context window of the scripted model in tokens, without tools: small, so that a conversation is compacted soon."""


def named_model(name: str, **options: Any) -> BaseChatModel:
    """Open the chat model of a name such as "openai:gpt-4o", as LangChain's `create_agent` does.

    `init_chat_model` opens it with these options. Without the package `langchain` only "openai:..." can be opened.
    Raise `SettingsError` for an unknown model or provider, and for a provider's package that is not installed.
    """
    try:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 - of the extra `langchain`
    except ImportError as error:
        provider, _, model = name.partition(":")
        if provider != "openai" or not model:
            raise SettingsError(
                f'without langchain model={name!r} cannot be opened, only "openai:...": '
                f"{how_to_install('langchain')}, or give a chat model instead of a name"
            ) from error
        return _openai(model, **options)
    try:
        return cast("BaseChatModel", init_chat_model(name, **options))
    except (ImportError, ValueError) as error:
        raise SettingsError(f"model={name!r} names no chat model that can be opened: {error}") from error


def environment_model() -> BaseChatModel:
    """Open the model of OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL; raise `SettingsError` without a key."""
    if not has_key():
        raise SettingsError(
            "a model needs OPENAI_API_KEY (and, for another server, OPENAI_BASE_URL and OPENAI_MODEL) in the "
            "environment; without one use --summarizer digest"
        )
    return _openai(os.environ.get("OPENAI_MODEL", DEFAULT_MODEL), stream_usage=True)


def agent_model() -> tuple[BaseChatModel, int | None]:
    """Return (model, window): the environment's model and `None` (its profile tells), else the scripted one."""
    return (environment_model(), None) if has_key() else (LibraryModel(), SCRIPTED_WINDOW)


def with_window(settings: CompactionSettings, window: int | None) -> CompactionSettings:
    """Return the settings with the window that `agent_model` gave, unless somebody chose another one."""
    if window is None or "context_window" in chosen(settings):
        return settings
    return settings.model_copy(update={"context_window": window})


def has_key() -> bool:
    """Whether the environment has a key for a real model."""
    return bool(os.environ.get("OPENAI_API_KEY"))


def _openai(model: str, **options: Any) -> BaseChatModel:
    from langchain_openai import ChatOpenAI  # noqa: PLC0415 - importing it takes most of a second

    return ChatOpenAI(model=model, **options)
