"""Operators' commands: pause, resume, weight, cap, rate, keep, expedite, purge. Each says what it changed."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import typer

from inturn.cli.durations import convert_to_unit
from inturn.cli.lists import format_rate, parse_rate
from inturn.cli.session import Session
from inturn.config import DAY_SECONDS, Range
from inturn.errors import IllegalTransitionError, InvalidInputError, NotFoundError
from inturn.i18n import Texts
from inturn.model import SECOND, CustomerSettings, settings_to_dict

RETENTION_DAYS_RANGE: Final = Range(0, 36_500)

CustomerArgument = Annotated[str, typer.Argument(help="Whose documents.")]
QueueOrCustomer = Annotated[str | None, typer.Argument(help="Only this customer's. Left out: the whole queue.")]


def pause(session: Session, customer: QueueOrCustomer = None) -> None:
    """Stop starting documents; running ones finish."""
    _set_paused(session, customer, paused=True)


def resume(session: Session, customer: QueueOrCustomer = None) -> None:
    """Start documents again."""
    _set_paused(session, customer, paused=False)


def weight(
    session: Session, customer: CustomerArgument, weight: Annotated[float, typer.Argument(help="0.001 to 1000.")]
) -> None:
    """Set a customer's share inside its level: 2 is twice 1."""
    _change(session, customer, "weight", weight, lambda value, texts: texts.number(value))


def cap(
    session: Session, customer: CustomerArgument, cap: Annotated[str, typer.Argument(help="A whole number, or none.")]
) -> None:
    """Limit a customer's running documents."""
    if cap != "none" and not (cap.isascii() and cap.isdigit() and len(cap) < 10):
        raise InvalidInputError(f"a cap is a whole number such as 5, or none, not {cap!r}")
    value = None if cap == "none" else int(cap)
    _change(session, customer, "cap", value, lambda value, texts: "-" if value is None else texts.number(value))


def rate(
    session: Session,
    customer: CustomerArgument,
    rate: Annotated[str, typer.Argument(metavar="N/TIME", help="Such as 100/60 or 100/1m, or none.")],
) -> None:
    """Limit how many documents of a customer start in a time."""
    _change(session, customer, "rate", parse_rate(rate), format_rate)


def keep(
    session: Session,
    customer: CustomerArgument,
    days: Annotated[str, typer.Argument(metavar="DAYS|default", help="Such as 90 or 12h; default: as everybody's.")],
) -> None:
    """Set how long a customer's ended documents are kept."""
    value = (
        None
        if days == "default"
        else round(
            RETENTION_DAYS_RANGE.parse("the days to keep documents for", convert_to_unit("d", days))
            * DAY_SECONDS
            * SECOND
        )
    )
    _change(session, customer, "keep", value, _format_days)


def expedite(session: Session, id: Annotated[str, typer.Argument(help="The document's id.")]) -> None:
    """Move a waiting document to the front of the queue."""
    session.queue.expedite(id, session.operator)
    if session.as_json:
        session.emit({"id": id.lower(), "expedited": True})
    else:
        session.print_text("expedited", id=id.lower())


def purge(
    session: Session,
    customer: CustomerArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete all documents, results and keys of a customer.

    The customer's counter and settings stay.
    """
    operator, known = session.operator, session.queue.customer(customer)
    if not yes:
        _confirm(session, known.name)
    removed = session.queue.purge(customer, operator)
    counts = {"documents": removed.documents, "keys": removed.keys, "blobs": len(removed.blobs)}
    if session.as_json:
        session.emit({"customer": known.name, **counts})
    else:
        session.print_text("purged", n=removed.documents, customer=known.name)
    _delete_blobs(session, removed.blobs)


def _delete_blobs(session: Session, blob_keys: Sequence[str]) -> None:
    """Of documents that are gone already: should this fail, upkeep finds them as orphans."""
    blobs = session.blobs() if blob_keys else None
    if blobs is not None:
        blobs.delete(blob_keys)
    elif blob_keys:
        session.warn(session.texts.text("bytes_left", n=len(blob_keys)))


def _confirm(session: Session, customer: str) -> None:
    if not sys.stdin.isatty():
        raise InvalidInputError("purge asks before it deletes, and there is no terminal to ask on; give --yes to do it")
    typed = typer.prompt(session.texts.text("purge_ask", customer=customer), err=True)
    if typed.strip() != customer:
        raise IllegalTransitionError("that is not the customer's name; nothing was deleted")


def _set_paused(session: Session, customer: str | None, *, paused: bool) -> None:
    queue, operator = session.queue, session.operator
    if customer is None:
        before = queue.store.paused() is not None
    else:
        settings, seen = _settings(session, customer)
        before = settings.paused
    (queue.pause if paused else queue.resume)(operator, customer)
    if session.as_json:
        session.emit({"customer": customer, "setting": "paused", "before": before, "after": paused})
        return
    if customer is None:
        session.print_text("queue_now_paused" if paused else "queue_now_runs")
        return
    session.print_text("customer_now_paused" if paused else "customer_now_runs", customer=customer)
    _print_unknown_customer(session, customer, is_known=seen)


def _change(
    session: Session, customer: str, setting: str, value: Any, format_value: Callable[[Any, Texts], str]
) -> None:
    settings, seen = _settings(session, customer)
    before = getattr(settings, setting)
    after = getattr(session.queue.change_customer(customer, session.operator, **{setting: value}), setting)
    if session.as_json:
        session.emit({"customer": customer, "setting": setting, **settings_to_dict({"before": before, "after": after})})
        return
    labels = {"weight": "head_weight", "cap": "head_cap", "rate": "head_rate", "keep": "head_keep"}
    label = session.texts.text(labels[setting])
    session.write(f"{customer}: {label} {format_value(before, session.texts)} → {format_value(after, session.texts)}")
    _print_unknown_customer(session, customer, is_known=seen)


def _format_days(retention: int | None, texts: Texts) -> str:
    return "-" if retention is None else texts.text("days", n=round(retention / (DAY_SECONDS * SECOND), 3))


def _settings(session: Session, customer: str) -> tuple[CustomerSettings, bool]:
    """A customer's settings before a change, and whether the customer was known."""
    try:
        return session.queue.customer(customer).settings, True
    except NotFoundError:
        return CustomerSettings(), False


def _print_unknown_customer(session: Session, customer: str, *, is_known: bool) -> None:
    """A mistyped name would go unnoticed otherwise."""
    if not is_known:
        session.print_text("customer_unseen", customer=customer)
