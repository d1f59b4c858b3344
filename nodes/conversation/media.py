"""Find pictures, recordings and files in content blocks, and estimate their tokens.

Media are recognized by the type of their block, as LangChain, OpenAI, Anthropic, Google and Bedrock name it, and by
their data: bytes, a data URL, or a long text in base64, at any depth of any block. Only the first and the last
kilobytes of the data are read, and a length that the size of the data cannot have is not believed.

======== =================================== ============================================ ============
kind     tokens                              read from                                    without data
======== =================================== ============================================ ============
image    a token for 750 pixels, 85 to 1,600 PNG, JPEG, GIF, WebP; else 1,600             1,600
document 1,500 a page                        PDF; else a page for 100 kB                  7,500
audio    32 a second                         WAV, MP4; else a second for 8 kB             1,920
video    300 a second                        MP4, QuickTime; else a second for 250 kB     18,000
text     a token for 3 bytes                 the size                                     7,500
data     a token for 3 bytes, at most 10,000 the size                                     -
======== =================================== ============================================ ============

Images count as Anthropic documents it, with the 85 of OpenAI's low detail as the least; pages as the least that
Anthropic documents; seconds as Google documents them. `data` is of no known kind, for example encrypted reasoning.
"""

import struct
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple, cast

from langgraph_compaction.checkpoint.patterns import Pattern

from ..text.quoting import ELLIPSIS
from .lengths import characters_in

IMAGE_TOKENS = 1_600
_LEAST_IMAGE_TOKENS, _PIXELS_OF_TOKEN = 85, 750
_PAGE_TOKENS, _PAGE_BYTES = 1_500, 100_000
_TOKENS_OF_SECOND = {"audio": 32, "video": 300}
_BYTES_OF_SECOND = {"audio": 8_000, "video": 250_000}
_LEAST_BYTES = 500
"""Bytes that each page and each second has at least."""
_BYTES_OF_TOKEN, _MOST_DATA_TOKENS = 3, 10_000

_WITHOUT_DATA: Mapping[str, int] = {
    "image": IMAGE_TOKENS,
    "document": 5 * _PAGE_TOKENS,
    "audio": 60 * _TOKENS_OF_SECOND["audio"],
    "video": 60 * _TOKENS_OF_SECOND["video"],
}

_BLOCKS: Mapping[str, str] = {
    **dict.fromkeys(("image", "image_url", "input_image", "image_file", "computer_screenshot"), "image"),
    **dict.fromkeys(("file", "input_file", "document", "media", "inline_data", "file_data"), "document"),
    **dict.fromkeys(("audio", "input_audio"), "audio"),
    **dict.fromkeys(("video", "video_url", "input_video"), "video"),
}
"""The kind of a block by its type, or by its only key; a MIME type inside of the block may name another kind."""

_FORMATS: Mapping[str, str] = {
    **dict.fromkeys(("png", "jpeg", "jpg", "gif", "webp"), "image"),
    **dict.fromkeys(("wav", "mp3", "flac", "ogg", "opus", "aac", "m4a"), "audio"),
    **dict.fromkeys(("mp4", "mov", "mkv", "webm"), "video"),
    **dict.fromkeys(("plain", "txt", "md", "csv", "html", "json"), "text"),
}
_MIME_KEYS = ("mime_type", "media_type", "mimeType", "format")

_ENCODED_CHARS = 256
"""Number of characters from which on a text of base64 characters alone is taken for data."""
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=\r\n")
_READ = 65_536
"""Number of bytes or of base64 characters that are read at the beginning and at the end; a multiple of four."""
_DEEPEST = 64


class Media(NamedTuple):
    """A picture, a recording or a file, or data of no known kind."""

    kind: str
    tokens: int


def read_block(block: Mapping[str, Any]) -> tuple[Any, list[Media]]:
    """Return the block with the name of its kind in place of each of its media, and the media.

    A block that is nothing but one medium becomes a text, for example `[image]`.
    """
    found: list[Media] = []
    return _read(block, None, found, 0), found


