"""The preset `layered_defence` as its document tells it, with models of 128,000 and 200,000 tokens.

The chat models are the providers' own objects with their own sizes; only the call over the network is replaced. All
settings are the preset's own, and three characters are a token. gpt-4o's trigger is 115,201 tokens and its limit
121,600; Claude's are 122,401 and 136,000.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from langgraph_compaction.checkpoint import SQLAlchemySaver
from langgraph_compaction.graph import CompactionSettings
from langgraph_compaction.graph.middleware import CompactionMiddleware
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from tests.acceptance.talks import QUESTION, REAL, Replies, Sent, Story, agent_of, ids, story
from tests.fakes import calls, chars, claude, gpt
from tests.graph.harness import CONFIG, frozen, ledger, steps, values

Answered = Callable[..., Sent]
TOLD = "The user asked when the ferry leaves, and the assistant read the logs."
CLEARED = f"[System] Context cleared. Summary of previous conversation: \n {TOLD}"
"""The document's own words."""
RULES = SystemMessage("You work at the harbor.", id="rules")
MORE_RULES = SystemMessage("Answer in one sentence.", id="more-rules")
SEPARATORS = 4
"""Tokens that a message costs besides its text."""


def text(tokens: int) -> str:
    """Return a text of so many tokens, three characters each."""
    return ("harbor shed " * (tokens // 4 + 1))[: 3 * tokens]


def history(tokens: int, messages: int = 40) -> list[AnyMessage]:
    """Return a conversation of exactly so many tokens."""
    sizes = [tokens // messages] * (messages - 1)
    sizes.append(tokens - sum(sizes))
    return [
        (AIMessage if n % 2 else HumanMessage)(text(size - SEPARATORS), id=f"said-{n}")
        for n, size in enumerate(sizes)
    ]


def defended(model: Any, *tools: Any, **given: Any) -> Any:
    """Build an agent that counts as the document says: three characters are a token."""
    return agent_of(model, "layered_defence", *tools, token_counter=chars(3), **given)


def cleared(agent: Any, *others: str) -> None:
    """Assert that the conversation is one summary, system messages before it and these messages behind it."""
    left = values(agent)["messages"]
    roles = [message.type for message in left]
    (place,) = [index for index, message in enumerate(left) if is_summary(message)]
    assert roles[:place] == ["system"] * place
    assert left[place].type == "human"
    assert left[place].text.startswith(CLEARED)
    assert [message.text for message in left[place + 1 :]] == list(others)


@pytest.mark.requirement("S3.11", "S3.10", "S3.12")
@pytest.mark.parametrize(
    ("model", "trigger", "limit"), [(gpt("gpt-4o"), 115_201, 121_600), (claude(), 122_401, 136_000)]
)
def test_more_than_nine_tenths_fire_before_the_input(
    model: Any, trigger: int, limit: int, answered: Answered
) -> None:
    """Of the window, or of what Claude's answer leaves of it; well below the limit, by the number of characters.

    Before the input its own message does not count, before the call it does.
    """
    asked = len(QUESTION.text) // 3 + SEPARATORS
    for tokens, fired in ((trigger - 1 - asked, []), (trigger - asked, ["precheck"]), (trigger, ["input"])):
        assert tokens < limit - 2_000
        sent = answered(model, "At nine.", summary=TOLD)
        agent = defended(model, summarizer=None)
        agent.invoke({"messages": [*history(tokens), QUESTION]}, CONFIG)
        assert [row.trigger for row in ledger(agent)] == fired
        assert len(sent[0]) == (2 if fired else 41)
    cleared(agent, QUESTION.text, "At nine.")


@pytest.mark.requirement("S3.26", "S3.13")
@REAL
@pytest.mark.parametrize(("system", "fired"), [(20, []), (21, ["events"])])
def test_more_than_seven_hundred_events_fire_and_system_messages_count(
    real: Replies, system: int, fired: list[str], answered: Answered
) -> None:
    """The question is one of them; they hold a few thousand tokens."""
    model = real()
    answered(model, "At nine.", summary=TOLD)
    agent = defended(model, summarizer=None)
    rules = [SystemMessage(f"Rule {n}.", id=f"rule-{n}") for n in range(system)]
    agent.invoke({"messages": [*rules, *history(3 * 5 * 679, 679), QUESTION]}, CONFIG)
    assert [row.trigger for row in ledger(agent)] == fired
    left = values(agent)["messages"]
    assert len(left) == (system + 3 if fired else system + 679 + 2)
    assert frozen(left[:system]) == frozen(rules)


@tool
def look(shed: int) -> str:
    """Look into a shed."""
    return f"Shed {shed} is dry."


@pytest.mark.requirement("S3.14", "S3.26")
def test_seven_hundred_events_are_reached_within_one_run(answered: Answered) -> None:
    """By 350 calls of a tool after one input, without another limit of steps."""
    model = gpt("gpt-4o")
    looks = [calls(("look", {"shed": n}), start=n + 1) for n in range(352)]
    sent = answered(model, *looks, "All are dry.", summary=TOLD)
    agent = defended(model, [look], summarizer=None)
    agent.invoke({"messages": [QUESTION]}, CONFIG)
    assert [(row.trigger, row.verdict) for row in ledger(agent)] == [("events", "committed")]
    assert (len(sent), values(agent)["messages"][-1].text) == (353, "All are dry.")


@tool
def read_log(shed: int) -> str:
    """Read the log of a shed."""
    return f"Shed {shed}. " + text(4_000)


@pytest.mark.requirement("S3.26", "S3.24", "S3.22")
@pytest.mark.parametrize(("model", "before"), [(gpt("gpt-4o"), 113_000), (claude(), 120_000)])
def test_a_result_that_crosses_nine_tenths_is_met_before_the_next_call(
    model: Any, before: int, answered: Answered
) -> None:
    """The input was below the trigger, the request is below the limit: only the layer before the call is left."""
    sent = answered(model, calls(("read_log", {"shed": 1})), "At nine.", summary=TOLD)
    agent = defended(model, [read_log], summarizer=None)
    found = steps(list(agent.stream({"messages": [RULES, *history(before), QUESTION]}, CONFIG)))
    assert found[:5] == ["token_check", "model", "tools", "token_check", "selective_compaction"]
    (row,) = ledger(agent)
    assert (row.trigger, row.verdict, row.strategy) == ("precheck", "committed", "layered_defence+model")
    assert len(sent) == 2
    assert len(sent[0]) == 42
    assert [message.type for message in sent[1]] == ["system", "human", "human", "ai", "tool"]


def refusal_of_openai() -> Exception:
    """Return the error of a request that OpenAI refuses as too long."""
    body = {"message": "This model's maximum context length is 128000 tokens.", "code": "context_length_exceeded"}
    response = httpx.Response(400, request=httpx.Request("POST", "https://openai.test"), json={"error": body})
    return openai.BadRequestError(body["message"], response=response, body=body)


def refusal_of_anthropic() -> Exception:
    """Return the error of a request that Anthropic refuses as too long."""
    said = "prompt is too long: 210000 tokens > 200000 maximum"
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    response = httpx.Response(400, request=httpx.Request("POST", "https://anthropic.test"), json=body)
    return anthropic.BadRequestError(said, response=response, body=body)


@pytest.mark.requirement("S3.15", "S3.16", "S3.22")
@pytest.mark.parametrize(
    ("real", "refusal"), [(lambda: gpt("gpt-4o"), refusal_of_openai), (claude, refusal_of_anthropic)]
)
def test_a_refusal_of_the_provider_compacts_and_the_turn_goes_on(
    real: Replies, refusal: Callable[[], Exception], answered: Answered
) -> None:
    """Far below every trigger, as after a counter that was wrong; the request is sent again."""
    model = real()
    sent = answered(model, refusal(), "At nine.", summary=TOLD)
    agent = defended(model, summarizer=None)
    agent.invoke({"messages": [RULES, *history(60_000), QUESTION]}, CONFIG)
    (row,) = ledger(agent)
    assert (row.trigger, row.verdict, row.strategy) == ("overflow", "committed", "layered_defence+model")
    assert len(sent) == 2
    cleared(agent, QUESTION.text, "At nine.")


@pytest.mark.requirement("S3.17", "S3.18", "S3.19")
@REAL
def test_system_messages_and_the_summary_are_all_that_is_left(real: Replies, answered: Answered) -> None:
    """In one step of the graph, with the document's own words before the summary."""
    model = real()
    answered(model, "At nine.", summary=TOLD)
    agent = defended(model, summarizer=None)
    given = {"messages": [RULES, MORE_RULES, *history(124_000), QUESTION]}
    updates = [chunk["commit"] for chunk in agent.stream(given, CONFIG) if "commit" in chunk]
    assert len(updates) == 1
    left = values(agent)["messages"]
    assert frozen(left[:2]) == frozen([RULES, MORE_RULES])
    assert ids(left, "said-") == []
    cleared(agent, QUESTION.text, "At nine.")


@pytest.mark.requirement("S3.6", "S3.7", "S3.9")
def test_of_more_than_two_hundred_thousand_characters_the_middle_is_left_out(answered: Answered) -> None:
    """350,000 characters: the first 40,000 and the last 60,000 are shown in one call to the agent's own model."""
    model = gpt("gpt-4o")
    sent = answered(model, "At nine.", summary=TOLD)
    agent = defended(model, summarizer=None)
    talk = history(117_000)
    agent.invoke({"messages": [*talk, QUESTION]}, CONFIG)
    (asked,) = sent.summaries
    head, _, tail = asked[-1].text.partition("characters left out")
    assert 40_000 < len(head) < 40_500
    assert 60_000 < len(tail) < 61_500
    assert (ledger(agent)[0].seen or {})["cut"]


@pytest.mark.requirement("S3.21", "S3.23")
def test_the_new_conversation_is_in_the_database(tmp_path: Path, answered: Answered) -> None:
    """Whoever opens it later goes on from the summary."""
    model = gpt("gpt-4o")
    answered(model, "At nine.", summary=TOLD)
    url = f"sqlite:///{tmp_path / 'defence.db'}"
    for given in ([*history(117_000), QUESTION], [HumanMessage("Thank you.")]):
        with SQLAlchemySaver.from_url(url) as saver:
            saver.setup()
            agent = defended(model, summarizer=None, checkpointer=saver)
            agent.invoke({"messages": given}, CONFIG)
            assert [row.verdict for row in ledger(agent)] == ["committed"]
    with SQLAlchemySaver.from_url(url) as saver:
        agent = defended(model, summarizer=None, checkpointer=saver)
        cleared(agent, QUESTION.text, "At nine.", "Thank you.", "At nine.")


@pytest.fixture(scope="module")
def emptied() -> Story:
    """Lead gpt-4o over nine tenths of its window once."""
    given = {"messages": [RULES, *history(117_000), QUESTION]}
    more = {"messages": "And back?"}
    model = gpt("gpt-4o")
    return story(model, "layered_defence", given, more, replies=["At nine."], summary=TOLD, token_counter=chars(3))


@pytest.mark.requirement("S3.25", "S3.2", "S3.3")
def test_the_agents_own_model_is_asked_for_the_goal_and_the_key_steps(emptied: Story) -> None:
    """In one call, without the system messages."""
    (asked,) = emptied.sent.summaries
    assert "Keep the goal at the core: what the user wants in the end, and the task at hand." in asked[0].text
    assert "Record the key steps: what of importance was done, and what was decided." in asked[0].text
    assert RULES.text not in asked[1].text
    assert [row.strategy for row in ledger(emptied.agent)] == ["layered_defence+model"]


@pytest.mark.requirement("S3.4", "S3.5")
def test_detail_is_to_be_left_out_and_the_next_message_follows_on(emptied: Story) -> None:
    """So the prompt says, and so it is: the next input is answered on the summary."""
    prompt = emptied.sent.summaries[0][0].text
    for phrase in ("blocks of code, long outputs, the same call", "the next message must follow on the record"):
        assert phrase in prompt
    assert [message.text for message in emptied.sent[-1][2:]] == [QUESTION.text, "At nine.", "And back?"]
    assert emptied.sent[-1][1].text.startswith(CLEARED)


@pytest.mark.requirement("S3.8")
def test_what_is_not_over_two_hundred_thousand_characters_is_shown_whole(answered: Answered) -> None:
    """701 messages of 150,000 characters, which fire by their number."""
    model = gpt("gpt-4o")
    sent = answered(model, "At nine.", summary=TOLD)
    agent = defended(model, summarizer=None)
    talk = history(55_000, 701)
    agent.invoke({"messages": [*talk, QUESTION]}, CONFIG)
    (asked,) = sent.summaries
    assert 150_000 < len(asked[-1].text) < 200_000
    assert all(message.text in asked[-1].text for message in talk)
    assert (ledger(agent)[0].trigger, (ledger(agent)[0].seen or {})["cut"]) == ("events", {})


@pytest.mark.requirement("S3.1")
def test_an_agent_of_its_own_writes_a_short_summary_of_hundreds_of_thousands_of_characters(
    answered: Answered,
) -> None:
    """A compiled graph, which is asked once and sees nothing else of the agent."""
    model, shown = gpt("gpt-4o"), list[dict[str, Any]]()

    def write(state: MessagesState) -> dict[str, Any]:
        shown.append(dict(state))
        return {"messages": AIMessage(TOLD)}

    writer = StateGraph(MessagesState).add_node("write", write).add_edge(START, "write").add_edge("write", END)
    sent = answered(model, "At nine.")
    agent = defended(model, summarizer=writer.compile())
    talk = history(117_000)
    assert sum(len(message.text) for message in talk) > 340_000
    agent.invoke({"messages": [*talk, QUESTION]}, CONFIG)
    (asked,) = shown
    assert list(asked) == ["messages"]
    assert len(asked["messages"]) == 2
    assert len(sent) == 1
    assert len(sent[0][0].text) < 250
    cleared(agent, QUESTION.text, "At nine.")


@pytest.mark.requirement("S3.24", "S3.26")
@REAL
def test_in_langchains_agent_it_is_the_same(real: Replies, answered: Answered) -> None:
    """The layer before the call, and the same message."""
    model = real()
    before = 113_000 if isinstance(model, type(gpt("gpt-4o"))) else 120_000
    sent = answered(model, calls(("read_log", {"shed": 1})), "At nine.", summary=TOLD)
    middleware = CompactionMiddleware(
        settings=CompactionSettings(preset="layered_defence", summary_ahead=False), token_counter=chars(3)
    )
    agent = create_agent(model, [read_log], middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke({"messages": [*history(before), QUESTION]}, CONFIG)
    assert [message.type for message in sent[1]] == ["human", "human", "ai", "tool"]
    assert sent[1][0].text.startswith(CLEARED)
