"""`inturn simulate`: play a scenario in one or more orders and compare what customers get."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from inturn.errors import InvalidInputError
from inturn.simulate import Report, Scenario, built_in, load, report
from inturn.simulate.engine import Play, run


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
    console = Console()
    reports = []
    with _progress() as progress:
        for play in plays:
            reports.append(_run(chosen, play, progress))
            if as_json:
                typer.echo(json.dumps(reports[-1].plain()))
    if not as_json:
        show(reports, console)


def show(reports: Sequence[Report], console: Console) -> None:
    """Print the runs of one scenario, one table, a block an order."""
    first = reports[0]
    console.print(f"[bold]{first.title}[/bold]")
    console.print(f"{first.documents:,} documents, {first.workers} workers, seed {first.seed}; waits in seconds")
    table = Table()
    for heading in ("order", "customers"):
        table.add_column(heading)
    for heading in (
        "documents",
        "mean",
        "p50",
        "p95",
        "p99",
        "worst",
        "slowdown",
        "Jain",
        "behind ideal",
        "longest gap",
    ):
        table.add_column(heading, justify="right")
    for each in reports:
        for number, group in enumerate(each.groups):
            jain = group.jain if group.jain is not None else each.jain if number == 0 else None
            table.add_row(
                each.order if number == 0 else "",
                f"{group.group} ({group.customers:,})",
                f"{group.documents:,}",
                *(f"{value:,.1f}" for value in (group.mean, group.p50, group.p95, group.p99, group.worst)),
                f"{group.slowdown:,.1f}",
                "-" if jain is None else f"{jain:.3f}",
                f"{group.behind_ideal:,.1f}",
                f"{group.longest_gap:,.1f}",
            )
        table.add_section()
    console.print(table)


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
    table = Table("scenario", "what it plays", box=None)
    for name, each in scenarios.items():
        table.add_row(name, each.title)
    Console().print(table)
