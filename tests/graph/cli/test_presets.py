"""The command `presets`: the table, and each preset as YAML that is read back."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from langgraph_compaction.graph.cli.commands.presets_command import ABOUT, in_words, triggers_of
from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.nodes.config.loading import load_settings
from langgraph_compaction.nodes.config.presets import PRESETS, Preset
from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.config.triggers import Count, Own, RemainingRatio, ReserveTokens, Trigger, UsedRatio


def presets(*args: str, width: int = 100) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["presets", *args], env={"COLUMNS": str(width), "TERMINAL_WIDTH": str(width)})


def test_every_preset_says_what_it_is() -> None:
    """No more and no less."""
    assert set(ABOUT) == set(PRESETS)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("flags", [[], ["--changed"]])
def test_a_preset_as_yaml_is_read_back_as_it_is(preset: Preset, flags: list[str], tmp_path: Path) -> None:
    """As a file and as text."""
    result = presets(preset, *flags)
    assert (result.exit_code, result.stderr) == (0, "")
    path = tmp_path / "preset.yaml"
    path.write_text(result.stdout, encoding="utf-8")
    assert load_settings(path) == load_settings(result.stdout) == CompactionSettings(preset=preset)


def test_every_setting_is_printed_below_what_it_means() -> None:
    """The preset first; each with its description as a comment, whole, and its value."""
    lines = presets("progressive").stdout.splitlines()
    assert lines[0] == "context_compaction:"
    named = [line.split(":")[0].strip() for line in lines[1:] if line.startswith("  ") and line[2].isalpha()]
    assert named == ["preset", *(name for name in CompactionSettings.model_fields if name != "preset")]
    words = " ".join(word for line in lines for word in line.split() if word != "#")
    for field in CompactionSettings.model_fields.values():
        assert " ".join((field.description or "").split()) in words
    assert "  - {kind: count, unit: model_calls, limit: 200, operator: '>=', full: true}" in lines
    assert "  preset: progressive" in lines
    assert max(map(len, lines)) < 130


def test_what_is_changed_is_all_that_differs_from_selective() -> None:
    """Of selective itself nothing but its name."""
    usual = CompactionSettings().model_dump()
    for preset in PRESETS:
        changed = json.loads(presets(preset, "--changed", "--json").stdout)
        own = CompactionSettings(preset=preset).model_dump(mode="json")
        given = CompactionSettings(preset=preset).model_dump()
        differs = {name for name, value in given.items() if value != usual[name]}
        assert changed == {name: own[name] for name in {"preset", *differs}}
        printed = presets(preset, "--changed").stdout.splitlines()
        assert {line.split(":")[0].strip() for line in printed if line[2:3].isalpha() and line[0] == " "} == set(
            changed
        )


def test_json_is_a_line_a_preset() -> None:
    """Each is read back by the settings; with a name it is one line."""
    lines = presets("--json").stdout.splitlines()
    read = [CompactionSettings.model_validate_json(line) for line in lines]
    assert read == [CompactionSettings(preset=preset) for preset in PRESETS]
    assert presets("typed_rules", "--json").stdout.splitlines() == [lines[PRESETS.index("typed_rules")]]


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_table_tells_what_each_preset_does(width: int) -> None:
    """Names, triggers, hooks, strategies and summary mode, none cut and none wider than the terminal."""
    result = presets(width=width)
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= width
    words = result.stdout.split()
    for preset in PRESETS:
        settings = CompactionSettings(preset=preset)
        assert {preset, *settings.hooks, *settings.strategies, settings.summary_mode} <= set(words)
        assert {word for trigger in triggers_of(settings) for word in trigger.split()} <= set(words)
        known = settings.context_window or settings.fallback_window
        assert known is None or f"{known:,}" in words
        assert set(ABOUT[preset].split()[:-1]) <= set(words)


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        (UsedRatio(ratio=0.8), "used >= 80%"),
        (UsedRatio(ratio=0.9, operator=">"), "used > 90%"),
        (RemainingRatio(), "left < 25%"),
        (ReserveTokens(), "used > all but 16,384"),
        (Count(unit="events", limit=700, operator=">"), "events > 700"),
        (Count(unit="turns", limit=1_000, full=True), "turns >= 1,000, in full"),
        (Own(name="mine"), "own: mine"),
    ],
)
def test_a_trigger_is_told_with_its_comparison(trigger: Trigger, said: str) -> None:
    """In the order in which settings ask them: tokens first; none where they are not enabled."""
    assert in_words(trigger) == said
    settings = CompactionSettings(triggers=(trigger,), trigger_ratio=0.7)
    assert triggers_of(settings) == ["used >= 70%", said]
    assert triggers_of(settings.model_copy(update={"enabled": False})) == []


def test_an_unknown_preset_is_a_usage_error_that_suggests_one() -> None:
    """Nothing is printed, and the exit code is 2."""
    result = presets("progresive", width=200)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no preset 'progresive'; did you mean progressive?" in result.stderr
    assert "known are selective, typed_rules" in presets("zzz", width=300).stderr


def test_help_says_what_reads_the_yaml() -> None:
    """Each option and each reader is named."""
    text = " ".join(presets("--help", width=160).stdout.split())
    for word in ("--changed", "--json", "load_settings", "--config FILE", "LANGGRAPH_COMPACTION_CONFIG"):
        assert word in text
