"""How the demo ends: a table, and what it means in one sentence each."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from demo.timings import RunReport, SummaryRow
from demo.workload import FLOOD, LATE, TRICKLE


def print_summary(console: Console, report: RunReport, rows: Sequence[SummaryRow]) -> None:
    """The table and its meaning."""
    console.print(_table(console, rows))
    console.print(f"Waits in seconds, from submitted to started. {describe_baseline(report.slots)}", markup=False)
    console.print()
    console.print(describe_waits(rows), markup=False)


def _table(console: Console, rows: Sequence[SummaryRow]) -> Table:
    if console.is_terminal:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    else:
        table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="")
    table.add_column("customer", no_wrap=True)
    headings = ("documents", "pages", "levels", "Inturn\nmean", "\nworst", "first come\nmean", "\nworst")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        waits = (row.mean, row.worst, row.first_come_mean, row.first_come_worst)
        levels = row.levels.replace("–", "-") if console.options.ascii_only else row.levels  # noqa: RUF001
        numbers = (f"{row.documents}", f"{row.pages:,}", levels)
        table.add_row(row.customer, *numbers, *(f"{wait:.2f}" for wait in waits))
    return table


def describe_baseline(slots: int) -> str:
    """Where the right half of the table comes from."""
    return (
        f"First come, first served is computed, not run: one common line, the same arrivals,"
        f" the same measured service times, {slots} at a time."
    )


def describe_waits(rows: Sequence[SummaryRow]) -> str:
    """What the figures say about those who send little, and who paid for it."""
    by_name = {row.customer: row for row in rows}
    said = [_compare_waits(by_name[customer]) for customer in (TRICKLE, LATE) if customer in by_name]
    if FLOOD in by_name:
        row = by_name[FLOOD]
        change = row.mean - row.first_come_mean
        words = f"{abs(change):.1f} s {'longer' if change >= 0 else 'less'}"
        said.append(f"{FLOOD}, which sent {row.documents} at once, waited {words} on average.")
    return " ".join(said)


def _compare_waits(row: SummaryRow) -> str:
    what = f"{row.customer} waited {row.mean:.2f} s on average"
    other = f"first come, first served, it would have been {row.first_come_mean:.2f} s"
    times = row.first_come_mean / row.mean if row.mean else 0.0
    return f"{what}; {other}, {times:,.0f} times as long." if times >= 2 else f"{what}; {other}."
