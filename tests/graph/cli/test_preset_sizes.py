"""`presets --model`: the sizes that each preset would have with a model, printed without network and key."""

import json
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_google_genai import ChatGoogleGenerativeAI
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.graph.preset_sizes import preset_sizes
from langgraph_compaction.nodes.config.policies import PRESETS, Preset
from langgraph_compaction.nodes.config.settings import CompactionSettings
from langgraph_compaction.nodes.conversation.window_and_reserve import Sizes, sizes_of
from langgraph_compaction.nodes.runtime.dependencies import answer_tokens, window_of
from tests.fakes import claude, gpt

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY")


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the keys away, and make every connection an error."""

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)


def presets(*args: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["presets", *args], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})


def read(*args: str) -> dict[str, tuple[int, ...]]:
    """The sizes that the command prints as JSON: window, limit, trigger and aim by preset."""
    result = presets(*args, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = json.loads(result.stdout)
    assert [list(row) for row in rows] == [["preset", "window", "limit", "trigger", "aim"]] * len(rows)
    return {preset: tuple(sizes) for preset, *sizes in (row.values() for row in rows)}


@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"])
def test_the_sizes_of_a_model_by_its_name(name: str) -> None:
    """With its provider and without; every preset in its order."""
    found = read("--model", name)
    assert list(found) == list(PRESETS)
    assert found["selective"] == (200_000, 136_000, 108_800, 68_000)
    assert found["layered_defence"] == (200_000, 136_000, 122_401, 68_000)
    assert found["faithful"] == (200_000, 136_000, 136_000, 54_400)


def test_they_are_those_of_the_agents_model_object() -> None:
    """Window, reserve and trigger as the graph computes them."""
    for name, model in (("gpt-4o", gpt("gpt-4o")), ("openai:gpt-5", gpt("gpt-5")), ("claude-sonnet-4-5", claude())):
        assert read("--model", name) == {row.preset: tuple(row[1:]) for row in preset_sizes(model)}


def test_one_preset_and_ones_own_figures() -> None:
    """A name limits the list; `--window` stands over what the model says, or stands alone."""
    assert list(read("layered_defence", "--model", "gpt-4o")) == ["layered_defence"]
    assert read("--model", "gpt-99", "--window", "64000")["selective"][:3] == (64_000, 57_600, 51_200)
    assert read("--window", "64000")["selective"][:3] == (64_000, 57_600, 51_200)


def test_the_table_says_what_the_figures_are_of() -> None:
    """The table has one row for each preset, and shows numbers with thousands separators."""
    result = presets("--model", "gpt-4o")
    assert [line.split()[0] for line in result.stdout.splitlines()[2:-1]] == list(PRESETS)
    (row,) = [line.split() for line in result.stdout.splitlines() if line.split()[:1] == ["layered_defence"]]
    assert row == ["layered_defence", "128,000", "121,600", "115,201", "60,800"]
    assert [line.split() for line in presets("faithful", "--window", "9000").stdout.splitlines()[::2]] == [
        ["preset", "window", "limit", "trigger", "aim"],
        ["faithful", "9,000", "8,438", "8,438", "3,375"],
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "gpt-99"], "no context window is known for gpt-99"),
        (["--model", "nobody:gpt-4o"], "names no chat model that can be opened"),
        (["--model", "mistralai:mistral-large-latest"], "langchain-mistralai"),
        (["--window", "25%"], "the model's own window is not known"),
    ],
)
def test_what_cannot_be_told_is_a_usage_error(arguments: list[str], said: str) -> None:
    """Nothing is printed, and the error names the way out."""
    result = presets(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_the_limit_of_googles_objects_has_a_name_of_its_own() -> None:
    """`max_output_tokens` is kept free as `max_tokens` is."""
    model = ChatGoogleGenerativeAI(model="gemini-2.5-pro", api_key=SecretStr("none"), max_output_tokens=65_536)
    (found,) = preset_sizes(model, ["selective"])
    assert found.window - found.limit == 65_536


MODELS = {
    **{
        name: gpt(name) for name in ("gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-5", "gpt-5-mini", "o1", "o3", "o4-mini")
    },
    **{name: claude(name) for name in ("claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-5")},
    "gemini-2.5-pro": ChatGoogleGenerativeAI(model="gemini-2.5-pro", api_key=SecretStr("none")),
}
"""Model objects of people's everyday use: constructed, never called."""


