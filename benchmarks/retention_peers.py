"""The other systems as policies that bring messages under a cap; each runs its own code.

All count tokens as the evaluation does. A summarizer may write as much as the peer's frame and tail leave of the cap:
a first pass, whose summary is empty, shows how much that is.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from deepagents.backends import StoreBackend
from deepagents.middleware.summarization import SummarizationMiddleware as DeepSummarizationMiddleware
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    ModelRequest,
    ModelResponse,
    SummarizationMiddleware,
)
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, RemoveMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langgraph.store.memory import InMemoryStore
from langmem.short_term import SummarizationNode
from retention_summarizer import DIGEST, DIGEST_OF_TEXT, NEWEST, Rule, summarizer

from langgraph_compaction.graph.lab.evaluation.policies import Policy, count
from langgraph_compaction.nodes.testing import ScriptedModel

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Shares of the cap that are tried for the kept messages: the requested one first, then its nearest."""

NEAR = 0.95
"""Share of the cap from which on a context is as large as the cap allows."""

_SEAM = 2
"""Tokens by which a summary may grow when it is put into the surrounding text."""

_SESSION = "session_" + 2 * "0123456789abcdef"
"""A name as long as the random one that deepagents gives a history file."""

Compact = Callable[[list[AnyMessage], int, int, ScriptedModel, bool], Sequence[BaseMessage]]
"""From messages, cap, tokens to keep, a summarizer and whether it is prompted with text, to the context."""


def langchain(
    old: list[AnyMessage], _: int, keep: int, model: ScriptedModel, takes_text: bool
) -> Sequence[BaseMessage]:
    """`SummarizationMiddleware.before_model`; the summarizer sees all that is replaced."""
    middleware = SummarizationMiddleware(model, **_options(keep, model, takes_text))
    update: Any = middleware.before_model({"messages": old}, None)
    return [one for one in update["messages"] if not isinstance(one, RemoveMessage)] if update else old


def deepagents(
    old: list[AnyMessage], cap: int, keep: int, model: ScriptedModel, takes_text: bool
) -> Sequence[BaseMessage]:
    """`SummarizationMiddleware.wrap_model_call`; over the cap the model refuses, and it clips the last results."""
    backend = StoreBackend(namespace=lambda _: ("files",), store=InMemoryStore())
    middleware = DeepSummarizationMiddleware(model, backend=backend, **_options(keep, model, takes_text))
    return _sent(middleware, old, model, limit=cap)


def langmem(old: list[AnyMessage], _: int, keep: int, model: ScriptedModel, __: bool) -> Sequence[BaseMessage]:
    """`SummarizationNode`, with `max_tokens` so large that the summarizer sees all that is replaced."""
    whole = count(old) + 1
    node = SummarizationNode(
        model=model,
        max_tokens=whole,
        max_tokens_before_summary=1,
        max_summary_tokens=whole - keep,
        token_counter=count,
        initial_summary_prompt=ChatPromptTemplate.from_messages([("placeholder", "{messages}")]),
    )
    return node.invoke({"messages": old})["summarized_messages"]


def context_editing(old: Sequence[AnyMessage], cap: int) -> Sequence[BaseMessage]:
    """`ClearToolUsesEdit`: the oldest results until the cap is met; where all do not do, arguments of calls too."""

    def cleared(at_least: int, inputs: bool) -> list[BaseMessage]:
        edit = ClearToolUsesEdit(cap, clear_at_least=at_least, keep=0, clear_tool_inputs=inputs)
        middleware = ContextEditingMiddleware(edits=[edit], token_counter=count)
        return _sent(middleware, _named(old), summarizer(DIGEST, 0))

    every_result = cleared(0, inputs=False)
    return cleared(count(old) - cap, inputs=count(every_result) > cap)


@dataclass
class Peer:
    """A peer with a summarizer, as a policy: its largest context within the cap, or else its smallest one."""

    compact: Compact
    rule: Rule
    kept: float
    """Share of the cap for the kept messages."""
    calls: int = field(default=0, init=False)
    """Number of summaries that were requested."""

    def __call__(self, old: Sequence[AnyMessage], cap: int) -> Sequence[BaseMessage]:
        """Return the context for these messages and this cap."""
        messages, rank = _named(old), (True, float("inf"))
        best: Sequence[BaseMessage] = messages
        for share in sorted(SHARES, key=lambda share: abs(share - self.kept)):
            context = self._filled(messages, cap, max(1, int(share * cap)))
            tokens = count(context)
            if NEAR * cap <= tokens <= cap:
                return context
            if (tokens > cap, abs(cap - tokens)) < rank:
                best, rank = context, (tokens > cap, abs(cap - tokens))
        return best

    def _filled(self, messages: list[AnyMessage], cap: int, keep: int) -> Sequence[BaseMessage]:
        """Return the context with the longest summary that fits."""
        bare = self._asked(messages, cap, keep, 0)
        left = cap - count(bare) - _SEAM
        return self._asked(messages, cap, keep, left) if left > 0 else bare

    def _asked(self, messages: list[AnyMessage], cap: int, keep: int, tokens: int) -> Sequence[BaseMessage]:
        model = summarizer(self.rule, tokens)
        context = self.compact(messages, cap, keep, model, self.rule.takes_text)
        self.calls += len(model.received)
        return context


def _options(keep: int, model: ScriptedModel, takes_text: bool) -> dict[str, Any]:
    """Return the arguments for LangChain's middleware, and for the one that deepagents builds on it."""
    shown = {"summary_prompt": "{messages}"} if takes_text else {"summarizer": model | StrOutputParser()}
    return {
        "trigger": ("tokens", 1),
        "keep": ("tokens", keep),
        "token_counter": count,
        "trim_tokens_to_summarize": None,
        **shown,
    }


def _sent(
    middleware: AgentMiddleware[Any, Any, Any], old: list[AnyMessage], model: ScriptedModel, limit: int | None = None
) -> list[BaseMessage]:
    """Return the messages that a middleware finally sends to the model, which refuses more than the limit."""
    sent: list[list[BaseMessage]] = []

    def answer(request: ModelRequest[Any]) -> ModelResponse[Any]:
        sent.append(list(request.messages))
        if limit is not None and count(sent[-1]) > limit:
            raise ContextOverflowError("it is larger than the window")
        return ModelResponse([AIMessage("Yes.")])

    state: Any = {"messages": old, "_summarization_session_id": _SESSION}
    with suppress(ContextOverflowError):  # what was sent last is judged all the same
        middleware.wrap_model_call(ModelRequest(model=model, messages=old, state=state), answer)
    return sent[-1]


def _named(old: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return copies with ids: peers require ids, or write them into the messages they get."""
    return [message.model_copy(update={"id": f"message-{place}"}) for place, message in enumerate(old)]


SUMMARIZING: Mapping[str, Compact] = {"langchain": langchain, "deepagents": deepagents, "langmem": langmem}

SETUPS = ((DIGEST, 0.5), (DIGEST, 0.1), (DIGEST_OF_TEXT, 0.5), (NEWEST, 0.5))
"""Summarizers, and shares of the cap for the kept messages, that are measured."""


def peers() -> dict[str, Policy]:
    """A policy for each peer and summarizer, by name."""
    named: dict[str, Policy] = {
        f"{name}: {rule.name}, {kept:.0%} kept": Peer(compact, rule, kept)
        for name, compact in SUMMARIZING.items()
        for rule, kept in SETUPS
    }
    return {**named, "langchain: context editing": context_editing}
