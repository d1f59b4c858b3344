"""The presets: each system of the requirements as a set of settings (REQUIREMENTS §2.3).

A preset is nothing but values: whatever it sets, a user may set otherwise.
"""

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
]

_PROGRESSIVE: Mapping[str, Any] = {
    "trigger_ratio": None,
    "triggers": (
        {"kind": "remaining_ratio", "ratio": 0.25},
        {"kind": "count", "unit": "turns", "limit": 200, "full": True},
        {"kind": "marker"},
        {"kind": "command"},
    ),
    "hooks": ("pre_model", "on_overflow"),
    "strategies": ("adaptive", "sliding_window", "importance", "key_events", "incremental"),
    "summary_mode": "last_resort",
    "keep_facts": False,
}

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "selective": {},
    "typed_rules": {
        "hooks": ("post_model", "on_overflow"),
        "strategies": ("typed_rules",),
        "summary_mode": "last_resort",
        "keep_facts": False,
    },
    "progressive": _PROGRESSIVE,
    "progressive_chart": {**_PROGRESSIVE},
    "progressive_pseudocode": {**_PROGRESSIVE},
    "layered_defence": {
        "trigger_ratio": None,
        "triggers": (
            {"kind": "used_ratio", "ratio": 0.9, "operator": ">"},
            {"kind": "count", "unit": "events", "limit": 700, "operator": ">"},
        ),
        "hooks": ("pre_input", "pre_model", "on_overflow"),
        "strategies": ("full",),
        "keep_facts": False,
    },
    "recent_rounds": {
        "hooks": ("pre_input", "on_overflow"),
        "strategies": ("recent_rounds",),
        "require_confirmation": True,
        "keep_facts": False,
    },
    "reserve_tokens": {
        "trigger_ratio": None,
        "triggers": ({"kind": "reserve_tokens", "tokens": 16_384, "operator": ">"},),
        "strategies": ("recent_tokens",),
        "keep_facts": False,
    },
}
"""What each preset sets otherwise than `selective`."""

PRESETS: tuple[Preset, ...] = get_args(Preset)
"""Presets that exist."""


def defaults_of(preset: Any) -> dict[str, Any]:
    """What a preset sets otherwise than the fields' own defaults; nothing for a name that is none."""
    return dict(_DEFAULTS.get(preset, {})) if isinstance(preset, str) else {}
