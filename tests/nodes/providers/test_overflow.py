import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import openai
import pytest
from langchain_core import exceptions as core
from langchain_openai import ChatOpenAI

from langgraph_compaction.checkpoint.patterns import Pattern
from langgraph_compaction.nodes.providers.error_kind import classify
from langgraph_compaction.nodes.providers.overflow import is_context_overflow, overflow_sizes
from langgraph_compaction.nodes.providers.overflow_texts import WORDINGS
from langgraph_compaction.nodes.providers.provider_error import exceptions_named, text_of

ANSWERS = json.loads(Path(__file__).with_name("provider_answers.json").read_text())
OVERFLOWS, OTHERS = ANSWERS["overflow"], ANSWERS["other"]

overflows = pytest.mark.parametrize("answer", OVERFLOWS, ids=lambda answer: answer["server"])
others = pytest.mark.parametrize("answer", OTHERS, ids=lambda answer: answer["what"])


def http_client(answer: dict[str, Any]) -> httpx2.Client:
    """Return a client of a server that gives this answer to everything."""
    body = answer["body"]
    content = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    return httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(answer["status"], text=content)))


def chat(answer: dict[str, Any]) -> ChatOpenAI:
    """Return a model behind that server."""
    url = answer.get("host", "https://example.com/v1")
    return ChatOpenAI(
        model="m",
        base_url=url,
        api_key="none",
        max_retries=0,
        http_client=http_client(answer),
        stream_usage=False,
    )


def sdk_error(answer: dict[str, Any]) -> openai.APIStatusError:
    """Return what the SDK raises on this answer."""
    url = answer.get("host", "https://example.com/v1")
    client = openai.OpenAI(api_key="none", base_url=url, max_retries=0, http_client=http_client(answer))
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model="m", messages=[])
    return caught.value


def langchain_error(answer: dict[str, Any]) -> Exception:
    """Return what langchain-openai raises on this answer."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it is what is judged
        chat(answer).invoke("hello")
    return caught.value


def text_error(answer: dict[str, Any]) -> Exception:
    """Return a plain exception that quotes status and body, as many clients raise it."""
    return RuntimeError(f"Error code: {answer['status']} - {answer['body']}")


@overflows
def test_an_answer_that_says_the_input_does_not_fit_is_an_overflow(answer: dict[str, Any]) -> None:
    """It is seen in the SDK's error and in langchain-openai's, with the sizes that it tells.

    It is seen too in a plain exception with status and body as its text, and in a body of JSON alone.
    """
    for error in (sdk_error(answer), langchain_error(answer)):
        assert is_context_overflow(error)
        assert classify(error) == "overflow"
        assert overflow_sizes(error) == tuple(answer["sizes"])
    if answer["body"]:
        assert is_context_overflow(text_error(answer))
    if isinstance(answer["body"], dict | list):
        assert is_context_overflow(ValueError(str(answer["body"])))


@others
def test_an_answer_that_says_something_else_is_no_overflow(answer: dict[str, Any]) -> None:
    """Rate limits, auth, filters, failures and bad requests are no overflow, whatever words they use."""
    for error in (sdk_error(answer), langchain_error(answer)):
        assert not is_context_overflow(error)
        assert classify(error) == answer["kind"]
    if answer["body"] and "echoes" not in answer["what"]:  # a plain text cannot tell an echo of the request
        assert classify(text_error(answer)) == answer["kind"]


@pytest.mark.parametrize("wording", WORDINGS, ids=lambda wording: wording.source)
def test_every_wording_is_spoken_by_a_server(wording: Pattern) -> None:
    """No row of the table is without an answer it is there for."""
    assert any(wording.search(text_of(sdk_error(answer))) for answer in OVERFLOWS)


OF_A_STATUS = [
    ("ModelRateLimitError", "transient"),
    ("ModelTimeoutError", "transient"),
    ("ModelConnectionError", "transient"),
    ("ModelAPIError", "transient"),
    ("ModelAuthenticationError", "auth"),
    ("ModelPermissionDeniedError", "auth"),
    ("ModelNotFoundError", "permanent"),
    ("ModelInvalidRequestError", "overflow"),
]
"""Classes that langchain-core has since 1.6, and what an error of each is whose text is that of an overflow."""


def test_the_classes_of_langchain_core_are_found() -> None:
    """All of them or, before langchain-core 1.6, none."""
    assert len(exceptions_named(*dict(OF_A_STATUS))) == (len(OF_A_STATUS) if hasattr(core, "ModelError") else 0)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (core.ContextOverflowError("too much"), "overflow"),
        *((error("prompt is too long"), kind) for name, kind in OF_A_STATUS for error in exceptions_named(name)),
        *((error("unknown field"), "permanent") for error in exceptions_named("ModelInvalidRequestError")),
        (TimeoutError(), "transient"),
        (ConnectionResetError(), "transient"),
        (httpx2.ConnectError("refused"), "transient"),
        (openai.APIConnectionError(request=httpx2.Request("POST", "http://x")), "transient"),
        (openai.APITimeoutError(httpx2.Request("POST", "http://x")), "transient"),
        (asyncio.CancelledError(), "permanent"),
        (RuntimeError("something else"), "permanent"),
        (RuntimeError("Error code: 503"), "transient"),
    ],
    ids=repr,
)
def test_errors_without_a_status_are_judged_by_class_and_text(error: BaseException, kind: str) -> None:
    """The classes of langchain-core and of the transports decide before any text does."""
    assert classify(error) == kind


def of_botocore(status: int, code: str, message: str) -> Exception:
    """Return an error that carries its answer as botocore's ClientError does."""
    error: Any = Exception(f"An error occurred ({code}) when calling the Converse operation: {message}")
    error.response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return error


