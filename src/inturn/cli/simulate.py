"""`inturn simulate`: simulate a scenario in one or more orders and compare the waits of customers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from inturn.analysis import GroupReport, Report, build_report, built_in_scenarios, load_scenario
from inturn.analysis.charges import ChargeUnit, with_sharing
from inturn.analysis.engine import Discipline, simulate_scenario
from inturn.analysis.goals import DEFAULT_GOAL
from inturn.analysis.metrics import SHARE_WINDOW
from inturn.analysis.scenario import MAX_WORKERS, Scenario
from inturn.cli.output import WIDER_TERMINAL, create_table
from inturn.cli.progress import progress_reporter
from inturn.cli.replay import ReplayOptions, replay
from inturn.cli.session import Session
from inturn.errors import InvalidInputError
from inturn.values import SECOND

COLUMNS: Final[Sequence[tuple[str, Callable[[Report, GroupReport], float | None]]]] = [
    ("documents", lambda _, group: group.documents),
    ("mean", lambda _, group: group.mean),
    ("p50", lambda _, group: group.p50),
    ("p95", lambda _, group: group.p95),
    ("p99", lambda _, group: group.p99),
    ("worst", lambda _, group: group.worst),
    ("slowdown", lambda _, group: group.slowdown),
    ("work share", lambda _, group: group.work_share),
    ("Jain", lambda report, group: group.jain if group.jain is not None else report.jain),
    (
        "Jain, documents",
        lambda report, group: group.jain_documents if group.jain_documents is not None else report.jain_documents,
    ),
    ("behind ideal", lambda _, group: group.behind_ideal),
    ("longest gap", lambda _, group: group.longest_gap),
]
NARROW_COLUMNS: Final = frozenset({"documents", "mean", "p95", "worst", "slowdown"})


_REPLAY_PREFIX = "With --replay: "


def simulate(  # noqa: PLR0913 - one option for each setting
    session: Session,
    scenario: Annotated[
        str | None, typer.Argument(help="A built-in scenario, or a TOML file. Left out: list the built-in ones.")
    ] = None,
    *,
    order: Annotated[
        str | None, typer.Option(help="Orders to compare: fair, classic, fifo; one of them with --replay.")
    ] = None,
    charge: Annotated[
        str | None,
        typer.Option(help="What turns are charged: documents, pages, time; several to compare, one with --replay."),
    ] = None,
    max_share: Annotated[
        float | None,
        typer.Option("--max-share", metavar="PART", help="Slots that one customer may use while others wait; 1: all."),
    ] = None,
    check_each_step: Annotated[
        bool | None,
        typer.Option(
            "--check-each-step/--no-check-each-step",
            help=_REPLAY_PREFIX + "check a document at each of its steps, or once.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Another draw of arrivals and service times.", min=0)] = None,
    replay_: Annotated[bool, typer.Option("--replay", help="Replay history, of the queue or from --csv.")] = False,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help=_REPLAY_PREFIX + "a time, or how long ago, such as 7d.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help=_REPLAY_PREFIX + "the same.")] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help=_REPLAY_PREFIX + "read history from this file instead.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help=_REPLAY_PREFIX + "write history as such a file.")
    ] = None,
    scrub: Annotated[
        bool, typer.Option("--scrub", help=_REPLAY_PREFIX + "numbers instead of customers' names.")
    ] = False,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", metavar="NAME=VALUE", help=_REPLAY_PREFIX + "another setting, such as reset_interval=10m."
        ),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option("--slots", metavar="N", min=1, max=MAX_WORKERS, help=_REPLAY_PREFIX + "run N at a time."),
    ] = None,
    weight: Annotated[
        list[str] | None, typer.Option("--weight", metavar="CUSTOMER=N", help=_REPLAY_PREFIX + "another weight.")
    ] = None,
    cap: Annotated[
        list[str] | None,
        typer.Option("--cap", metavar="CUSTOMER=N", help=_REPLAY_PREFIX + "another concurrency limit, or none."),
    ] = None,
    advise: Annotated[
        bool,
        typer.Option(
            "--advise", help=_REPLAY_PREFIX + "try settings and show those that meet the goal; changes nothing."
        ),
    ] = False,
    goal: Annotated[
        str | None, typer.Option("--goal", metavar="TEXT", help=f"With --advise; else {DEFAULT_GOAL!r}.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help=_REPLAY_PREFIX + "write a page with charts.")
    ] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="DIR", help=_REPLAY_PREFIX + "write each chart as a file.")
    ] = None,
) -> None:
    """Simulate a scenario, or replay this queue's history.

    Runs it through the real queue and shows how long each group of customers waits.
    """
    options = ReplayOptions(
        since, until, csv, export, scrub, policy or (), order, charge, max_share, check_each_step, slots, weight or (),
        cap or (), html, svg, goal, advise,
    )  # fmt: skip
    if replay_:
        if scenario is not None or seed is not None:
            raise InvalidInputError("--replay replays history: leave out the scenario and --seed")
        replay(session, options)
        return
    if options._replace(order=None, charge=None, max_share=None) != ReplayOptions.empty():
        raise InvalidInputError("these options need --replay: inturn simulate --replay …")
    if scenario is None:
        _list_scenarios(session)
        return
    loaded = load_scenario(scenario)
    if seed is not None:
        loaded = replace(loaded, seed=seed)
    loaded = replace(loaded, policy=with_sharing(loaded.policy, None, max_share))
    _run_scenario(session, loaded, order or "fair,classic,fifo", charge)


def _run_scenario(session: Session, scenario: Scenario, order: str, charge: str | None) -> None:
    reports = []
    with progress_reporter(session.texts) as step:
        for discipline, variant in _variants(scenario, _parse_orders(order), charge):
            unit = ChargeUnit.of(variant.policy)
            name = f"{discipline}, {unit}" if discipline is Discipline.FAIR and charge is not None else str(discipline)
            reports.append(build_report(simulate_scenario(variant, discipline, progress=step(name))))
            if session.as_json:
                session.emit(reports[-1].to_dict())
    if not session.as_json:
        print_reports(reports, session.console)


def _variants(
    scenario: Scenario, disciplines: Sequence[Discipline], charge: str | None
) -> Iterator[tuple[Discipline, Scenario]]:
    """Yield each order; the fair one once for every unit that turns are charged. The others charge nothing."""
    units = [ChargeUnit.of(scenario.policy)]
    if charge is not None:
        units = [ChargeUnit.parse("--charge", part.strip()) for part in charge.split(",")]
    for discipline in disciplines:
        for unit in dict.fromkeys(units) if discipline is Discipline.FAIR else units[:1]:
            yield discipline, replace(scenario, policy=unit.apply_to(scenario.policy))


def print_reports(reports: Sequence[Report], console: Console) -> None:
    """Print the reports of one scenario as a table, with a section for each order."""
    first = reports[0]
    console.print(f"[bold]{first.title}[/bold]")
    console.print(f"{first.documents:,} documents, {first.workers} workers, seed {first.seed}; waits in seconds")
    columns = (
        COLUMNS if console.width >= WIDER_TERMINAL else [column for column in COLUMNS if column[0] in NARROW_COLUMNS]
    )
    shown = create_table(console)
    shown.add_column("order")
    shown.add_column("customers")
    for heading, _ in columns:
        shown.add_column(heading, justify="right")
    for report in reports:
        for number, group in enumerate(report.groups):
            cells = [_format_cell(value(report, group)) for _, value in columns]
            order = f"{report.order}, {report.charge}" if report.order == Discipline.FAIR else report.order
            shown.add_row(order if number == 0 else "", f"{group.group} ({group.customers:,})", *cells)
        shown.add_section()
    console.print(shown)
    for report in reports:
        if report.shares.seconds.run is not None:
            console.print(_describe_shares(report))


def _describe_shares(report: Report) -> str:
    """Return Jain's indices of a run: of customers with a backlog, in worker seconds and in documents."""
    order = f"{report.order}, {report.charge}" if report.order == Discipline.FAIR else report.order
    parts = (
        f"{_format_index(index.run)} by {unit}, {_format_index(index.windows)} in windows of {SHARE_WINDOW // SECOND} s"
        for unit, index in (("seconds", report.shares.seconds), ("documents", report.shares.documents))
    )
    return f"{order}: Jain {'; '.join(parts)}"


def _format_index(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _format_cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}" if 0 < value < 1 else f"{value:,.1f}"


def _parse_orders(order: str) -> list[Discipline]:
    known = ", ".join(Discipline)
    try:
        disciplines = [Discipline(part.strip()) for part in order.split(",")]
    except ValueError:
        raise InvalidInputError(f"--order takes {known}, separated by commas, not {order!r}") from None
    return list(dict.fromkeys(disciplines))


def _list_scenarios(session: Session) -> None:
    scenarios = built_in_scenarios()
    if session.as_json:
        for name, scenario in scenarios.items():
            session.emit({"scenario": name, "title": scenario.title})
        return
    shown = create_table(session.console)
    shown.add_column("scenario", no_wrap=True)
    shown.add_column("what it plays")
    for name, scenario in scenarios.items():
        shown.add_row(name, scenario.title)
    session.console.print(shown)
