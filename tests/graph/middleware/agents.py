"""LangChain's agent with the middleware, built as the harness builds ours."""

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_compaction.graph.middleware import CompactionMiddleware
from tests.fakes import ScriptedModel, clock_of
from tests.graph.harness import SMALL, WORDS, reading
from tests.settings import settings, taken

OF_THE_MIDDLEWARE = (
    *("trigger", "keep", "trim_tokens_to_summarize", "fallback_summarizers", "redact"),
    *("extensions", "database", "channel"),
)


def agent(
    model: Any = None,
    summarizer: Any = None,
    *,
    others: Sequence[Any] = (),
    behind: Sequence[Any] = (),
    **options: Any,
) -> Any:
    """Build the small agent of the harness with `create_agent`, other middleware before ours and behind it."""
    ours: dict[str, Any] = {"token_counter": options.pop("token_counter", WORDS)}
    ours["summary_prompt"] = options.pop("summary_prompt", None)
    chosen = settings(SMALL, **taken(options))
    ours |= {key: options.pop(key) for key in list(options) if key in OF_THE_MIDDLEWARE}
    with clock_of(options.pop("now", None)):
        middleware = CompactionMiddleware(
            options.pop("model_argument", None),
            settings=chosen,
            summarizer=reading(summarizer),
            **ours,
        )
    options.setdefault("checkpointer", InMemorySaver())
    return create_agent(
        model or ScriptedModel(),
        list(options.pop("tools", ())),
        system_prompt=options.pop("system_prompt", None),
        middleware=[*others, middleware, *behind],
        **options,
    )
