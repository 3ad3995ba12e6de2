"""How the command line prints: tables drawn for a terminal, plain columns and whole lines when piped."""

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
    """Standard output; nothing is cut or wrapped when it is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)


def create_table(console: Console) -> Table:
    """An empty table that suits the console."""
    if console.is_terminal:
        return Table(box=box.ROUNDED, header_style="bold")
    return Table(box=None, header_style="", pad_edge=False)


class Column(NamedTuple):
    """A column's heading, whether it holds numbers, whether it may be folded, and how wide a console it asks for."""

    heading: str
    number: bool = False
    folds: bool = False
    from_width: int = 0


def print_table(console: Console, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """A table of texts, with the columns that the console has room for."""
    shown = create_table(console)
    stored = [number for number, column in enumerate(columns) if console.width >= column.from_width]
    for number in stored:
        heading, is_number, folds, _ = columns[number]
        justify = "right" if is_number else "left"
        shown.add_column(heading, justify=justify, no_wrap=not folds, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        shown.add_row(*(Text(printable(row[number])) for number in stored))
    console.print(shown)


def print_details(console: Console, details: Iterable[tuple[str, str]]) -> None:
    """Labels with a text each: side by side in a terminal, a line each when piped."""
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
    """An error without the trace below it, and cut to `most` characters."""
    line = (error or "").partition("\n")[0]
    return line if max_length is None or len(line) <= max_length else f"{line[: max_length - 1]}…"


def printable_lines(text: str) -> str:
    """As `printable`, with the line ends kept: for the traces of errors."""
    return "\n".join(printable(line.expandtabs(4)) for line in text.split("\n"))


def printable(text: str) -> str:
    """The text without what would move a terminal's cursor: names and errors come from strangers."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or category(char) == "Zs" else "\ufffd" for char in text)
