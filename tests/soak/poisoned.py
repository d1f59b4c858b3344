"""Play conversations with messages, steps and arguments of up to ten windows, and look for poisoned threads.

    python -m tests.soak.poisoned --engine 100000 --graph 5000 [--minutes 5] [--seed 0]

A thread is poisoned where the next short question cannot be answered. On the engine alone a random history and a
question are compacted into the window. Through the graph, and through LangChain's agent with the middleware, the
model gives such a step, or a client sends such histories, with pins and system messages of every size; the first
short question that follows must be answered, and so must the next one. Every preset takes part. Counts are printed,
and written into benchmarks/results/poisoned.json; the exit code is 1 where a thread is poisoned. On the engine alone
nothing is pinned and the system message is short: there nobody can refuse them.

Most cases have a window of a few hundred words: what is left beside a block of so many windows is less, so they are
no easier, and take a tenth of the time. One case in `REAL` has a window of 2,000 tokens, counted as in production.
"""

import argparse
import json
import logging
import random
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from langgraph_compaction.nodes import CompactionError, CompactionSettings, compact_messages, render
from langgraph_compaction.nodes.config.policies import PRESETS
from langgraph_compaction.nodes.conversation.tokens import tiktoken_counter, total
from tests.fakes import ScriptedModel
from tests.graph.harness import CONFIG, WORDS, agent, said
from tests.graph.middleware.agents import agent as middleware_agent
from tests.histories import numbered
from tests.invariants import check_request

WINDOWS = (200, 300, 500)
REAL_WINDOW, REAL = 2_000, 40
"""One case in so many has this window, and tokens counted by a model's own encoding instead of words."""
QUESTION = "And what is the sum?"
EXACT = tiktoken_counter()


