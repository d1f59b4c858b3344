"""What the acceptance tests share: a provider's own chat model that answers without a network."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.talks import Sent


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sent]:
    """Return a function that lets a chat model answer with these replies instead of calling its provider."""

    def replace(model: Any, *replies: Any, summary: Any = None) -> Sent:
        sent = Sent(replies, summary)
        monkeypatch.setattr(type(model), "_generate", lambda _, messages, *a, **k: sent.answer(messages, *a, **k))
        return sent

    return replace
