"""A chart: a notebook shows it, and it can be saved. It needs matplotlib, which the extra `lab` installs."""

from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from langgraph_compaction.checkpoint.extras import how_to_install
from langgraph_compaction.nodes import SettingsError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png", ".html")


@dataclass(frozen=True)
class Chart:
    """A figure of matplotlib. `figure` can be changed before it is shown or saved."""

    figure: "Figure"

    def save(self, path: str | Path) -> None:
        """Write a .svg, .png or .html file; raise `SettingsError` for another suffix or if it cannot be written."""
        target = Path(path)
        if target.suffix not in SUFFIXES:
            raise SettingsError(f"{target} is none of {', '.join(SUFFIXES)}")
        try:
            if target.suffix == ".html":
                text = StringIO()
                self.figure.savefig(text, format="svg", bbox_inches="tight")
                target.write_text(f"<!doctype html><meta charset=utf-8>{text.getvalue()}", encoding="utf-8")
            else:
                self.figure.savefig(target, bbox_inches="tight")
        except OSError as error:
            raise SettingsError(f"{target} cannot be written ({error.strerror})") from error

    def _repr_svg_(self) -> str:
        from matplotlib import rc_context  # noqa: PLC0415 - only a chart needs it

        picture = StringIO()
        # letters as text make a fifth of the size, and a chart of the same data is the same text
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "chart"}):
            self.figure.savefig(picture, format="svg", metadata={"Date": None})
        return picture.getvalue()


def empty_figure(width: float, height: float) -> "Figure":
    """Return a figure of so many inches; raise `SettingsError` without matplotlib."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - only a chart needs it
    except ImportError as error:
        raise SettingsError(f"a chart needs matplotlib: {how_to_install('lab')}") from error
    return Figure(figsize=(width, height), layout="constrained")
