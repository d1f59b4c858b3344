"""The guide to LangGraph's server tells the truth: its blocks run against `make studio` and print what it shows."""

from typing import Any

import pytest

from tests.server.dev_server import Server
from tests.test_readme import BLOCK, PAGES

PAGE = PAGES["server.md"]
ADDRESS = "http://127.0.0.1:2024"


def test_the_blocks_of_the_guide_print_what_it_shows(studio: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, with the address of the test's own server."""
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) == 2
    assert ADDRESS in blocks[0][0]
    names: dict[str, Any] = {"__name__": "server.md"}
    for number, (code, shown) in enumerate(blocks, 1):
        own = code.replace(ADDRESS, studio.address)
        exec(compile(own, f"server.md, block {number}", "exec"), names)  # noqa: S102 - it is our own guide
        assert capsys.readouterr().out == shown
    names["client"].close()
