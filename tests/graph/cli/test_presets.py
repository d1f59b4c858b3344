"""The command `presets`: the table, and each preset as YAML that is read back."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.graph.cli.presets import (
    as_yaml,
    in_words,
    plain,
    triggers_of,
)
from langgraph_compaction.nodes.config.loading import load_settings
from langgraph_compaction.nodes.config.policies import PRESETS, Preset, Progressive
from langgraph_compaction.nodes.config.settings import CompactionSettings, flat
from langgraph_compaction.nodes.config.triggers import Count, Own, RemainingRatio, ReserveTokens, Trigger, UsedRatio


def presets(*args: str, width: int = 100) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["presets", *args], env={"COLUMNS": str(width), "TERMINAL_WIDTH": str(width)})


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
    begin = lines.index("context_compaction:")
    described = " ".join(line.removeprefix("# ") for line in lines[:begin])
    for words_of_the_user in ("progressive: strategies in turn", "starts at: ", "200 model calls", "enters /compact"):
        assert words_of_the_user in described
    assert "_" not in described
    named = [line.split(":")[0].strip() for line in lines[begin:] if line.startswith("  ") and line[2].isalpha()]
    assert named == list(flat(CompactionSettings(preset="progressive")))
    words = " ".join(word for line in lines for word in line.split() if word != "#")
    for field in (*CompactionSettings.model_fields.values(), *Progressive.model_fields.values()):
        assert " ".join((field.description or "").split()) in words or field.title == "Policy"
    assert "  - {kind: count, unit: model_calls, limit: 200, operator: '>=', full: true}" in lines
    assert "  preset: progressive" in lines
    assert max(map(len, lines)) < 130


def test_what_is_changed_is_all_that_differs_from_selective() -> None:
    """Of selective itself nothing but its name."""
    usual = flat(CompactionSettings())
    for preset in PRESETS:
        changed = json.loads(presets(preset, "--changed", "--json").stdout)
        own = flat(CompactionSettings(preset=preset))
        assert changed == {n: value for n, value in own.items() if n == "preset" or value != usual.get(n, usual)}
        printed = presets(preset, "--changed").stdout.splitlines()
        assert {line.split(":")[0].strip() for line in printed if line[2:3].isalpha() and line[0] == " "} == set(
            changed
        )


def test_only_a_group_with_a_changed_setting_has_a_heading() -> None:
    """`--changed` prints the heading of a group once, above the changed settings of the group."""
    lines = presets("reserve_tokens", "--changed").stdout.splitlines()
    assert [line for line in lines if line and ("==" in line or not line.lstrip().startswith("#"))] == [
        "context_compaction:",
        *("  # == The policy ==", "  preset: reserve_tokens", "  strategies: [recent_tokens]"),
        "  recent_tokens_keep: 20000",
        *("  # == Shared settings ==", "  trigger_ratio: null"),
        *("  triggers:", "  - {kind: reserve_tokens, tokens: 16384, operator: '>'}"),
    ]


def test_a_text_in_the_yaml_is_as_the_user_wrote_it() -> None:
    """Characters outside of ASCII are printed as they are, not as escape sequences."""
    settings = CompactionSettings(summary_prompt="保留价格", key_information=("价格", "précis"))
    text = as_yaml(settings, {name: flat(settings)[name] for name in ("summary_prompt", "key_information")})
    assert "  summary_prompt: 保留价格\n" in text
    assert "  key_information: [价格, précis]\n" in text
    assert load_settings(text) == settings


def test_json_is_a_line_a_preset() -> None:
    """Each is read back by the settings; with a name it is one line."""
    lines = presets("--json").stdout.splitlines()
    read = [CompactionSettings.model_validate_json(line) for line in lines]
    assert read == [CompactionSettings(preset=preset) for preset in PRESETS]
    assert presets("typed_rules", "--json").stdout.splitlines() == [lines[PRESETS.index("typed_rules")]]


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_table_tells_what_each_preset_does(width: int) -> None:
    """The table shows each preset's triggers and strategies, whole and within the terminal."""
    result = presets(width=width)
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= width
    words = result.stdout.split()
    for preset in PRESETS:
        settings = CompactionSettings(preset=preset)
        shown = list(map(plain, settings.policy.strategies))
        assert {preset, *(word for one in shown for word in one.split())} <= set(words)
        assert not {name for name in settings.policy.strategies if "_" in name} & {*words} - {preset}
        assert {word for trigger in triggers_of(settings) for word in trigger.split()} <= set(words)
        assert settings.context_window is None or f"{settings.context_window:,}" in words


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        (UsedRatio(ratio=0.8), "80% used"),
        (UsedRatio(ratio=0.9, operator=">"), "over 90% used"),
        (RemainingRatio(), "under 25% left"),
        (RemainingRatio(ratio=0.1, operator="<="), "10% left"),
        (ReserveTokens(), "under 16,384 tokens left"),
        (Count(unit="events", limit=700, operator=">"), "over 700 events"),
        (Count(unit="turns", limit=1_000, full=True), "1,000 turns, summarizes all"),
        (Own(name="mine"), "own trigger mine"),
    ],
)
def test_a_trigger_is_told_with_its_comparison(trigger: Trigger, said: str) -> None:
    """In the order in which settings ask them: tokens first; none where they are not enabled."""
    assert in_words(trigger) == said
    settings = CompactionSettings(triggers=(trigger,), trigger_ratio=0.7)
    assert triggers_of(settings) == ["70% used", said]
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
