"""Writes docs/requirements.md: for each line what it asks for, and the tests that hold it."""

from collections import Counter
from collections.abc import Iterable, Iterator

from rich.console import Console

from tests.requirements.lines import COUNTS, ROOT, Line, Test, lines, tests

PAGE = ROOT / "docs" / "requirements.md"

DOCUMENTS = {
    "S0": "selective compaction and a summary in one transaction (`selective`)",
    "S1": "typed rules by priority, a summary as a fallback (`typed_rules`)",
    "S2": "progressive strategies, key information always kept (`progressive`)",
    "S3": "three layers of defense (`layered_defence`)",
    "S4": "recent rounds, confirmation, configuration (`recent_rounds`)",
}

HEAD = """\
# Requirements

Every numbered line of the five systems that this package unites: what the line asks for, and the tests that are
marked with it. Tests at real sizes are named; of the others, the file is named, and how many of its tests are marked.
`python -m tests.requirements.table` writes this page. `make mutants SEED=n` breaks functions that these tests enter,
one change at a time, and counts how often the tests fail that execute the changed line.

The column *real sizes* says whether a test of `tests/acceptance` is marked with the line: there the chat models are
those of OpenAI and Anthropic with their own windows, 128,000 and 200,000 tokens (80,000 where the document's own
settings say so). The settings are the preset's defaults, and the agent's own model writes the summaries, except for
what a test sets itself; besides, no summary is prepared ahead, because a test's requests would then depend on time.
The answers of the models are scripted; with each provider, one test also sends its requests over HTTP, to a local
server.

{counted}
"""


def page() -> str:
    """The whole page."""
    known, marked = lines(), tests()
    parts = [HEAD.format(counted=counted())]
    for document, title in DOCUMENTS.items():
        parts.append(f"## {document}: {title}\n\n| line | what it asks for | real sizes | tests |\n|---|---|---|---|")
        parts[-1] += "".join(
            "\n" + _row(known[name], marked.get(name, []))
            for number in range(1, COUNTS[document] + 1)
            if (name := f"{document}.{number}") in known
        )
    return "\n\n".join(part.strip() for part in parts) + "\n"


def counted() -> str:
    """Return how many lines a test at real sizes guards, of those that ask for something to be built."""
    marked = tests()
    asked = [name for name, line in lines().items() if not line.informative]
    held = [name for name in asked if at_real_sizes(marked.get(name, []))]
    of_each = ", ".join(f"{document} {_of(document, held)} of {_of(document, asked)}" for document in DOCUMENTS)
    return f"A test at real sizes guards {len(held)} of {len(asked)} lines: {of_each}."


def at_real_sizes(held_by: Iterable[Test]) -> bool:
    """Whether one of these tests runs at real sizes."""
    return any(test.at_real_sizes for test in held_by)


def _of(document: str, names: list[str]) -> int:
    return sum(name.startswith(f"{document}.") for name in names)


def _row(line: Line, held_by: list[Test]) -> str:
    held = "; ".join([*_named(held_by), *_counted(held_by)])
    if line.informative:
        held = f"informative: {line.informative}" + (f"; {held}" if held else "")
    real = "yes" if at_real_sizes(held_by) else "" if line.informative else "no"
    return f"| {line.name} | {_cell(line.what)} | {real} | {held} |"


def _named(held_by: Iterable[Test]) -> Iterator[str]:
    """Yield a link to each test at real sizes, by the test's name."""
    yield from (f"[{test.name}](../{test.path})" for test in held_by if test.at_real_sizes)


def _counted(held_by: Iterable[Test]) -> Iterator[str]:
    """Yield a link to each file with other tests, with their number if there are several."""
    files = Counter(test.path for test in held_by if not test.at_real_sizes)
    for path, count in files.items():
        yield f"[{path.removeprefix('tests/')}](../{path})" + (f" ({count})" if count > 1 else "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    Console(highlight=False, soft_wrap=True).print(counted())
