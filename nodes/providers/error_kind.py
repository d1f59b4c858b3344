"""Sort the errors of failed model calls into kinds, one for each remedy."""

from typing import Final, Literal

from .overflow import POSSIBLE, is_context_overflow
from .overflow_texts import INVALID_KEY, OUT_OF_CREDIT, TRANSIENT_TEXT
from .provider_error import DENIALS, causes, exceptions_named, status_of, text_of

ErrorKind = Literal["overflow", "transient", "auth", "quota", "permanent"]
"""Kinds of failure. Their remedies, in order: compact; retry later; correct the API key; add credit; none."""

_TRANSIENT: Final = frozenset({408, 409, 429, *range(500, 600)})
_DENIED: Final = frozenset({401, 403})
_PAYMENT_REQUIRED: Final = 402
_MODEL_ERRORS: Final = exceptions_named("ModelError")
# compared by name, because aiohttp, botocore, httpx and the providers' SDKs are no dependencies
_TRANSPORT: Final = frozenset({"APIConnectionError", "ClientConnectionError", "HTTPClientError", "TransportError"})


def classify(error: BaseException) -> ErrorKind:
    """Return the kind of a failed model call; an error that matches no other kind is `permanent`."""
    if is_context_overflow(error):
        return "overflow"
    if _is_transient(error):
        return "transient"
    status, text = status_of(error), text_of(error)
    if status == _PAYMENT_REQUIRED or OUT_OF_CREDIT.search(text):
        return "quota"
    denied = status in _DENIED or any(isinstance(each, DENIALS) for each in causes(error))
    return "auth" if denied or INVALID_KEY.search(text) else "permanent"


def _is_transient(error: BaseException) -> bool:
    text = text_of(error)
    status = status_of(error)
    if OUT_OF_CREDIT.search(text):
        return False
    if status is not None:
        return status in _TRANSIENT or (status in POSSIBLE and TRANSIENT_TEXT.search(text) is not None)
    return TRANSIENT_TEXT.search(text) is not None or any(map(_is_retryable, causes(error)))


def _is_retryable(error: BaseException) -> bool:
    if isinstance(error, _MODEL_ERRORS):
        return bool(getattr(error, "is_retryable", False))
    named = {each.__name__ for each in type(error).__mro__}
    return isinstance(error, TimeoutError | ConnectionError) or not named.isdisjoint(_TRANSPORT)