def of_preset(preset: Preset, ratio: float) -> CompactionSettings:
    """A preset whose triggers by tokens all have this ratio of the window, whatever their kind."""
    usual = CompactionSettings(preset=preset)
    changed = []
    for trigger in usual.triggers:
        values = trigger.model_dump()
        if values["kind"] in ("used_ratio", "remaining_ratio"):
            values["ratio"] = ratio if values["kind"] == "used_ratio" else 1 - ratio
        if values["kind"] == "reserve_tokens":
            values |= {"kind": "used_ratio", "ratio": ratio}
            del values["tokens"]
        changed.append(values)
    own = None if usual.trigger_ratio is None else ratio
    return CompactionSettings.model_validate({"preset": preset, "trigger_ratio": own, "triggers": changed})


def sizes(model: Any, settings: CompactionSettings, prompt: int = 0) -> Sizes:
    """The sizes of a call with this model and a system prompt of so many percent of the limit."""
    window = window_of(settings, model)
    answer = answer_tokens(model, window)
    limit = sizes_of(settings, window=window, fixed=0, max_tokens=answer).limit
    return sizes_of(settings, window=window, fixed=limit * prompt // 100, max_tokens=answer)


PROMPTS = [0, 5, 25, 50]
"""Sizes of system prompts, in percent of the limit."""


@given(
    name=st.sampled_from(sorted(MODELS)),
    preset=st.sampled_from(PRESETS),
    prompt=st.sampled_from(PROMPTS),
    ratios=st.tuples(st.floats(0.52, 0.999), st.floats(0.52, 0.999)).map(sorted),
)
def test_of_every_model_and_preset_the_trigger_rises_with_the_ratio(
    name: str, preset: Preset, prompt: int, ratios: list[float]
) -> None:
    """Strictly, up to the lower end of the soft zone, whatever the system prompt; aim < trigger <= limit."""
    low, high = (sizes(MODELS[name], of_preset(preset, ratio), prompt) for ratio in ratios)
    assert low.trigger <= high.trigger
    assert low.of_limit == high.of_limit
    end = high.limit if preset == "faithful" else high.limit - -(-high.window // 50)
    if (ratios[1] - ratios[0]) * high.room > 4 and high.trigger < end:
        assert low.trigger < high.trigger
    for found in (low, high):
        assert found.aim < found.trigger <= found.limit
        assert preset == "faithful" or found.limit - found.trigger >= -(-found.window // 50)
        assert found.reserve > 0 or name.startswith("gpt-5") or preset == "recent_rounds"


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("name", MODELS)
def test_at_least_half_of_the_room_is_usable(name: str, prompt: int) -> None:
    """At each preset's defaults; where a ratio is hardly above the target, still more than that share of the room."""
    for preset in PRESETS:
        usual, low = (
            sizes(MODELS[name], settings, prompt)
            for settings in (CompactionSettings(preset=preset), of_preset(preset, 0.52))
        )
        assert usual.fixed + usual.room // 2 < usual.trigger
        for found in (usual, low):
            assert found.trigger - found.aim >= found.room // 100


@pytest.mark.parametrize(("ratio", "trigger"), [(0.5625, 88_187), (0.625, 91_375), (0.8, 108_800), (0.9, 122_400)])
def test_a_system_prompt_of_a_quarter_of_the_limit_turns_no_ratios_around(ratio: float, trigger: int) -> None:
    """With Claude, whose limit is 136,000 tokens; the common ratios stay shares of the limit."""
    assert sizes(claude(), CompactionSettings(trigger_ratio=ratio), 25).trigger == trigger


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", MODELS)
def test_each_model_has_a_soft_zone_and_a_reserve(name: str, preset: Preset) -> None:
    """At the preset's own defaults; `faithful` alone declares that it has no soft zone.

    `recent_rounds` uses 80,000 tokens of a window, so that the answer has its reserve in the rest.
    """
    found = sizes(MODELS[name], CompactionSettings(preset=preset))
    assert (found.reserve > 0) == (not name.startswith("gpt-5") and preset != "recent_rounds")
    assert (found.trigger < found.limit) == (preset != "faithful")
