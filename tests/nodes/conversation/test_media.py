"""What pictures, recordings and files count, in every form in which a message may hold them."""

import base64
import struct
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from langgraph_compaction.nodes.conversation.media import IMAGE_TOKENS
from langgraph_compaction.nodes.conversation.tokens import TokenCounter, joined_texts, media_of, tiktoken_counter

COUNTER = TokenCounter("words", lambda text: len(text.split()))

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
JPEG = b"\xff\xd8\xff\xe1\x00\x06exif\xff\xc0\x00\x11\x08"
RIFF = b"RIFF\0\0\0\0"


def png(width: int, height: int, size: int = 3_000) -> bytes:
    """A PNG file of so many bytes, by its header."""
    return (PNG + struct.pack(">II", width, height)).ljust(size, b"\x99")


def wav(seconds: float, rate: int = 32_000, size: int = 0) -> bytes:
    """A recording in WAV, by its header."""
    header = RIFF + b"WAVEfmt " + b"\0" * 12 + struct.pack("<I", rate)
    return header.ljust(size or int(seconds * rate), b"\x99")


def mp4(seconds: int, size: int, brand: bytes = b"isom", *, version: int = 0) -> bytes:
    """A film that tells its length at its end, as most do."""
    times = (
        struct.pack(">QQIQ", 0, 0, 600, 600 * seconds) if version else struct.pack(">IIII", 0, 0, 600, 600 * seconds)
    )
    end = b"mvhd" + bytes([version, 0, 0, 0]) + times
    return (b"\0\0\0\x18ftyp" + brand).ljust(size - len(end), b"\x99") + end


def pdf(pages: int, size: int) -> bytes:
    """A document that tells its pages in its table of pages, beside smaller counts of its parts."""
    end = b"<</Type/Pages/Count 3>> <</Type /Pages /Count %d>> trailer" % pages
    return b"%PDF-1.7\n".ljust(size - len(end), b"\x99") + end


def encoded(data: bytes) -> str:
    """The data in base64."""
    return base64.b64encode(data).decode()


def counted(block: Mapping[str, Any] | str) -> int:
    """What a block counts in a user's message, without the message's own tokens."""
    return COUNTER.message(HumanMessage([dict(block) if isinstance(block, Mapping) else block])) - 4


DATA: dict[str, tuple[bytes, int]] = {
    "a thumbnail": (png(200, 200), 85),
    "a picture": (png(1_000, 600), 800),
    "a large picture": (png(6_000, 4_000), IMAGE_TOKENS),
    "a picture that claims to have no pixels": (png(0, 0), IMAGE_TOKENS),
    "JPEG": ((JPEG + struct.pack(">HH", 600, 1_000)).ljust(900, b"\0"), 800),
    "JPEG without a frame": (b"\xff\xd8" + b"\xff\xe1\x00\x02" * 900, IMAGE_TOKENS),
    "GIF": ((b"GIF89a" + struct.pack("<HH", 1_000, 600)).ljust(900, b"\0"), 800),
    "WebP": ((RIFF + b"WEBPVP8 " + b"\0" * 10 + struct.pack("<HH", 1_000, 600)).ljust(900, b"\0"), 800),
    "WebP without losses": (
        (RIFF + b"WEBPVP8L" + b"\0" * 5 + struct.pack("<I", 999 | 599 << 14)).ljust(900, b"\0"),
        800,
    ),
    "WebP with more": (
        (RIFF + b"WEBPVP8X" + b"\0" * 8 + b"\xe7\x03\0" + b"\x57\x02\0").ljust(900, b"\0"),
        800,
    ),
    "a PDF of 12 pages": (pdf(12, 30_000), 12 * 1_500),
    "a PDF of 12 pages, and much more": (pdf(12, 900_000), 12 * 1_500),
    "a PDF that hides its pages": (b"%PDF-1.7".ljust(500_000, b"\x99"), 5 * 1_500),
    "a PDF that lies": (pdf(99_999, 30_000), 1_500),
    "a minute of speech": (wav(60), 60 * 32),
    "a recording that lies": (wav(0, rate=1, size=80_000), 10 * 32),
    "a recording without a rate": (wav(0, rate=0, size=80_000), 10 * 32),
    "a minute of MP3": (b"ID3".ljust(480_000, b"\x99"), 60 * 32),
    "a minute of MP4": (mp4(60, 400_000), 60 * 300),
    "a minute of MP4 with long times": (mp4(60, 400_000, version=1), 60 * 300),
    "a minute of speech in MP4": (mp4(60, 400_000, b"M4A "), 60 * 32),
    "a film that lies": (mp4(4_000_000, 500_000), 2 * 300),
}


@pytest.mark.parametrize("name", DATA)
def test_media_count_what_their_first_and_last_bytes_say(name: str) -> None:
    """Pixels, pages and seconds, if the file may have so many of them; else the size decides."""
    data, tokens = DATA[name]
    for block in (
        {"type": "file", "base64": encoded(data), "mime_type": "application/octet-stream"},
        {"type": "custom", "value": {"inner": [f"data:;base64,{encoded(data)}"]}},
        {"document": {"source": {"bytes": data}}},
    ):
        (medium,) = media_of(HumanMessage([block]))
        assert medium.tokens == tokens


