"""Settings from YAML, the environment and arguments: their precedence, and the errors for invalid values."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from langgraph_compaction.nodes.config.loading import allowed_classes, keys_in, load_settings
from langgraph_compaction.nodes.config.policies import PRESETS, Progressive, RecentRounds, Selective, TypedRules
from langgraph_compaction.nodes.config.settings import ALIASES, CompactionSettings, effective, flat
from langgraph_compaction.nodes.config.triggers import Count, UsedRatio
from langgraph_compaction.nodes.errors import SettingsError

SEED = """
agent: {model: some-model}
context_compaction:
  enabled: true
  max_context_tokens: 80000
  trigger_ratio: 0.8
  keep_recent_rounds: 2
  require_confirmation: true
  summary_max_length: 1000
"""
"""The configuration of S4.25-S4.30, in a file that holds other sections too."""

TURNS = {"turns", "model_calls"}


def section(text: str) -> str:
    """Return YAML with this text under the package's key."""
    return f"context_compaction: {text}"


def env(**variables: str) -> dict[str, str]:
    """Return an environment with these settings among other variables."""
    return {"PATH": "/bin", **{f"LANGGRAPH_COMPACTION_{name.upper()}": value for name, value in variables.items()}}


def turns(settings: CompactionSettings) -> list[Count]:
    """Return the triggers that count turns or calls of the model."""
    return [one for one in settings.triggers if isinstance(one, Count) and one.unit in TURNS]


@pytest.mark.parametrize("as_file", [False, True])
def test_the_seeds_yaml_is_understood(tmp_path: Path, as_file: bool) -> None:
    """Its six keys set six settings of `recent_rounds`, from a file or its text; other sections are ignored."""
    path = tmp_path / "agent.yaml"
    path.write_text(SEED, encoding="utf-8")
    expected = CompactionSettings(
        preset="recent_rounds",
        enabled=True,
        context_window=80_000,
        trigger_ratio=0.8,
        keep_recent_rounds=2,
        require_confirmation=True,
        summary_max_length=1_000,
    )
    assert load_settings(path if as_file else SEED) == load_settings(str(path)) == expected


def test_a_name_of_one_policy_implies_it() -> None:
    """`keep_recent_rounds` selects `recent_rounds`, whichever source has it."""
    weak = section("{keep_recent_rounds: 4}")
    for found in (
        load_settings(weak),
        load_settings(env=env(KEEP_RECENT_ROUNDS="4")),
        load_settings(keep_recent_rounds=4),
    ):
        assert found == CompactionSettings(policy=RecentRounds(keep_recent_rounds=4))
    assert load_settings(weak, env(TRIGGER_RATIO="0.7")).preset == "recent_rounds"
    assert load_settings(summary_mode="if_needed").preset == "selective"


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"preset": "selective", "keep_recent_rounds": 3}, "keep_recent_rounds"),
        ({"yaml": section("{preset: selective}"), "keep_recent_rounds": 3}, "keep_recent_rounds"),
        ({"yaml": section("{keep_recent_rounds: 3}"), "preset": "faithful"}, "YAML: context_compaction.keep_recent"),
        ({"env": env(KEEP_RECENT_ROUNDS="3", PRESET="progressive")}, "LANGGRAPH_COMPACTION_KEEP_RECENT_ROUNDS"),
    ],
)
def test_a_name_without_effect_is_an_error_that_says_where_it_works(given: dict[str, Any], place: str) -> None:
    """It belongs to one policy, and another one is chosen."""
    with pytest.raises(SettingsError, match="is a setting of recent_rounds, not of") as raised:
        load_settings(**given)
    assert place in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        ("enabled", False, "enabled"),
        ("max_context_tokens", 7_000, "context_window"),
        ("trigger_ratio", 0.7, "trigger_ratio"),
        ("keep_recent_rounds", 4, "keep_recent_rounds"),
        ("require_confirmation", True, "require_confirmation"),
        ("summary_max_length", 77, "summary_max_length"),
    ],
)
@pytest.mark.parametrize("source", ["yaml", "env", "constructor"])
def test_each_of_the_seeds_names_works_in_each_source(key: str, value: Any, name: str, source: str) -> None:
    """The package's own name of the setting has the same effect."""
    for known in {key, name}:
        given: dict[str, Any] = {
            "yaml": {"yaml": section(f"{{{known}: {json.dumps(value)}}}")},
            "env": {"env": env(**{known.upper(): json.dumps(value)})},
            "constructor": {known: value},
        }[source]
        assert flat(load_settings(**given))[name] == value != flat(CompactionSettings()).get(name)


@pytest.mark.parametrize(
    ("variable", "name", "default"),
    [
        ("SLIDING_WINDOW_SIZE", "sliding_window_size", 9),
        ("IMPORTANCE_SCORE_THRESHOLD", "importance_score_threshold", 3.0),
        ("INCREMENTAL_SUMMARY_CHUNK_SIZE", "incremental_summary_chunk_size", 20),
    ],
)
def test_the_seeds_variables_set_its_figures(variable: str, name: str, default: float) -> None:
    """Without these keys the preset's defaults hold."""
    assert flat(load_settings(env=env(PRESET="progressive")))[name] == default
    assert flat(load_settings(env=env(**{variable: "7"})))[name] == 7


def test_the_turn_threshold_is_the_limit_of_the_trigger_that_counts_turns() -> None:
    """200 calls of the model by the preset; the variable changes that figure of that trigger and nothing else."""
    usual = CompactionSettings(preset="progressive")
    assert [one.limit for one in turns(usual)] == [200]
    changed = load_settings(env=env(CONVERSATION_TURN_THRESHOLD="50", PRESET="progressive"))
    assert [one.limit for one in turns(changed)] == [50]
    others = [[one for one in found.triggers if one not in turns(found)] for found in (usual, changed)]
    assert others[0] == others[1]
    assert [(one.unit, one.full) for one in turns(changed)] == [("model_calls", True)]


