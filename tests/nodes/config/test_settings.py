import json
from typing import Any

import pytest
from pydantic import ValidationError

from langgraph_compaction.nodes.config.base_model import nearest
from langgraph_compaction.nodes.config.policies import (
    POLICIES,
    PRESETS,
    Progressive,
    RecentRounds,
    Selective,
    TypedRules,
)
from langgraph_compaction.nodes.config.settings import CompactionOverrides, CompactionSettings, effective, flat
from langgraph_compaction.nodes.config.triggers import ReserveTokens, threshold
from langgraph_compaction.nodes.errors import SettingsError

DEFAULTS = {
    "tool_blocks_keep_recent": 5,
    "tool_call_threshold": 500,
    "tool_result_threshold": 600,
    "preview_tokens": 200,
    "dialogue_rounds_keep_min": 12,
    "dialogue_beyond_keep": 5,
    "summary_mode": "always",
    "emit_compaction_meta_events": False,
    "trigger_ratio": 0.8,
    "target_ratio": 0.5,
}


@pytest.mark.parametrize(("name", "value"), DEFAULTS.items())
def test_defaults_are_the_seeds(name: str, value: Any) -> None:
    """Each figure of the seed has a name, and its value stands unless somebody changes it."""
    assert flat(CompactionSettings())[name] == value


@pytest.mark.parametrize(("operator", "smallest"), [(">", 751), (">=", 750)])
def test_reserved_tokens_fire_at_the_smallest_request_that_takes_some_of_them(operator: Any, smallest: int) -> None:
    """With `>`, a request that leaves exactly as many tokens does not fire."""
    trigger = ReserveTokens(tokens=250, operator=operator)
    assert threshold(trigger, 1_000) == smallest
    assert threshold(trigger, 100) == 1


def test_every_setting_says_what_it_is() -> None:
    """Each has a title and a description, which schemas and command line show; shared ones and those of policies."""
    for kind in (CompactionSettings, *POLICIES.values()):
        fields = {name: field for name, field in kind.model_fields.items() if name != "name"}
        assert [name for name, field in fields.items() if not (field.description and field.title)] == []


def test_a_policy_is_chosen_by_value_by_name_or_by_its_settings() -> None:
    """All three are the same; a setting of another policy is an error that says whose it is."""
    chosen = CompactionSettings(policy=RecentRounds(keep_recent_rounds=4))
    assert chosen == CompactionSettings(preset="recent_rounds", keep_recent_rounds=4)
    assert chosen == CompactionSettings(keep_recent_rounds=4)
    assert (chosen.preset, chosen.require_confirmation) == ("recent_rounds", True)
    assert CompactionSettings(policy={"name": "recent_rounds", "keep_recent_rounds": 4}) == chosen
    with pytest.raises(
        ValidationError, match="'sliding_window_size' is a setting of progressive and progressive_chart"
    ):
        CompactionSettings.model_validate({"preset": "selective", "sliding_window_size": 3})
    with pytest.raises(ValidationError, match="are two: give one of them"):
        CompactionSettings(preset="selective", policy=RecentRounds())
    with pytest.raises(ValidationError, match="make it an argument of the policy"):
        CompactionSettings.model_validate({"policy": RecentRounds(), "keep_recent_rounds": 4})


def test_a_policys_settings_are_its_own() -> None:
    """At most ten of one policy; what another one has does not exist on it."""
    assert max(len(kind.model_fields) - 1 for kind in POLICIES.values()) <= 10
    assert not hasattr(RecentRounds(), "tool_blocks_keep_recent")
    assert CompactionSettings(policy=RecentRounds()).of(Selective).tool_blocks_keep_recent == 5


def test_a_form_shows_title_meaning_and_default() -> None:
    """The JSON schema of the overrides has the shared settings in their order, and a choice of policy."""
    schema = CompactionOverrides.model_json_schema()
    shown = schema["properties"]
    assert list(shown) == list(CompactionSettings.model_fields)
    assert shown["trigger_ratio"]["title"] == "Trigger (share of the window)"
    assert shown["trigger_ratio"]["description"].endswith("Default of the preset `selective`: 0.8.")
    assert all(shown[name]["title"] == field.title for name, field in CompactionSettings.model_fields.items())
    assert shown["preset"]["anyOf"][0]["enum"] == list(PRESETS)
    policies, _ = shown["policy"]["anyOf"]
    assert set(policies["discriminator"]["mapping"]) == set(PRESETS)


def test_settings_are_frozen_json() -> None:
    """They round-trip through JSON and cannot be changed in place."""
    chosen = CompactionSettings(context_window=1_000, summary_mode="if_needed")
    assert CompactionSettings.model_validate_json(chosen.model_dump_json()) == chosen
    assert json.loads(chosen.model_dump_json())["context_window"] == 1_000
    with pytest.raises(ValidationError):
        chosen.context_window = 2_000  # that it is frozen is the point


