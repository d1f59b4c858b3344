"""The README and the guides tell the truth: their code runs, their settings, commands and figures exist."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_google_genai import ChatGoogleGenerativeAI
from opentelemetry import trace
from opentelemetry.trace import TracerProvider
from pydantic import SecretStr
from pydantic.fields import FieldInfo
from typer.testing import CliRunner

from benchmarks.tables import peer_versions, peers, tables
from langgraph_compaction.checkpoint import errors as storage_errors
from langgraph_compaction.checkpoint import telemetry
from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.graph.cli.presets import plain, triggers_of
from langgraph_compaction.graph.preset_sizes import preset_sizes
from langgraph_compaction.nodes import CompactionSettings, errors
from langgraph_compaction.nodes import events as told
from langgraph_compaction.nodes.config.policies import POLICIES, Policy
from langgraph_compaction.nodes.config.settings import flat
from tests.fakes import claude, gpt

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDES = sorted((ROOT / "docs").glob("*.md"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SKILL = ROOT / "docs" / "skills" / "langgraph-compaction" / "SKILL.md"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *GUIDES, SKILL)}
RUN_ELSEWHERE = {"migrate.md", "server.md"}
"""By `test_docs.py` and `server/test_page.py`, with what stands in for models and addresses."""
KINDS = {"console", "json", "mermaid", "python", "sh", "text", "yaml"}
"""The languages of blocks: those of `python` are run, with the `text` behind them; the others show no Python."""
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


@pytest.fixture(autouse=True)
def tracer_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a tracer provider that a page sets for its process hold for this page alone."""

    def provided(provider: TracerProvider) -> None:
        monkeypatch.setattr(telemetry, "_TRACER", provider.get_tracer(telemetry.SCOPE))

    monkeypatch.setattr(trace, "set_tracer_provider", provided)


@pytest.mark.parametrize("page", sorted(PAGES.keys() - RUN_ELSEWHERE))
def test_every_python_block_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One after the other, as a reader pastes them; where an output is shown, it is theirs to the letter."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page}
    for number, (code, shown) in enumerate(BLOCK.findall(PAGES[page]), 1):
        exec(compile(code, f"{page}, block {number}", "exec"), names)  # noqa: S102 - they are our own pages
        printed = capsys.readouterr().out
        assert printed == (shown or printed), f"{page}, block {number}"
        assert shown or not printed, f"{page}, block {number} prints what is not shown"


def test_every_block_is_of_a_known_language() -> None:
    """A block of Python under another name, or under none, would not be run."""
    others = [path.read_text(encoding="utf-8") for path in ROOT.glob("*.md")]
    found = [
        kind for text in (*PAGES.values(), *others) for kind in re.findall(r"^ *```(.*)\n.*", text, re.MULTILINE)
    ]
    assert set(found[::2]) <= KINDS
    assert set(found[1::2]) == {""}


def test_the_guides_have_every_setting_and_every_policy() -> None:
    """Each in a row with its default and what it means, in the order of the code, and nothing else."""
    for page in ("configuration.md", "presets.md"):
        assert PAGES[page] == with_settings(PAGES[page])


def with_settings(page: str) -> str:
    """The page with the tables of the models: shared settings, those of each policy, and the policies."""
    shared = {name: field for name, field in CompactionSettings.model_fields.items() if name != "policy"}
    said, firsts = set[str](), dict[type | None, type[Policy]]()
    tables = {
        "## Shared settings": [_settings(shared, flat(CompactionSettings()), said)],
        "## Settings of each policy": [],
    }
    for name, kind in POLICIES.items():
        own = {one: field for one, field in kind.model_fields.items() if one != "name"}
        told = f"### `{kind.__name__}`, preset `{name}`\n\n{' '.join((kind.__doc__ or '').split())}\n"
        first = firsts.setdefault(kind.__base__, kind)
        if first is kind or kind.__base__ is Policy:
            table = _settings(own, kind().model_dump(mode="json"), said)
        else:
            table = f"The settings of `{first.__name__}`, with other strategies.\n"
        tables["## Settings of each policy"] += [told, table]
    tables["## The policies"] = [_policies()]
    for heading, parts in tables.items():
        if heading in page:
            before, _, after = page.partition(f"{heading}\n")
            end = re.search(r"^(?:## |Next steps:)", after, re.MULTILINE)
            page = "\n".join([f"{before}{heading}\n", *parts, after[end.start() if end else 0 :]])
    return page


