"""Scenarios of requests: long summaries, large messages, broken pairs, no network, unknown windows, markup."""

import json
import re
import socket
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from langgraph_compaction.graph import CompactionThread, UnknownWindowError, create_compacting_agent
from langgraph_compaction.graph.thread_state import records_of
from langgraph_compaction.nodes.conversation.message_marks import marks
from langgraph_compaction.nodes.testing import ScriptedModel, calls, texts, usage
from tests.fakes import copying
from tests.faults.stage import NEEDLE, Stage, scenario
from tests.graph.harness import CONFIG, Drive, agent, filler, full, request_tokens, rounds, said, tool_block, verdicts
from tests.histories import asks, result
from tests.invariants import check_request, is_summary

SHORT = usage(AIMessage("done"), 100)


def needled(count: int, words: int) -> list[AnyMessage]:
    """Return alternating user and assistant messages with a unique word each."""
    kinds = (HumanMessage, AIMessage)
    return [kinds[n % 2](f"NEEDLE-{n} {filler(words, f'm{n}-')}", id=f"m{n}") for n in range(count)]


@tool
def read(words: int) -> str:
    """Read this many words."""
    return filler(words, "read")


@scenario("F5", "the summarizer is shown only the end of what it replaces")
async def all_is_shown(go: Drive) -> None:
    """The summarizer sees every removed message in chunks, the ledger names them, and no unique word is lost."""
    given = [*needled(100, 20), HumanMessage("and now?", id="q")]
    stage = Stage(go, [SHORT], [copying(NEEDLE)], {"context_window": 1_600}, reads=400)
    await stage.turn({"messages": given})
    assert len(stage.summarizer.received) > 4
    stage.check(["committed"], said=given, holds=[f"NEEDLE-{n}" for n in range(100)])
    kept = {message.id for message in stage.messages}
    seen = stage.ledger[0].seen or {}
    assert set(seen["full"]) == {message.id for message in given} - kept
    assert seen["cut"] == {}


@scenario("F6", "the kept tail alone exceeds the trigger")
async def large_tail(go: Drive) -> None:
    """The round floor is lowered and one summary serves later turns; if nothing may leave, no model is called."""
    given = [*rounds(12, 45), HumanMessage("and now?", id="q")]
    stage = Stage(go, options={"dialogue_rounds_keep_min": 12})
    for message in (given, [HumanMessage("x")], [HumanMessage("y")]):
        await stage.turn({"messages": message})
    stage.check(["committed"], said=given, holds=["what was said before", "and now?"])
    assert stage.ledger[0].floor == 3
    assert len(stage.summarizer.received) == 1
    stage = Stage(go)
    await stage.turn(said(filler(850), "large"))
    stage.check(["noop", "noop"], holds=[filler(850)])
    assert stage.summarizer.received == []
    assert stage.standing.get("breaker", {}).get("failures", 0) == 0


@scenario("F7", "one tool result is larger than the window")
async def huge_result(go: Drive) -> None:
    """It is sent clipped, within the limit, and its handle recalls the whole message."""
    stage = Stage(go, [calls(("read", {"words": 3_000})), SHORT], options={"tools": [read]})
    await stage.turn(said("go", "q"))
    stage.check(["committed"], holds=["go", "read0 read1"])
    assert request_tokens(stage.sent) <= 1_000
    (clipped,) = [message for message in stage.messages if isinstance(message, ToolMessage)]
    whole = records_of(stage.graph).recall("thread", marks(clipped)["handle"])
    assert whole is not None
    assert whole.text == filler(3_000, "read")
    assert "[TRUNCATED original~3000 tokens]" in texts(stage.sent)


def told_late() -> dict[str, list[AnyMessage]]:
    """Conversations whose results do not directly follow their calls."""
    wait = HumanMessage("wait", id="wait")
    both = asks("c1", "c2").model_copy(update={"id": "both"})
    one, two = result("c1", "first", id="one"), result("c2", "second", id="two")
    again = [asks("c1").model_copy(update={"id": "again"}), result("c1", "third", id="three")]
    go_on = HumanMessage("go", id="go")
    return {
        "a user between two results": [go_on, both, one, wait, two],
        "a user before the second result": [go_on, both, one, wait],
        "an id used again": [go_on, both, one, two, *again],
        "a call without a result": [go_on, both, wait],
    }


