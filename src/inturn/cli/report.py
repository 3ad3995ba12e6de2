"""`inturn report`: report waits and fair shares by customer."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from inturn.analysis.compare import rounded
from inturn.analysis.fairness import FairnessReport, measure_fairness
from inturn.analysis.forecast_accuracy import measure_accuracy
from inturn.analysis.history import WARMUP_DURATION
from inturn.analysis.history_reader import read_history
from inturn.analysis.reports import fairness_page
from inturn.analysis.reports.fairness import column_headings, customer_row, describe_forecasts, summary
from inturn.cli.durations import parse_time
from inturn.cli.output import WIDER_TERMINAL, Column, print_table
from inturn.cli.progress import progress_reporter
from inturn.cli.replay import write_page
from inturn.cli.session import Session
from inturn.clock import SystemClock

MAX_CUSTOMERS_SHOWN: Final = 50
"""In a terminal; --json and --html show all."""
WIDE_ONLY_COLUMNS: Final = (5, 9)


def report(
    session: Session,
    *,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="A time, or how long ago, such as 24h or 7d.")
    ] = "7d",
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="DIR", help="Write each chart as a file.")] = None,
) -> None:
    """Report waits and fair shares by customer.

    Shows each customer's waits, its share received against its share due, and the harm done to others.
    """
    now, texts = SystemClock().now(), session.texts
    begin = parse_time("--since", since, now)
    with progress_reporter(texts) as step:
        progress = step(texts.text("replay_reading"))
        history = read_history(session.queue, begin, warmup=min(WARMUP_DURATION, begin), progress=progress)
        ended = [finished for finished in history.finished if finished is not None]
        is_over = len(ended) == len(history.finished)
        starts = measure_accuracy(history, step(texts.text("replay_playing")))
        fairness_report = measure_fairness(history, max(ended) if is_over else now, starts)
    if session.as_json:
        session.emit({"report": fairness_report.to_dict()})
        for customer in fairness_report.customers:
            session.emit(rounded(asdict(customer)))
    else:
        _print_report(session, fairness_report)
    if html is not None or svg is not None:
        write_page(session, fairness_page(fairness_report, texts), html, svg)


def _print_report(session: Session, fairness: FairnessReport) -> None:
    texts = session.texts
    for line in summary(fairness, texts):
        session.write(line)
    columns = []
    for place, heading in enumerate(column_headings(texts)):
        width = WIDER_TERMINAL if place in WIDE_ONLY_COLUMNS else 0
        columns.append(Column(heading, number=place > 0, folds=place == 0, from_width=width))
    shown = fairness.customers[:MAX_CUSTOMERS_SHOWN]
    print_table(session.console, columns, (customer_row(customer_fairness, texts) for customer_fairness in shown))
    if len(shown) < len(fairness.customers):
        session.print_text("replay_shown", n=len(shown), total=len(fairness.customers))
    for line in describe_forecasts(fairness.starts, texts):
        session.write(line)
