"""`inturn history`: what happened in the queue, by minute or hour."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from inturn.cli.durations import HOUR, parse_time
from inturn.cli.output import Column, print_table
from inturn.cli.session import Session
from inturn.i18n import Texts
from inturn.insights import DEFAULT_TOP, HistoryBy, HistoryPoint, HistoryQuery, HistorySeries, HistoryView, read_history
from inturn.policy.history import Figures, sum_figures
from inturn.values import SECOND, parse_duration

COUNTS: Final = {
    "submitted": "head_submitted",
    "parts": "head_parts",
    "started": "head_started",
    "steps": "head_steps",
    "done": "head_done",
    "failed": "head_failed",
    "cancelled": "head_cancelled",
}
"""Figures, and the headings of their columns."""
OF_STEPS: Final = frozenset({"steps", "parts"})
"""Figures whose column is shown where there are any."""
HEADINGS: Final = ("head_waiting", "head_running", "head_p50", "head_p95", "head_worked")


def history(  # noqa: PLR0913 - one option for each part of the question
    session: Session,
    *,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="A time, or how long ago: 15m, 24h, 7d.")
    ] = "1h",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="A time, or how long ago.")] = "0s",
    by: Annotated[
        HistoryBy, typer.Option("--by", help="One table for each queue, level or customer.")
    ] = HistoryBy.STATE,
    customer: Annotated[str | None, typer.Option("--customer", help="Of this customer.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="Of this queue.")] = None,
    top: Annotated[int, typer.Option("--top", min=1, max=50, help="Queues or customers shown by name.")] = DEFAULT_TOP,
    step: Annotated[
        str | None, typer.Option("--step", metavar="TIME", help="1m, 5m, 15m, 30m, 1h, 3h, 6h or 12h.")
    ] = None,
) -> None:
    """Show what happened, by minute or hour.

    Minutes are kept for 48 hours, hours for 90 days.
    """
    now = session.queue.now()
    times = parse_time("--since", since, now), parse_time("--until", until, now)
    length = None if step is None else parse_duration("--step", step)
    view = read_history(session.queue, HistoryQuery(*times, by, customer, top, length, queue))
    if session.as_json:
        for key, points in [(None, view.total), *view.series]:
            for point in points:
                session.emit(_record(view, key, point))
        return
    _print_points(session, view.total, view.step)
    for series in view.series:
        session.console.print()
        session.console.print(_heading(view.by, series, session.texts), markup=False)
        _print_points(session, series.points, view.step)
    if view.cursor.began_at is None:
        session.print_text("history_none")


def _heading(by: HistoryBy, series: HistorySeries, texts: Texts) -> str:
    if by is HistoryBy.LEVEL:
        return texts.text("level_named", level=series.key)
    return series.key or texts.text("head_others")


def _print_points(session: Session, points: Sequence[HistoryPoint], step: int) -> None:
    texts = session.texts
    total = sum_figures(point.figures for point in points if point.figures is not None)
    counts = {name: heading for name, heading in COUNTS.items() if name not in OF_STEPS or getattr(total, name)}
    headings = (*counts.values(), *HEADINGS)
    columns = [Column(texts.text("head_when")), *(Column(texts.text(heading), number=True) for heading in headings)]
    shape = "%Y-%m-%d %H:%M" if step >= HOUR else "%m-%d %H:%M"
    rows = [_row(point, texts, shape, counts) for point in points if point.figures is not None]
    print_table(session.console, columns, rows)


def _row(point: HistoryPoint, texts: Texts, shape: str, names: Iterable[str]) -> list[str]:
    figures = point.figures or Figures()
    counts = [texts.number(getattr(figures, name)) for name in names]
    states = ["-" if n is None else texts.number(n) for n in (figures.waiting, figures.running)]
    waits = [figures.wait_percentile(part) for part in (0.5, 0.95)]
    times = ["-" if wait is None else texts.duration(wait) for wait in waits]
    at = datetime.fromtimestamp(point.at / SECOND).astimezone().strftime(shape)
    return [at, *counts, *states, *times, texts.duration(figures.worked)]


def _record(view: HistoryView, key: str | None, point: HistoryPoint) -> dict[str, Any]:
    """One step of one series; figures are null where nothing is known."""
    figures = point.figures
    names = (*COUNTS, "expired", "waiting", "running", "worked")
    return {
        "at": point.at,
        "step": view.step,
        "queue": key if view.by is HistoryBy.QUEUE else None,
        "level": int(key) if view.by is HistoryBy.LEVEL and key is not None else None,
        "customer": key if view.by is HistoryBy.CUSTOMER else None,
        "series": "total" if key is None else str(view.by),
        **{name: None if figures is None else getattr(figures, name) for name in names},
        "wait_p50": None if figures is None else figures.wait_percentile(0.5),
        "wait_p95": None if figures is None else figures.wait_percentile(0.95),
    }
