"""The README and the guides tell the truth: their code runs, their settings, commands and figures exist."""

import ast
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_google_genai import ChatGoogleGenerativeAI
from opentelemetry import trace
from opentelemetry.trace import TracerProvider
from pydantic import BaseModel, SecretStr
from typer.testing import CliRunner

from langgraph_compaction.checkpoint import errors as storage_errors
from langgraph_compaction.checkpoint import telemetry
from langgraph_compaction.graph.cli.main import app
from langgraph_compaction.graph.preset_sizes import preset_sizes
from langgraph_compaction.nodes import CompactionSettings, errors
from langgraph_compaction.nodes import events as told
from langgraph_compaction.nodes.config.settings import GROUPS
from tests.fakes import claude, gpt
from tests.versions.run import cell

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDES = sorted((ROOT / "docs").glob("*.md"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *GUIDES)}
RUN_ELSEWHERE = {"fastapi.md", "migrate.md", "server.md"}
"""By `test_fastapi.py`, `test_docs.py` and `server/test_page.py`, with what stands in for models and addresses."""
KINDS = {"console", "json", "mermaid", "python", "sh", "text", "yaml"}
"""The languages of blocks: those of `python` are run, with the `text` behind them; the others show no Python."""
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
RESULTS = ROOT / "benchmarks" / "results"
MOST_COLUMNS = 98
"""Number of characters of a line of code in the README, at most."""

SAVERS = (
    "SqliteSaver",
    "SqliteSaver, DeltaChannel(50)",
    "SQLAlchemySaver, SQLite",
    "PostgresSaver",
    "PostgresSaver, DeltaChannel(50)",
    "SQLAlchemySaver, PostgreSQL",
    "SQLAlchemySaver, MariaDB",
)
"""Savers of the table on the page of benchmarks."""


