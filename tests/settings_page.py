"""docs/settings.md: each setting with its default and what it means, the policies, and the sizes with real models."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from langchain_google_genai import ChatGoogleGenerativeAI
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from langgraph_compaction.graph.cli.presets import plain, triggers_of
from langgraph_compaction.graph.preset_sizes import preset_sizes
from langgraph_compaction.nodes import CompactionSettings
from langgraph_compaction.nodes.config.policies import POLICIES, Policy
from langgraph_compaction.nodes.config.settings import flat
from tests.fakes import claude, gpt

PAGE: Final = Path(__file__).parent.parent / "docs" / "settings.md"
HEAD = """# Settings

[Configuration](configuration.md) says how to give them, [presets](presets.md) how to choose a policy.
"""
SIZES = """## Sizes with real models

In tokens, without system prompt and tools, before the first compaction; `langgraph-compaction presets --model NAME`
prints them for any model. [Sizes](configuration.md#sizes) has the formulas.
"""
SIZED = {
    "gpt-4o": ("ChatOpenAI", gpt("gpt-4o")),
    "gpt-5": ("ChatOpenAI", gpt("gpt-5")),
    "claude-sonnet-4-5": ("ChatAnthropic", claude()),
    "claude-sonnet-4-5, max_tokens=8_192": ("ChatAnthropic", claude(max_tokens=8_192)),
    "gemini-2.5-pro": (
        "ChatGoogleGenerativeAI",
        ChatGoogleGenerativeAI(model="gemini-2.5-pro", api_key=SecretStr("none")),
    ),
}
"""The model objects of the table of sizes: the argument that names each, its class and the object."""


def page() -> str:
    """The page as it has to be."""
    return "\n".join([HEAD, *_shared_and_own(), SIZES, *_sizes()]) + "\n"


def _shared_and_own() -> Iterator[str]:
    """The shared settings, the policies, and what each policy adds."""
    shared = {name: field for name, field in CompactionSettings.model_fields.items() if name != "policy"}
    said, firsts = set[str](), dict[type | None, type[Policy]]()
    yield "## Shared settings\n"
    yield _settings(shared, flat(CompactionSettings()), said)
    yield "## The policies\n"
    yield _policies()
    yield "## Settings of each policy\n"
    for name, kind in POLICIES.items():
        own = {one: field for one, field in kind.model_fields.items() if one != "name"}
        yield f"### `{kind.__name__}`, preset `{name}`\n\n{' '.join((kind.__doc__ or '').split())}\n"
        first = firsts.setdefault(kind.__base__, kind)
        if first is kind or kind.__base__ is Policy:
            yield _settings(own, kind().model_dump(mode="json"), said)
        else:
            yield f"The settings of `{first.__name__}`, with other strategies.\n"


def _settings(fields: Mapping[str, FieldInfo], values: Mapping[str, Any], said: set[str]) -> str:
    """The table of these fields; what an earlier table `said` is not said again."""
    lines = ["| setting | default | |", "|---|---|---|"]
    for name, field in fields.items():
        shown = json.dumps(values[name])
        default = f"`{shown}`" if len(shown) < 60 else "long; `langgraph-compaction presets` prints it"
        meaning = " ".join((field.description or "").split())
        lines.append(_row(f"`{name}`", default, "as above" if meaning in said else meaning))
        said.add(meaning)
    return "\n".join(lines) + "\n"


def _policies() -> str:
    lines = ["| preset | what it does | starts at | checked | chosen by | summary |", "|---|---|---|---|---|---|"]
    for name in POLICIES:
        chosen = CompactionSettings.model_validate({"preset": name})
        cells = [
            f"`{name}`",
            " ".join((type(chosen.policy).__doc__ or "").split()),
            "; ".join(triggers_of(chosen)),
            ", ".join(f"`{hook}`" for hook in chosen.policy.hooks),
            ", ".join(f"`{one}`" for one in chosen.policy.strategies),
            plain(chosen.summary_mode),
        ]
        lines.append(_row(*cells))
    return "\n".join(lines) + "\n"


def _sizes() -> Iterator[str]:
    """For each model object the sizes of every preset; presets with the same sizes share a row."""
    yield _row("model object", "presets", "window", "limit", "trigger", "aim")
    yield "|---|---|--:|--:|--:|--:|"
    for name, (kind, model) in SIZED.items():
        same: dict[tuple[int, ...], list[str]] = {}
        for preset, *sizes in preset_sizes(model):
            same.setdefault(tuple(sizes), []).append(f"`{preset}`")
        for shared, presets in same.items():
            yield _row(f"`{kind}`, {name}", ", ".join(presets), *(f"{size:,}" for size in shared))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
