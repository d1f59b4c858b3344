"""Writes docs/requirements.md: for each line what it asks, the files that do it, the tests that hold it."""

from tests.requirements.lines import LINES, ROOT, Line, Test, lines, tests

PAGE = ROOT / "docs" / "requirements.md"

DOCUMENTS = {
    "S0": "selective compaction and a summary in one transaction (`selective`)",
    "S1": "typed rules by priority, a summary as a fallback (`typed_rules`)",
    "S2": "progressive strategies, key information always kept (`progressive`)",
    "S3": "three layers of defence (`layered_defence`)",
    "S4": "recent rounds, confirmation, configuration (`recent_rounds`)",
}

HEAD = """\
# Requirements

Every numbered line of the five systems that this package unites: what it asks for, the files that do it, and the
tests that turn red when they do it wrong. Written by `python -m tests.requirements.table`; `make mutants SEED=n`
breaks the code of 40 lines, one at a time, and counts the tests that notice.
"""


def page() -> str:
    """The whole page."""
    known, marked = lines(), tests()
    parts = [HEAD]
    for document, title in DOCUMENTS.items():
        parts.append(f"## {document}: {title}\n\n| line | what | done in | tests |\n|---|---|---|---|")
        parts[-1] += "".join(
            "\n" + _row(known[name], marked.get(name, []))
            for number in range(1, LINES[document] + 1)
            if (name := f"{document}.{number}") in known
        )
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _row(line: Line, held_by: list[Test]) -> str:
    guards = ", ".join(dict.fromkeys(f"[{guard.path}](../{guard.path})" for guard in line.guards))
    if line.informative:
        guards = f"informative: {line.informative}"
    if line.superseded:
        guards = f"superseded: {line.superseded}" + (f"; {guards}" if guards else "")
    held = "; ".join(f"[{test.name}](../{test.path})" for test in held_by)
    return f"| {line.name} | {_cell(line.what)} | {guards} | {held} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