@pytest.fixture(autouse=True)
def tracer_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a tracer provider that a page sets for its process hold for this page alone."""

    def provided(provider: TracerProvider) -> None:
        monkeypatch.setattr(telemetry, "_TRACER", provider.get_tracer(telemetry.SCOPE))

    monkeypatch.setattr(trace, "set_tracer_provider", provided)


def test_the_lowest_versions_are_those_of_the_project() -> None:
    """Each version that the README names as the lowest is the bound in pyproject.toml."""
    named = re.search(r"The lowest versions are (.*?);", README)
    assert named
    project = (ROOT / "pyproject.toml").read_text()
    for package, version in re.findall(r"([\w-]+) (\d[\d.]*)", named[1]):
        assert f'"{package}>={version}"' in project


def test_the_code_of_the_readme_is_read_without_scrolling() -> None:
    """A code host shows about 98 characters of a line beside its list of files."""
    inside = False
    for number, text in enumerate(README.splitlines(), 1):
        inside ^= text.startswith("```")
        assert not inside or len(text) <= MOST_COLUMNS, f"README.md:{number} has {len(text)} characters"


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


def test_the_first_example_is_short() -> None:
    """Ten lines without the empty ones."""
    assert len([line for line in BLOCK.findall(README)[0][0].splitlines() if line]) <= 10


def test_the_example_of_a_plain_list_does_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """In a dozen lines the list shrinks below its limit and the reservation is still in the summary."""
    (block,) = (code for code, _ in BLOCK.findall(README) if "compact_messages(" in code)
    assert len([line for line in block.splitlines() if line]) <= 12
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102 - it is our own README
    sizes, kept = capsys.readouterr().out.splitlines()
    before, after = (int(number) for number in re.findall(r"\d+", sizes))
    assert before > 10_000
    assert after <= 4_000
    assert kept == "True"


def test_the_defaults_that_the_readme_names_are_those_of_the_settings() -> None:
    """The trigger, and the messages that a compaction keeps."""
    settings = CompactionSettings()
    steps = README.partition("## The steps of a turn")[2].partition("\n## ")[0]
    assert f"reaches {100 * (settings.trigger_ratio or 0):.0f} % of the context window" in steps
    assert settings.tool_blocks_keep_recent == 5
    assert "newest five assistant messages" in steps
    assert f"newest {settings.dialogue_rounds_keep_min} rounds" in steps


def test_the_guide_has_every_setting() -> None:
    """Each in a row with its default and what it means, in the order of the code, and nothing else."""
    assert PAGES["configuration.md"] == with_settings(PAGES["configuration.md"])


def with_settings(page: str) -> str:
    """The guide with a heading, a sentence and a table for each group of settings: everyday settings at its top."""
    first, *others = (_group(*one) for one in GROUPS.items())
    before, middle = page.partition("## Everyday settings")[0], page[page.index("## In YAML") :]
    middle = middle.partition("## All other settings")[0]
    end = page[page.index("Next steps:") :]
    rest = "\n".join(["## All other settings\n", *(f"#{group}" for group in others), end])
    return f"{before}{first}\n{middle}{rest}"


def _group(heading: str, group: type[BaseModel]) -> str:
    values = CompactionSettings().model_dump(mode="json")
    lines = [
        f"## {heading}\n",
        " ".join((group.__doc__ or "").split()) + "\n",
        "| setting | default | |",
        "|---|---|---|",
    ]
    for name, field in group.model_fields.items():
        shown = json.dumps(values[name])
        meaning = " ".join((field.description or "").split())
        default = f"`{shown}`" if len(shown) < 60 else "long; `langgraph-compaction presets selective` prints it"
        lines.append(f"| `{name}` | {default} | {meaning} |")
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
    commands = set(re.findall(r"langgraph-compaction (\w[\w-]*)", text))
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
    assert {*GUIDES, *NOTEBOOKS} <= linked


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_with_its_outputs(path: Path) -> None:
    """Every cell was executed, in order and without an error, and none tells of a machine; `run.py` compares them."""
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert "error" not in {output["output_type"] for output in outputs}
    assert not re.search(r"(?<![\w.~])/(home|root|tmp|private|Users|var)/", json.dumps(outputs))


def test_parts_of_ones_own_are_short() -> None:
    """Each strategy, trigger and provider that the notebook and the guide show has fewer than twenty lines."""
    book = json.loads((ROOT / "notebooks" / "own_strategy.ipynb").read_text(encoding="utf-8"))
    own = next(text for cell in book["cells"] if (text := "".join(cell["source"])).startswith("%%writefile own.py"))
    guide = "\n".join(code for code, _ in BLOCK.findall(PAGES["strategies.md"]))
    for source, least in ((own.partition("\n")[2], 4), (guide, 3)):
        functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
        assert len(functions) >= least
        assert all((node.end_lineno or 0) - node.lineno < 19 for node in functions)


def test_the_figures_are_those_that_were_measured() -> None:
    """Every row of a measured table, from the benchmark's own results."""
    shown = (*survival_rows(), *found_rows(), *online_rows(), *constraint_rows(), *wait_rows(), *fault_rows(COMPARED))
    shown += (*growth_rows(), *stall_rows(), *summary_rows())
    for row in shown:
        assert row in PAGES["benchmarks.md"].splitlines(), row
    assert survival_words() in PAGES["benchmarks.md"]
    for row in (*recall_rows(), *recall_cost_rows(), *recall_online_rows()):
        assert row in PAGES["recall.md"].splitlines(), row
    assert all(words in PAGES["recall.md"] for words in recall_words())
    foreign = (*foreign_rows(), *foreign_reasons(), *matrix_rows(), *matrix_versions())
    for row in (*saver_rows(SAVERS), *missed_rows(), *foreign):
        assert row in PAGES["benchmarks.md"].splitlines(), row
    for row in fault_rows(IN_PLACE):
        assert row in PAGES["deepagents.md"].splitlines(), row


def foreign_rows() -> Iterator[str]:
    """Foreign suites, a column each: the tests that passed, and after a plus those that failed."""
    columns = ("theirs", "sqlite", "postgresql", "mariadb", "middleware")
    rows = {(row["suite"], row["column"]): row for row in results("foreign")}
    for suite in dict.fromkeys(suite for suite, _ in rows):
        found = [rows.get((suite, column)) for column in columns]
        package = rows[suite, "theirs"]["versions"]
        name = next(key for key in package if key != "python")
        cells = ["" if row is None else f"{row['passed']} / {row['failed']}" for row in found]
        yield line(f"`{suite}`", (f"{name} {package[name]}", *cells))


