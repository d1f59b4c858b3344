"""OpenHands event logs: actions of the agent and the user, and the observations that answer them.

Events that never reached the model are left out: state changes, and each `recall` action with its observation, which
were not sent to the model, as the recorded prompt sizes of real runs show.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from .fields import Record, call, calls, content, mapping, schemas, sequence, text, tokens
from .recording import Said

_UNSAID = {
    "recall",
    "null",
    "change_agent_state",
    "agent_state_changed",
    "condensation",
    "condensation_request",
}


def recognizes(value: Any) -> bool:
    """Whether a JSON value is an OpenHands event."""
    return isinstance(value, dict) and "role" not in value and ("action" in value or "observation" in value)


def read(records: Sequence[Record]) -> list[Said]:
    """Read the events in order: one assistant message for each model response, one result for each answered call."""
    log = _Log()
    return [said for where, value in records for said in log.said(mapping(value, where, "an event"), where)]


def tools(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the tool schemas that the system event carries."""
    for where, event in records:
        if isinstance(event, dict) and event.get("action") == "system":
            return schemas(_args(event, where).get("tools"), where)
    return []


class _Made(NamedTuple):
    """The tool call that an event made or answers."""

    call_id: str
    name: str


class _Log:
    """Reads events one after the other, and remembers the call of each action."""

    def __init__(self) -> None:
        self._to_come: dict[str, set[str]] = {}
        self._made: dict[str, _Made] = {}

    def said(self, event: dict[str, Any], where: str) -> list[Said]:
        if {str(event.get("action")), str(event.get("observation"))} & _UNSAID:
            return []
        if "observation" in event:
            return [Said(message) for message in self._observed(event, where)]
        return self._acted(event, where)

    def _acted(self, event: dict[str, Any], where: str) -> list[Said]:
        args = _args(event, where)
        if event.get("action") == "system":
            return [Said(SystemMessage(content(args.get("content"), where)))]
        if event.get("tool_call_metadata"):
            return self._responded(event, where)
        by_user = event.get("source") == "user"
        if event.get("action") == "message":
            body = _with_images(args, where)
            return [Said(HumanMessage(body) if by_user else AIMessage(body))]
        if by_user:
            return [Said(HumanMessage(str(event.get("message") or json.dumps(args, ensure_ascii=False))))]
        made = _Made(f"event-{event.get('id')}", str(event.get("action")))
        return [Said(self._called(event, made, where))]

    def _responded(self, event: dict[str, Any], where: str) -> list[Said]:
        """Return the model's response with all its calls at the first action; return nothing at the others.

        A log has an action for each call of a response, and each of these actions repeats the whole response.
        """
        made, response = _metadata(event, where)
        choices = sequence(response.get("choices"), where, "model_response.choices")
        message = mapping(choices[0], where, "a choice").get("message") if choices else None
        if not message:
            return [Said(self._called(event, made, where))]
        self._made[str(event.get("id"))] = made
        key = str(response.get("id"))
        if made.call_id in self._to_come.get(key, ()):
            self._to_come[key].remove(made.call_id)
            return []
        said = _assistant(mapping(message, where, "a choice's message"), where)
        self._to_come[key] = {str(call["id"]) for call in said.tool_calls} - {made.call_id}
        return [Said(said, tokens(response.get("usage"), ("prompt_tokens", "completion_tokens"), where))]

    def _called(self, event: dict[str, Any], made: _Made, where: str) -> AIMessage:
        """Return a message with the tool call of an action for which no model response was recorded."""
        self._made[str(event.get("id"))] = made
        args = _args(event, where)
        rest = {key: value for key, value in args.items() if key != "thought"}
        one = call({"id": made.call_id, "name": made.name, "args": rest}, where)
        return AIMessage(content(args.get("thought"), where), tool_calls=[one])

    def _observed(self, event: dict[str, Any], where: str) -> list[BaseMessage]:
        body = content(event.get("content"), where)
        made = self._answered(event, where)
        if made is None:
            return [HumanMessage(body, additional_kwargs={"compaction": {"is_meta": True}})] if body else []
        status = "error" if event.get("observation") == "error" else "success"
        return [ToolMessage(body, tool_call_id=made.call_id, name=made.name, status=status)]

    def _answered(self, event: dict[str, Any], where: str) -> _Made | None:
        if event.get("tool_call_metadata"):
            return _metadata(event, where)[0]
        cause = event.get("cause")
        return None if cause is None else self._made.get(str(cause))


def _metadata(event: dict[str, Any], where: str) -> tuple[_Made, dict[str, Any]]:
    """Return the tool call that an event belongs to, and the model's response that made the call."""
    metadata = mapping(event.get("tool_call_metadata"), where, "tool_call_metadata")
    call_id = text(metadata.get("tool_call_id"), where, "tool_call_id in tool_call_metadata")
    name = text(metadata.get("function_name"), where, "function_name in tool_call_metadata")
    return _Made(call_id, name), mapping(metadata.get("model_response") or {}, where, "model_response")


def _assistant(message: dict[str, Any], where: str) -> AIMessage:
    return AIMessage(
        content(message.get("content"), where),
        tool_calls=calls(message.get("tool_calls"), where),
    )


def _args(event: dict[str, Any], where: str) -> dict[str, Any]:
    return mapping(event.get("args") or {}, where, "an action's args")


def _with_images(args: dict[str, Any], where: str) -> str | list[str | dict[Any, Any]]:
    body = content(args.get("content"), where)
    images = sequence(args.get("image_urls"), where, "image_urls")
    if not images or not isinstance(body, str):
        return body
    return [
        {"type": "text", "text": body},
        *({"type": "image_url", "image_url": {"url": url}} for url in images),
    ]
