"""`inturn report`: what customers really got."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from inturn.cli.output import Column, print_table
from inturn.cli.replay import written
from inturn.cli.session import Session
from inturn.cli.telling import telling
from inturn.cli.times import moment
from inturn.clock import SystemClock
from inturn.simulate.compare import rounded
from inturn.simulate.estimates import starts_of
from inturn.simulate.fairness import FairnessReport, fairness_of
from inturn.simulate.history import LEAD, read_history
from inturn.simulate.pages import fairness_page
from inturn.simulate.pages.fairness import headings, row, starts_told, told

SHOWN: Final = 50
"""Customers in a terminal; --json and --html show more."""
WIDE: Final = (5, 9)
"""Columns that only a wide terminal has room for."""


def report(
    session: Session,
    *,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="A time, or how long ago, such as 24h or 7d.")
    ] = "7d",
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page with charts.")] = None,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="DIR", help="Write each chart as a file.")] = None,
) -> None:
    """Show what each customer got: waits, share received against share due, harm done to others."""
    now, texts = SystemClock().now(), session.texts
    begin = moment("--since", since, now)
    with telling(texts) as step:
        tell = step(texts.text("replay_reading"))
        history = read_history(session.queue.store, begin, lead=min(LEAD, begin), progress=tell)
        ended = [each for each in history.finished if each is not None]
        is_over = len(ended) == len(history.finished)
        starts = starts_of(history, step(texts.text("replay_playing")))
        found = fairness_of(history, max(ended) if is_over else now, starts)
    if session.as_json:
        session.emit({"report": found.plain()})
        for each in found.customers:
            session.emit(rounded(asdict(each)))
    else:
        _print(session, found)
    if html is not None or svg is not None:
        written(session, fairness_page(found, texts), html, svg)


def _print(session: Session, found: FairnessReport) -> None:
    texts = session.texts
    for line in told(found, texts):
        session.write(line)
    columns = [
        Column(heading, number=place > 0, folds=place == 0, from_width=130 if place in WIDE else 0)
        for place, heading in enumerate(headings(texts))
    ]
    shown = found.customers[:SHOWN]
    print_table(session.console, columns, (row(each, texts) for each in shown))
    if len(shown) < len(found.customers):
        session.say("replay_shown", n=len(shown), total=len(found.customers))
    for line in starts_told(found.starts, texts):
        session.write(line)
