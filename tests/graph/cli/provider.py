"""A local server with OpenAI's chat API and Anthropic's Messages API that gives scripted replies."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Event, Thread
from typing import Any

ENDLESS = "endless"
"""A reply that goes on until the client disconnects."""


Reply = str | int | dict[str, str]
"""A text, an HTTP status, or a call: name and arguments (JSON) of a tool."""
Replies = list[Reply] | Callable[[dict[str, Any]], Reply]
"""The replies in order, or a function of the request."""


@dataclass
class Provider:
    """Answers each request with the next reply; the last one is repeated."""

    replies: Replies = field(default_factory=lambda: ["Hello."])
    requests: list[dict[str, Any]] = field(default_factory=list)
    deserted: Event = field(default_factory=Event)
    """Set when the client of an endless reply has disconnected."""
    base_url: str = ""
    counted: int = 20
    """Tokens of a request, as the server reports them."""

    @property
    def env(self) -> dict[str, str]:
        """The environment variables of a command that uses this server."""
        return {"OPENAI_API_KEY": "test", "OPENAI_BASE_URL": self.base_url, "OPENAI_MODEL": "gpt-4o-mini"}

    def reply(self, request: dict[str, Any]) -> Reply:
        """Answer a request."""
        self.requests.append(request)
        if callable(self.replies):
            return self.replies(request)
        return self.replies[min(len(self.requests), len(self.replies)) - 1]


class _Handler(BaseHTTPRequestHandler):
    provider: Provider

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        reply = self.provider.reply(request)
        if isinstance(reply, int):
            return self._refuse(reply)
        if self.path.endswith("/messages"):
            return self._send(200, "application/json", json.dumps(_message(reply, self.provider.counted)).encode())
        if not request.get("stream") and isinstance(reply, str):
            return self._send(200, "application/json", json.dumps(_whole(reply, self.provider.counted)).encode())
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            for delta in _deltas(reply):
                self._event(_chunk(delta))
            self._event(_chunk({}, finish_reason="stop"))
            self._event({**_chunk({}), "choices": [], "usage": _usage(self.provider.counted)})
            self.wfile.write(b"data: [DONE]\n\n")
        except (BrokenPipeError, ConnectionResetError):
            self.provider.deserted.set()
        return None

    def _event(self, data: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())

    def _refuse(self, status: int) -> None:
        error = {"error": {"message": f"no, says the provider ({status})", "type": "scripted"}}
        self._send(status, "application/json", json.dumps(error).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("x-should-retry", "false")  # the client waits for nothing
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _usage(counted: int) -> dict[str, int]:
    return {"prompt_tokens": counted, "completion_tokens": 3, "total_tokens": counted + 3}


def _deltas(reply: str | dict[str, str]) -> Iterator[dict[str, Any]]:
    if isinstance(reply, dict):
        yield {"tool_calls": [{"index": 0, "id": "call-1", "type": "function", "function": reply}]}
    else:
        words = map(str, count()) if reply == ENDLESS else iter(reply.split())
        yield from ({"content": f"{word} "} for word in words)


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish_reason}
    return {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "test", "choices": [choice]}


def _whole(text: str, counted: int) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "test",
        "choices": [choice],
        "usage": _usage(counted),
    }


def _message(reply: str | dict[str, str], counted: int) -> dict[str, Any]:
    """Return a reply as Anthropic's Messages API does, without streaming."""
    content: dict[str, Any] = {"type": "text", "text": reply}
    if isinstance(reply, dict):
        content = {"type": "tool_use", "id": "call-1", "name": reply["name"], "input": json.loads(reply["arguments"])}
    return {
        "id": "x",
        "type": "message",
        "role": "assistant",
        "model": "test",
        "content": [content],
        "stop_reason": "tool_use" if isinstance(reply, dict) else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": counted, "output_tokens": 3},
    }


@contextmanager
def provider(*replies: Reply, answer: Callable[[dict[str, Any]], Reply] | None = None) -> Iterator[Provider]:
    """Serve as long as the block runs: the replies in order, or what `answer` makes of each request."""
    script = Provider(answer or list(replies)) if answer or replies else Provider()
    handler = type("Handler", (_Handler,), {"provider": script})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    script.base_url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