def _read(value: Any, kind: str | None, found: list[Media], depth: int) -> Any:
    if depth > _DEEPEST:
        found.append(Media("data", ceil(characters_in(value) / _BYTES_OF_TOKEN)))
        return ELLIPSIS
    if isinstance(value, Mapping):
        return _read_mapping(cast("Mapping[str, Any]", value), kind, found, depth)
    if isinstance(value, list):
        return [_read(one, kind, found, depth + 1) for one in value]
    data = _data_in(value)
    if data is None:
        return value
    medium = data.medium(kind)
    found.append(medium)
    return f"[{medium.kind}]"


def _read_mapping(block: Mapping[str, Any], kind: str | None, found: list[Media], depth: int) -> Any:
    name = block.get("type") or (next(iter(block)) if len(block) == 1 else None)
    named = _BLOCKS.get(name) if isinstance(name, str) else None
    if named is None or _holds_text(block):
        kind = _kind_by_mime(block) or kind
        return {key: _read(one, kind, found, depth + 1) for key, one in block.items()}
    inside = [one for one in block.values() if isinstance(one, Mapping)]
    said = next(filter(None, map(_kind_by_mime, (block, *inside))), None) or named
    before = len(found)
    for one in block.values():
        _read(one, said, found, depth + 1)
    if len(found) == before:
        found.append(Media(said, _WITHOUT_DATA.get(said, _WITHOUT_DATA["document"])))
    return f"[{said}]"


def _holds_text(block: Mapping[str, Any]) -> bool:
    """Whether this is a document that Anthropic is sent as text or as content blocks."""
    source = block.get("source")
    return isinstance(source, Mapping) and source.get("type") in ("text", "content")


def _kind_by_mime(block: Mapping[str, Any]) -> str | None:
    name = next((name for key in _MIME_KEYS if isinstance(name := block.get(key), str)), "")
    return _kind_of_mime(name)


def _kind_of_mime(name: str) -> str | None:
    family, _, form = name.lower().partition("/")
    if family in ("image", "audio", "video", "text"):
        return family
    return _FORMATS.get(form or family)


@dataclass(frozen=True)
class _Data:
    """The bytes of a medium, given as bytes or as base64 from the position `begin` on."""

    given: str | bytes
    begin: int = 0
    mime: str = ""

    @cached_property
    def size(self) -> int:
        """The number of bytes."""
        if isinstance(self.given, bytes):
            return len(self.given)
        padding = self.given.endswith("=") + self.given.endswith("==")
        return (len(self.given) - self.begin - padding) * 3 // 4

    @cached_property
    def head(self) -> bytes:
        """The first bytes."""
        return self._part(self.begin)

    @cached_property
    def tail(self) -> bytes:
        """The last bytes after `head`."""
        length = len(self.given) - self.begin
        return self._part(self.begin + max(_READ, length - length % 4 - _READ))

    def _part(self, start: int) -> bytes:
        part = self.given[start : start + _READ + 3]
        return part if isinstance(part, bytes) else _decoded(part)

    def medium(self, kind: str | None) -> Media:
        """Return the medium; its own first bytes tell its kind, else the MIME type in front of it, else `kind`."""
        own = next((own for signature, at, own in _SIGNATURES if self.head.startswith(signature, at)), None)
        if own == "video" and (kind == "audio" or self.head[8:11] == b"M4A"):
            own = "audio"
        found = own or _kind_of_mime(self.mime) or kind or "data"
        return Media(found, _TOKENS[found](self))


