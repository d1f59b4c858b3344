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
    """An overflow is seen in the SDK's error and in langchain-openai's, classified there or not."""
    for error in (sdk_error(answer), langchain_error(answer)):
        assert is_context_overflow(error)
        assert classify(error) == "overflow"


@overflows
def test_the_sizes_are_read_where_the_answer_tells_them(answer: dict[str, Any]) -> None:
    """What the server counted and what it allows come from its text, None where it keeps silent."""
    assert overflow_sizes(sdk_error(answer)) == tuple(answer["sizes"])
    assert overflow_sizes(langchain_error(answer)) == tuple(answer["sizes"])


@pytest.mark.parametrize("answer", [each for each in OVERFLOWS if each["body"]], ids=lambda answer: answer["server"])
def test_the_text_alone_is_enough(answer: dict[str, Any]) -> None:
    """A client that raises a plain exception with status and body as its text is understood too."""
    assert is_context_overflow(text_error(answer))


@pytest.mark.parametrize(
    "answer",
    [each for each in OVERFLOWS if isinstance(each["body"], dict | list)],
    ids=lambda answer: answer["server"],
)
def test_the_body_alone_is_enough(answer: dict[str, Any]) -> None:
    """A body that a server wrote as JSON says enough without a status."""
    assert is_context_overflow(ValueError(str(answer["body"])))


@others
def test_an_answer_that_says_something_else_is_no_overflow(answer: dict[str, Any]) -> None:
    """Rate limits, auth, filters, failures and bad requests are no overflow, whatever words they use."""
    for error in (sdk_error(answer), langchain_error(answer)):
        assert not is_context_overflow(error)
        assert classify(error) == answer["kind"]


@pytest.mark.parametrize(
    "answer",
    # plain text cannot tell the server's words from its echo of the request
    [each for each in OTHERS if each["body"] and "echoes" not in each["what"]],
    ids=lambda answer: answer["what"],
)
def test_the_text_alone_does_not_deceive(answer: dict[str, Any]) -> None:
    """A plain exception whose text carries status and body is judged as the real one is."""
    assert classify(text_error(answer)) == answer["kind"]


@pytest.mark.parametrize("wording", WORDINGS, ids=lambda wording: f"{wording.server}: {wording.pattern.source}"[:60])
def test_every_wording_is_spoken_by_a_server(wording: Any) -> None:
    """No row of the table is without an answer it is there for."""
    assert any(wording.pattern.search(text_of(sdk_error(answer))) for answer in OVERFLOWS)


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


class BotocoreLikeError(Exception):
    """Carries its answer as botocore's ClientError does."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"An error occurred ({code}) when calling the Converse operation: {message}")
        self.response = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


class OllamaLikeError(Exception):
    """Carries nothing but a status and a text, as Ollama's ResponseError does."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status_code = status


class GoogleLikeError(Exception):
    """Carries its status as google-api-core's errors do."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code} {message}")
        self.code = code


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
        (BotocoreLikeError(400, "ValidationException", "Input is too long for requested model."), "overflow"),
        (
            BotocoreLikeError(429, "ThrottlingException", "Input is too long for the rate of tokens"),
            "transient",
        ),
        (BotocoreLikeError(500, "InternalFailure", "Input is too long"), "transient"),
        (BotocoreLikeError(400, "ValidationException", "Malformed input request"), "permanent"),
        (
            GoogleLikeError(400, "The input token count exceeds the maximum number of tokens allowed 8."),
            "overflow",
        ),
        (
            GoogleLikeError(429, "The input token count exceeds the maximum number of tokens allowed 8."),
            "transient",
        ),
        (OllamaLikeError(400, "the input length exceeds the context length"), "overflow"),
        (OllamaLikeError(500, "the input length exceeds the context length"), "transient"),
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


@pytest.mark.parametrize(("code", "kind"), [(400, "overflow"), (429, "transient")])
def test_an_error_inside_a_successful_answer_is_understood(code: int, kind: str) -> None:
    """A gateway that answers 200 with an error as body is judged by the status it names there."""
    body = {"error": {"message": "This model's maximum context length is 8 tokens.", "code": code}}
    assert classify(langchain_error({"status": 200, "body": body})) == kind


@pytest.mark.parametrize(("code", "kind"), [(400, "overflow"), (500, "transient")])
def test_an_error_inside_a_stream_is_understood(code: int, kind: str) -> None:
    """An error that comes as an event of a stream has no HTTP status, only the one in its body."""
    event = {"error": {"message": "the request exceeds the available context size", "code": code}}
    model = chat({"status": 200, "body": f"data: {json.dumps(event)}\n\n"})
    with pytest.raises(openai.APIError) as caught:
        list(model.stream("hello"))
    assert classify(caught.value) == kind


def test_a_chain_of_causes_that_closes_on_itself_ends() -> None:
    """Judging an error always ends."""
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert classify(first) == "permanent"


class BodilessError(Exception):
    """An error with the status and the host of an answer that has no body; its text is the client's own."""

    def __init__(self, host: str) -> None:
        super().__init__("Bad Request")
        self.status_code, self.request = 400, SimpleNamespace(url=SimpleNamespace(host=host))


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
    assert classify(BodilessError(host)) == kind
