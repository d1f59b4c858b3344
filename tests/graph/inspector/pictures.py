"""Make the pictures of the guide to the report: the demo's thread, one of its requests in dark mode, and on a phone.

    python -m tests.graph.inspector.pictures

It runs the demo, writes the report of its thread, and takes the pictures with Chromium, which has to be installed.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from langgraph_compaction.checkpoint import SQLAlchemySaver
from tests.graph.inspector.browser import CHROMIUM, browser

PICTURES = Path(__file__).parents[3] / "docs" / "inspector"
COMMAND = str(Path(sys.executable).with_name("langgraph-compaction"))


def main() -> None:
    """Write the pictures."""
    if CHROMIUM is None:
        sys.exit("there is no chromium on this machine: apt-get install chromium")
    with TemporaryDirectory() as name:
        folder = Path(name)
        database, report = f"sqlite:///{folder / 'demo.db'}", folder / "report.html"
        subprocess.run([COMMAND, "demo", "--db", database], check=True, stdout=subprocess.DEVNULL)
        with SQLAlchemySaver.from_url(database) as saver:
            (thread,) = saver.threads()
        subprocess.run([COMMAND, "inspect", thread, "--db", database, "--out", str(report)], check=True)
        (folder / "profile").mkdir()
        with browser(folder / "profile") as page:
            for picture, width, height, dark, place in (
                ("light", 1200, 1010, False, ""),
                ("dark", 1200, 820, True, "#request-40"),
                ("mobile", 390, 820, False, ""),
            ):
                page.look(width=width, height=height, dark=dark)
                page.open("about:blank")  # else a new fragment would not load the page again
                page.open(report.as_uri() + place)
                if place:
                    page.run("document.querySelector('#sizes').scrollIntoView()")
                page.picture(PICTURES / f"{picture}.png")


if __name__ == "__main__":
    main()
