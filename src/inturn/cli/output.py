"""Print tables and labelled texts: drawn in a terminal, plain columns and whole lines when piped."""

import sys
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from unicodedata import category

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPED_WIDTH: Final = 10_000
WIDE_TERMINAL: Final = 100
WIDER_TERMINAL: Final = 130
WIDEST_TERMINAL: Final = 170
"""Widths in columns from which tables show more."""


def stdout_console() -> Console:
    """Open standard output; nothing is cut or wrapped unless it is a terminal."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)


def create_table(console: Console) -> Table:
    """Create an empty table, with borders in a terminal."""
    if console.is_terminal:
        return Table(box=box.ROUNDED, header_style="bold")
    return Table(box=None, header_style="", pad_edge=False)


class Column(NamedTuple):
    """A column: `folds` lets long texts wrap; below `from_width` columns of a terminal it is left out."""

    heading: str
    number: bool = False
    folds: bool = False
    from_width: int = 0


def print_table(console: Console, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print a table with the columns that the console has room for."""
    table = create_table(console)
    visible = [number for number, column in enumerate(columns) if console.width >= column.from_width]
    for number in visible:
        heading, is_number, folds, _ = columns[number]
        justify = "right" if is_number else "left"
        table.add_column(heading, justify=justify, no_wrap=not folds, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(printable(row[number])) for number in visible))
    console.print(table)


def print_details(console: Console, details: Iterable[tuple[str, str]]) -> None:
    """Print labels with their texts: as a grid in a terminal, a line each when piped."""
    if not console.is_terminal:
        for label, text in details:
            console.print(printable_lines(f"{label}: {text}"), markup=False, soft_wrap=True)
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in details:
        grid.add_row(label, Text(printable_lines(text)))
    console.print(grid)


def first_line(error: str | None, max_length: int | None = None) -> str:
    """Return an error without its trace, cut to `max_length` characters."""
    line = (error or "").partition("\n")[0]
    return line if max_length is None or len(line) <= max_length else f"{line[: max_length - 1]}…"


def printable_lines(text: str) -> str:
    """Sanitize a text as `printable` does, but keep its line ends."""
    return "\n".join(printable(line.expandtabs(4)) for line in text.split("\n"))


def printable(text: str) -> str:
    """Replace control characters: names and errors are untrusted and could move a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or category(char) == "Zs" else "\ufffd" for char in text)
