"""Read the HTTP status, the provider's text and the host from an exception of any provider's client.

Clients share no base class, so the exception's attributes are read: those of OpenAI, Anthropic and similar SDKs
(`status_code`, `body`), httpx and requests (`response`), Google (`code`), botocore (`response` as a mapping), and
errors inside a stream or a 200 answer (a mapping as `body` or as first argument), else the exception's text.
An exception raised `from` another is read together with its causes.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from langchain_core import exceptions

from langgraph_compaction.checkpoint.patterns import IGNORE_CASE, Pattern

_DEEPEST: Final = 8
_LONGEST: Final = 2_000
_STATUSES: Final = range(400, 600)
_STATUS_IN_TEXT: Final = Pattern(
    r"\b(?:error code|status(?: code)?|HTTP(?:/\d(?:\.\d)?)?)\W{1,3}([45]\d\d)\b", IGNORE_CASE
)
_MESSAGE_FIELDS: Final = frozenset(
    {
        "code",
        "detail",
        "error",
        "error_type",
        "message",
        "metadata",
        "msg",
        "n_ctx",
        "n_prompt_tokens",
        "raw",
        "type",
    }
)


def exceptions_named(*names: str) -> tuple[type[BaseException], ...]:
    """Return langchain-core's exception classes with these names; versions before 1.6 do not have the classes."""
    return tuple(getattr(exceptions, name) for name in names if hasattr(exceptions, name))


DENIALS: Final = exceptions_named("ModelAuthenticationError", "ModelPermissionDeniedError")
"""langchain-core's classes for a key that is wrong, or that may not use the model."""


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and the exceptions it was raised `from`, outermost first, at most eight."""
    current: BaseException | None = error
    for _ in range(_DEEPEST):
        if current is None:
            return
        yield current
        current = current.__cause__


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status (400-599) of the outermost error that has one in an attribute, its body or its text."""
    for each in causes(error):
        for value in _status_values(each):
            if (status := _as_status(value)) is not None:
                return status
        if found := _STATUS_IN_TEXT.search(_own_text(each)):
            return int(found[1])
    return None


def text_of(error: BaseException) -> str:
    """Return the provider's own text from the error and its causes, one line for each field.

    Only message fields of a structured body are read, because some servers echo the request in their answer and
    the conversation must not be mistaken for the error's text.
    """
    return "\n".join(text for each in causes(error) if (text := _own_text(each)))


def host_of(error: BaseException) -> str:
    """Return the host that the request was sent to, or an empty string if the host is not known."""
    try:
        url = getattr(getattr(error, "request", None), "url", None)
    except RuntimeError:  # httpx raises this if the error has no request
        return ""
    return str(getattr(url, "host", ""))


def has_body(error: BaseException) -> bool:
    """Whether the server's answer had a body that is not empty."""
    return bool(_body(error))


def _own_text(error: BaseException) -> str:
    return "\n".join(_lines(_body(error))) or str(error)[:_LONGEST]


def _body(error: BaseException) -> object:
    """Return the body of the server's answer: a mapping or list if it was JSON, else text; `None` without a body."""
    body = getattr(error, "body", None)
    if body is not None:
        return body
    response = getattr(error, "response", None)
    if getattr(response, "is_stream_consumed", False):
        try:
            return str(getattr(response, "text", ""))
        except RuntimeError:  # httpx: the stream was consumed and its content was not stored
            return None
    first = error.args[0] if error.args else None
    return first if isinstance(first, Mapping) else None


def _lines(body: object) -> Iterator[str]:
    if isinstance(body, str):
        yield body[:_LONGEST]
    elif isinstance(body, Mapping):
        for key, value in body.items():
            if str(key).lower() in _MESSAGE_FIELDS:
                nested = isinstance(value, Mapping | list)
                yield from _lines(value) if nested else (f"{key}: {value}"[:_LONGEST],)
    elif isinstance(body, list):
        for item in body:
            yield from _lines(item)


def _status_values(error: BaseException) -> Iterable[object]:
    response = getattr(error, "response", None)
    yield getattr(error, "status_code", None)
    yield getattr(response, "status_code", None)
    yield _at(response, "ResponseMetadata", "HTTPStatusCode")
    yield getattr(error, "code", None)
    yield _at(_body(error), "code")


def _at(value: object, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _as_status(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    return int(value) if isinstance(value, int) and value in _STATUSES else None
