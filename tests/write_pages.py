"""Write into README, guides and examples what they print, and the tables and pages that are generated.

    python -m tests.write_pages

To be run after a change of what is shown there; the difference is to be looked at.
"""

import io
import re
from collections.abc import Iterable
from contextlib import chdir, redirect_stdout
from runpy import run_path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.tables import peer_versions, peers, tables
from tests import settings_page
from tests.requirements import table
from tests.test_examples import FOLDER, PROGRAMS
from tests.test_readme import BLOCK, GUIDES, ROOT, RUN_ELSEWHERE


def with_outputs(name: str, text: str) -> str:
    """The page with each block's output behind it."""
    names: dict[str, Any] = {"__name__": name}

    def shown(block: re.Match[str]) -> str:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(block[1], name, "exec"), names)  # noqa: S102 - they are our own pages
        output = f"\n\n```text\n{printed.getvalue()}```" if printed.getvalue() else ""
        return f"```python\n{block[1]}```{output}"

    return BLOCK.sub(shown, text)


def with_output_of_program(name: str, text: str) -> str:
    """The README of an example with what its program prints; that of the server's is to be written by hand."""
    with redirect_stdout(io.StringIO()) as printed:
        run_path(str(FOLDER / name / "main.py"), run_name="__main__")
    return re.sub(r"```text\n.*?```", lambda _: f"```text\n{printed.getvalue()}```", text, flags=re.DOTALL)


def with_table(text: str, rows: Iterable[str]) -> str:
    """The page with these rows in the place of the table that begins with the first of them."""
    written = list(rows)
    begin = re.escape(written[0].split(" | ")[0])
    return re.sub(
        rf"^{begin} \|.*\n(?:\|.*\n)*", lambda _: "\n".join(written) + "\n", text, count=1, flags=re.MULTILINE
    )


def main() -> None:
    """Write all pages."""
    for page in (table, settings_page):
        page.PAGE.write_text(page.page(), encoding="utf-8")
    for path in (ROOT / "README.md", *GUIDES):
        if path.name in RUN_ELSEWHERE:
            continue
        text = path.read_text(encoding="utf-8")
        if path.name == "README.md":
            text = with_table(text, peers())
            text = re.sub(r"langchain [\d.]+, deepagents [\d.]+ and langmem [\d.]*\d", peer_versions(), text)
        if path.name == "benchmarks.md":
            for rows in tables():
                text = with_table(text, rows)
        with TemporaryDirectory() as folder, chdir(folder):
            path.write_text(with_outputs(path.name, text), encoding="utf-8")
    for name in PROGRAMS:
        path = FOLDER / name / "README.md"
        text = path.read_text(encoding="utf-8")
        with TemporaryDirectory() as folder, chdir(folder):
            path.write_text(with_output_of_program(name, text), encoding="utf-8")


if __name__ == "__main__":
    main()
