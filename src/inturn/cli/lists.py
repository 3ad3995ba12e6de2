"""`inturn status`, `inturn customers` and `inturn documents`: list the queue's contents."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer

from inturn.cli.customer import format_optional, format_rate
from inturn.cli.json_output import customer_record, document_record, overview_record
from inturn.cli.output import (
    WIDE_TERMINAL,
    WIDER_TERMINAL,
    WIDEST_TERMINAL,
    Column,
    first_line,
    print_details,
    print_table,
)
from inturn.cli.session import Session
from inturn.cli.time_range import ByTime, Since, Until, in_time_range
from inturn.i18n import Texts
from inturn.ids import clean_id
from inturn.insights import Overview
from inturn.insights.explain import STATE_TEXT_KEYS
from inturn.model import DEFAULT_QUEUE, EXPEDITED_LEVEL, Customer, Document, DocumentState
from inturn.store_types import CustomerFilter, DocumentFilter, DocumentSort, DocumentTime, PartsChoice

MAX_ERROR_LENGTH_WIDE: Final = 160
MAX_ERROR_LENGTH_NARROW: Final = 60
"""Characters of an error message that a terminal shows."""
LimitOption = Annotated[int, typer.Option("--limit", help="How many at most.")]
AfterOption = Annotated[
    str | None, typer.Option("--after", metavar="CURSOR", help="The cursor that the previous page printed.")
]
PartsOption = Annotated[
    PartsChoice | None,
    typer.Option("--parts", help="Parts of split documents: left out, unless --queue or --parent is given."),
]


def clean_parent(id_: str | None) -> str | None:
    """Validate the id of a document whose parts are meant."""
    return None if id_ is None else clean_id(id_)


def status(session: Session) -> None:
    """Show the queue in numbers: states, levels, throughput."""
    overview = session.insights.overview()
    if session.as_json:
        session.emit(overview_record(overview))
        return
    texts, console = session.texts, session.console
    print_details(console, _describe_overview(overview, texts))
    if overview.states:
        rows = [
            (texts.text(STATE_TEXT_KEYS[document_state]), texts.number(overview.states.get(document_state, 0)))
            for document_state in DocumentState
        ]
        columns = [Column(texts.text("head_state")), Column(texts.text("head_documents"), number=True)]
        print_table(console, columns, rows)
    if overview.waiting:
        levels = [(_format_level(level, texts), texts.number(n)) for level, n in sorted(overview.waiting.items())]
        columns = [Column(texts.text("head_level")), Column(texts.text("head_waiting"), number=True)]
        print_table(console, columns, levels)


def customers(
    session: Session,
    *,
    text: Annotated[str | None, typer.Option("--text", help="Part of the name.")] = None,
    waiting: Annotated[bool | None, typer.Option("--waiting/--idle", help="With or without waiting documents.")] = None,
    paused: Annotated[bool | None, typer.Option("--paused/--not-paused", help="Paused or not.")] = None,
    limit: LimitOption = 100,
    after: AfterOption = None,
) -> None:
    """List customers with their counters and settings."""
    page = session.queue.customers(CustomerFilter(text, waiting, paused), limit=limit, after=after)
    if session.as_json:
        for customer in page.items:
            session.emit(customer_record(customer))
    else:
        texts = session.texts
        columns = [
            Column(texts.text("head_customer"), folds=True),
            Column(texts.text("head_counter"), number=True),
            Column(texts.text("head_waiting"), number=True),
            Column(texts.text("head_running"), number=True),
            Column(texts.text("head_weight"), number=True, from_width=WIDE_TERMINAL),
            Column(texts.text("head_cap"), number=True, from_width=WIDE_TERMINAL),
            Column(texts.text("head_rate"), number=True, from_width=WIDE_TERMINAL),
            Column(texts.text("head_paused")),
        ]
        print_table(session.console, columns, [_customer_row(customer, texts) for customer in page.items])
    _print_next_cursor(session, page.next)


def documents(  # noqa: PLR0913 - one option for each filter
    session: Session,
    *,
    state: Annotated[
        list[DocumentState] | None, typer.Option("--state", help="With this status; may be given again.")
    ] = None,
    customer: Annotated[str | None, typer.Option("--customer", help="Of this customer.")] = None,
    level: Annotated[int | None, typer.Option("--level", min=1, max=9, help="Of this level.")] = None,
    batch: Annotated[str | None, typer.Option("--batch", help="Of this batch.")] = None,
    group: Annotated[str | None, typer.Option("--group", help="Of this group.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="In this queue; parts included.")] = None,
    parent: Annotated[str | None, typer.Option("--parent", metavar="ID", help="Parts of this document.")] = None,
    parts: PartsOption = None,
    text: Annotated[str | None, typer.Option("--text", help="Part of the name.")] = None,
    since: Since = None,
    until: Until = None,
    by_time: ByTime = DocumentTime.SUBMITTED,
    sort: Annotated[DocumentSort, typer.Option("--sort", help="Newest or oldest first.")] = DocumentSort.NEWEST,
    limit: LimitOption = 100,
    after: AfterOption = None,
) -> None:
    """List documents, filtered and sorted."""
    states = frozenset(state) if state else None
    where = DocumentFilter(states, customer, level, batch, text, group, queue=queue, parent=clean_parent(parent))
    where = in_time_range(session, where, by_time, since, until).with_parts(parts)
    page = session.queue.documents(where, limit=limit, after=after, sort=sort)
    if session.as_json:
        for document in page.items:
            session.emit(document_record(document))
    else:
        print_documents(session, page.items)
    _print_next_cursor(session, page.next)


def print_documents(session: Session, documents: Sequence[Document]) -> None:
    """Print documents, with columns for errors and queues if there are any; a narrow terminal then has no levels."""
    texts, console = session.texts, session.console
    has_errors = any(_current_error(document) for document in documents)
    has_queues = any(document.queue != DEFAULT_QUEUE for document in documents)
    columns = [
        Column(texts.text("head_document")),
        Column(texts.text("head_customer"), folds=True),
        Column(texts.text("head_state")),
        Column(texts.text("head_level"), number=True, from_width=WIDE_TERMINAL if has_errors else 0),
        Column(
            texts.text("head_counter"),
            number=True,
            from_width=WIDEST_TERMINAL if has_errors else WIDE_TERMINAL,
        ),
        Column(texts.text("head_name"), folds=True, from_width=WIDE_TERMINAL),
        Column(texts.text("head_submitted"), from_width=WIDEST_TERMINAL if has_errors else WIDER_TERMINAL),
        *([Column(texts.text("head_error"), folds=True)] if has_errors else []),
        *([Column(texts.text("head_queue"), folds=True)] if has_queues else []),
    ]
    max_length = (
        (MAX_ERROR_LENGTH_WIDE if console.width >= WIDE_TERMINAL else MAX_ERROR_LENGTH_NARROW)
        if console.is_terminal
        else None
    )
    rows = [
        (
            document.id,
            document.customer,
            str(document.state),
            texts.number(document.level),
            texts.number(document.count),
            document.spec.name,
            texts.time(document.submitted_at),
            *([first_line(_current_error(document), max_length)] if has_errors else []),
            *([document.queue] if has_queues else []),
        )
        for document in documents
    ]
    print_table(console, columns, rows)


def _current_error(document: Document) -> str | None:
    """Return the error of a failed or delayed document; a later success makes earlier errors irrelevant."""
    return document.error if document.state in {DocumentState.FAILED, DocumentState.DELAYED} else None


def _describe_overview(overview: Overview, texts: Texts) -> Iterator[tuple[str, str]]:
    paused = overview.paused
    if paused is None:
        yield texts.text("label_queue"), texts.text("queue_runs")
    else:
        yield texts.text("label_queue"), texts.text("queue_paused", name=paused.name, why=paused.why or "-")
    order = str(overview.policy.policy.turns.order)
    yield texts.text("label_policy"), texts.text("policy_version", version=overview.policy.number, order=order)
    if overview.waiting_closed:
        yield texts.text("label_closed"), texts.text("waiting_closed", n=overview.waiting_closed)
    if overview.oldest_wait is not None:
        yield texts.text("label_customers"), texts.text("customers_open", n=overview.customers)
        yield texts.text("label_oldest"), texts.duration(overview.oldest_wait)
    recent = overview.throughput
    yield texts.text("label_pace"), texts.text("pace", started=recent.started, finished=recent.finished)


def _format_level(level: int, texts: Texts) -> str:
    return texts.text("level_expedited") if level == EXPEDITED_LEVEL else texts.number(level)


def _customer_row(customer: Customer, texts: Texts) -> tuple[str, ...]:
    settings = customer.settings
    return (
        customer.name,
        format_optional(customer.count, texts),
        texts.number(customer.waiting),
        texts.number(customer.running),
        texts.number(settings.weight),
        format_optional(settings.cap, texts),
        format_rate(settings.rate, texts),
        texts.text("yes") if settings.paused else "",
    )


def _print_next_cursor(session: Session, cursor: str | None) -> None:
    """Print the next page's cursor to standard error, apart from the data."""
    if cursor is not None:
        typer.echo(session.texts.text("more", cursor=cursor), err=True)
