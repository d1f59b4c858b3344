"""The README and the guides tell the truth: their code runs, their settings, commands and figures exist."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import TracerProvider
from typer.testing import CliRunner

from benchmarks.tables import peer_versions, peers, tables
from langgraph_compaction.checkpoint import errors as storage_errors
from langgraph_compaction.checkpoint import telemetry
from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.nodes import errors
from langgraph_compaction.nodes import events as told
from tests import settings_page

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
ON_CODE_HOST = re.compile(r"https://(?:raw\.githubusercontent|github)\.com/([\w-]+)/\1/(?:blob/|tree/|)main/")
"""The beginning of the README's links to files of ours, which are absolute."""
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


def test_the_settings_page_is_what_the_code_says() -> None:
    """Run `python -m tests.write_pages` after a change."""
    assert settings_page.PAGE.read_text(encoding="utf-8") == settings_page.page()


def test_the_guide_has_every_event() -> None:
    """In a row of its table, and with all fields in the reference."""
    rows = re.findall(r"^\| (`\w+Event`.*?) \|", PAGES["events.md"], re.MULTILINE)
    events = {kind.__name__ for kind in told.Event.__args__}
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == events
    assert (
        set(re.findall(r"^::: langgraph_compaction\.nodes\.events\.(\w+)$", PAGES["reference.md"], re.MULTILINE))
        == events
    )


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


def anchors(text: str) -> set[str]:
    """Return the names of a page's sections in links."""
    titles = re.findall(r"^#+ (.*)", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def test_every_link_leads_somewhere() -> None:
    """Files of ours and their sections; and each guide and notebook is linked from the README."""
    linked = set[Path]()
    for page, text in PAGES.items():
        folder = ROOT if page == "README.md" else ROOT / "docs"
        links = re.findall(r"\]\(([^):]+)\)", ON_CODE_HOST.sub("", text))
        targets = {(folder / link.partition("#")[0]).resolve() for link in links}
        sections = [(to or page, section) for to, mark, section in (link.partition("#") for link in links) if mark]
        pages = [(PAGES.get(Path(to).name), section) for to, section in sections]
        assert [section for to, section in pages if to and section not in anchors(to)] == [], page
        assert page != "README.md" or not re.findall(r"\]\([^):#]+\)", text), "a package index shows the README too"
        assert {target for target in targets if not target.exists()} == set(), page
        linked |= targets if page == "README.md" else set()
    assert {*GUIDES, *NOTEBOOKS, SKILL} <= linked


def test_the_tables_of_benchmarks_are_the_kept_results() -> None:
    """Run `python -m tests.write_pages` after a change."""
    for rows in tables():
        assert "\n".join(rows) in PAGES["benchmarks.md"]
    assert "\n".join(peers()) in README
    assert f"Checked with {peer_versions()}" in README


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_says_what_to_install_and_holds_its_outputs(path: Path) -> None:
    """Every cell was run, none failed, and what is stored is small enough to be looked at in a browser."""
    stored = path.read_text(encoding="utf-8")
    cells = json.loads(stored)["cells"]
    assert "pip install '.[lab]'" in "".join(cells[0]["source"])
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)
    kinds = {output["output_type"] for cell in code for output in cell["outputs"]}
    assert kinds <= {"display_data", "execute_result", "stream"}
    assert len(stored) < 300_000
