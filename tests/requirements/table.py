"""Writes docs/requirements.md: for each line what it asks for, and the tests that hold it."""

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
marked with it. `python -m tests.requirements.table` writes this page. `make mutants SEED=n` breaks functions that
these tests enter, one change at a time, and counts how often the tests fail that execute the changed line.
"""


def page() -> str:
    """The whole page."""
    known, marked = lines(), tests()
    parts = [HEAD]
    for document, title in DOCUMENTS.items():
        parts.append(f"## {document}: {title}\n\n| line | what it asks for | tests |\n|---|---|---|")
        parts[-1] += "".join(
            "\n" + _row(known[name], marked.get(name, []))
            for number in range(1, COUNTS[document] + 1)
            if (name := f"{document}.{number}") in known
        )
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _row(line: Line, held_by: list[Test]) -> str:
    held = "; ".join(f"[{test.name}](../{test.path})" for test in held_by)
    if line.informative:
        held = f"informative: {line.informative}" + (f"; {held}" if held else "")
    return f"| {line.name} | {_cell(line.what)} | {held} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