@pytest.mark.parametrize(
    "wrong",
    [
        {"context_window": 0},
        {"context_window": -1},
        {"preset": "none"},
        {"preset": ["selective"]},
        {"output_reserve": -1},
        {"trigger_ratio": 0},
        {"trigger_ratio": 1.01},
        {"target_ratio": 0},
        {"target_ratio": 1},
        {"trigger_ratio": 0.5},
        {"trigger_ratio": 0.4},
        {"tool_blocks_keep_recent": -1},
        {"preview_tokens": 0},
        {"summary_timeout_s": 0},
        {"max_tokens": 1},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    """Out of bounds, unknown, or an aim at the trigger: at every turn it would compact."""
    with pytest.raises(ValidationError):
        CompactionSettings.model_validate(wrong)


def test_presets_are_those_that_the_settings_accept() -> None:
    """The tuple and the type name the same ones."""
    assert [CompactionSettings.model_validate({"preset": name}).preset for name in PRESETS] == list(PRESETS)


def test_overrides_know_every_setting_and_set_none() -> None:
    """Overrides that only repeat the defaults, as servers send them, change nothing."""
    assert set(CompactionOverrides.model_fields) == set(CompactionSettings.model_fields)
    assert set(CompactionOverrides().model_dump().values()) == {None}
    with pytest.raises(ValidationError):
        CompactionOverrides.model_validate({"no_such_setting": 1})
    with pytest.raises(ValidationError):
        CompactionOverrides.model_validate({"summary_mode": "sometimes"})


def test_a_runs_overrides_stand_over_the_builders_settings() -> None:
    """As a model or as a dict; what is None stays as built, zero and False do not count as None."""
    built = CompactionSettings(context_window=1_000, require_confirmation=True, output_reserve=3)
    given = {"output_reserve": 0, "require_confirmation": False, "context_window": None}
    for overrides in (given, CompactionOverrides.model_validate(given)):
        changed = effective(built, overrides)
        assert (changed.context_window, changed.require_confirmation, changed.output_reserve) == (1_000, False, 0)
    assert effective(built, None) is built
    assert effective(built, CompactionOverrides()) is built


def test_overrides_are_validated_with_what_they_stand_over() -> None:
    """Overrides that are valid alone but not together are an error."""
    with pytest.raises(ValidationError, match="must be below trigger_ratio"):
        effective(CompactionSettings(target_ratio=0.7), {"trigger_ratio": 0.6})


def test_another_setting_does_not_change_the_policy() -> None:
    """What was built from a policy stays that, with its figures; another policy takes the shared ones that differ."""
    built = CompactionSettings(policy=RecentRounds(keep_recent_rounds=4), summary_timeout_s=1)
    changed = effective(built, {"context_window": 100})
    assert (changed.policy, changed.context_window) == (built.policy, 100)
    other = effective(built, {"preset": "typed_rules"})
    assert (other.policy, other.summary_timeout_s, other.require_confirmation) == (TypedRules(), 1, False)


@pytest.mark.parametrize(
    ("given", "keep", "length"),
    [
        ({"keep_recent_rounds": 1}, 1, 500),
        ({"hooks": ["pre_model"]}, 4, 500),
        ({"policy": {"name": "recent_rounds", "keep_recent_rounds": 1}}, 1, 500),
        ({"preset": "recent_rounds"}, 4, 500),
    ],
)
def test_overrides_change_single_settings_of_a_policy(given: dict[str, Any], keep: int, length: int) -> None:
    """By flat names or as `policy`; what they leave out stays as built."""
    built = CompactionSettings(policy=RecentRounds(keep_recent_rounds=4, summary_max_length=500))
    policy = effective(built, CompactionOverrides.model_validate(given)).of(RecentRounds)
    assert (policy.keep_recent_rounds, policy.summary_max_length) == (keep, length)


def test_a_run_changes_no_setting_that_the_policy_does_not_have() -> None:
    """The error says whose it is; with its preset it is that policy."""
    with pytest.raises(SettingsError, match="sliding_window_size is a setting of progressive"):
        effective(CompactionSettings(), {"sliding_window_size": 3})
    chosen = effective(CompactionSettings(), {"preset": "progressive", "sliding_window_size": 3})
    assert chosen.policy == Progressive(sliding_window_size=3)


def test_an_unknown_name_is_told_with_the_nearest_one() -> None:
    """If no name is near, the error tells all known names."""
    known = ["window", "target"]
    assert (nearest("windo", known), nearest("x", known)) == ("did you mean window?", "known are window, target")
