"""`inturn check`: assign levels to documents of another queue."""

from typing import Annotated

import typer

from inturn.cli.output import Column, print_table
from inturn.cli.session import Session
from inturn.values import clean_text, clean_time, seconds


def check(
    session: Session,
    customer: Annotated[str, typer.Argument(help="The customer's name.")],
    *,
    count: Annotated[int, typer.Option("--count", help="How many documents.")] = 1,
    at: Annotated[
        float | None, typer.Option("--at", metavar="SECONDS", help="The time of the check, for tests and replays.")
    ] = None,
    idempotency_key: Annotated[str | None, typer.Option("--key", help="Makes repeating the call safe.")] = None,
) -> None:
    """Assign levels to documents that wait in a queue of your own.

    Counts as a submit does, but stores no document.
    """
    customer = clean_text("a customer's name", customer)
    now = None if at is None else clean_time("--at", seconds(at))
    checks = session.queue.check(customer, count, key=idempotency_key, now=now)
    if session.as_json:
        for check in checks:
            session.emit({"customer": customer, "count": check.count, "level": check.level})
        return
    texts = session.texts
    columns = [
        Column(texts.text("head_customer"), folds=True),
        Column(texts.text("head_counter"), number=True),
        Column(texts.text("head_level"), number=True),
    ]
    rows = [(customer, texts.number(check.count), texts.number(check.level)) for check in checks]
    print_table(session.console, columns, rows)
