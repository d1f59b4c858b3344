"""`chat`: settings from options, environment and file, and which of them decides."""

from pathlib import Path
from typing import Any

import pytest

from langgraph_compaction.nodes.config.policies import PRESETS
from tests.graph.cli.test_chat import NO_MODEL, STORY, full, heard, of_kind, talk

ASKS = "recent_rounds"
"""A preset that asks before each compaction."""


def env(**variables: str) -> dict[str, Any]:
    """An environment without a key, with these settings."""
    return {**NO_MODEL, **{f"LANGGRAPH_COMPACTION_{name}": value for name, value in variables.items()}}


def soft() -> list[str]:
    """Lines that bring the window between trigger and limit, counted as `recent_rounds` counts at an input."""
    return [f"Story {n}. {STORY}" for n in range(6)] + ["And then? " + "Tell me of the ships. " * 8, "And now?"]


def written(folder: Path, settings: str) -> str:
    """The path of a new file with these settings."""
    path = folder / "settings.yaml"
    path.write_text(f"context_compaction: {{{settings}}}", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("source", ["option", "environment", "file", "file of the environment"])
def test_a_preset_is_named_by_any_source(tmp_path: Path, source: str) -> None:
    """And asks before the compaction, as it does by default."""
    path = written(tmp_path, f"preset: {ASKS}")
    args, variables = {
        "option": (["--preset", ASKS], {}),
        "environment": ([], {"PRESET": ASKS}),
        "file": (["--config", path], {}),
        "file of the environment": ([], {"CONFIG": path}),
    }[source]
    said = heard(*soft(), "yes", "/status", args=args, env=env(**variables))
    assert len(of_kind(said, "question")) == 1
    (status,) = of_kind(said, "status")
    assert (status["last"], status["rows"][0]["strategy"]) == ("committed", f"{ASKS}+digest")


@pytest.mark.parametrize(
    ("args", "variables", "questions"),
    [
        (["--preset", ASKS], {}, 1),
        (["--preset", ASKS, "--no-confirm"], {}, 0),
        (["--preset", ASKS, "--confirm"], {"REQUIRE_CONFIRMATION": "false"}, 1),
        ([], {"REQUIRE_CONFIRMATION": "true"}, 1),
        (["--no-confirm"], {"REQUIRE_CONFIRMATION": "true"}, 0),
    ],
)
def test_confirmation_is_asked_as_the_settings_say(
    args: list[str], variables: dict[str, str], questions: int
) -> None:
    """`--confirm` and `--no-confirm` override environment and preset; with neither, these decide."""
    lines = soft() if ASKS in args else full()
    said = heard(*lines, *["yes"] * questions, "/status", args=args, env=env(**variables))
    assert len(of_kind(said, "question")) == questions
    assert of_kind(said, "status")[0]["last"] == "committed"


@pytest.mark.parametrize(
    ("args", "variables", "sizes"),
    [
        ([], {}, (4_000, 3_200)),
        (["--config", "FILE"], {}, (6_000, 3_600)),
        (["--config", "FILE"], {"TRIGGER_RATIO": "0.7"}, (6_000, 4_200)),
        (["--config", "FILE", "--window", "5000"], {"CONTEXT_WINDOW": "7000"}, (5_000, 3_000)),
        ([], {"CONTEXT_WINDOW": "7000"}, (7_000, 5_600)),
    ],
)
def test_options_stand_over_environment_and_file(
    tmp_path: Path, args: list[str], variables: dict[str, str], sizes: tuple[int, int]
) -> None:
    """Window and trigger show which source decided; the scripted model's own window is used where none gives one."""
    file = written(tmp_path, "context_window: 6000, trigger_ratio: 0.6")
    named = [file if each == "FILE" else each for each in args]
    (gauge,) = of_kind(heard("Hello.", args=named, env=env(**variables)), "gauge")
    assert (gauge["window"], gauge["trigger"]) == sizes


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_can_be_talked_with(preset: str) -> None:
    """With the scripted model too, whose window is small: what a person wishes to be compacted is."""
    said = heard(*[f"Order {n}. {STORY}" for n in range(5)], "/compact", "yes", args=["--preset", preset])
    committed = [each for each in of_kind(said, "event") if each.get("verdict") == "committed"]
    assert committed[-1]["tokens_after"] < committed[-1]["tokens_before"]


@pytest.mark.parametrize(
    ("args", "variables", "code", "told"),
    [
        (["--preset", "recent_round"], {}, 2, "did you mean recent_rounds?"),
        (["--config", "none.yaml"], {}, 2, "none.yaml: cannot be read"),
        ([], {"PRESET": "recent_round"}, 2, "LANGGRAPH_COMPACTION_PRESET"),
        ([], {"TRIGGER_RATION": "0.6"}, 2, "did you mean LANGGRAPH_COMPACTION_TRIGGER_RATIO?"),
    ],
)
def test_a_wrong_setting_is_named_by_its_source(
    args: list[str], variables: dict[str, str], code: int, told: str
) -> None:
    """The chat does not begin, and there is no traceback."""
    result = talk("Hello.", args=args, env={**env(**variables), "COLUMNS": "300", "TERMINAL_WIDTH": "300"})
    assert result.exit_code == code
    assert told in result.output
    assert isinstance(result.exception, SystemExit)
