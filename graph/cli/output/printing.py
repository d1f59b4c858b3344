"""Prints everything for the command line, so that no text can control the terminal or act as markup."""

import logging
import sys
import traceback
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text
from typer.core import TyperGroup

from ...control_characters import in_line, json_line, visible


class Output(Console):
    """A console that interprets no markup, and prints all text in the form that `visible` returns.

    `visible` replaces control characters, so that a printed text cannot control the terminal.
    """

    def __init__(self, *, stderr: bool = False, quiet: bool = False, record: bool = False) -> None:
        super().__init__(stderr=stderr, quiet=quiet, record=record, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Convert the text by `visible` before rich measures its width, because the converted text is longer."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Generator[Segment]:
        """Yield segments whose text `visible` has converted; the console's own control sequences stay as they are."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def words(text: str, style: str = "") -> Text:
    """Return a rich text, of one or several lines, in which `visible` has replaced control characters."""
    return Text(visible(text), style)


def cells(*values: object) -> list[Text]:
    """Return the cells of a row: empty for None, integers with thousands separators, and text on one line."""
    return [Text("" if one is None else f"{one:,}" if isinstance(one, int) else in_line(str(one))) for one in values]


def complain(text: str) -> None:
    """Print one line on stderr, in red."""
    Output(stderr=True).print(words(text, "red"), soft_wrap=True)


def print_lines(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print one JSON object per line."""
    for row in rows:
        print_text(json_line(row))


def print_text(text: str, end: str = "\n") -> None:
    """Print text for programs to read, without styles and without added line breaks."""
    print(visible(text), end=end, flush=True)  # noqa: T201 - printing is the point


class Group(TyperGroup):
    """Commands whose usage errors, which repeat arguments and file names, are printed as `visible` text."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Parse the arguments."""
        with _readable_errors():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name."""
        with _readable_errors():
            return super().invoke(ctx)


@contextmanager
def _readable_errors() -> Generator[None]:
    try:
        yield
    except Exception as error:
        if (
            formatted := getattr(error, "format_message", None)
        ) is not None:  # a usage error, raised by click or by typer
            text = visible(formatted())
            error.format_message = lambda: text  # type: ignore[attr-defined] # both libraries have it
        raise


def run(app: typer.Typer) -> None:
    """Run the command line; logs and warnings of libraries, and unexpected errors, are printed as `visible` text."""
    logging.captureWarnings(capture=True)
    # `lastResort` is Python's handler for log records that no other handler takes; it writes to stderr
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Visible())
    try:
        app()
    except Exception:  # noqa: BLE001 - printed with its traceback, as Python would
        sys.stderr.write(visible(traceback.format_exc()))
        sys.exit(1)


class _Visible(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))
