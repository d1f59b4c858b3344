"""Classify the error of a failed model call, above all whether the request exceeded the context window.

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

from typing import Final, Literal

from langchain_core import exceptions
from langchain_core.exceptions import ContextOverflowError

from .overflow_texts import EMPTY_BODY_HOSTS, INVALID_KEY, OUT_OF_CREDIT, TRANSIENT_TEXT, WORDINGS
from .provider_error import causes, has_body, host_of, status_of, text_of

ErrorKind = Literal["overflow", "transient", "auth", "quota", "permanent"]
"""Kinds of failure. Their remedies, in order: compact; retry later; correct the API key; add credit; none."""

_POSSIBLE: Final = frozenset({None, 400, 413, 422})
_TRANSIENT: Final = frozenset({408, 409, 429, *range(500, 600)})
_DENIED: Final = frozenset({401, 403})
_PAYMENT_REQUIRED: Final = 402


def _known(*names: str) -> tuple[type[BaseException], ...]:
    """Return langchain-core's exception classes with these names; versions before 1.6 do not have the classes."""
    return tuple(getattr(exceptions, name) for name in names if hasattr(exceptions, name))


_MODEL_ERRORS: Final = _known("ModelError")
_DENIALS: Final = _known("ModelAuthenticationError", "ModelPermissionDeniedError")
_NEVER: Final = _DENIALS + _known(
    "ModelAPIError", "ModelConnectionError", "ModelNotFoundError", "ModelRateLimitError", "ModelTimeoutError"
)
# compared by name, because aiohttp, botocore, httpx and the providers' SDKs are no dependencies
_TRANSPORT: Final = frozenset({"APIConnectionError", "ClientConnectionError", "HTTPClientError", "TransportError"})


def is_context_overflow(error: BaseException) -> bool:
    """Whether the provider rejected the request because its input was too large."""
    status = status_of(error)
    chain = list(causes(error))
    if status not in _POSSIBLE or any(isinstance(each, _NEVER) for each in chain):
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


def classify(error: BaseException) -> ErrorKind:
    """Return the kind of a failed model call; an error that matches no other kind is `permanent`."""
    if is_context_overflow(error):
        return "overflow"
    if _is_transient(error):
        return "transient"
    status, text = status_of(error), text_of(error)
    if status == _PAYMENT_REQUIRED or OUT_OF_CREDIT.search(text):
        return "quota"
    denied = status in _DENIED or any(isinstance(each, _DENIALS) for each in causes(error))
    return "auth" if denied or INVALID_KEY.search(text) else "permanent"


def _is_transient(error: BaseException) -> bool:
    text = text_of(error)
    status = status_of(error)
    if OUT_OF_CREDIT.search(text):
        return False
    if status is not None:
        return status in _TRANSIENT or (status in _POSSIBLE and TRANSIENT_TEXT.search(text) is not None)
    return TRANSIENT_TEXT.search(text) is not None or any(map(_is_retryable, causes(error)))


def _is_retryable(error: BaseException) -> bool:
    if isinstance(error, _MODEL_ERRORS):
        return bool(getattr(error, "is_retryable", False))
    named = {each.__name__ for each in type(error).__mro__}
    return isinstance(error, TimeoutError | ConnectionError) or not named.isdisjoint(_TRANSPORT)


def _is_empty_overflow(error: BaseException) -> bool:
    host = host_of(error)
    return not has_body(error) and any(host == known or host.endswith(f".{known}") for known in EMPTY_BODY_HOSTS)


def _numbers(text: str) -> dict[str, int] | None:
    """Return the numbers in an error's text, by the pattern that finds the most of them; `None` if none matches."""
    matches = [match for wording in WORDINGS if (match := wording.pattern.search(text))]
    told = [
        {place: int(number.replace(",", "")) for place, number in m.groupdict().items() if number} for m in matches
    ]
    return max(told, key=len, default=None)