def foreign_reasons() -> Iterator[str]:
    """Why tests fail with ours and not with theirs, and the largest number of tests in one column."""
    counts: dict[tuple[str, str], int] = {}
    for row in results("foreign"):
        for why, count in row["known"].items():
            counts[row["suite"], why] = max(count, counts.get((row["suite"], why), 0))
    yield line("suite, reason for a difference", ("tests", "reason"))
    yield "|---|--:|---|"
    for (suite, why), count in counts.items():
        yield line(f"`{suite}`", (str(count), why))


def matrix_rows() -> Iterator[str]:
    """The tests that passed on each Python with each set of versions; empty where there is no result."""
    rows = {(row["kind"], row["python"]): row for row in results("matrix")}
    kinds = ("oldest", "pinned", "newest", "types")
    yield line("Python", ("lowest versions", "pinned versions", "newest versions", "mypy and pyright"))
    yield "|---|---|---|---|---|"
    for python in sorted({python for _, python in rows}):
        yield line(python, [cell(rows.get((kind, python))) for kind in kinds])


def matrix_versions() -> Iterator[str]:
    """The packages that each set of versions had, and how many packages an installation without extras was."""
    found = {row["kind"]: row for row in results("matrix") if "versions" in row}
    kinds = [kind for kind in ("oldest", "pinned", "newest") if kind in found]
    yield line("package", ["lowest" if kind == "oldest" else kind for kind in kinds])
    yield f"|---{'|---' * len(kinds)}|"
    for package in found[kinds[0]]["versions"]:
        yield line(package, [found[kind]["versions"][package] for kind in kinds])
    yield line("packages without extras", [str(found[kind]["packages"]) for kind in kinds])