def _settings(fields: Mapping[str, FieldInfo], values: Mapping[str, Any], said: set[str]) -> str:
    """The table of these fields; what an earlier table `said` is not said again."""
    lines = ["| setting | default | |", "|---|---|---|"]
    for name, field in fields.items():
        shown = json.dumps(values[name])
        default = f"`{shown}`" if len(shown) < 60 else "long; `langgraph-compaction presets` prints it"
        meaning = " ".join((field.description or "").split())
        lines.append(f"| `{name}` | {default} | {'as above' if meaning in said else meaning} |")
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
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_the_guide_has_every_event() -> None:
    """With all of its fields."""
    table = PAGES["events.md"].partition("| event | written | fields |")[2]
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", table, re.MULTILINE))
    events = {kind.__name__: kind for kind in told.Event.__args__}
    assert rows.keys() == events.keys()
    for name, fields in rows.items():
        assert set(events[name].__dataclass_fields__) <= set(re.findall(r"`(\w+)`", fields)), name


def test_every_command_named_exists() -> None:
    """`langgraph-compaction X` answers to --help and knows the options shown; each make target is in the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = "\n".join(PAGES.values())
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
    commands = set(re.findall(r"langgraph-compaction (\w[\w-]*)", code))
    assert {"replay", "presets", "undo"} <= commands
    for command in commands:
        helped = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
        assert helped.exit_code == 0, command
        for line in re.findall(rf"langgraph-compaction {command}\b([^`#\n]*)", text):
            for option in re.findall(r"--[a-z-]+", line):
                assert option in helped.output, f"{command} {option}"
    for target in set(
        re.findall(r"\bmake ([a-z][\w-]*)", "\n".join(re.findall(r"`[^`]*`|^make .*$", text, re.MULTILINE)))
    ):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_guide_names_every_reason_for_a_rejection() -> None:
    """In a row with its verdict; and every error that the page explains exists."""
    page = PAGES["troubleshooting.md"]
    found = {
        pair
        for path in (ROOT / "nodes").rglob("*.py")
        for pair in re.findall(r'Finding\(\s*"(rejected_\w+)",\s*"(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert len(found) > 15
    named = [set(re.findall(r"`(\w+)`", row)) for row in page.splitlines() if row.startswith("| `rejected")]
    assert [pair for pair in found if not any(set(pair) <= names for names in named)] == []
    for name in re.findall(r"^\| `(\w+Error)`", page, re.MULTILINE):
        assert issubclass(getattr(errors, name, None) or getattr(storage_errors, name), Exception)


def test_every_link_leads_somewhere() -> None:
    """Files of ours; and each guide and notebook is linked from the README."""
    linked = set[Path]()
    for page, text in PAGES.items():
        folder = ROOT if page == "README.md" else ROOT / "docs"
        targets = {(folder / link.partition("#")[0]).resolve() for link in re.findall(r"\]\(([^):]+)\)", text)}
        assert {target for target in targets if not target.exists()} == set(), page
        linked |= targets if page == "README.md" else set()
    assert {*GUIDES, *NOTEBOOKS, SKILL} <= linked


def test_the_tables_of_benchmarks_are_the_kept_results() -> None:
    """Run `python -m tests.write_pages` after a change."""
    for rows in tables():
        assert "\n".join(rows) in PAGES["benchmarks.md"]
    assert "\n".join(peers()) in README
    assert f"Checked with {peer_versions()}" in README


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


def test_the_table_of_sizes_is_what_the_code_computes() -> None:
    """Run `python -m tests.write_pages` after a change."""
    assert "\n".join(size_rows()) in PAGES["presets.md"]


def size_rows() -> Iterator[str]:
    """For each model object the sizes of every preset; presets with the same sizes share a row."""
    yield line("model object", ("presets", "window", "limit", "trigger", "aim"))
    yield "|---|---|--:|--:|--:|--:|"
    for name, (kind, model) in SIZED.items():
        same: dict[tuple[int, ...], list[str]] = {}
        for preset, *sizes in preset_sizes(model):
            same.setdefault(tuple(sizes), []).append(f"`{preset}`")
        for shared, presets in same.items():
            yield line(f"`{kind}`, {name}", (", ".join(presets), *(f"{size:,}" for size in shared)))


def line(name: str, cells: Iterable[str]) -> str:
    """A row of a table."""
    return f"| {name} | {' | '.join(cells)} |"
