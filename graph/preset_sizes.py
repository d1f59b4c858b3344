"""The sizes that each preset would have with a model: window, limit, trigger and aim."""

from collections.abc import Sequence
from typing import NamedTuple

from langgraph_compaction.nodes.config.policies import PRESETS, Preset
from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.conversation.window_and_reserve import sizes_of
from langgraph_compaction.nodes.runtime.dependencies import Model, answer_tokens, window_of


class PresetSizes(NamedTuple):
    """The sizes of one preset with one model, in tokens of a request without system prompt and tools."""

    preset: Preset
    window: int
    limit: int
    trigger: int
    aim: int


def preset_sizes(
    model: Model | None = None,
    presets: Sequence[Preset] = PRESETS,
    *,
    window: int | None = None,
    max_tokens: int | None = None,
) -> list[PresetSizes]:
    """Return the sizes of these presets with a model, which is not called.

    `window` stands in place of the window in the model's profile, `max_tokens` in place of the model's own limit for
    its answer; without a model both are all that is known. Raises `UnknownWindowError` if neither `window` nor the
    profile gives a window, also for a preset that assumes one.
    """
    known = window or window_of(CompactionSettings(), model)
    answer = max_tokens or answer_tokens(model, known)
    return [_sizes(preset, known, answer) for preset in presets]


def _sizes(preset: Preset, window: int, max_tokens: int | None) -> PresetSizes:
    found = sizes_of(CompactionSettings(preset=preset), window=window, fixed=0, max_tokens=max_tokens)
    return PresetSizes(preset, found.window, found.limit, found.trigger, found.aim)
