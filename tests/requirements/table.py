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

This package combines five systems that compact conversations, S0 to S4. Each system is described in its own document.
A *requirement* is one numbered line of such a document. The tables on this page list one requirement in each row:

- The column *what it asks for* describes the requirement.
- The column *real sizes* contains `yes` if at least one *test at real sizes* verifies the requirement. Tests at real
  sizes are the tests in `tests/acceptance`.
- The column *tests* lists the tests that verify the requirement. Such a test has the pytest mark `requirement` with
  the number of the requirement. Tests at real sizes are listed by name. For other tests, the column lists the file,
  with the number of marked tests in parentheses if there are several.
- If the column *tests* begins with `informative`, the line does not require anything, and the column says why.

The tests at real sizes run under these conditions:

- The chat models are those of OpenAI and Anthropic, with context windows of 128,000 and 200,000 tokens. If the
  document of the system sets a window of 80,000 tokens, the test uses this window.
- The models return scripted answers instead of calling the provider. For each of the two providers, one test also
  sends its requests over HTTP, to a local server.
- Unless a test sets something else, the settings are the defaults of the preset, and the agent's own model writes the
  summaries.
- No summaries are prepared in the background, because the requests of a test would then depend on timing.

The command `python -m tests.requirements.table` writes this page. To check the tests themselves, run
`make mutants SEED=n`. This command changes functions that the tests on this page execute, one change at a time, and
counts how many of the changes make a test fail. For each change, the command runs only the tests that execute the
changed line. Changes that have no effect are not made: `tests/requirements/without_effect.toml` lists them, with the
reason for each one.

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