P = encoded(png(1_000, 600))
URL = f"data:image/png;base64,{P}"
SOURCE = {"type": "base64", "media_type": "image/png", "data": P}
FORMS: dict[str, Any] = {
    "OpenAI": {"type": "image_url", "image_url": {"url": URL}},
    "OpenAI Responses": {"type": "input_image", "image_url": URL},
    "LangChain": {"type": "image", "base64": P, "mime_type": "image/png"},
    "Anthropic": {"type": "image", "source": SOURCE},
    "Anthropic, a result": {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "image", "source": SOURCE}],
    },
    "Bedrock": {"image": {"format": "png", "source": {"bytes": png(1_000, 600)}}},
    "Gemini": {"inline_data": {"mime_type": "image/png", "data": P}},
    "Gemini, media": {"type": "media", "mime_type": "image/png", "data": P},
    "a generated image": {"type": "image_generation_call", "id": "ig", "status": "completed", "result": P},
    "a screenshot": {"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": URL}},
    "an image of code": {"type": "code_interpreter_call", "outputs": [{"type": "image", "url": URL}]},
    "a form nobody knows": {"type": "non_standard", "value": {"type": "image", "data": P}},
    "base64 for addresses": {"type": "image", "base64": P.replace("+", "-").replace("/", "_")},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_picture_counts_the_same_in_every_form(form: str) -> None:
    """And its data is no text, neither for the count nor for the summarizer."""
    for message in (
        HumanMessage([FORMS[form]]),
        AIMessage([FORMS[form]]),
        ToolMessage([FORMS[form]], tool_call_id="a"),
    ):
        assert [(one.kind, one.tokens) for one in media_of(message)] == [("image", 800)]
        assert 804 <= COUNTER.message(message) <= 814
        assert P[:40] not in joined_texts(message)


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        ({"type": "image", "url": "https://a/b.png"}, 1_600),
        ({"type": "image_url", "image_url": "https://a/b.png"}, 1_600),
        ({"type": "file", "file_id": "f1"}, 7_500),
        ({"type": "file", "url": "https://a/b", "mime_type": "image/png"}, 1_600),
        ({"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}}, 7_500),
        ({"file_data": {"mime_type": "audio/mp3", "file_uri": "gs://a/b"}}, 60 * 32),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, 60 * 32),
        ({"type": "video", "url": "https://a/b"}, 60 * 300),
    ],
)
def test_media_that_only_a_name_refers_to_count_a_usual_size(block: dict[str, Any], tokens: int) -> None:
    """An image, five pages, or a minute."""
    assert counted(block) == tokens


@pytest.mark.parametrize(
    "block",
    [
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "word " * 2_000}},
        {"type": "text-plain", "text": "word " * 2_000, "mime_type": "text/plain"},
        {"type": "search_result", "source": "x", "content": [{"type": "text", "text": "word " * 2_000}]},
        {"type": "odd", "value": "word " * 2_000},
    ],
)
def test_the_text_of_a_document_counts_as_text(block: dict[str, Any]) -> None:
    """Whatever the type of its block."""
    assert 2_000 <= counted(block) <= 2_020
    assert not media_of(HumanMessage([block]))


def test_data_of_no_known_kind_counts_by_its_size_up_to_a_bound() -> None:
    """Encrypted reasoning, archives and the like."""
    secret = encoded(bytes(range(256)) * 12)
    assert counted({"type": "reasoning", "summary": [], "encrypted_content": secret}) == 1_024 + 6
    assert counted({"type": "odd", "value": secret * 300}) == 10_000 + 4
    assert counted({"type": "file", "base64": secret, "mime_type": "text/csv"}) == 1_024


def test_a_data_url_in_a_text_is_text() -> None:
    """Providers read it as such."""
    assert tiktoken_counter().message(AIMessage(f"![x]({URL})")) > 1_000


values: Any = st.recursive(
    st.none()
    | st.integers()
    | st.text(max_size=20)
    | st.binary(max_size=40)
    | st.sampled_from([P, URL, "A" * 300, "data:,x", "data:;base64,", "data:;base64,é" * 30, *FORMS.values()])
    | st.sampled_from(
        [PNG, JPEG, b"RIFF", b"GIF8", b"%PDF-", b"\xff\xd8\xff" * 9, mp4(1, 900)[-20:], b"\0\0\0\0ftyp"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*"ab", "type", "image"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    block=st.dictionaries(st.sampled_from(["type", "source", "data", "image", "file", "format"]), values, max_size=4)
)
def test_whatever_a_block_holds_it_counts(block: dict[str, Any]) -> None:
    """Nobody knows who wrote it."""
    assert 0 <= COUNTER.message(HumanMessage([block]).model_copy(update={"content": [block]})) < 500_000


def test_a_block_of_any_depth_counts() -> None:
    """What is deeper than anything that is sent counts by its size."""
    nested: Any = "word " * 900
    for _ in range(900):
        nested = [nested]
    assert 1_000 < counted({"type": "odd", "value": nested}) < 5_000
