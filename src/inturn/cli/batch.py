"""`inturn batch`: show the progress of a batch."""

import time
from typing import Annotated

import typer

from inturn.cli.output import Column, print_details, print_table
from inturn.cli.progress import progress_bar
from inturn.cli.session import Session
from inturn.cli.wait import (
    describe_states,
    exit_unless_all_done,
    sleep_between_polls,
    warn_if_no_workers,
)
from inturn.errors import NotFoundError
from inturn.insights import BatchStatus
from inturn.insights.explain import STATE_TEXT_KEYS
from inturn.model import ENDED, DocumentState
from inturn.store_types import DocumentFilter
from inturn.values import clean_text


def batch(
    session: Session,
    name: Annotated[str, typer.Argument(help="The batch's name.")],
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all have finished; exit code 1 if any failed.")
    ] = False,
) -> None:
    """Show the progress of a batch.

    Counts its documents by state and customer, and shows when the first was submitted and the last finished. Parts of
    split documents are not counted: a batch is finished when its documents are.
    """
    name = clean_text("a batch's name", name)
    _require_batch(session, name)
    if wait:
        _wait_until_ended(session, name)
    batch_status = session.insights.batch(name)
    if session.as_json:
        states = {str(state): n for state, n in sorted(batch_status.states.items())}
        customers = {
            customer: {str(state): n for state, n in sorted(counts.items())}
            for customer, counts in batch_status.customers.items()
        }
        times = {"first_submitted": batch_status.first_submitted, "last_ended": batch_status.last_ended}
        session.emit(
            {"batch": name, "documents": sum(states.values()), **times, "states": states, "customers": customers}
        )
    else:
        _print_batch(session, name, batch_status)
    if wait:
        exit_unless_all_done(batch_status.states)


def _require_batch(session: Session, name: str) -> None:
    if not session.queue.counts(DocumentFilter(batch=name, parts=False)).states:
        raise NotFoundError(f"there is no document of a batch {name!r}; check the name, or the --store")


def _wait_until_ended(session: Session, name: str) -> None:
    total, ended = _count_ended(session, name)
    if ended == total:
        return
    warn_if_no_workers(session)
    with progress_bar(session, "processing", total) as advance:
        advance(ended)
        while ended < total:
            began, before = time.monotonic(), ended
            total, ended = _count_ended(session, name)
            advance(ended - before)
            sleep_between_polls(time.monotonic() - began)


def _count_ended(session: Session, name: str) -> tuple[int, int]:
    """Count the documents, and those that have ended."""
    states = session.queue.counts(DocumentFilter(batch=name, parts=False)).states
    return sum(states.values()), sum(n for state, n in states.items() if state in ENDED)


def _print_batch(session: Session, name: str, summary: BatchStatus) -> None:
    texts, total = session.texts, sum(summary.states.values())
    ended = sum(n for state, n in summary.states.items() if state in ENDED)
    details = [
        (texts.text("label_batch"), name),
        (texts.text("label_ended"), texts.text("ended_of", ended=ended, total=total)),
        (texts.text("label_state"), describe_states(summary.states, texts)),
        (texts.text("label_first"), texts.time(summary.first_submitted)),
    ]
    if summary.last_ended is not None:
        details.append((texts.text("label_last"), texts.time(summary.last_ended)))
    print_details(session.console, details)
    states = [state for state in DocumentState if summary.states.get(state)]
    columns = [Column(texts.text("head_customer"), folds=True)]
    columns += [Column(texts.text(STATE_TEXT_KEYS[state]), number=True) for state in states]
    rows = [
        (customer, *(texts.number(counts.get(state, 0)) for state in states))
        for customer, counts in summary.customers.items()
    ]
    print_table(session.console, columns, rows)
