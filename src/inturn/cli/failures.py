"""`inturn failures`: failed documents by kind of error."""

from collections.abc import Sequence
from typing import Final

from inturn.cli.durations import parse_time
from inturn.cli.output import WIDE_TERMINAL, WIDER_TERMINAL, Column, print_table
from inturn.cli.session import Session
from inturn.cli.time_range import Since, Until
from inturn.i18n import Texts
from inturn.insights import FailureGroup, failure_groups, failures_of_group
from inturn.store_answers import Failure
from inturn.store_types import TimeRange
from inturn.values import SECOND

DEFAULT_RANGE: Final = 86_400 * SECOND


def failures(session: Session, *, since: Since = None, until: Until = None) -> None:
    """Group failed documents by their error.

    Of the last day, or of another time. Retry a group with: inturn retry --error ID
    """
    listed = failure_groups(session.queue, time_range(session, since, until))
    if session.as_json:
        for group in listed.groups:
            session.emit({**group._asdict(), "example": group.example._asdict()})
        return
    texts = session.texts
    if not listed.groups:
        session.print_text("failures_none")
        return
    columns = [
        Column(texts.text("head_group_id")),
        Column(texts.text("head_documents"), number=True),
        Column(texts.text("head_customers"), number=True),
        Column(texts.text("head_last"), from_width=WIDE_TERMINAL),
        Column(texts.text("head_example"), from_width=WIDER_TERMINAL),
        Column(texts.text("head_error"), folds=True),
    ]
    print_table(session.console, columns, [_group_row(group, texts) for group in listed.groups])
    if listed.oldest_at is not None:
        session.print_text("failures_cut", n=listed.documents, time=texts.time(listed.oldest_at))


def members(session: Session, error: str, since: str | None, until: str | None) -> Sequence[Failure]:
    """Return the documents of a group, oldest first."""
    return failures_of_group(session.queue, error, time_range(session, since, until))


def time_range(session: Session, since: str | None, until: str | None) -> TimeRange:
    """Parse --since and --until, by the store's clock; without --since, the last day."""
    now = session.queue.now()
    begin = max(0, now - DEFAULT_RANGE) if since is None else parse_time("--since", since, now)
    return TimeRange(begin, None if until is None else parse_time("--until", until, now))


def _group_row(group: FailureGroup, texts: Texts) -> tuple[str, ...]:
    return (
        group.id,
        texts.number(group.count),
        texts.number(len(group.customers)),
        texts.time(group.last_at),
        group.example.id,
        group.kind,
    )
