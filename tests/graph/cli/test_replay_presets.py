"""`replay` under several presets, a file of settings, and an application's own parts."""

from pathlib import Path

import pytest

from langgraph_compaction.graph.lab.replay.user_parts import NAMES
from langgraph_compaction.nodes.config.policies import PRESETS
from tests.graph.cli.replaying import FIGURES, one_line, replayed, run

THREE = "selective,layered_defence,recent_rounds"

OWN = """
from __future__ import annotations

from dataclasses import dataclass

from langgraph_compaction.nodes.selection.selector import Choice


def oldest_half(selector, demand):
    '''Drop the older half of what may go.'''
    there = [i for i in range(len(selector.view.messages)) if i not in selector.untouchable]
    yield Choice(drop=frozenset(there[: len(there) // 2]))


def every_third(reading):
    return reading.turns >= 3


@dataclass
class Weather:
    city: str

    def told(self) -> str:
        return f"{self.city}-7 is fine"


STRATEGIES = {"oldest_half": oldest_half}
TRIGGERS = {"every_third": every_third}
KEY_INFORMATION = {"weather": lambda context: Weather("WEATHER").told()}
"""

UNUSED = "the settings use none of its functions"

CONFIG = """context_compaction:
  strategies: [oldest_half]
  triggers: [{kind: own, name: every_third}]
  key_information: [weather]
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Write an application's own parts, and return the file."""
    path = tmp_path / "my_parts.py"
    path.write_text(OWN, encoding="utf-8")
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Write settings that use them, and return the file."""
    path = tmp_path / "settings.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return path


def test_several_presets_play_the_same_conversation(recorded: Path) -> None:
    """A line each, in the order in which they are named; each the figures that it has alone."""
    lines = replayed(recorded, "--preset", THREE)
    assert [line["preset"] for line in lines] == THREE.split(",")
    assert all(line | FIGURES == line for line in lines)
    assert len({line["limit"] for line in lines}) == 1
    assert len({(line["tokens_sent"], line["messages"], line["rounds"]) for line in lines}) == 3
    assert [replayed(recorded, "--preset", line["preset"])[0] for line in lines] == lines
    assert all(any(row["verdict"] == "committed" for row in line["compactions"]) for line in lines)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_can_be_replayed(recorded: Path, preset: str) -> None:
    """Under a quarter of the conversation, with nothing lost, over the limit or asked."""
    (line,) = replayed(recorded, "--preset", preset)
    assert (line["preset"], line | FIGURES) == (preset, line)
    assert any(row["verdict"] in ("committed", "degraded_deterministic") for row in line["compactions"])
    assert not any(row["verdict"] == "declined" for row in line["compactions"])


def test_settings_of_a_file_are_played(recorded: Path, tmp_path: Path) -> None:
    """Alone with the file's own preset, else over each preset that is named."""
    path = tmp_path / "settings.yaml"
    path.write_text("context_compaction: {preset: typed_rules, trigger_ratio: 0.6}", encoding="utf-8")
    (alone,) = replayed(recorded, "--config", path)
    assert (alone["preset"], alone["trigger"]) == ("typed_rules", int(0.6 * alone["limit"]))
    both = replayed(recorded, "--config", path, "--preset", "selective,recent_rounds")
    assert [(one["preset"], one["trigger"]) for one in both] == [
        ("selective", alone["trigger"]),
        ("recent_rounds", alone["trigger"]),
    ]


def test_own_parts_are_played(recorded: Path, own: Path, config: Path, tmp_path: Path) -> None:
    """The strategy chooses, the trigger fires, and the key information stands in the requests."""
    out = tmp_path / "requests.jsonl"
    wide = ["--window", "300%", "--config", config, "--use", own]
    (line,) = replayed(recorded, *wide, "--requests", out)
    assert line | FIGURES == line
    committed = [row for row in line["compactions"] if row["verdict"] == "committed"]
    assert {(row["trigger"], row["strategy"]) for row in committed} == {("every_third", "selective+digest")}
    assert "WEATHER-7 is fine" in out.read_text(encoding="utf-8")
    config.write_text(CONFIG.replace("oldest_half", "tool_blocks"), encoding="utf-8")
    (other,) = replayed(recorded, *wide)
    assert other["messages"] != line["messages"]
    assert replayed(recorded, "--window", "300%")[0]["compactions"] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", f"has none of {', '.join(NAMES)}; each is a dict of names and functions"),
        ("STRATEGIES = [1]", "STRATEGIES is list; it is a dict of names and functions"),
        ("import nonsense_module", "cannot be imported (ModuleNotFoundError: No module named 'nonsense_module')"),
        (
            "STRATEGIES = {'full': print}",
            "strategies: the package has a strategy 'full' already; give yours another name",
        ),
        ("STRATEGIES = {'mine': print}", f"{UNUSED} (mine); name one in --config, such as strategies: [mine]"),
    ],
)
def test_own_parts_that_cannot_work_are_told_in_one_line(
    recorded: Path, tmp_path: Path, text: str, said: str
) -> None:
    """The command ends with 1, or with 2 where the settings are wrong, and names the file."""
    path = tmp_path / "wrong_parts.py"
    path.write_text(text, encoding="utf-8")
    args = ["--config", tmp_path / "full.yaml"] if "'full'" in text else []
    (tmp_path / "full.yaml").write_text("context_compaction: {strategies: [full]}", encoding="utf-8")
    result = run(recorded, "--use", path, *args)
    assert result.exit_code == (1 if "'full'" in text else 2)
    assert one_line(result) == f"{'talk.json (selective)' if args else path}: {said}"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--preset", "selective,recent_round"], "there is no preset 'recent_round'; did you mean recent_rounds?"),
    ],
)
def test_what_cannot_be_done_is_a_usage_error(recorded: Path, args: list[str], said: str) -> None:
    """The exit code is 2."""
    result = run(recorded, *args, width=300)
    assert result.exit_code == 2
    assert said in result.stderr
