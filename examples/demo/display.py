"""What is seen while the demo runs: a bar for each customer on a terminal, a plain line now and then elsewhere."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from inturn.model import ENDED, DocumentState
from inturn.queue import Queue
from inturn.store_types import DocumentFilter

LINE_INTERVAL_SECONDS: Final = 2.0
THROUGHPUT_WINDOW_SECONDS: Final = 4.0
"""Seconds over which documents a second are counted."""
BAR_SEGMENTS: Final = (("done", "█", "#", "green"), ("running", "▓", "@", "yellow"), ("waiting", "▒", "=", "cyan"))
"""Of a bar: what, how it is drawn, how without Unicode, its colour. What is still to come is dotted."""
NON_BAR_COLUMNS: Final = 44
"""Columns that everything but the bars takes."""


class CustomerProgress(NamedTuple):
    """How one customer's documents stand."""

    customer: str
    total: int
    waiting: int
    running: int
    done: int
    level: int | None
    """That its newest document got."""


def progress_by_customer(queue: Queue, totals: Mapping[str, int], levels: Mapping[str, int]) -> list[CustomerProgress]:
    """How everybody's documents stand now."""
    result = []
    for customer, total in totals.items():
        states = queue.counts(DocumentFilter(customer=customer)).states
        waiting = states.get(DocumentState.WAITING, 0) + states.get(DocumentState.DELAYED, 0)
        ended = sum(number for state, number in states.items() if state in ENDED)
        running = states.get(DocumentState.RUNNING, 0)
        result.append(CustomerProgress(customer, total, waiting, running, ended, levels.get(customer)))
    return result


class ProgressDisplay:
    """Shows standings as they come."""

    def __init__(self, console: Console) -> None:
        self._console = console
        is_lively = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, auto_refresh=False, transient=True) if is_lively else None
        self._started_at = time.monotonic()
        self._done_samples: deque[tuple[float, int]] = deque()
        self._next_line_at = LINE_INTERVAL_SECONDS

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def show_preparing(self, made: int, total: int) -> None:
        """Documents are being made."""
        if self._live is not None:
            words = Text(f"making documents: {made} of {total}")
            self._live.update(
                Group(words, progress_bar({"done": made}, total, self._width(), self._console)), refresh=True
            )

    def start_clock(self) -> None:
        """The first document comes now."""
        self._started_at = time.monotonic()

    def show(self, customers: Sequence[CustomerProgress]) -> None:
        """This is how it stands."""
        seconds = time.monotonic() - self._started_at
        pace = self._throughput(seconds, sum(customer.done for customer in customers))
        if self._live is not None:
            self._live.update(self._render(customers, seconds, pace), refresh=True)
        elif seconds >= self._next_line_at:
            self._next_line_at = seconds + LINE_INTERVAL_SECONDS
            self._console.print(_format_line(customers, seconds, pace), markup=False, soft_wrap=True)

    def _throughput(self, seconds: float, done: int) -> float:
        self._done_samples.append((seconds, done))
        while self._done_samples[0][0] < seconds - THROUGHPUT_WINDOW_SECONDS:
            self._done_samples.popleft()
        since, before = self._done_samples[0]
        return (done - before) / (seconds - since) if seconds > since else 0.0

    def _width(self) -> int:
        return max(8, min(60, self._console.width - NON_BAR_COLUMNS - 6))

    def _render(self, customers: Sequence[CustomerProgress], seconds: float, throughput: float) -> RenderableType:
        done, total = sum(customer.done for customer in customers), sum(customer.total for customer in customers)
        head = f"{seconds:5.1f} s   {done} of {total} documents done   {throughput:.1f} documents/s"
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
        table.add_column("customer", no_wrap=True)
        table.add_column("", no_wrap=True)
        for heading in ("waiting", "running", "done", "level"):
            table.add_column(heading, justify="right", no_wrap=True)
        for customer in customers:
            parts = {"done": customer.done, "running": customer.running, "waiting": customer.waiting}
            drawn = progress_bar(parts, customer.total, self._width(), self._console)
            level = "" if customer.level is None else str(customer.level)
            numbers = (str(customer.waiting), str(customer.running), f"{customer.done}/{customer.total}")
            table.add_row(customer.customer, drawn, *numbers, level)
        return Group(Text(head, style="bold"), Text(), table, Text(), self._legend())

    def _legend(self) -> Text:
        key = Text(style="dim")
        for name, drawn, plain, style in BAR_SEGMENTS:
            key.append(plain if self._console.options.ascii_only else drawn, style)
            key.append(f" {name}   ")
        return key.append(". to come      level 1 goes first")


def progress_bar(parts: Mapping[str, int], total: int, width: int, console: Console) -> Text:
    """A bar of so many columns; whatever there is of a part gets at least one."""
    drawn = Text()
    for name, block, plain, style in BAR_SEGMENTS:
        number = parts.get(name, 0)
        columns = min(width - len(drawn), max(1, number * width // max(1, total))) if number else 0
        drawn.append((plain if console.options.ascii_only else block) * columns, style)
    if sum(parts.values()) >= total and len(drawn) < width:
        # Rounding lost some columns: they belong to what there is most of.
        last = max(BAR_SEGMENTS, key=lambda part: parts.get(part[0], 0))
        drawn.append((last[2] if console.options.ascii_only else last[1]) * (width - len(drawn)), last[3])
    return drawn.append("." * (width - len(drawn)), "dim")


def _format_line(customers: Sequence[CustomerProgress], seconds: float, throughput: float) -> str:
    done, total = sum(customer.done for customer in customers), sum(customer.total for customer in customers)
    ended = ", ".join(f"{customer.customer} {customer.done}/{customer.total}" for customer in customers)
    return f"{seconds:4.0f} s  {done} of {total} done, {throughput:.1f} documents/s: {ended}"
