"""Conversations shortly before a compaction, played once per session."""

from pathlib import Path

import pytest

from tests.kill.recovery import calm_runs
from tests.kill.scenarios import TEMPLATES, Scenario, Worlds, play
from tests.kill.sight import Around
from tests.kill.world import World


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, World]:
    """Return the conversations before the crucial turn."""
    folder = tmp_path_factory.mktemp("templates")
    return {name: play(folder / name, turns) for name, turns in TEMPLATES.items()}


@pytest.fixture
def world_of(templates: dict[str, World], tmp_path: Path) -> Worlds:
    """Return a function that opens a scenario's world in a folder of this test."""

    def make(scenario: Scenario, name: str = "world") -> World:
        return scenario.world(templates[scenario.template].copied(tmp_path / name))

    return make


@pytest.fixture(scope="session")
def around(templates: dict[str, World], tmp_path_factory: pytest.TempPathFactory) -> Around:
    """Return a function from a scenario's name to the thread before and after its turn without a kill."""
    return calm_runs(templates, tmp_path_factory.mktemp("calm"))