_SIGNATURES: tuple[tuple[bytes, int, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image"),
    (b"\xff\xd8\xff", 0, "image"),
    (b"GIF8", 0, "image"),
    (b"WEBP", 8, "image"),
    (b"%PDF-", 0, "document"),
    (b"WAVE", 8, "audio"),
    (b"ID3", 0, "audio"),
    (b"OggS", 0, "audio"),
    (b"fLaC", 0, "audio"),
    (b"ftyp", 4, "video"),
)
"""Bytes at the beginning of a file, their position, and its kind."""


def _data_in(value: Any) -> _Data | None:
    """Return the data that a value is, if it is bytes, a data URL or a long text in base64."""
    if isinstance(value, bytes | bytearray):
        return _Data(bytes(value))
    if not isinstance(value, str):
        return None
    if value.startswith("data:"):
        header, comma, _ = value[:_ENCODED_CHARS].partition(",")
        if not comma or ";base64" not in header:
            return None
        return _Data(value, len(header) + 1, header[5:].partition(";")[0])
    is_data = len(value) >= _ENCODED_CHARS and value.find(" ", 0, _READ) < 0 and _is_base64(value)
    return _Data(value) if is_data else None


def _is_base64(text: str) -> bool:
    return _BASE64.issuperset(text[:_ENCODED_CHARS]) and _BASE64.issuperset(text[-_ENCODED_CHARS:])


def _decoded(text: str) -> bytes:
    text = text.replace("-", "+").replace("_", "/").rstrip("=")
    with suppress(ValueError):  # not base64 after all
        return a2b_base64(text + "=" * (-len(text) % 4))
    return b""


def _image_tokens(data: _Data) -> int:
    pixels = _pixels(data.head)
    return min(IMAGE_TOKENS, max(_LEAST_IMAGE_TOKENS, ceil(pixels / _PIXELS_OF_TOKEN))) if pixels else IMAGE_TOKENS


def _pixels(head: bytes) -> int:
    """Return the number of pixels that an image's header says; 0 if it cannot be read."""
    with suppress(struct.error, IndexError):
        if head.startswith(b"\x89PNG") and head[12:16] == b"IHDR":
            width, height = struct.unpack_from(">II", head, 16)
        elif head.startswith(b"GIF8"):
            width, height = struct.unpack_from("<HH", head, 6)
        elif head[12:16] == b"VP8X":
            width, height = (1 + int.from_bytes(head[at : at + 3], "little") for at in (24, 27))
        elif head[12:16] == b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        elif head[12:16] == b"VP8 ":
            width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", head, 26))
        else:
            width, height = _jpeg_sides(head)
        return int(width * height)
    return 0


_JPEG_MARK, _JPEG_FRAMES = 0xFF, frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def _jpeg_sides(head: bytes) -> tuple[int, int]:
    """Return the height and the width of a JPEG image, from the first segment that begins a frame."""
    at = 2
    while head[at] == _JPEG_MARK:
        if head[at + 1] in _JPEG_FRAMES:
            return struct.unpack_from(">HH", head, at + 5)
        at += 2 + struct.unpack_from(">H", head, at + 2)[0]
    return 0, 0


_PAGES = Pattern(r"/Count (\d{1,5})")


def _document_tokens(data: _Data) -> int:
    text = (data.head + data.tail).decode("latin-1") if data.head.startswith(b"%PDF-") else ""
    said = max((int(found[1]) for found in _PAGES.finditer(text)), default=0)
    pages = said if 0 < said <= data.size / _LEAST_BYTES else ceil(data.size / _PAGE_BYTES)
    return _PAGE_TOKENS * max(1, pages)


def _recording_tokens(kind: str) -> Callable[[_Data], int]:
    def tokens(data: _Data) -> int:
        said = _seconds(data)
        seconds = said if 0 < said <= data.size / _LEAST_BYTES else data.size / _BYTES_OF_SECOND[kind]
        return ceil(_TOKENS_OF_SECOND[kind] * seconds)

    return tokens


def _seconds(data: _Data) -> float:
    """Return the length of a recording in seconds as its header says it; 0 if it cannot be read."""
    with suppress(struct.error, ZeroDivisionError):
        if data.head[8:16] == b"WAVEfmt ":
            return float(data.size / struct.unpack_from("<I", data.head, 28)[0])
        for part in (data.head, data.tail):
            if (at := part.find(b"mvhd")) >= 0:
                is_long = part[at + 4 : at + 5] == b"\x01"
                rate, length = struct.unpack_from(*((">IQ", part, at + 24) if is_long else (">II", part, at + 16)))
                return float(length / rate)
    return 0


_TOKENS: Mapping[str, Callable[[_Data], int]] = {
    "image": _image_tokens,
    "document": _document_tokens,
    "audio": _recording_tokens("audio"),
    "video": _recording_tokens("video"),
    "text": lambda data: ceil(data.size / _BYTES_OF_TOKEN),
    "data": lambda data: min(_MOST_DATA_TOKENS, ceil(data.size / _BYTES_OF_TOKEN)),
}
