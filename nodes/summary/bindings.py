"""Find the chat models inside arguments, retries and fallbacks that are bound to them."""

from collections.abc import Iterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableWithFallbacks


def core(model: Runnable[Any, Any]) -> Any:
    """Return the chat model inside bindings such as `model.bind(...)` and `model.with_retry()`.

    Of a model with fallbacks, as by `model.with_fallbacks(...)`, it is the one that is called first.
    """
    return next(with_bindings(model))[-1]


def with_bindings(model: Any) -> Iterator[list[Any]]:
    """Yield for the model and each of its fallbacks the bindings, outermost first, and the chat model inside them."""
    if isinstance(model, RunnableWithFallbacks):
        for one in model.runnables:
            yield from with_bindings(one)
    elif isinstance(model, BaseChatModel) or not hasattr(model, "bound"):
        yield [model]
    else:
        for inner in with_bindings(model.bound):
            yield [model, *inner]