SIZED = {
    "gpt-4o": ("ChatOpenAI", gpt("gpt-4o")),
    "gpt-4o, max_tokens=16_384": ("ChatOpenAI", gpt("gpt-4o", max_tokens=16_384)),
    "gpt-4o-mini": ("ChatOpenAI", gpt("gpt-4o-mini")),
    "gpt-4.1": ("ChatOpenAI", gpt("gpt-4.1")),
    "gpt-5": ("ChatOpenAI", gpt("gpt-5")),
    "o3": ("ChatOpenAI", gpt("o3")),
    "claude-sonnet-4-5": ("ChatAnthropic", claude()),
    "claude-sonnet-4-5, max_tokens=8_192": ("ChatAnthropic", claude(max_tokens=8_192)),
    "claude-haiku-4-5": ("ChatAnthropic", claude("claude-haiku-4-5")),
    "claude-opus-4-5": ("ChatAnthropic", claude("claude-opus-4-5")),
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
        for sizes, presets in same.items():
            yield line(f"`{kind}`, {name}", (", ".join(presets), *(f"{size:,}" for size in sizes)))


def survival_rows() -> Iterator[str]:
    """What survives, at a quarter and at half of the tokens, beside peers."""
    rows = [row for row in results("retention")["rows"] if row["data"] == "tau-bench-airline"]
    found = {(row["policy"], row["budget"]): row for row in rows}
    for policy, shown in (
        ("trim_messages", "`trim_messages`"),
        ("random exchanges", "random exchanges, mean of five"),
        ("langchain: newest sentences, 50% kept", "LangChain's `SummarizationMiddleware`"),
        ("langchain: digest, 10% kept", "LangChain's middleware, with the digest of this package"),
        ("deepagents: newest sentences, 50% kept", "deepagents"),
        ("deepagents: digest, 10% kept", "deepagents, with the digest of this package"),
        ("langmem: newest sentences, 50% kept", "langmem"),
        ("langmem: digest, 10% kept", "langmem, with the digest of this package"),
        ("selective", "`compact_messages`"),
        ("faithful", '`compact_messages`, `preset="faithful"`'),
    ):
        pair = [found[policy, budget] for budget in (0.25, 0.5)]
        figures = [[row["bound"], row["calls"], row["rules"]["middle"]] for row in pair]
        cells = [" / ".join(f"{100 * share:.0f} %" for share in both) for both in zip(*figures, strict=True)]
        yield line(shown, [*cells, " / ".join(f"{row['tokens_over_cap']:.2f}" for row in pair)])


def summary_rows() -> Iterator[str]:
    """Three rows that sum the page up: what survives, what is left when things fail, and the size on disk."""
    rows = [row for row in results("retention")["rows"] if row["data"] == "tau-bench-airline"]
    bound = {row["policy"]: f"{100 * row['bound']:.0f} %" for row in rows if row["budget"] == 0.25}
    peers = [
        f"{bound[f'{name}: newest sentences, 50% kept']} ({shown})"
        for name, shown in (("langmem", "langmem"), ("langchain", "LangChain"), ("deepagents", "deepagents"))
    ]
    yield line(
        "identifiers needed by later tool calls that are still there after a compaction to a quarter of the tokens",
        [f"{bound['faithful']} (`faithful`)", ", ".join(peers)],
    )
    shares = {}
    for system in COMPARED:
        found = [row for row in results("faults")["rows"] if row["system"] == system]
        shares[system] = percent(sum(row["needles"] for row in found), sum(row["needles_of"] for row in found))
    ours = shares.pop("ours")
    low, *_, high = sorted(shares.values(), key=lambda share: float(share.split()[0]))
    yield line(
        "planted facts that are in the last request, in 39 scenarios, most with failures",
        [ours, f"{low.split()[0]} to {high}"],
    )
    sizes = next(saver_rows(("SqliteSaver", "SQLAlchemySaver, SQLite")))
    theirs, own = sizes.split(" | ")[1:]
    yield line(
        "SQLite file after 300 turns of an agent",
        [f"{float(own.rstrip(' |')):.0f} MB", f"{theirs} MB (`SqliteSaver`)"],
    )


def survival_words() -> str:
    """What the text says of the preset's interval."""
    [row] = [row for row in lines_of("evaluate") if (row["policy"], row["budget"]) == ("faithful", 0.25)]
    return "{:.0f}-{:.0f} %".format(*(100 * edge for edge in row["ci95"]["bound"]))


def found_rows() -> Iterator[str]:
    """What recall finds in threads of 100,000 tokens, beside BM25."""
    found = {
        (row["part"], row["query"], row["search"]): f"{100 * row['found']:.0f} %"
        for row in results("recall")["found"]
        if row["thread"] == "100,000 tokens"
    }
    for query, part, words in (
        ("message", "tuned with", "the user's next message, 60 questions"),
        ("message", "others", "the user's next message, the 21 other questions"),
        (
            "auto_recall",
            "tuned with",
            "the query that `auto_recall` makes from the message and the view, 60 questions",
        ),
        ("auto_recall", "others", "the query that `auto_recall` makes, the 21 other questions"),
    ):
        yield line(words, [found[part, query, search] for search in ("recall", "BM25 with stems")])


def recall_rows() -> Iterator[str]:
    """What recall finds in long threads, by thread and query, with questions that chose the query and with others."""
    threads = {"eight other tasks": "among eight other tasks", "100,000 tokens": "in 100,000 tokens"}
    queries = {"message": "the message alone", "auto_recall": "query of `auto_recall`"}
    shares: dict[tuple[str, str, str], list[str]] = {}
    for row in results("recall")["found"]:
        figures = [f"{100 * row[name]:.0f}" for name in ("hit@1", "hit@5", "found")]
        shares.setdefault((row["thread"], row["query"], row["search"]), []).append(f"{' / '.join(figures)} %")
    for (thread, query, search), parts in shares.items():
        if search in ("recall", "BM25 with stems"):
            name = f"{threads[thread]}, {queries[query]}"
            yield line(name if search == "recall" else "the same, BM25", parts)


def recall_cost_rows() -> Iterator[str]:
    """The index, and the CPU time of searches, by the size of the archive."""
    for row in results("recall")["cpu"]:
        times = [f"{row[name]:.0f} ms" for name in ("search_ms", "mean_ms", "p95_ms")]
        yield line(
            f"{round(row['tokens'], -4):,} tokens",
            [f"{row['index_mb']:.1f} MB", f"{row['first_ms'] / 1_000:.2f} s", *times],
        )


def recall_online_rows() -> Iterator[str]:
    """Whole runs in long threads, with quotations and without, by the limit of a request."""
    for row in results("recall")["online"]:
        low, high = (100 * edge for edge in row["ci95"])
        gain = (
            "{:+.1f} ({:+.1f} to {:+.1f})".format(*(100 * each for each in (row["gain"], *row["gain_ci95"])))
            if "gain" in row
            else ""
        )
        policy = re.sub(r"^(faithful|trim_messages)", r"`\1`", row["policy"]).replace(
            "auto_recall=False", "`auto_recall=False`"
        )
        yield line(
            f"{row['limit']:,}, {policy}",
            [
                f"{100 * row['available']:.1f} % ({low:.1f}-{high:.1f})",
                gain,
                f"{row['tokens_over_limit']:.2f}",
                f"{row['cost']:.3f}",
            ],
        )


def recall_words() -> Iterator[str]:
    """What the text says of the bounds in 100,000 tokens."""
    bounds = {
        (row["query"], row["search"], row["part"]): row
        for row in results("recall")["found"]
        if row["thread"] == "100,000 tokens"
    }
    known = "recall, its run known"
    for query, name in (("message", "in_reach"), ("auto_recall", "in_reach"), ("auto_recall", "found")):
        pair = [100 * bounds[query, known, part][name] for part in ("tuned with", "others")]
        yield "{:.0f} % and {:.0f} %".format(*pair)


def online_rows() -> Iterator[str]:
    """Runs played whole in a window of half of each."""
    for row in lines_of("online"):
        low, high = (100 * edge for edge in row["ci95"]["available"])
        available = f"{100 * row['available']:.1f} % ({low:.1f}-{high:.1f})"
        yield line(shown_policy(row["policy"]), [available, f"{row['compactions']:.1f}", f"{row['cost']:.2f}"])


def constraint_rows() -> Iterator[str]:
    """Constraints that survive a cap of a quarter, by where they stood."""
    for row in results("constraint_survival")["rows"]:
        if row["policy"] in {"faithful", "random exchanges"}:
            name = "conpact's 15" if row["sentences"] == "conpact" else "30 of our own"
            places = [f"{100 * share:.0f} %" for share in row["rules"].values()]
            yield line(f"{row['data']}, {name}: {shown_policy(row['policy'])}", places)


def shown_policy(name: str) -> str:
    """A policy as the pages call it: what is code, as code."""
    return name if " " in name else f"`{name}`"


def lines_of(name: str) -> list[dict[str, Any]]:
    """A benchmark's results that are one JSON object a line."""
    text = (ROOT / "benchmarks" / "results" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(one) for one in text.splitlines()]


COMPARED = ("langchain", "langchain, tuned", "deepagents", "langmem", "ours")
"""Systems of the table of faults on the page of benchmarks."""
IN_PLACE = ("deepagents", "ours in deepagents")
"""Those of the guide to deepagents."""


def wait_rows() -> Iterator[str]:
    """How long a turn waits that compacts."""
    found = results("wait")
    for name, row in found.items():
        if isinstance(row, dict) and "added_s" in row:
            waits = sorted(row["added_s"])
            each = (waits[len(waits) // 2], waits[-1], row["added_cpu_s"])
            yield line(name, ["–" if one is None else f"{100 * one / found['summary_s']:.1f} %" for one in each])


GROWING = ("compaction, user", "compaction, faithful", "compaction, hostile reply", "digest", "recall, query")
"""The functions whose growth the guide shows, beside the worst of all."""


def growth_rows() -> Iterator[str]:
    """How the time of functions grows with crafted texts: for four times the text, and the most seconds."""
    rows = results("growth")["rows"]
    worst = [max(row[name] for row in rows) for name in ("worst growth", "most seconds")]
    found = {row["function"]: [row["worst growth"], row["most seconds"]] for row in rows}
    for name, (growth, seconds) in (("the worst of all", worst), *((name, found[name]) for name in GROWING)):
        yield line(name, [f"{growth:.1f}", f"{1_000 * seconds:.0f}"])


def stall_rows() -> Iterator[str]:
    """How long another conversation of the event loop waits, without and beside a turn that compacts."""
    for row in results("stall"):
        yield line(row["case"], [str(row[name]) for name in ("control ms", "compacting ms", "more ms")])


def fault_rows(systems: Iterable[str]) -> Iterator[str]:
    """Sums over all scenarios, a column a system."""
    rows = results("faults")["rows"]
    sums = [
        {name: sum(row[name] for row in rows if row["system"] == system) for name in rows[0] if name not in WORDS}
        for system in systems
    ]
    yield line("planted facts in the last request", [percent(one["needles"], one["needles_of"]) for one in sums])
    yield line(
        "facts that are still in the state or in the archive",
        [percent(one["retrievable"], one["needles_of"]) for one in sums],
    )
    yield line("turns answered", [percent(one["answered"], one["turns"]) for one in sums])
    yield line(
        "requests refused, invalid or too large", [str(one["invalid_requests"] + one["over_window"]) for one in sums]
    )
    yield line("calls of the summarizer", [str(one["summary_calls"]) for one in sums])


PROMISED = "`detect_mutation=False`"
WORDS = ("scenario", "system", "note")


def saver_rows(savers: Iterable[str]) -> Iterator[str]:
    """Sizes and times, a column a saver."""
    found = results("checkpoints")
    rows: dict[tuple[str, object], Any] = {(row["saver"], row["turns"]): row for row in found["rows"]}
    rows |= {(row["saver"], "long"): row for row in found["long_threads"]}
    rows |= {(row["saver"], "at once"): row for row in found["concurrent"]}
    names = list(savers)
    trusting = [name.replace("SQLAlchemySaver,", "SQLAlchemySaver, no detection,") for name in names]
    trusting = [name if name not in names else "" for name in trusting]
    for shown, place, key, scale in (
        ("MB after 300 turns", 300, "bytes", 1e-6),
        ("MB after 1,000 turns", 1000, "bytes", 1e-6),
        ("`put` at 4,000 messages, ms", "long", "put_last_ms", 1),
        ("`get_state` at 4,000 messages, ms", "long", "get_ms", 1),
        ("the newest 20 states at 4,000 messages, ms", "long", "history20_ms", 1),
        ("the whole history of 100 turns, s", 100, "history_all_s", 1),
        ("a turn at 4,000 messages, ms", "long", "turn_ms", 1),
        (f"`put` at 4,000 messages, {PROMISED}, ms", "long", "put_last_ms", 1),
        (f"a turn at 4,000 messages, {PROMISED}, ms", "long", "turn_ms", 1),
        ("ten turns of a new thread, ms", 10, "wall_s", 1_000),
        ("turns a second, 8 conversations at once", "at once", "turns_per_s", 1),
    ):
        asked = trusting if PROMISED in shown else names
        measured = [rows.get((name, place), {}).get(key) for name in asked]
        yield line(shown, [figure(value * scale) if value else "–" for value in measured])


def missed_rows() -> Iterator[str]:
    """Each aim that is not reached, with the figures of all our savers."""
    ratios = results("checkpoints")["ratios"]
    missed = {_aim(one) for one in ratios if one["reached"] is False}
    assert missed == set(MISSED)
    for aim, said in MISSED.items():
        mine = [one for one in ratios if _aim(one) == aim]
        cells = []
        for database in ("SQLite", "PostgreSQL", "MariaDB"):
            value = next((one["value"] for one in mine if one["ours"].endswith(database)), None)
            cells.append("–" if value is None else f"{value:.2f}")
        target = f"{'at least' if mine[0]['at_least'] else 'at most'} {mine[0]['target']}"
        yield line(said, [target, *cells])


def _aim(ratio: dict[str, Any]) -> tuple[str, str]:
    kinds = ("DeltaChannel", "no detection")
    return ratio["what"], next((kind for kind in kinds if kind in ratio["beside"] + ratio["ours"]), "")


MISSED = {
    (
        "bytes at 1,000 turns: theirs / ours",
        "DeltaChannel",
    ): "bytes at 1,000 turns: theirs with `DeltaChannel(50)` / ours",
    ("put at 3,900-4,040 messages: theirs / ours", ""): "`put` at 4,000 messages: theirs / ours",
    ("put at 3,900-4,040 messages", ""): "ours: `put` at 4,000 messages / `put` at 100 to 240 messages",
}
"""By what is missed, and beside a delta channel or with changes in place unnoticed, how the guide says it."""


def results(name: str) -> Any:
    """What a benchmark wrote."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def line(name: str, cells: Iterable[str]) -> str:
    """A row of a table."""
    return f"| {name} | {' | '.join(cells)} |"


def figure(value: float) -> str:
    """Three figures, or all of them before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(part: int, whole: int) -> str:
    """A share; what is nearly all of it with a decimal."""
    share = 100 * part / whole
    return f"{share:.1f} %" if 99.5 <= share < 100 else f"{share:.0f} %"
