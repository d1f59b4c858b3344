"""Who answers in a chat: the model that the environment names, else the echo."""

import os

from langchain_core.language_models import BaseChatModel

from .echo_model import EchoModel
from .environment_model import chat_model

ECHO_WINDOW = 4_000
"""Tokens that the echo accepts: few, so that a conversation is compacted soon."""


def agent_model() -> tuple[BaseChatModel, int | None]:
    """The model and its window; `None` leaves the window to the model's profile."""
    return (chat_model(), None) if has_key() else (EchoModel(), ECHO_WINDOW)


def has_key() -> bool:
    """Whether the environment opens a real model."""
    return bool(os.environ.get("OPENAI_API_KEY"))
