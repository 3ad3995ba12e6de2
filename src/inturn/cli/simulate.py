"""`inturn simulate`: play a scenario in one or more orders and compare what customers get."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from inturn.cli.output import out, table
from inturn.errors import InvalidInputError
from inturn.simulate import GroupReport, Report, Scenario, built_in, load, report
from inturn.simulate.engine import Play, run

COLUMNS: Final[Sequence[tuple[str, Callable[[Report, GroupReport], float | None]]]] = [
    ("documents", lambda _, group: group.documents),
    ("mean", lambda _, group: group.mean),
    ("p50", lambda _, group: group.p50),
    ("p95", lambda _, group: group.p95),
    ("p99", lambda _, group: group.p99),
    ("worst", lambda _, group: group.worst),
    ("slowdown", lambda _, group: group.slowdown),
    ("Jain", lambda each, group: group.jain if group.jain is not None else each.jain),
    ("behind ideal", lambda _, group: group.behind_ideal),
    ("longest gap", lambda _, group: group.longest_gap),
]
NARROW: Final = frozenset({"documents", "mean", "p95", "worst", "slowdown"})
WIDE: Final = 130
"""Columns of a terminal that has room for everything."""


def simulate(
    scenario: Annotated[
        str | None, typer.Argument(help="A built-in scenario, or a TOML file. Left out: list the built-in ones.")
    ] = None,
    *,
    order: Annotated[str, typer.Option(help="Orders to compare: fair, classic, fifo.")] = "fair,classic,fifo",
    seed: Annotated[int | None, typer.Option(help="Another draw of arrivals and service times.", min=0)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a run.")] = False,
) -> None:
    """Play a scenario through the real queue and show how long each group of customers waits."""
    if scenario is None:
        _list(as_json=as_json)
        return
    plays = _plays(order)
    chosen = load(scenario)
    if seed is not None:
        chosen = replace(chosen, seed=seed)
    console = out()
    reports = []
    with _progress() as progress:
        for play in plays:
            reports.append(_run(chosen, play, progress))
            if as_json:
                typer.echo(json.dumps(reports[-1].plain()))
    if not as_json:
        show(reports, console)


def show(reports: Sequence[Report], console: Console) -> None:
    """Print the runs of one scenario: a table with a block an order, as many columns as there is room for."""
    first = reports[0]
    console.print(f"[bold]{first.title}[/bold]")
    console.print(f"{first.documents:,} documents, {first.workers} workers, seed {first.seed}; waits in seconds")
    columns = COLUMNS if console.width >= WIDE else [each for each in COLUMNS if each[0] in NARROW]
    shown = table(console)
    shown.add_column("order")
    shown.add_column("customers")
    for heading, _ in columns:
        shown.add_column(heading, justify="right")
    for each in reports:
        for number, group in enumerate(each.groups):
            cells = [_cell(value(each, group)) for _, value in columns]
            shown.add_row(each.order if number == 0 else "", f"{group.group} ({group.customers:,})", *cells)
        shown.add_section()
    console.print(shown)


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}" if 0 < value < 1 else f"{value:,.1f}"


def _run(scenario: Scenario, play: Play, progress: Progress) -> Report:
    task = progress.add_task(str(play), total=None)
    played = run(scenario, play, progress=lambda done, total: progress.update(task, completed=done, total=total))
    progress.update(task, total=len(played.arrivals), completed=len(played.arrivals))
    return report(played)


def _progress() -> Progress:
    """A bar on the terminal; nothing where nobody looks."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:>8}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _plays(order: str) -> list[Play]:
    known = ", ".join(Play)
    try:
        plays = [Play(each.strip()) for each in order.split(",")]
    except ValueError:
        raise InvalidInputError(f"--order takes {known}, separated by commas, not {order!r}") from None
    return list(dict.fromkeys(plays))


def _list(*, as_json: bool) -> None:
    scenarios = built_in()
    if as_json:
        for name, each in scenarios.items():
            typer.echo(json.dumps({"scenario": name, "title": each.title}))
        return
    console = out()
    shown = table(console)
    shown.add_column("scenario", no_wrap=True)
    shown.add_column("what it plays")
    for name, each in scenarios.items():
        shown.add_row(name, each.title)
    console.print(shown)