@scenario("F8", "calls and results apart, ids used again, calls left open, chained compactions")
async def pairing(go: Drive) -> None:
    """The request is repaired, the state is kept, and two compactions separate no call from its result."""
    for name, history in told_late().items():
        stage = Stage(go, ["ok"])
        await stage.turn({"messages": history})
        stage.check([], said=history)
        assert stage.messages[:-1] == history, name
        shown = [message.text for message in stage.sent if isinstance(message, ToolMessage)]
        assert shown[: len(history)][0] == "first" or name == "a call without a result"
    stage = Stage(go, ["ok"], options={"tool_blocks_keep_recent": 2})
    for turn in range(2):
        blocks = [m for n in range(9) for m in tool_block(n, 90)]
        fresh = [message.model_copy(update={"id": f"{message.id}-{turn}"}) for message in blocks]
        await stage.turn({"messages": [*fresh, HumanMessage(f"question {turn}", id=f"q{turn}")]})
        assert all(message in stage.messages for message in fresh[-4:])
    stage.check(["committed", "committed"], holds=["question 1"])
    assert sum(map(is_summary, stage.messages)) == 1


@scenario("F19", "the tokenizer's data is not cached and there is no network")
async def offline(go: Drive) -> None:
    """Tokens of known and unknown models are counted, and a compaction runs, without any network connection."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, no_network)
        patch.setattr(socket, "getaddrinfo", no_network)
        patch.setenv("TIKTOKEN_CACHE_DIR", "/nonexistent")
        for name in ("gpt-4o", "claude-sonnet-4-5", "a-model-nobody-knows"):
            stage = Stage(go, [SHORT], options={"token_counter": None, "context_window": 2_000})
            stage.model.name_ = name
            await stage.turn(full())
            stage.check(["committed"], said=full()["messages"], holds=["and now?"])
            assert stage.ledger[0].tokens_before > 800


def no_network(*_: Any, **__: Any) -> None:
    """Raise as a machine without a network does."""
    raise OSError("no network")


@scenario("F20", "an unknown window, or an output limit read as the window")
async def window(go: Drive) -> None:
    """Without a window the agent is refused; `max_tokens` is not a window, the profile's input limit is one."""
    limited = ScriptedModel(replies=["ok"])
    object.__setattr__(limited, "max_tokens", 1_000)
    for model in (ScriptedModel(), limited):
        with pytest.raises(UnknownWindowError, match="context_window"):
            create_compacting_agent(model)
    for size, expected in ((1_000, ["committed"]), (10_000, [])):
        stage = Stage(go, [SHORT])
        stage.model.profile = {"max_input_tokens": size, "max_output_tokens": 100}
        stage.graph = agent(stage.model, stage.summarizer, context_window=None, checkpointer=stage.saver)
        await stage.turn(full())
        stage.check(expected, said=full()["messages"], holds=["and now?"])
        assert [event["threshold"] for event in stage.told("PreCompactEvent")] == [800] * len(expected)


@scenario("F21", "braces in a prompt, a focus or a conversation")
async def braces(go: Drive) -> None:
    """Markup is inserted unchanged: the model reads the prompt, the summarizer the conversation."""
    odd = '{conversation} {0} {{x}} {"a": [1]} }{ %s ${HOME}'
    given = full()
    given["messages"][0] = HumanMessage(f"{odd} {filler(50)}", id="r-user-0")
    stage = Stage(go, [SHORT], options={"system_prompt": f"Answer in JSON: {odd}"})
    await stage.turn(given)
    stage.check(["committed"], said=given["messages"], holds=[f"Answer in JSON: {odd}"])
    assert odd in texts(stage.summarizer.received[0])
    for message in rounds(2, tag="more"):
        await stage.turn({"messages": [message]})
    CompactionThread(stage.graph, CONFIG).compact(focus=odd)
    assert odd in texts(stage.summarizer.received[1])
    assert verdicts(stage.graph) == ["committed", "committed"]


@scenario("F22", "arguments of a call become invalid JSON")
async def arguments(go: Drive) -> None:
    """Only the string leaves are shortened: names, numbers and structure stay, in the state and in the request."""
    args = {"path": "src/app.py", "edits": [{"line": 7, "new": filler(700)}], "force": True}
    made = [calls(("write", args)).model_copy(update={"id": "c"}), result("call-1", "written", id="r")]
    given = [*rounds(3), HumanMessage("go", id="go"), *made, HumanMessage("and now?", id="q")]
    stage = Stage(go, [SHORT], options={"tool_call_threshold": 50, "preview_tokens": 20})
    await stage.turn({"messages": given})
    stage.check(["committed"], said=given, holds=["and now?", "src/app.py"])
    for messages in (stage.messages, stage.sent):
        (call,) = [call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
        assert json.loads(json.dumps(call["args"])) == call["args"]
        assert call["args"].keys() == args.keys()
        assert (call["args"]["edits"][0]["line"], call["args"]["force"]) == (7, True)
        assert len(re.findall(r"w\d+", call["args"]["edits"][0]["new"])) < 100
        check_request(stage.messages)
