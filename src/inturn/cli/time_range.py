"""The options --since, --until and --time of commands that choose documents."""

from typing import Annotated

import typer

from inturn.cli.durations import parse_time
from inturn.cli.session import Session
from inturn.store_types import DocumentFilter, DocumentTime

Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="From then on: 1d, '2h ago', 2026-03-02 or 2026-03-02T08:00."),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Before then, in the same forms.")]
ByTime = Annotated[DocumentTime, typer.Option("--time", help="The time that --since and --until are about.")]


def in_time_range(
    session: Session, where: DocumentFilter, by: DocumentTime, since: str | None, until: str | None
) -> DocumentFilter:
    """Restrict a filter to a range of time, by the store's clock."""
    if since is None and until is None:
        return where
    now = session.queue.now()
    begin, end = (
        None if text is None else parse_time(option, text, now)
        for option, text in (("--since", since), ("--until", until))
    )
    return where.within(by, begin, end)