def test_the_order_is_run_constructor_environment_yaml_preset() -> None:
    """Each setting is taken from the source of highest precedence that sets it."""
    yaml = section("{preset: selective, preview_tokens: 11, summary_timeout_s: 1, tool_call_threshold: 300}")
    variables = env(PREVIEW_TOKENS="22", SUMMARY_TIMEOUT_S="2", CONTEXT_WINDOW="7000")
    built = load_settings(yaml, variables, summary_timeout_s=3, context_window=9_000)
    assert built.policy == Selective(preview_tokens=22, tool_call_threshold=300)
    assert (built.context_window, built.summary_timeout_s) == (9_000, 3)
    run = effective(built, {"summary_timeout_s": 4})
    assert (run.summary_timeout_s, run.policy, run.context_window) == (4, built.policy, 9_000)
    assert load_settings(section("{preset: faithful}"), preset="recent_rounds").policy == RecentRounds()
    assert load_settings(section("{preset: faithful}"), env(PRESET="typed_rules")).preset == "typed_rules"


@pytest.mark.parametrize("preset", PRESETS)
def test_without_any_source_the_preset_stands(preset: str) -> None:
    """A preset needs nothing but its name, and without any source the default preset is used."""
    assert load_settings(section(f"{{preset: {preset}}}")) == CompactionSettings.model_validate({"preset": preset})
    assert load_settings() == load_settings("context_compaction:\n") == CompactionSettings()


def test_no_environment_is_read_that_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is passed as an argument, like any other source."""
    monkeypatch.setenv("LANGGRAPH_COMPACTION_PREVIEW_TOKENS", "7")
    assert load_settings().policy == Selective()


def test_structured_variables_are_json() -> None:
    """Variables hold lists, objects or null; empty ones count as unset, and what is no setting is ignored."""
    given = env(
        STRATEGIES='["tool_blocks", "full"]',
        TRIGGERS='[{"kind": "used_ratio", "ratio": 0.7}]',
        TRIGGER_RATIO="null",
        SUMMARY_MODE="if_needed",
        ENABLED="false",
        PREVIEW_TOKENS=" ",
        DATABASE_URL="sqlite:///agent.db",
        CONFIG=" ",
        ALLOW="app:Weather",
        KEYS="2026=AAAA",
    )
    found = load_settings(env=given)
    assert found.policy == Selective(strategies=("tool_blocks", "full"), summary_mode="if_needed")
    assert (found.triggers, found.trigger_ratio, found.enabled) == ((UsedRatio(ratio=0.7),), None, False)
    rules = load_settings(env=env(TYPE_RULES='{"tool_result": {"action": "drop"}}')).of(TypedRules).type_rules
    assert rules["tool_result"].action == "drop"
    orders = load_settings(env=env(ADAPTIVE_ORDERS='{"unknown": ["sliding_window"]}')).of(Progressive).adaptive_orders
    assert orders.unknown == ("sliding_window",)
    with pytest.raises(SettingsError, match=r"ADAPTIVE_ORDERS = 'all': not JSON"):
        load_settings(env=env(ADAPTIVE_ORDERS="all"))


def test_keys_stand_in_the_environment_the_current_one_first() -> None:
    """No error quotes one."""
    new, old = b64encode(b"n" * 32).decode(), b64encode(b"o" * 32).decode()
    assert repr(keys_in(env(KEYS=f"2026={new}, 2025={old}"))) == "Keyring(['2025', '2026'], current='2026')"
    assert keys_in(env(KEYS=" ")) is None
    for wrong in (new, f"2026={new[:-8]}", f"2026={new}secret", f"={new}"):
        with pytest.raises(SettingsError, match=r"KEYS: write ID=KEY, each key 32 bytes in base64") as error:
            keys_in(env(KEYS=wrong))
        assert new[:20] not in str(error.value)


def test_the_environment_names_a_file(tmp_path: Path) -> None:
    """A variable overrides the file that the environment names; a source that the caller gives takes its place."""
    path = tmp_path / "agent.yaml"
    path.write_text(section("{preset: typed_rules, trigger_ratio: 0.5, summary_timeout_s: 1}"), encoding="utf-8")
    given = env(CONFIG=str(path), TRIGGER_RATIO="0.6")
    found = load_settings(env=given)
    assert (found.preset, found.trigger_ratio, found.summary_timeout_s) == ("typed_rules", 0.6, 1)
    other = load_settings(section("{preview_tokens: 22}"), given)
    assert (other.policy, other.trigger_ratio) == (Selective(preview_tokens=22), 0.6)
    with pytest.raises(SettingsError, match=r"none\.yaml: cannot be read"):
        load_settings(env=env(CONFIG=str(tmp_path / "none.yaml")))


def test_allowed_classes_are_named_by_module() -> None:
    """Separated by commas; nothing is imported, and what names no class says how to name one."""
    assert allowed_classes("") == []
    assert allowed_classes(" app.models:Weather, app:City ,") == [("app.models", "Weather"), ("app", "City")]
    for wrong in ("Weather", "app:", ":Weather", "app:Weather()"):
        with pytest.raises(SettingsError, match="write module:Class"):
            allowed_classes(wrong)


def test_every_alias_names_a_setting() -> None:
    """No alias has the name of a setting."""
    assert set(ALIASES.values()) <= set(CompactionSettings.model_fields)
    assert not set(ALIASES) & set(CompactionSettings.model_fields)
