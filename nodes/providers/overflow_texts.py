"""Patterns of the error messages that servers send when a request exceeds the context window, for `overflow.py`.

In a pattern, ``{allowed}`` is the server's token limit and ``{total}`` the request's size that the server compared
with the limit. Servers that include the requested answer in the size also name its two parts: ``{sent}`` (input)
and ``{output}``, which ``{parts}`` finds in an enumeration. ``{gap}`` is up to 120 characters without a digit.

Messages that langchain-openai already turns into `ContextOverflowError` are listed only because other clients or a
gateway pass them on unchanged, or because they contain sizes.
"""

from typing import Final

from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, Pattern

_PLACES: Final = {
    **{name: rf"(?P<{name}>\d(?:,?\d){{0,15}}+)" for name in ("allowed", "total", "sent", "output")},
    "gap": r"\D{0,120}",
    "parts": r"(?:[^.]{0,120}?\b(?P<output>\d{1,9}+)(?: tokens)? (?:in|for) the (?:completion|output))?",
}


_ROWS: Final = (
    ("llama.cpp", r"exceed_context_size_error"),
    ("llama.cpp", r"n_prompt_tokens: {sent}\s{{1,9}}n_ctx: {allowed}"),
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
        r"inputs\W{{1,9}}tokens \+ \W{{0,9}}max_new_tokens\W{{1,9}}must be <= {allowed}\. Given: {sent}{gap}{output}",
    ),
    ("TGI", r"inputs\W{{1,9}}must have less than {allowed} tokens\. Given: {sent}"),
    ("TensorRT-LLM", r"prompt length \({sent}\) exceeds maximum input length \({allowed}\)"),
    ("Ollama", r"prompt too long; exceeded max context length"),
    ("Ollama", r"input length exceeds the context length"),
    ("LM Studio", r"first {sent} tokens when context the overflows{gap}context length of only {allowed}"),
    ("LM Studio", r"greater than the context length(?: \(n_keep: {sent}\s{{0,9}}>=\s{{0,9}}n_ctx: {allowed})?"),
    ("LM Studio", r"reached context length of {allowed} tokens"),
    (
        "Mistral",
        r"prompt contains {sent} tokens.{{0,200}}? too large for model with {allowed} maximum context length",
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
    ("GitHub Models", r"body too large for .{{0,200}}? max size: {allowed} tokens"),
    ("Cohere", r"tokens in the prompt cannot exceed {allowed}{gap}received {sent}"),
    ("Cohere", r"too many tokens: size limit exceeded by"),
    ("watsonx", r"number of input tokens {sent} cannot exceed the total tokens limit {allowed}"),
    ("Moonshot", r"exceeded model token limit(?:: {allowed} \(requested: {sent}\))?"),
    ("MiniMax", r"context window exceeds limit"),
    ("Zhipu", r"prompt exceeds max length"),
    ("DashScope", r"range of input length should be \[\d{{1,9}}, {allowed}\]"),
)

WORDINGS: Final = tuple(Pattern(row.format(**_PLACES), IGNORE_CASE) for _, row in _ROWS)

TRANSIENT_TEXT: Final = Pattern(
    r"per[ -](?:second|minute|hour|day)|\b[TR]P[SMD]\b|rate[ _-]?limit|too many requests|throttl|quota"
    r"|resource[ _]?exhausted|overloaded|server_error|service[ _]?unavailable",
    IGNORE_CASE,
)
"""Texts of errors from a rate limit or a server failure; a retry after a pause helps."""

OUT_OF_CREDIT: Final = Pattern(
    r"insufficient[ _](?:quota|balance|credit|fund)|more credits|credit balance|can only afford",
    IGNORE_CASE,
)
"""Texts of errors from an account without credit; neither a retry nor a smaller request helps."""

INVALID_KEY: Final = Pattern(r"(?:api|access)[ _]key (?:is )?(?:not valid|invalid|expired)", IGNORE_CASE)
"""Texts by which servers report an invalid API key without status 401 or 403."""

EMPTY_BODY_HOSTS: Final = ("cerebras.ai",)
"""Hosts that answer a request larger than the context window with status 400 and an empty body."""
