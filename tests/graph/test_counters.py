"""Which counter measures a conversation in the graph, and whether the provider's figures stand above it."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

from langgraph_compaction.nodes.conversation.tokens import TokenCounter
from tests.fakes import ScriptedModel, chars
from tests.graph.harness import CONFIG, Drive, agent, ledger, said, values, verdicts
from tests.histories import asks, result


@pytest.mark.parametrize(("divisor", "compacted"), [(2, True), (3, False)])
async def test_the_applications_counter_decides_when_it_is_compacted(
    go: Drive, divisor: int, *, compacted: bool
) -> None:
    """16,400 characters are 8,200 tokens, or 5,467, of a window of 10,000; the ledger names the counter."""
    counter = chars(divisor)
    given = {"context_window": 10_000, "trigger_ratio": 0.8, "target_ratio": 0.5, "output_reserve": 0}
    graph = agent(ScriptedModel(), "digest", token_counter=counter, **given)
    texts = [HumanMessage("x" * 8_200), AIMessage("y" * 8_200), HumanMessage("now?")]
    await go.invoke(graph, {"messages": texts})
    assert [row.counter for row in ledger(graph)] == ([counter.name] if compacted else [])


class _Recording(TokenCounter):
    """A counter of characters that remembers which messages it was asked to count."""

    def __init__(self) -> None:
        super().__init__("recording", len)
        self.asked: list[str] = []

    def message(self, message: BaseMessage) -> int:
        self.asked.append(message.text)
        return len(message.text)


async def test_a_turn_counts_only_what_is_new_without_reported_usage(go: Drive) -> None:
    """Everything up to the last answer was counted in the turns before, and the sum is that of all messages."""
    counter = _Recording()
    graph = agent(ScriptedModel(replies=["Noted."]), "digest", token_counter=counter, context_window=10_000)
    for turn in range(3):
        counter.asked.clear()
        await go.invoke(graph, said(f"Message {turn}."))
    assert set(counter.asked) == {"Noted.", "Message 2."}
    before_the_answer = sum(len(message.text) for message in values(graph)["messages"][:-1])
    assert values(graph)["compaction"]["usage"]["counted"]["tokens"] == before_the_answer


class PanicException(BaseException):
    """What an extension in Rust raises when it panics; it is no `Exception`."""


def _raising(_: list[Any]) -> int:
    raise ZeroDivisionError


def _panicking(_: list[Any]) -> int:
    raise PanicException


NONSENSE: dict[str, Callable[[list[Any]], Any]] = {
    "raises": _raising,
    "panics": _panicking,
    "a text": lambda _: "12",
    "nothing": lambda _: None,
    "a negative number": lambda _: -5,
    "no number": lambda _: float("nan"),
    "a boolean": lambda _: True,
}


@pytest.mark.parametrize("name", NONSENSE)
async def test_a_counter_that_does_not_count_is_named_and_replaced(
    go: Drive, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning names it, and the conversation goes on and is compacted by an approximate count."""
    graph = agent(token_counter=NONSENSE[name])
    for text in ("hello", "word " * 400, "and now?"):
        await go.invoke(graph, said(text))
    assert values(graph)["messages"][-1].text
    warnings = [row.message for row in caplog.records if "token_counter" in row.message]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"token_counter: {NONSENSE[name].__name__} r")


@pytest.mark.parametrize("where", ["user", "assistant", "tool"])
async def test_a_thread_with_a_million_spaces_goes_on(go: Drive, where: str) -> None:
    """By tiktoken's own count, whoever wrote them."""
    page = f"<html>{' ' * 1_100_000}</html>"
    history: dict[str, list[AnyMessage]] = {
        "user": [HumanMessage(page)],
        "assistant": [HumanMessage("open it"), AIMessage(page), HumanMessage("and?")],
        "tool": [HumanMessage("open it"), asks("a"), result("a", page)],
    }
    graph = agent(token_counter=None)
    for given in (history[where], [HumanMessage("short")], [HumanMessage("short again")]):
        await go.invoke(graph, {"messages": given})
    assert values(graph)["messages"][-1].type == "ai"
    assert graph.get_state(CONFIG).next == ()


PICTURE = "iVBORw0KGgo" + "QUJDREVGR0g5" * 33_000


@pytest.mark.parametrize(
    "block",
    [
        {"image": {"format": "png", "source": {"bytes": PICTURE.encode()}}},
        {"inline_data": {"mime_type": "image/png", "data": PICTURE}},
        {"type": "computer_call_output", "output": {"image_url": f"data:image/png;base64,{PICTURE}"}},
    ],
    ids=["Bedrock", "Gemini", "OpenAI"],
)
async def test_a_picture_is_no_long_text(go: Drive, block: dict[str, Any]) -> None:
    """It is sent with the next question too, and nothing is refused or compacted for its base64."""
    model = ScriptedModel()
    graph = agent(model, token_counter=None, context_window=8_000)
    for message in (HumanMessage(["look", block]), HumanMessage("and now?")):
        await go.invoke(graph, {"messages": [message]})
    assert [PICTURE[:40] in repr(sent) for sent in model.received] == [True, True]
    assert verdicts(graph) == []
