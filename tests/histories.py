"""Conversations for tests: builders for orderly ones, and a strategy for all that happens in real threads."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 40}}

_WORDS = ("alpha", "配置", "src/app.py", "order-4711", "😀", "<b>")
_LENGTHS = (1, 3, 30, 180, 900)
_CALL_IDS = ("a", "b", "c")
_MOVES = (
    *("user", "answer", "calls", "result", "result") * 3,
    *("meta", "system", "pinned", "empty", "orphan", "image", "invalid", "tool_use", "twice"),
)


def user(text: str, **fields: Any) -> HumanMessage:
    """What a person says."""
    return HumanMessage(text, **fields)


def meta(text: str, **fields: Any) -> HumanMessage:
    """A user-role message that no person wrote."""
    return HumanMessage(text, additional_kwargs={"compaction": {"is_meta": True}}, **fields)


def pinned(text: str, **fields: Any) -> HumanMessage:
    """What a person says and has pinned."""
    return HumanMessage(text, additional_kwargs={"compaction": {"pinned": True}}, **fields)


def asks(*ids: str, text: str = "", **args: Any) -> AIMessage:
    """An assistant message that calls the tool `read` once for each id, with these arguments."""
    return AIMessage(text, tool_calls=[{"name": "read", "args": args, "id": call_id} for call_id in ids])


def result(call_id: str, content: Any = "done", **fields: Any) -> ToolMessage:
    """What the tool `read` gives back."""
    return ToolMessage(content, tool_call_id=call_id, name="read", **fields)


def numbered(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Copies with the ids m0, m1, m2 and so on."""
    return [message.model_copy(update={"id": f"m{index}"}) for index, message in enumerate(messages)]


def text_rounds(count: int, say: str = "question", reply: str = "answer") -> list[AnyMessage]:
    """So many rounds of a user message and its answer."""
    return [m for n in range(count) for m in (HumanMessage(f"{say} {n}"), AIMessage(f"{reply} {n}"))]


def tool_blocks(count: int, content: str = "done", first: int = 0) -> list[AnyMessage]:
    """So many blocks of one call and its result, with the call ids c0, c1 and so on."""
    return [m for n in range(first, first + count) for m in (asks(f"c{n}"), result(f"c{n}", content))]


def applied(
    messages: Sequence[AnyMessage], drop: Collection[int], clip: Mapping[int, AnyMessage]
) -> list[AnyMessage]:
    """The messages without those dropped and with those clipped, both by index."""
    return [clip.get(index, message) for index, message in enumerate(messages) if index not in drop]


def texts() -> st.SearchStrategy[str]:
    """Texts of a few very different lengths."""
    return st.builds(_repeated, st.sampled_from(_WORDS), st.sampled_from(_LENGTHS))


def _repeated(word: str, times: int) -> str:
    return f"{word} " * times


def images() -> st.SearchStrategy[list[Any]]:
    """Content of a text and an image."""
    return texts().map(lambda text: [{"type": "text", "text": text}, IMAGE])


@st.composite
def histories(draw: st.DrawFn, *, max_size: int = 30) -> list[AnyMessage]:
    """Rounds, parallel calls, reused ids, interjections, open, interrupted and late calls, in any order.

    System messages stand anywhere; there are images, pins, empty assistant turns, meta messages, results of no
    call, malformed calls, and calls that share an id within one message. Each message has an id of its own.
    """
    moves = draw(st.lists(st.sampled_from(_MOVES), min_size=1, max_size=max_size))
    pending: list[str] = []
    return numbered([_make(draw, move, pending) for move in moves])


def _make(draw: st.DrawFn, move: str, pending: list[str]) -> AnyMessage:
    makers: dict[str, Callable[[str], AnyMessage]] = {
        "user": HumanMessage,
        "answer": AIMessage,
        "meta": meta,
        "system": SystemMessage,
        "pinned": pinned,
        "empty": lambda _: AIMessage(""),
        "orphan": lambda text: result("nobody", text),
        "image": lambda _: HumanMessage(draw(images())),
    }
    text = draw(texts())
    if move in makers:
        return makers[move](text)
    if move == "result":
        return _result(draw, pending, text)
    return _calling(draw, move, pending, text)


def _result(draw: st.DrawFn, pending: list[str], text: str) -> AnyMessage:
    """The result of a call that waits, in any order; where none does, an answer."""
    if not pending:
        return AIMessage(text)
    call_id = pending.pop(draw(st.integers(0, len(pending) - 1)))
    return result(call_id, draw(images()) if draw(st.integers(0, 9)) == 0 else text)


def _calling(draw: st.DrawFn, move: str, pending: list[str], text: str) -> AnyMessage:
    ids = draw(st.lists(st.sampled_from(_CALL_IDS), min_size=1, max_size=3, unique=True))
    ids = [ids[0], ids[0]] if move == "twice" else ids
    pending += ids
    if move == "invalid":
        broken = [{"name": "read", "args": "{" + text, "id": ids[0], "error": "no JSON"}]
        return AIMessage("", invalid_tool_calls=broken, tool_calls=asks(*ids[1:]).tool_calls)
    message = asks(*ids, text=draw(st.sampled_from(("", "looking"))), path=text, line=7)
    if move == "tool_use":
        blocks = [
            {"type": "tool_use", "id": c["id"], "name": c["name"], "input": c["args"]} for c in message.tool_calls
        ]
        return AIMessage([{"type": "text", "text": "looking"}, *blocks], tool_calls=message.tool_calls)
    return message
