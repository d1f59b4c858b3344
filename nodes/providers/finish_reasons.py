"""Why a model's reply ended: one table of the reasons that providers report."""

from typing import Literal

from langchain_core.messages import AIMessage

Ending = Literal["ended", "cut", "withheld", "broken_off", "unknown"]

_REASONS: dict[Ending, str] = {
    "ended": "complete completed done end end_turn endoftext eos eos_token finished stop stop_sequence success",
    "cut": "error_limit incomplete length max_output_tokens max_tokens model_context_window_exceeded model_length",
    "withheld": "blocklist content_filter content_filtered error_toxic guardrail_intervened image_prohibited_content"
    " image_recitation image_safety language model_armor prohibited_content recitation refusal safety sensitive spii",
    "broken_off": "abort aborted cancelled error failed insufficient_system_resource malformed_function_call"
    " malformed_response network_error not_finished pause pause_turn repetition time_limit timeout"
    " unexpected_tool_call user_cancel",
}
"""Reasons of OpenAI, Anthropic, Google, Bedrock, Mistral, Cohere, DeepSeek, Z.ai, OpenRouter, Ollama, TGI, watsonx
and vLLM, in small letters."""

_ENDINGS: dict[str, Ending] = {reason: ending for ending, reasons in _REASONS.items() for reason in reasons.split()}

_FIELDS = ("normalized_finish_reason", "finish_reason", "stop_reason", "stopReason", "done_reason", "status")
"""Fields of `response_metadata`, in the order in which they are believed."""


def finish_reason(answer: AIMessage) -> str | None:
    """Return the reason why the model stopped, from whichever field its provider uses; a refusal takes precedence."""
    blocks = answer.content if isinstance(answer.content, list) else []
    refused = any(isinstance(block, dict) and block.get("type") == "refusal" for block in blocks)
    if refused or answer.additional_kwargs.get("refusal"):
        return "refusal"
    found = (answer.response_metadata.get(name) for name in _FIELDS)
    return next((str(reason) for reason in found if reason), None)


def ending_of(reason: str | None) -> Ending:
    """Return what a finish reason means; a provider that reports none is believed to have ended normally."""
    return "ended" if reason is None else _ENDINGS.get(reason.lower(), "unknown")
