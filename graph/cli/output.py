"""Prints everything for the command line, so that no text can control the terminal or act as markup."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import BaseMessage
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from langgraph_compaction.checkpoint.messages.message_codec import handle
from langgraph_compaction.nodes.conversation.message_marks import is_summary
from langgraph_compaction.nodes.conversation.tokens import joined_texts

from ..control_characters import in_line, json_line, visible

_SHOWN = 200
"""Maximum number of characters of a message that a list shows."""
_WIDEST = 1_000
"""Maximum number of characters of a line of a table."""
_WHOLE = {"#", "verdict"}
"""Headings of the table columns whose texts are never wrapped onto several lines."""


class Output(Console):
    """A console that interprets no markup, and prints all text in the form that `visible` returns.

    `visible` replaces control characters, so that a printed text cannot control the terminal.
    """

    def __init__(self, *, stderr: bool = False, quiet: bool = False) -> None:
        super().__init__(stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False)

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


def dollars(cost: float | None) -> str:
    """Return a cost with three digits, or more before the point; an empty text where it is not known, or nothing."""
    return f"${cost:,.2f}" if cost and cost >= 1 else f"${cost:.3g}" if cost else ""


def tokens_in_out(given: int | None, back: int | None) -> str:
    """Return the tokens of requests and of replies; empty if none were reported."""
    return f"{given or 0:,}/{back or 0:,}" if given or back else ""


def complain(text: str) -> None:
    """Print one line on stderr, in red."""
    Output(stderr=True).print(words(text, "red"), soft_wrap=True)


def print_line(text: str) -> None:
    """Print a text without line breaks of our own."""
    Output().print(words(text), soft_wrap=True)


def print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print one JSON object per line."""
    for row in rows:
        print_text(json_line(row))


def print_text(text: str, end: str = "\n") -> None:
    """Print text for programs to read, without styles and without added line breaks."""
    print(visible(text), end=end, flush=True)  # noqa: T201 - printing is the point


def tell(told: Mapping[str, Any], sentence: str, *, as_json: bool) -> None:
    """Print what a command did: as one JSON object, or as a sentence."""
    if as_json:
        print_json([told])
    else:
        print_line(sentence)


def make_table(*, left: Iterable[str], right: Iterable[str], last: Iterable[str] = (), title: str = "") -> Table:
    """Return an empty table in which long names are wrapped onto several lines and never cut off.

    The columns `last` follow the numbers in `right`, and are aligned to the left too.
    """
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), title=title or None)
    for heading in left:
        table.add_column(heading, overflow="fold", no_wrap=heading in _WHOLE)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in last:
        table.add_column(heading, overflow="fold")
    return table


def print_table(table: Table, none: str) -> None:
    """Print a table, or the sentence `none` if it is empty.

    Lines longer than the terminal is wide are left to it: narrower columns would break every word.
    """
    console = Output()
    room = console.options.update(max_width=_WIDEST)
    console.width = max(console.width, console.measure(table, options=room).maximum)
    console.print(table if table.row_count else none)


def print_messages(title: str, messages: Sequence[BaseMessage], *, whole: bool) -> None:
    """Print messages under a heading, which says how many they are; nothing if there are none."""
    console = Output()
    if messages:
        console.print(Text(f"\n{title}: {len(messages)} messages", "bold"))
    for message in messages:
        console.print(message_line(message, whole=whole), soft_wrap=True)


def message_line(message: BaseMessage, *, whole: bool) -> Text:
    """Format a message for a list: handle, role and text; unless `whole`, only the beginning of the text."""
    text = joined_texts(message)
    if not whole and len(text) > _SHOWN:
        text = f"{' '.join(text[:_SHOWN].split())} [... {len(text):,} characters]"
    role = "summary" if is_summary(message) else message.type
    return Text.assemble((f"{handle(message)} {role:>6} ", "dim"), words(text))


def message_data(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Return messages as plain data, each with its handle."""
    return [{"handle": handle(message), **message.model_dump(mode="json")} for message in messages]


def format_time(moment: float) -> str:
    """Format a stored time in UTC, to the second."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S")


@contextmanager
def progress(what: str, total: int) -> Generator[Callable[..., None]]:
    """Show a bar with the time left on a terminal, and erase it in the end; yield a function that moves it.

    Its arguments are the number that is done (default: one more) and the text beside the bar (default: `what`).
    """
    console = Output(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)

        def show(done: int | None = None, text: str = what) -> None:
            bar.update(task, completed=done, advance=1 if done is None else None, description=text)

        yield show
