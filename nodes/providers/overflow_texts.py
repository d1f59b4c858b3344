"""What servers say when a request does not fit, as data: the table `overflow.py` reads.

In a wording, ``{allowed}`` is the number of tokens the server accepts and ``{total}`` the number it set
against it. A server that counts the room it was asked to keep for the answer names the two parts apart:
``{sent}`` (input) and ``{output}``, which ``{parts}`` finds in a list of parts. ``{gap}`` holds no digit.

Wordings langchain-openai already turns into `ContextOverflowError` stand here only where other clients
(or a gateway that hides the status) let the bare text through, or for the numbers in them.
"""

import re
from typing import Final, NamedTuple

_PLACES: Final = {
    **{name: rf"(?P<{name}>\d[\d,]*)" for name in ("allowed", "total", "sent", "output")},
    "gap": r"\D{0,120}",
    "parts": r"(?:[^.]*?\b(?P<output>\d+)(?: tokens)? (?:in|for) the (?:completion|output))?",
}


class Wording(NamedTuple):
    """One way of saying that the input is larger than the context."""

    server: str
    """Who says it, for the reader of the table."""
    pattern: re.Pattern[str]


_ROWS: Final = (
    ("llama.cpp", r"exceed_context_size_error"),
    ("llama.cpp", r"n_prompt_tokens: {sent}\s+n_ctx: {allowed}"),
    ("llama.cpp", r"request \({sent} tokens\) exceeds the available context size \({allowed} tokens\)"),
    ("llama.cpp", r"exceeds the available context size"),
    ("llama.cpp", r"input \({sent} tokens\) is larger than the max context size \({allowed} tokens\)"),
    ("llama-cpp-python", r"requested tokens \({sent}\) exceed context window of {allowed}"),
    ("OpenAI", r"context_(?:length|window)_exceeded"),
    ("OpenAI", r"exceeds the context window"),
    ("OpenAI", r"input tokens exceed the configured limit of {allowed} tokens{gap}resulted in {sent}"),
    ("OpenAI", r"maximum context length is {allowed} tokens{gap}resulted in {sent}"),
    (
        "OpenAI, DeepSeek, vLLM",
        r"context length is {allowed} tokens{gap}requested (?:about )?{total} tokens{parts}",
    ),
    ("SGLang", r"context length of {allowed} tokens{gap}requested a total of {total} tokens{parts}"),
    ("LiteLLM", r"ContextWindowExceededError"),
    ("vLLM", r"maximum context length is {allowed} tokens{gap}(?:has|contains)(?: at least)? {sent} input"),
    ("vLLM", r"context length is {allowed} tokens{gap}requested {output} output tokens{gap}{sent} input"),
    ("vLLM", r"is too large: {output}\. {gap}context length is {allowed} tokens(?:{gap}{sent} input)?"),
    (
        "vLLM",
        r"passed {sent} input tokens and requested {output} output{gap}context length is only {allowed}",
    ),
    ("vLLM", r"context length is only {allowed} tokens"),
    ("vLLM", r"prompt \(length {sent}\) is longer than the maximum model length of {allowed}"),
    ("SGLang", r"input \({sent} tokens\) is longer than the model's context length \({allowed} tokens\)"),
    ("any of the OpenAI family", r"maximum context length (?:is|of) {allowed}"),
    (
        "TGI, Together",
        r"inputs\W+tokens \+ \W*max_new_tokens\W+must be <= {allowed}\. Given: {sent}\D+{output}",
    ),
    ("TGI", r"inputs\W+must have less than {allowed} tokens\. Given: {sent}"),
    ("TensorRT-LLM", r"prompt length \({sent}\) exceeds maximum input length \({allowed}\)"),
    ("Ollama", r"prompt too long; exceeded max context length"),
    ("Ollama", r"input length exceeds the context length"),
    ("LM Studio", r"first {sent} tokens when context the overflows{gap}context length of only {allowed}"),
    ("LM Studio", r"greater than the context length(?: \(n_keep: {sent}\s*>=\s*n_ctx: {allowed})?"),
    ("LM Studio", r"reached context length of {allowed} tokens"),
    (
        "Mistral",
        r"prompt contains {sent} tokens.*? too large for model with {allowed} maximum context length",
    ),
    ("Groq, Cerebras", r"reduce the length of the (?:messages|input|prompt)"),
    ("Cerebras", r"current length is {sent} while limit is {allowed}"),
    ("Fireworks", r"prompt is too long: {sent}, model maximum context length: {allowed}"),
    ("Anthropic", r"prompt is too long(?:: {sent} tokens > {allowed} maximum)?"),
    ("Anthropic", r"exceed context limit: {sent} \+ {output} > {allowed}"),
    ("Anthropic", r"request_too_large"),
    ("Bedrock", r"input is too long"),
    ("Bedrock", r"number of input tokens exceeds maximum length"),
    (
        "Gemini",
        r"input token count(?: \({sent}\))? exceeds the maximum number of tokens allowed(?: \(?{allowed})?",
    ),
    ("Vertex AI", r"input token count is {sent} but (?:the )?model only supports up to {allowed}"),
    ("xAI", r"maximum prompt length is {allowed}{gap}contains {sent}"),
    ("GitHub Copilot", r"prompt token count of {sent} exceeds the limit of {allowed}"),
    ("GitHub Models", r"body too large for .*? max size: {allowed} tokens"),
    ("Cohere", r"tokens in the prompt cannot exceed {allowed}{gap}received {sent}"),
    ("Cohere", r"too many tokens: size limit exceeded by"),
    ("watsonx", r"number of input tokens {sent} cannot exceed the total tokens limit {allowed}"),
    ("Moonshot", r"exceeded model token limit(?:: {allowed} \(requested: {sent}\))?"),
    ("MiniMax", r"context window exceeds limit"),
    ("Zhipu", r"prompt exceeds max length"),
    ("DashScope", r"range of input length should be \[\d+, {allowed}\]"),
)

WORDINGS: Final = tuple(Wording(server, re.compile(row.format(**_PLACES), re.IGNORECASE)) for server, row in _ROWS)

PASSING: Final = re.compile(
    r"per[ -](?:second|minute|hour|day)|\b[TR]P[SMD]\b|rate[ _-]?limit|too many requests|throttl|quota"
    r"|resource[ _]?exhausted|overloaded|server_error|service[ _]?unavailable",
    re.IGNORECASE,
)
"""A budget of tokens or requests over time, or a server in trouble: what helps is to wait."""

SPENT: Final = re.compile(
    r"insufficient[ _](?:quota|balance|credit|fund)|more credits|credit balance|can only afford",
    re.IGNORECASE,
)
"""No money is left: neither waiting nor a smaller request helps."""

BAD_KEY: Final = re.compile(r"(?:api|access)[ _]key (?:is )?(?:not valid|invalid|expired)", re.IGNORECASE)
"""The key is wrong, told by a server that has no status of its own for it."""

SILENT_HOSTS: Final = ("cerebras.ai",)
"""Hosts known to answer a request over the window with 400 and an empty body."""
