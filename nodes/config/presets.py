"""The presets: named sets of default values for the settings. A user can override each of these values."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

Preset = Literal[
    "selective",
    "typed_rules",
    "progressive",
    "progressive_chart",
    "progressive_pseudocode",
    "layered_defence",
    "recent_rounds",
    "reserve_tokens",
    "faithful",
]

_PROGRESSIVE: Mapping[str, Any] = {
    "trigger_ratio": None,
    "triggers": (
        {"kind": "remaining_ratio", "ratio": 0.25},
        {"kind": "count", "unit": "model_calls", "limit": 200, "full": True},
        {"kind": "marker"},
        {"kind": "command"},
    ),
    "hooks": ("pre_model", "on_overflow"),
    "strategies": ("adaptive", "sliding_window", "importance", "key_events", "incremental"),
    "summary_mode": "last_resort",
    "summary_prompts": "four_points",
    "summary_form": "history",
    "facts_beside_summary": False,
    "key_information": ("goal", "pins", "memories", "tasks", "git_diff"),
}

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "selective": {},
    "typed_rules": {
        "hooks": ("post_model", "on_overflow"),
        "strategies": ("typed_rules",),
        "summary_mode": "last_resort",
        "facts_beside_summary": False,
    },
    "progressive": _PROGRESSIVE,
    "progressive_chart": {
        **_PROGRESSIVE,
        "strategies": ("adaptive", "importance", "key_events", "incremental", "sliding_window"),
        "adaptive_orders": {
            "code": ("key_events",),
            "analysis": ("importance",),
            "conversation": ("sliding_window",),
        },
        "adaptive_then": (),
    },
    "progressive_pseudocode": {
        **_PROGRESSIVE,
        "strategies": ("adaptive", "importance", "key_events", "incremental", "sliding_window"),
        "adaptive_then": ("importance", "sliding_window"),
    },
    "layered_defence": {
        "trigger_ratio": None,
        "triggers": (
            {"kind": "used_ratio", "ratio": 0.9, "operator": ">"},
            {"kind": "count", "unit": "events", "limit": 700, "operator": ">"},
        ),
        "hooks": ("pre_input", "pre_model", "on_overflow"),
        "strategies": ("full",),
        "summary_prompts": "continuity",
        "summary_form": "cleared",
        "summary_input_guard": {"max_chars": 200_000, "head": 0.2, "tail": 0.3},
        "facts_beside_summary": False,
    },
    "recent_rounds": {
        "hooks": ("pre_input", "on_overflow"),
        "context_window": 80_000,
        "strategies": ("recent_rounds",),
        "summary_prompts": "brief",
        "summary_form": "recent_rounds",
        "summary_max_chars": 1_000,
        "require_confirmation": True,
        "warn_ratio": 0.75,
        "facts_beside_summary": False,
    },
    "reserve_tokens": {
        "trigger_ratio": None,
        "triggers": ({"kind": "reserve_tokens", "tokens": 16_384, "operator": ">"},),
        "strategies": ("recent_tokens",),
        "summary_prompts": "structured",
        "facts_beside_summary": False,
    },
    "faithful": {
        "summarizer": "digest",
        "strategies": ("faithful",),
        "summary_prompts": "structured",
        "summary_form": "terse",
        "facts_share": 0.4,
        "trigger_ratio": 1.0,
        "soft_zone": False,
        "target_ratio": 0.4,
        "auto_recall": True,
    },
}
"""For each preset, the values that differ from the values of `selective`."""

PRESETS: tuple[Preset, ...] = get_args(Preset)
"""The names of all presets."""


def defaults_of(preset: Any) -> dict[str, Any]:
    """Return the values of a preset that differ from the fields' defaults; an empty dict for an unknown name."""
    return dict(_DEFAULTS.get(preset, {})) if isinstance(preset, str) else {}
