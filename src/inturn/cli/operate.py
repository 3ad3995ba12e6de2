"""Operators' commands for the whole queue and for documents: pause, resume, expedite, purge."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from inturn.cli.customer import NameArgument, set_one
from inturn.cli.session import Session
from inturn.errors import IllegalTransitionError, InvalidInputError

CustomerAlias = Annotated[str | None, typer.Argument(hidden=True)]
"""A customer to pause or resume, as `inturn customer set --paused` does."""


def pause(session: Session, customer: CustomerAlias = None) -> None:
    """Stop starting documents; running ones finish."""
    _set_paused(session, customer, paused=True)


def resume(session: Session, customer: CustomerAlias = None) -> None:
    """Start documents again."""
    _set_paused(session, customer, paused=False)


def expedite(
    session: Session,
    id: Annotated[str, typer.Argument(help="The document's id.")],
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Move it back to its place.")] = False,
) -> None:
    """Move a waiting document to the front of the queue."""
    session.queue.expedite(id, session.operator, undo=undo)
    if session.as_json:
        session.emit({"id": id.lower(), "expedited": not undo})
    else:
        session.print_text("expedite_undone" if undo else "expedited", id=id.lower())


def purge(
    session: Session,
    customer: NameArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete all documents, results and keys of a customer.

    The customer's counter and settings stay.
    """
    operator, name = session.operator, session.queue.customer(customer).name
    if not yes:
        _confirm(session, name)
    purged = session.queue.purge(customer, operator)
    counts = {"documents": purged.documents, "keys": purged.keys, "blobs": len(purged.blobs)}
    if session.as_json:
        session.emit({"customer": name, **counts})
    else:
        session.print_text("purged", n=purged.documents, customer=name)
    _delete_blobs(session, purged.blobs)


def _delete_blobs(session: Session, blob_keys: Sequence[str]) -> None:
    """Delete the files of purged documents; if this fails, maintenance deletes them as orphans."""
    blobs = session.blobs() if blob_keys else None
    if blobs is not None:
        blobs.delete(blob_keys)
    elif blob_keys:
        session.warn(session.texts.text("bytes_left", n=len(blob_keys)))


def _confirm(session: Session, customer: str) -> None:
    if not sys.stdin.isatty():
        raise InvalidInputError(
            "purge asks for confirmation, and there is no terminal to ask on; give --yes to delete without asking"
        )
    typed = typer.prompt(session.texts.text("purge_ask", customer=customer), err=True)
    if typed.strip() != customer:
        raise IllegalTransitionError("that is not the customer's name; nothing was deleted")


def _set_paused(session: Session, customer: str | None, *, paused: bool) -> None:
    if customer is not None:
        set_one(session, customer, "paused", paused)
        return
    queue, operator = session.queue, session.operator
    before = queue.paused() is not None
    (queue.pause if paused else queue.resume)(operator)
    if session.as_json:
        session.emit({"customer": None, "setting": "paused", "before": before, "after": paused})
    else:
        session.print_text("queue_now_paused" if paused else "queue_now_runs")
