"""A local server with the APIs of Anthropic and OpenAI that refuses what they refuse, for their real clients.

It plays an agent's model: each turn looks some things up, one call after another, and ends with an answer. A request
without tools asks for a summary. What it has said is compared with what it is sent again.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from typing import Any

from tests.replay.anthropic_rules import anthropic_defects, signature
from tests.replay.openai_rules import chat_defects, responses_defects

Block = dict[str, Any]
NAMED = re.compile(r"\b(?:MSKU|SEAL)\d+\b")
CHECKS_HISTORY = {"claude-opus-5-5"}
CITED = {"type": "web_search_result_location", "url": "https://a/b", "title": "t", "encrypted_index": "i"}
FOUND = {"type": "web_search_result", "url": "https://a/b", "title": "t", "encrypted_content": "c", "page_age": None}

RATES = {
    "claude-opus-5-5": (4.0, 0.2, 5.0, 8.0, 20.0),
    "claude-sonnet-4-6": (3.0, 0.3, 3.75, 6.0, 15.0),
    "gpt-5.2": (1.75, 0.175, 0.0, 0.0, 14.0),
}
"""Dollars for a million tokens: new, read from the cache, written to it for five minutes or an hour, answered."""
SAID, REASONED = 20, 7
"""Tokens of an answer, and of the reasoning in it."""


class StrictServer:
    """Answers requests of one conversation, and keeps what it refused and what it was sent again."""

    def __init__(self, steps: int, *, thinks: str = "", cites: bool = False, compacts: int = 0) -> None:
        self.steps, self.thinks, self.cites, self.compacts = steps, thinks, cites, compacts
        self.requests: list[dict[str, Any]] = []
        """The requests of the agent, without those for summaries."""
        self.refused: list[str] = []
        self.sent, self.could = Counter[str](), Counter[str]()
        """By kind of block, how many were sent again, and how many were said by the answers that were sent again."""
        self.largest = 0
        """Tokens of the largest request to the Responses API, with the stored conversation that it goes on with."""
        self.unread = 0
        """Number of messages and items that were sent before the provider's own newest compaction."""
        self.compactions = 0
        self.base_url = ""
        self.dollars: list[tuple[bool, float]] = []
        """What each answer costs, and whether it is one of the agent."""
        self._prefixes: set[str] = set()
        self._step, self._number = 0, count(1)
        self._said: dict[str, Counter[str]] = {}
        self._stored: dict[str, list[Block]] = {}

    def share(self, kind: str) -> float:
        """Return the share of these blocks that are still sent with the answers that are sent."""
        return self.sent[kind] / self.could[kind]

    def answer(self, path: str, payload: dict[str, Any]) -> tuple[int, str]:
        """Return status and body of the answer to a request."""
        judge, respond = self._api(path)
        if defects := judge(payload):
            self.refused += defects
            return 400, json.dumps(
                {"type": "error", "error": {"type": "invalid_request_error", "message": defects[0]}}
            )
        return 200, respond(payload)

    def _bill(self, payload: dict[str, Any], given: list[Block], size: int) -> tuple[int, int, int]:
        """Bill a request of so many tokens; return how many are read from the cache, and written for both times."""
        read, prefix = 0, payload["model"]
        for item in given:
            prefix += json.dumps(item)
            read = len(prefix) // 5 if prefix in self._prefixes else read
            self._prefixes.add(prefix)
        read = min(read, size)
        brief, long = ((size - read) // 2, (size - read) // 3) if payload["model"].startswith("claude") else (0, 0)
        counts = (size - read - brief - long, read, brief, long, SAID)
        cost = sum(rate * count for rate, count in zip(RATES[payload["model"]], counts, strict=True)) / 1e6
        self.dollars.append((bool(payload.get("tools")), cost))
        return read, brief, long

    def _api(self, path: str) -> tuple[Callable[[Any], list[str]], Callable[[Any], str]]:
        if path.endswith("/messages"):
            return anthropic_defects, self._anthropic
        if path.endswith("/responses"):
            return self._responses_defects, self._responses
        return chat_defects, self._chat

    def _next(self, payload: dict[str, Any]) -> tuple[str, list[Block]]:
        """Return the text and the calls (id, name, input) of the next answer."""
        text = json.dumps(payload)
        newest = json.dumps((payload.get("messages") or payload["input"])[-1])
        if not payload.get("tools") or "<conversation>" in newest:
            named = ", ".join(dict.fromkeys(NAMED.findall(text)))
            return f"<summary>The user wants containers looked up. Looked up so far: {named}.</summary>", []
        self.requests.append(payload)
        self._step += 1
        if self._step % self.steps == 0:
            return f"Turn {self._step // self.steps} is done: MSKU{4000 + self._step}.", []
        number, wanted = next(self._number), {"container": f"MSKU{4000 + self._step}"}
        return "", [{"id": f"call_{number:04}", "name": "lookup", "input": wanted}]

    def _anthropic(self, payload: dict[str, Any]) -> str:
        self._compare(payload)
        self.unread += max(
            (at for at, one in enumerate(payload["messages"]) if "compaction" in _types(one)), default=0
        )
        text, asked = self._next(payload)
        said: list[Block] = []
        if self._is_compacted(payload, asked or payload.get("tools")):
            said.append({"type": "compaction", "content": f"Looked up: {NAMED.findall(json.dumps(payload))}."})
        starts = self._step % self.steps == 1
        binds = payload["model"] in CHECKS_HISTORY
        thinks = bool(payload.get("tools")) and (binds or bool(payload.get("thinking")))
        if thinks and (self.thinks == "each" or (self.thinks and starts)):
            thought = {"type": "thinking", "thinking": f"Step {self._step}."}
            said.append({**thought, "signature": signature(payload, said) if binds else "free"})
        if text and payload.get("tools") and self.cites:
            search = {"type": "server_tool_use", "id": f"srvtoolu_{self._step}", "name": "web_search", "input": {}}
            found = {"type": "web_search_tool_result", "tool_use_id": search["id"], "content": [FOUND]}
            said += [search, found, {"type": "text", "text": text, "citations": [{**CITED, "cited_text": "t"}]}]
        elif text:
            said.append({"type": "text", "text": text})
        said += [{"type": "tool_use", **call} for call in asked]
        self._said[_name(said)] = _kinds(said)
        size = len(json.dumps(payload)) // 5
        read, brief, long = self._bill(payload, payload["messages"], size)
        message = {
            "id": f"msg_{self._step}",
            "type": "message",
            "role": "assistant",
            "model": payload["model"],
            "stop_reason": "tool_use" if asked else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": size - read - brief - long,
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": brief + long,
                "cache_creation": {"ephemeral_5m_input_tokens": brief, "ephemeral_1h_input_tokens": long},
                "output_tokens": SAID,
            },
        }
        if not payload.get("stream"):
            return json.dumps({**message, "content": said})
        events = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
        for place, block in enumerate(said):
            begun, deltas = _streamed(block)
            events.append({"type": "content_block_start", "index": place, "content_block": begun})
            events += [{"type": "content_block_delta", "index": place, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": place})
        ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        events += [{"type": "message_delta", "delta": ended, "usage": message["usage"]}, {"type": "message_stop"}]
        return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)

    def _is_compacted(self, payload: dict[str, Any], by_agent: Any) -> bool:
        """Whether the provider compacts what it has read before this answer of the agent's."""
        due = bool(self.compacts and by_agent) and len(json.dumps(payload)) // 5 > self.compacts
        self.compactions += due
        return due

    def _compare(self, payload: dict[str, Any]) -> None:
        """Count what answers said, and what of it is sent again with them."""
        for message in payload["messages"]:
            blocks = message["content"] if isinstance(message["content"], list) else []
            if message["role"] == "assistant" and (said := self._said.get(_name(blocks))):
                self.could += said
                self.sent += _kinds(blocks)
            if message["role"] == "user" and any("Look at this" in block.get("text", "") for block in blocks):
                self.could["image"] += 1
                self.sent["image"] += any(block["type"] == "image" for block in blocks)

    def _responses_defects(self, payload: dict[str, Any]) -> list[str]:
        previous = payload.get("previous_response_id")
        if previous and previous not in self._stored:
            return ["unknown response: the request"]
        return responses_defects({**payload, "input": [*self._stored.get(str(previous), ()), *payload["input"]]})

    def _responses(self, payload: dict[str, Any]) -> str:
        text, asked = self._next(payload)
        given = [*self._stored.get(str(payload.get("previous_response_id")), ()), *payload["input"]]
        number = next(self._number)
        compacted = [at for at, one in enumerate(payload["input"]) if one["type"] == "compaction"]
        self.unread += sum(one.get("role") != "system" for one in payload["input"][: max(compacted, default=0)])
        said: list[Block] = [{"type": "reasoning", "id": f"rs_{number}", "summary": []}] if self.thinks else []
        if self._is_compacted(payload, asked or payload.get("tools")):
            said.insert(0, {"type": "compaction", "id": f"cmp_{number}", "encrypted_content": "gAAAA" * 100})
        if text:
            part = {"type": "output_text", "text": text, "annotations": []}
            said.append({"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [part]})
        for call in asked:
            arguments = {"call_id": call["id"], "name": call["name"], "arguments": json.dumps(call["input"])}
            said.append({"type": "function_call", "id": f"fc_{number}", **arguments})
        self._stored[f"resp_{number}"] = [*given, *said]
        kept = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": payload["model"]}
        fixed = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "metadata": {}}
        size = len(json.dumps(given)) // 5
        self.largest = max(self.largest, size)
        used = {"input_tokens": size, "output_tokens": SAID, "total_tokens": size + SAID}
        used["input_tokens_details"] = {"cached_tokens": self._bill(payload, given, size)[0]}
        used["output_tokens_details"] = {"reasoning_tokens": REASONED}
        whole = {**kept, **fixed, "status": "completed", "output": said, "usage": used}
        if not payload.get("stream"):
            return json.dumps(whole)
        events: list[Block] = [{"type": "response.created", "response": {**whole, "output": [], "usage": None}}]
        for place, item in enumerate(said):
            events.append({"type": "response.output_item.added", "output_index": place, "item": _begun(item)})
            at = {"item_id": item["id"], "output_index": place}
            if item["type"] == "message":
                delta = {"content_index": 0, "delta": text, "logprobs": []}
                events.append({"type": "response.output_text.delta", **at, **delta})
            if item["type"] == "function_call":
                events.append({"type": "response.function_call_arguments.delta", **at, "delta": item["arguments"]})
            events.append({"type": "response.output_item.done", "output_index": place, "item": item})
        events.append({"type": "response.completed", "response": whole})
        numbered = ({**event, "sequence_number": n} for n, event in enumerate(events))
        return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered)

    def _chat(self, payload: dict[str, Any]) -> str:
        text, asked = self._next(payload)
        calls = [
            {
                "index": n,
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["input"])},
            }
            for n, call in enumerate(asked)
        ]
        message: Block = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
        size = len(json.dumps(payload)) // 5
        used = {"prompt_tokens": size, "completion_tokens": SAID, "total_tokens": size + SAID}
        used["prompt_tokens_details"] = {"cached_tokens": self._bill(payload, payload["messages"], size)[0]}
        base = {"id": f"chatcmpl-{self._step}", "created": 1, "model": payload["model"]}
        end = "tool_calls" if calls else "stop"
        if not payload.get("stream"):
            return json.dumps(
                {**base, "choices": [{"index": 0, "message": message, "finish_reason": end}], "usage": used}
            )
        chunks = [
            {**base, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": end}]},
            {**base, "choices": [], "usage": used},
        ]
        return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def _name(blocks: list[Block]) -> str:
    """Return what tells an answer from others: the id of its first call, or its text."""
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return (calls or [block["text"] for block in blocks if block["type"] == "text"] or [""])[0]


def _types(message: Block) -> set[str]:
    blocks = message["content"] if isinstance(message["content"], list) else []
    return {block["type"] for block in blocks}


def _kinds(blocks: list[Block]) -> Counter[str]:
    kinds = Counter(block["type"] for block in blocks)
    return kinds + Counter(citations=sum(bool(block.get("citations")) for block in blocks))


def _streamed(block: Block) -> tuple[Block, list[Block]]:
    """Return the beginning of a block of Anthropic's, and its deltas."""
    match block["type"]:
        case "thinking":
            begun = {**block, "thinking": "", "signature": ""}
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return begun, [{"type": "thinking_delta", "thinking": block["thinking"]}, signed]
        case "text":
            cited = [{"type": "citations_delta", "citation": one} for one in block.get("citations", ())]
            begun = {"type": "text", "text": "", **({"citations": []} if cited else {})}
            return begun, [*cited, {"type": "text_delta", "text": block["text"]}]
        case "compaction":
            return {**block, "content": None}, [{"type": "compaction_delta", "content": block["content"]}]
        case "tool_use" | "server_tool_use":
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        case _:
            return block, []


def _begun(item: Block) -> Block:
    empty = {"message": {"content": []}, "function_call": {"arguments": ""}}
    return {**item, **empty.get(item["type"], {})}


@contextmanager
def strict_server(steps: int, **options: Any) -> Generator[StrictServer]:
    """Serve as long as the block runs."""
    strict = StrictServer(steps, **options)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            payload = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, body = strict.answer(self.path, payload)
            streamed = payload.get("stream") and status == 200
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if streamed else "application/json")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - as the base class has it

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    strict.base_url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield strict
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
