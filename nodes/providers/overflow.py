"""Whether a model call failed because the request did not fit, and what else a failure is.

langchain-core's `ContextOverflowError` is taken at its word unless its status, or its cause's, says otherwise
(langchain-openai reads a 429 that mentions the context window as one). All else is judged by its status first
and its text second, since the same words ("too many tokens", "request too large") also announce rate limits:

* 400, 413, 422 or no status at all can be an overflow; 401, 403, 404, 408, 429, 5xx and the error classes
  langchain-core has for them never are, whatever they say.
* A text that speaks of a budget over time or of a server in trouble is no overflow.
* 413 is an overflow without further words: the server itself says that a smaller request would do.
* 400 without a body is one only from hosts known to answer so. It can mean anything, and a compaction on
  suspicion would take from the view what need not go.
* Where the answer's room alone (`max_tokens`) fills the window, no compaction helps: a plain bad request.
"""

from typing import Final, Literal

from langchain_core import exceptions
from langchain_core.exceptions import ContextOverflowError

from .overflow_texts import BAD_KEY, PASSING, SILENT_HOSTS, SPENT, WORDINGS
from .provider_error import causes, has_body, host_of, status_of, text_of

ErrorKind = Literal["overflow", "transient", "auth", "quota", "permanent"]
"""What to do about a failed model call: compact; wait and try again; mend the key; pay; give up on this request."""

_POSSIBLE: Final = frozenset({None, 400, 413, 422})
_TRANSIENT: Final = frozenset({408, 409, 429, *range(500, 600)})
_DENIED: Final = frozenset({401, 403})
_UNPAID: Final = 402


def _known(*names: str) -> tuple[type[BaseException], ...]:
    """Return langchain-core's classes of these names; versions before 1.6 lack them, and raise none of them."""
    return tuple(getattr(exceptions, name) for name in names if hasattr(exceptions, name))


_MODEL_ERRORS: Final = _known("ModelError")
_DENIALS: Final = _known("ModelAuthenticationError", "ModelPermissionDeniedError")
_NEVER: Final = _DENIALS + _known(
    "ModelAPIError", "ModelConnectionError", "ModelNotFoundError", "ModelRateLimitError", "ModelTimeoutError"
)
# aiohttp's, botocore's, httpx's and the SDKs' classes, by name: we depend on none of these libraries
_TRANSPORT: Final = frozenset({"APIConnectionError", "ClientConnectionError", "HTTPClientError", "TransportError"})


def is_context_overflow(error: BaseException) -> bool:
    """Tell whether a request with less input would have been accepted."""
    status = status_of(error)
    chain = list(causes(error))
    if status not in _POSSIBLE or any(isinstance(each, _NEVER) for each in chain):
        return False
    if any(isinstance(each, ContextOverflowError) for each in chain):
        return True
    text = text_of(error)
    if PASSING.search(text):
        return False
    if (found := _numbers(text)) is not None:
        return found.get("output", 0) < found.get("allowed", float("inf"))
    return status == 413 or (status == 400 and any(map(_is_silent, chain)))  # noqa: PLR2004 - HTTP statuses


def overflow_sizes(error: BaseException) -> tuple[int | None, int | None]:
    """Return (tokens the server counted, tokens it allows), each None where its text does not tell.

    The first holds the room asked for the answer where the server counts that too, as it does whenever it
    names both: it is the number that was compared with the second.
    """
    found = _numbers(text_of(error)) or {}
    total = found.get("total")
    if total is None and "sent" in found:
        total = found["sent"] + found.get("output", 0)
    return total, found.get("allowed")


def classify(error: BaseException) -> ErrorKind:
    """Sort a failed model call; what is not known to pass by itself is permanent, whatever else is known of it."""
    if is_context_overflow(error):
        return "overflow"
    if _is_transient(error):
        return "transient"
    status, text = status_of(error), text_of(error)
    if status == _UNPAID or SPENT.search(text):
        return "quota"
    denied = status in _DENIED or any(isinstance(each, _DENIALS) for each in causes(error))
    return "auth" if denied or BAD_KEY.search(text) else "permanent"


def _is_transient(error: BaseException) -> bool:
    text = text_of(error)
    status = status_of(error)
    if SPENT.search(text):
        return False
    if status is not None:
        return status in _TRANSIENT or (status in _POSSIBLE and PASSING.search(text) is not None)
    return PASSING.search(text) is not None or any(map(_passes_by_itself, causes(error)))


def _passes_by_itself(error: BaseException) -> bool:
    if isinstance(error, _MODEL_ERRORS):
        return bool(getattr(error, "is_retryable", False))
    named = {each.__name__ for each in type(error).__mro__}
    return isinstance(error, TimeoutError | ConnectionError) or not named.isdisjoint(_TRANSPORT)


def _is_silent(error: BaseException) -> bool:
    host = host_of(error)
    return not has_body(error) and any(host == known or host.endswith(f".{known}") for known in SILENT_HOSTS)


def _numbers(text: str) -> dict[str, int] | None:
    """Return the numbers of the wording that tells most, by place; None where no wording is found."""
    matches = [match for wording in WORDINGS if (match := wording.pattern.search(text))]
    told = [
        {place: int(number.replace(",", "")) for place, number in m.groupdict().items() if number} for m in matches
    ]
    return max(told, key=len, default=None)
