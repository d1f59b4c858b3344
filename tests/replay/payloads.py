"""The payloads that provider packages build from a request, and what the providers would say to them.

Nothing is sent: the models are only asked what they would send.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from langchain_anthropic import ChatAnthropic, convert_to_anthropic_tool
from langchain_core.messages import BaseMessage
from langchain_openai import ChatOpenAI

from tests.replay.anthropic_rules import anthropic_defects
from tests.replay.openai_rules import chat_defects, responses_defects

Payload = dict[str, Any]
Tools = Sequence[Mapping[str, Any]]


@cache
def _openai(*, responses: bool) -> ChatOpenAI:
    return ChatOpenAI(model="gpt-4o", api_key="none", use_responses_api=responses)


@cache
def _anthropic() -> Any:
    return ChatAnthropic(model="claude-sonnet-4-5", api_key="none")


def chat_payload(messages: Sequence[BaseMessage], tools: Tools = ()) -> Payload:
    """Return the payload that `ChatOpenAI` sends to chat completions."""
    return _openai(responses=False)._get_request_payload(list(messages), tools=list(tools))


def responses_payload(messages: Sequence[BaseMessage], tools: Tools = ()) -> Payload:
    """Return the payload that `ChatOpenAI` sends to the Responses API."""
    return _openai(responses=True)._get_request_payload(list(messages), tools=list(tools))


def anthropic_payload(messages: Sequence[BaseMessage], tools: Tools = ()) -> Payload:
    """Return the payload that `ChatAnthropic` sends."""
    given = [convert_to_anthropic_tool(tool) for tool in tools]
    return _anthropic()._get_request_payload(list(messages), tools=given)


PROVIDERS: dict[str, tuple[Callable[..., Payload], Callable[[Payload], list[str]]]] = {
    "chat": (chat_payload, chat_defects),
    "responses": (responses_payload, responses_defects),
    "anthropic": (anthropic_payload, anthropic_defects),
}


def refused(messages: Sequence[BaseMessage], tools: Tools = ()) -> Counter[str]:
    """Count the rules that this request breaks, as `provider: rule`."""
    return Counter(
        f"{name}: {defect.partition(': ')[0]}"
        for name, (build, defects) in PROVIDERS.items()
        for defect in defects(build(messages, tools))
    )
