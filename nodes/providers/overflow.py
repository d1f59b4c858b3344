"""Decide whether a model call failed because the request exceeded the context window, and read the sizes it names.

A `ContextOverflowError` of langchain-core counts as an overflow unless its HTTP status contradicts it
(langchain-openai also raises it for a 429 that mentions the context window). Any other error is classified by its
status first and by its text second, because rate limit errors use the words of overflows ("too many tokens"):

* An error with status 400, 413 or 422, or without a status, can be an overflow. An error with status 401, 403,
  404, 408, 429 or 5xx, or of langchain-core's class for such a status, never is.
* A text that names a rate limit or a server failure is not an overflow.
* A 413 with any other text is an overflow: the status means that the request was too large.
* A 400 without a body is an overflow only if it comes from a host that is known to answer an overflow that way.
  From other hosts it can mean anything, and an unneeded compaction would remove messages from the conversation.
* If `max_tokens` alone fills the window, the error is a plain bad request: no compaction would help.
"""

from typing import Final

from langchain_core.exceptions import ContextOverflowError

from .overflow_texts import EMPTY_BODY_HOSTS, TRANSIENT_TEXT, WORDINGS
from .provider_error import DENIALS, causes, exceptions_named, has_body, host_of, status_of, text_of

POSSIBLE: Final = frozenset({None, 400, 413, 422})
"""Statuses that an overflow can have; `None` stands for an error without a status."""

_NEVER: Final = DENIALS + exceptions_named(
    "ModelAPIError", "ModelConnectionError", "ModelNotFoundError", "ModelRateLimitError", "ModelTimeoutError"
)


def is_context_overflow(error: BaseException) -> bool:
    """Whether the provider rejected the request because its input was too large."""
    status = status_of(error)
    chain = list(causes(error))
    if status not in POSSIBLE or any(isinstance(each, _NEVER) for each in chain):
        return False
    if any(isinstance(each, ContextOverflowError) for each in chain):
        return True
    text = text_of(error)
    if TRANSIENT_TEXT.search(text):
        return False
    if (found := _numbers(text)) is not None:
        return found.get("output", 0) < found.get("allowed", float("inf"))
    return status == 413 or (status == 400 and any(map(_is_empty_overflow, chain)))  # noqa: PLR2004 - HTTP statuses


def overflow_sizes(error: BaseException) -> tuple[int | None, int | None]:
    """Return (tokens the server counted, tokens the server allows), each `None` if the error's text does not name it.

    The first number includes the tokens reserved for the answer if the server names them, because the server
    compared the sum of request and answer with its limit.
    """
    found = _numbers(text_of(error)) or {}
    total = found.get("total")
    if total is None and "sent" in found:
        total = found["sent"] + found.get("output", 0)
    return total, found.get("allowed")


def _is_empty_overflow(error: BaseException) -> bool:
    host = host_of(error)
    return not has_body(error) and any(host == known or host.endswith(f".{known}") for known in EMPTY_BODY_HOSTS)


def _numbers(text: str) -> dict[str, int] | None:
    """Return the numbers in an error's text, by the pattern that finds the most of them; `None` if none matches."""
    matches = [match for wording in WORDINGS if (match := wording.search(text))]
    told = [
        {place: int(number.replace(",", "")) for place, number in m.groupdict().items() if number} for m in matches
    ]
    return max(told, key=len, default=None)
