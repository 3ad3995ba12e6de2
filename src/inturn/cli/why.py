"""`inturn why`: explain a document's level, position, expected start and earlier attempts."""

from collections.abc import Sequence
from typing import Annotated

import typer

from inturn.cli.json_output import why_record
from inturn.cli.output import Column, first_line, print_details, print_table
from inturn.cli.session import Session
from inturn.insights.explain import explain, has_steps
from inturn.store_types import Attempt


def why(session: Session, id: Annotated[str, typer.Argument(help="The document's id.")]) -> None:
    """Explain a document's level, position and expected start.

    Earlier attempts are listed with their errors.
    """
    why = session.insights.why(id)
    attempts = session.queue.attempts(why.document.id)
    share = session.insights.shares().of(why.document.customer)
    if session.as_json:
        session.emit(why_record(why, attempts, share))
        return
    print_details(session.console, explain(why, session.texts, share))
    if attempts:
        _print_attempts(session, attempts, has_queues=has_steps(why.document))


def _print_attempts(session: Session, attempts: Sequence[Attempt], *, has_queues: bool) -> None:
    texts = session.texts
    has_queues = has_queues or len({(attempt.queue, attempt.step) for attempt in attempts}) > 1
    heads = ["head_attempt", "head_started", "head_ended", "head_how", "head_error"]
    heads = ["head_queue", *heads] if has_queues else heads
    columns = [Column(texts.text(key), folds=key == "head_error") for key in heads]
    rows = [
        (
            *((attempt.queue,) if has_queues else ()),
            texts.number(attempt.number),
            texts.time(attempt.started_at),
            texts.time(attempt.ended_at),
            str(attempt.ended),
            first_line(attempt.error) or "-",
        )
        for attempt in attempts
    ]
    print_table(session.console, columns, rows)
