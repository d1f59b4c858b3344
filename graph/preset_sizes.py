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
    model: Model | None = None, presets: Sequence[Preset] = PRESETS, *, window: int | None = None
) -> list[PresetSizes]:
    """Return the sizes of these presets with a model, which is not called.

    `window` stands in place of the window in the model's profile; without a model it is all that is known. Raises
    `UnknownWindowError` if neither `window` nor the profile gives a window, also for a preset that assumes one.
    """
    known = window or window_of(CompactionSettings(), model)
    answer = answer_tokens(model, known)
    found = (sizes_of(CompactionSettings(preset=one), window=known, fixed=0, max_tokens=answer) for one in presets)
    return [
        PresetSizes(preset, sizes.window, sizes.limit, sizes.trigger, sizes.aim)
        for preset, sizes in zip(presets, found, strict=True)
    ]