class Case:
    """One random case: its window and its counter, and random histories for them."""

    def __init__(self, name: str, seed: int) -> None:
        self.chance = random.Random(f"{name} {seed}")  # noqa: S311 - reproducible, not secret
        is_real = seed % REAL == 0
        self.window = REAL_WINDOW if is_real else self.chance.choice(WINDOWS)
        self.counter = EXACT if is_real else WORDS

    def words(self) -> str:
        """Return a text of up to ten windows; every order of magnitude is as likely."""
        count = int((10 * self.window) ** self.chance.random())
        word = self.chance.choice(["word", "x" * 40, "配置", "a.b/c", "1", "\n"])
        return f"{word} " * count

    def step(self, number: int) -> list[AnyMessage]:
        """Return an assistant message with one call up to a window of calls, and results, of which some may miss."""
        chance = self.chance
        count = chance.choice([1, 1, 1, 2, 5, self.window // 50, self.window // 5])
        given = self.words() if chance.random() < 0.4 else "a"
        text = self.words() if chance.random() < 0.3 else ""
        calls: list[Any] = [
            {"name": "read", "args": {"path": given if n == 0 else "b", "n": n}, "id": f"c{number}-{n}"}
            for n in range(count)
        ]
        long = chance.randrange(count)
        results = [
            ToolMessage(self.words() if n == long else "done", tool_call_id=f"c{number}-{n}", name="read")
            for n in range(count)
            if chance.random() < 0.95
        ]
        thought = [{"type": "thinking", "thinking": text, "signature": "s"}]
        content: Any = thought if chance.random() < 0.2 else text
        return [AIMessage(content, tool_calls=calls), *results]

    def history(self) -> list[AnyMessage]:
        """Return a conversation before its next question."""
        chance = self.chance
        found: list[AnyMessage] = [SystemMessage("Be brief.")] if chance.random() < 0.3 else []
        for number in range(chance.randint(1, 6)):
            move = chance.choice(["say", "answer", "step", "step", "orphan"])
            if move == "step":
                found += self.step(number)
            elif move == "orphan":
                found.append(ToolMessage(self.words(), tool_call_id="nobody", name="read"))
            else:
                found.append((HumanMessage if move == "say" else AIMessage)(self.words()))
        return numbered(found)

    def settings(self) -> dict[str, Any]:
        """Return a preset, with its own settings but the confirmation."""
        preset = self.chance.choice(PRESETS)
        return {
            "context_window": self.window,
            "output_reserve": 0,
            "preset": preset,
            "require_confirmation": False,
        }

    def marked(self, messages: list[AnyMessage]) -> list[AnyMessage]:
        """Return the messages as a client may send them: with pins, marks of the header and system messages."""
        chance = self.chance
        found: list[AnyMessage] = []
        for given in messages:
            message = given
            if chance.random() < 0.2:
                found.append(SystemMessage(self.words(), id=f"system-{len(found)}-{chance.random()}"))
            if chance.random() < 0.25:
                mark = chance.choice(
                    [{"pinned": True}, {"pinned": True, "is_meta": True}, {"kind": "skill_strategy"}]
                )
                message = message.model_copy(update={"additional_kwargs": {"compaction": mark}})
            if isinstance(message, HumanMessage) and chance.random() < 0.2:
                message = message.model_copy(update={"content": f"<Pin>{message.text}</Pin>"})
            found.append(message)
        return found


def by_engine(seed: int) -> None:
    """Compact a history and a question; raise if that fails."""
    case = Case("engine", seed)
    given = [*case.history(), HumanMessage(QUESTION, id="question")]
    chosen = CompactionSettings(**case.settings())
    sent = render(compact_messages(given, max_tokens=case.window, token_counter=case.counter, settings=chosen))
    assert total(case.counter, sent) <= case.window
    assert sent[-1].text.endswith(QUESTION)
    check_request(sent)


@tool
def read(path: str, n: int = 0) -> str:
    """Return as many words as the path has characters."""
    return f"{n} " * len(path)


def by_graph(seed: int) -> None:
    """Give a thread such a step or such histories, then ask; raise if a question has no answer."""
    case = Case("graph", seed)
    chance = case.chance
    replies = [next(one for one in case.step(0) if isinstance(one, AIMessage))] if chance.random() < 0.6 else []

    def reply(messages: list[BaseMessage]) -> AIMessage:
        assert total(case.counter, messages) <= case.window, "a request over the limit"
        check_request(messages)
        return replies.pop() if replies else AIMessage("Noted.")

    build = chance.choice([agent, agent, middleware_agent])
    more: dict[str, Any] = {
        "on_refusal": chance.choice(["message", "raise"]),
    }
    graph = build(
        ScriptedModel(replies=[reply]),
        "digest",
        tools=[read],
        token_counter=case.counter,
        **{**case.settings(), **more},
    )
    for number in range(chance.randint(1, 3)):
        given = renamed(number, case.marked(case.history())) if chance.random() < 0.6 else []
        given.append(HumanMessage(QUESTION if given else case.words()))
        asked: dict[str, Any] = {"messages": given}
        if chance.random() < 0.1:
            asked["compaction_request"] = {"memory": {"pins": [message.id for message in given if message.id]}}
        with suppress(CompactionError):
            graph.invoke(asked, CONFIG)
        replies.clear()  # a step that the model gives now is not what a client sent
        assert graph.invoke(said(QUESTION), CONFIG)["messages"][-1].text == "Noted."
    assert graph.invoke(said(QUESTION), CONFIG)["messages"][-1].text == "Noted."


def renamed(number: int, messages: list[AnyMessage]) -> list[AnyMessage]:
    """Return the messages with ids that no other input has."""
    return [message.model_copy(update={"id": f"{number}-{message.id}"}) for message in messages]


def play(name: str, check: Callable[[int], None], seeds: range, until: float) -> dict[str, Any]:
    """Check one seed after the other while there is time; return how many, and which are poisoned."""
    poisoned: list[int] = []
    played = 0
    for seed in seeds:
        if time.monotonic() > until:
            break
        played += 1
        try:
            check(seed)
        except Exception:  # noqa: BLE001 - whatever is raised is the finding
            poisoned.append(seed)
            print(f"{name} {seed}\n{traceback.format_exc()}", flush=True)  # noqa: T201
    return {"name": name, "first": seeds.start, "played": played, "poisoned": poisoned}


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", type=int, default=100_000)
    parser.add_argument("--graph", type=int, default=5_000)
    parser.add_argument("--minutes", type=float, default=10**6)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    until = time.monotonic() + options.minutes * 60
    rows = [
        play(name, check, range(options.seed, options.seed + count), until)
        for name, check, count in (("graph", by_graph, options.graph), ("engine", by_engine, options.engine))
    ]
    print(json.dumps(rows))  # noqa: T201
    sys.exit(any(row["poisoned"] for row in rows))


if __name__ == "__main__":
    main()
