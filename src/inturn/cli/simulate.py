"""`inturn simulate`: play a scenario in one or more orders and compare what customers get."""

from collections.abc import Callable, Sequence
from dataclasses import replace as with_
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from inturn.cli.output import table
from inturn.cli.replay import Asked, replay
from inturn.cli.session import Session
from inturn.cli.telling import telling
from inturn.errors import InvalidInputError
from inturn.simulate import GroupReport, Report, built_in, load, report
from inturn.simulate.engine import Play, run
from inturn.simulate.goals import USUAL
from inturn.simulate.scenario import MAX_WORKERS

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


_REPLAY = "With --replay: "


def simulate(  # noqa: PLR0913 - one option for each setting
    session: Session,
    scenario: Annotated[
        str | None, typer.Argument(help="A built-in scenario, or a TOML file. Left out: list the built-in ones.")
    ] = None,
    *,
    order: Annotated[
        str | None, typer.Option(help="Orders to compare: fair, classic, fifo; one of them with --replay.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Another draw of arrivals and service times.", min=0)] = None,
    replay_: Annotated[
        bool, typer.Option("--replay", help="Play what really came in, from the queue or --csv.")
    ] = False,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help=_REPLAY + "a time, or how long ago, such as 7d.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help=_REPLAY + "the same.")] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help=_REPLAY + "read history from this file instead.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help=_REPLAY + "write history as such a file.")
    ] = None,
    scrub: Annotated[bool, typer.Option("--scrub", help=_REPLAY + "numbers instead of customers' names.")] = False,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", metavar="NAME=VALUE", help=_REPLAY + "another setting, such as reset_interval=10m."),
    ] = None,
    slots: Annotated[
        int | None, typer.Option("--slots", metavar="N", min=1, max=MAX_WORKERS, help=_REPLAY + "run N at a time.")
    ] = None,
    weight: Annotated[
        list[str] | None, typer.Option("--weight", metavar="CUSTOMER=N", help=_REPLAY + "another weight.")
    ] = None,
    cap: Annotated[
        list[str] | None, typer.Option("--cap", metavar="CUSTOMER=N", help=_REPLAY + "another cap, or none.")
    ] = None,
    advises: Annotated[
        bool, typer.Option("--advise", help=_REPLAY + "try settings and say what meets the goal; changes nothing.")
    ] = False,
    goal: Annotated[str | None, typer.Option("--goal", metavar="TEXT", help=f"With --advise; else {USUAL!r}.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help=_REPLAY + "write a page with charts.")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="DIR", help=_REPLAY + "write each chart as a file.")
    ] = None,
) -> None:
    """Play a scenario, or with --replay what really came in, through the real queue and show who waits how long."""
    asked = Asked(
        since, until, csv, export, scrub, policy or (), order, slots, weight or (), cap or (), html, svg, goal, advises
    )
    if replay_:
        if scenario is not None or seed is not None:
            raise InvalidInputError("--replay plays what really came in: it takes neither a scenario nor --seed")
        replay(session, asked)
        return
    if asked._replace(order=None) != Asked.nothing():
        raise InvalidInputError("options for history need --replay: inturn simulate --replay …")
    if scenario is None:
        _list(session)
        return
    _play(session, scenario, order or "fair,classic,fifo", seed)


def _play(session: Session, scenario: str, order: str, seed: int | None) -> None:
    plays = _plays(order)
    chosen = load(scenario)
    if seed is not None:
        chosen = with_(chosen, seed=seed)
    reports = []
    with telling(session.texts) as step:
        for play in plays:
            reports.append(report(run(chosen, play, progress=step(str(play)))))
            if session.as_json:
                session.emit(reports[-1].plain())
    if not session.as_json:
        show(reports, session.console)


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


def _plays(order: str) -> list[Play]:
    known = ", ".join(Play)
    try:
        plays = [Play(each.strip()) for each in order.split(",")]
    except ValueError:
        raise InvalidInputError(f"--order takes {known}, separated by commas, not {order!r}") from None
    return list(dict.fromkeys(plays))


def _list(session: Session) -> None:
    scenarios = built_in()
    if session.as_json:
        for name, each in scenarios.items():
            session.emit({"scenario": name, "title": each.title})
        return
    shown = table(session.console)
    shown.add_column("scenario", no_wrap=True)
    shown.add_column("what it plays")
    for name, each in scenarios.items():
        shown.add_row(name, each.title)
    session.console.print(shown)
