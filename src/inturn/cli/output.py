"""How the command line prints: tables drawn for a terminal, plain columns and whole lines when piped."""

import sys

from rich import box
from rich.console import Console
from rich.table import Table

PIPED_WIDTH = 10_000


def out() -> Console:
    """Standard output; nothing is cut or wrapped when it is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)


def table(console: Console) -> Table:
    """An empty table that suits the console."""
    if console.is_terminal:
        return Table(box=box.ROUNDED, header_style="bold")
    return Table(box=None, header_style="", pad_edge=False)
