import json
from typing import Any

import pytest
from pydantic import ValidationError

from langgraph_compaction.nodes.config.base_model import hint, nearest
from langgraph_compaction.nodes.config.presets import PRESETS
from langgraph_compaction.nodes.config.settings import GROUPS, CompactionOverrides, CompactionSettings, effective
from langgraph_compaction.nodes.config.triggers import ReserveTokens

FIGURES = {"preview_tokens": 200, "dialogue_rounds_keep_min": 12, "summary_mode": "always"}
DEFAULTS = {
    "tool_blocks_keep_recent": 5,
    "tool_call_threshold": 500,
    "tool_result_threshold": 600,
    "dialogue_beyond_keep": 5,
    "summary_retries": 2,
    "breaker_cooldown_s": 8.0,
    "breaker_cooldown_after": 2,
    "emit_compaction_meta_events": False,
    "trigger_ratio": 0.8,
    "target_ratio": 0.5,
}


@pytest.mark.parametrize(("name", "value"), DEFAULTS.items())
def test_defaults_are_the_seeds(name: str, value: Any) -> None:
    """Each figure of the seed has a name, and its value stands unless somebody changes it."""
    assert getattr(CompactionSettings(), name) == value


@pytest.mark.parametrize(("name", "value"), FIGURES.items())
def test_what_is_kept_and_summarized_is_the_seeds(name: str, value: Any) -> None:
    """The floor of rounds, the preview of clipped fields and the summary's figures have names and defaults too."""
    assert getattr(CompactionSettings(), name) == value


@pytest.mark.parametrize(("operator", "smallest"), [(">", 751), (">=", 750)])
def test_reserved_tokens_fire_at_the_smallest_request_that_takes_some_of_them(operator: Any, smallest: int) -> None:
    """With `>`, a request that leaves exactly as many tokens does not fire."""
    trigger = ReserveTokens(tokens=250, operator=operator)
    assert trigger.threshold(1_000) == smallest
    assert trigger.threshold(100) == 1


def test_every_setting_says_what_it_is() -> None:
    """Each has a description, which schemas and command line show."""
    assert [name for name, field in CompactionSettings.model_fields.items() if not field.description] == []
    assert next(iter(CompactionSettings.model_fields)) == "context_window"


def test_the_everyday_settings_come_first() -> None:
    """Ten of them, then the groups; a title names its group, and no setting is in two of them."""
    first, *others = GROUPS.values()
    assert list(first.model_fields) == [
        "context_window",
        "preset",
        "enabled",
        "trigger_ratio",
        "target_ratio",
        "output_reserve",
        "summary_instructions",
        "language",
        "require_confirmation",
        "recall",
    ]
    assert [name for group in GROUPS.values() for name in group.model_fields] == list(CompactionSettings.model_fields)
    titles = [{str(field.title).partition(":")[0] for field in group.model_fields.values()} for group in others]
    assert [len(words) for words in titles if not words & {"Strategies", "tool_blocks"}] == [1] * 7


def test_a_form_shows_title_meaning_and_default() -> None:
    """The JSON schema of the overrides has the fields in their order; the default stands in the description."""
    shown = CompactionOverrides.model_json_schema()["properties"]
    assert list(shown) == list(CompactionSettings.model_fields)
    assert shown["trigger_ratio"]["title"] == "Trigger (share of the window)"
    assert shown["trigger_ratio"]["description"].endswith("Default of the preset `selective`: 0.8.")
    assert all(shown[name]["title"] == field.title for name, field in CompactionSettings.model_fields.items())


def test_settings_are_frozen_json() -> None:
    """They round-trip through JSON and cannot be changed in place."""
    chosen = CompactionSettings(context_window=1_000, summary_scope="all")
    assert CompactionSettings.model_validate_json(chosen.model_dump_json()) == chosen
    assert json.loads(chosen.model_dump_json())["context_window"] == 1_000
    with pytest.raises(ValidationError):
        chosen.context_window = 2_000  # type: ignore[misc] # that it is frozen is the point


@pytest.mark.parametrize(
    "wrong",
    [
        {"context_window": 0},
        {"context_window": -1},
        {"preset": "none"},
        {"preset": ["selective"]},
        {"preset": None},
        {"output_reserve": -1},
        {"trigger_ratio": 0},
        {"trigger_ratio": 1.01},
        {"target_ratio": 0},
        {"target_ratio": 1},
        {"trigger_ratio": 0.5},
        {"trigger_ratio": 0.4},
        {"tool_blocks_keep_recent": -1},
        {"preview_tokens": 0},
        {"summary_retries": 11},
        {"summary_timeout_s": 0},
        {"facts_share": 0.51},
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
    built = CompactionSettings(context_window=1_000, require_confirmation=True, breaker_cooldown_s=3)
    given = {"breaker_cooldown_s": 0, "require_confirmation": False, "context_window": None}
    for overrides in (given, CompactionOverrides.model_validate(given)):
        changed = effective(built, overrides)
        assert (changed.context_window, changed.require_confirmation, changed.breaker_cooldown_s) == (1_000, False, 0)
    assert effective(built, None) is built
    assert effective(built, CompactionOverrides()) is built


def test_overrides_are_validated_with_what_they_stand_over() -> None:
    """Overrides that are valid alone but not together are an error."""
    with pytest.raises(ValidationError, match="must be below trigger_ratio"):
        effective(CompactionSettings(target_ratio=0.7), {"trigger_ratio": 0.6})


def test_another_setting_does_not_change_the_preset() -> None:
    """What was built from a preset stays that, with its figures; another preset takes only what was chosen."""
    built = CompactionSettings(preset="recent_rounds", recent_rounds_keep=4)
    changed = effective(built, {"context_window": 100})
    assert (changed.preset, changed.strategies, changed.recent_rounds_keep) == (
        "recent_rounds",
        ("recent_rounds",),
        4,
    )
    other = effective(built, {"preset": "typed_rules"})
    assert (other.preset, other.strategies, other.recent_rounds_keep) == ("typed_rules", ("typed_rules",), 4)


def test_an_unknown_name_is_told_with_the_nearest_one() -> None:
    """If no name is near, the error tells all known names."""
    known = ["window", "target"]
    assert (nearest("windo", known), nearest("x", known)) == ("did you mean window?", "known are window, target")
    assert hint("windo", known) == "did you mean 'window'? known are target, window"
    assert hint("x", known) == "known are target, window"