def with_status(name: str, status: int, message: str) -> Exception:
    """Return an error that carries a status under this name, as Ollama's and google-api-core's do."""
    error = Exception(message)
    setattr(error, name, status)
    return error


def http_status_error(status: int, text: str) -> httpx2.HTTPStatusError:
    """Return what `raise_for_status` raises."""
    request = httpx2.Request("POST", "https://example.com")
    response = httpx2.Response(status, text=text, request=request)
    return httpx2.HTTPStatusError(f"Client error '{status}'", request=request, response=response)


def caused(error: Exception, cause: Exception) -> Exception:
    """Return the error as `raise error from cause` would raise it."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (of_botocore(400, "ValidationException", "Input is too long for requested model."), "overflow"),
        (of_botocore(429, "ThrottlingException", "Input is too long for the rate of tokens"), "transient"),
        (of_botocore(400, "ValidationException", "Malformed input request"), "permanent"),
        (
            with_status("code", 400, "The input token count exceeds the maximum number of tokens allowed 8."),
            "overflow",
        ),
        (
            with_status("code", 429, "The input token count exceeds the maximum number of tokens allowed 8."),
            "transient",
        ),
        (with_status("status_code", 400, "the input length exceeds the context length"), "overflow"),
        (with_status("status_code", 500, "the input length exceeds the context length"), "transient"),
        (http_status_error(400, "prompt is too long: 9 tokens > 8 maximum"), "overflow"),
        (http_status_error(502, "prompt is too long: 9 tokens > 8 maximum"), "transient"),
        (caused(RuntimeError("the call failed"), core.ContextOverflowError("x")), "overflow"),
        (caused(RuntimeError("the call failed"), TimeoutError()), "transient"),
        (caused(core.ContextOverflowError("x"), RuntimeError("Error code: 429")), "transient"),
    ],
    ids=repr,
)
def test_every_client_carries_its_answer_in_its_own_way(error: Exception, kind: str) -> None:
    """Status and text are found in mappings, codes, responses and causes."""
    assert classify(error) == kind


@pytest.mark.parametrize(("code", "kind"), [(400, "overflow"), (429, "transient"), (500, "transient")])
def test_an_error_inside_a_successful_answer_is_understood(code: int, kind: str) -> None:
    """It has no HTTP status, only the one in its body: as the answer of a gateway, or as an event of a stream."""
    body = {"error": {"message": "This model's maximum context length is 8 tokens.", "code": code}}
    assert classify(langchain_error({"status": 200, "body": body})) == kind
    model = chat({"status": 200, "body": f"data: {json.dumps(body)}\n\n"})
    with pytest.raises(openai.APIError) as caught:
        list(model.stream("hello"))
    assert classify(caught.value) == kind


def test_a_chain_of_causes_that_closes_on_itself_ends() -> None:
    """Judging an error always ends."""
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert classify(first) == "permanent"


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("cerebras.ai", "overflow"),
        ("api.cerebras.ai", "overflow"),
        ("notcerebras.ai", "permanent"),
        ("cerebras.ai.example.com", "permanent"),
        ("", "permanent"),
    ],
)
def test_an_answer_without_a_body_is_judged_by_its_host(host: str, kind: str) -> None:
    """The text that the client made itself does not count as a body."""
    error: Any = with_status("status_code", 400, "Bad Request")
    error.request = SimpleNamespace(url=SimpleNamespace(host=host))
    assert classify(error) == kind
