"""`inturn queues`: the queues of a store, for documents that different workers process."""

from typing import Annotated, Any

import typer

from inturn.cli.output import Column, print_table
from inturn.cli.session import Session
from inturn.errors import InvalidInputError
from inturn.model import QueueStatus

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")]


def list_(session: Session) -> None:
    """List queues: what waits and runs in them, and which are paused."""
    statuses = session.queue.queues()
    if session.as_json:
        for status in statuses:
            session.emit(queue_record(status))
        return
    texts = session.texts
    columns = [
        Column(texts.text("head_queue"), folds=True),
        Column(texts.text("head_waiting"), number=True),
        Column(texts.text("head_running"), number=True),
        Column(texts.text("head_weight"), number=True),
        Column(texts.text("head_paused")),
        Column(texts.text("head_description"), folds=True),
    ]
    rows = [
        (
            status.name,
            texts.number(status.waiting),
            texts.number(status.running),
            texts.number(status.settings.weight),
            texts.text("yes") if status.paused else "-",
            status.settings.description or "-",
        )
        for status in statuses
    ]
    print_table(session.console, columns, rows)


def set_(
    session: Session,
    name: NameArgument,
    *,
    description: Annotated[str | None, typer.Option("--description", metavar="TEXT", help="What it is for.")] = None,
    weight: Annotated[
        float | None, typer.Option("--weight", help="How often workers of several queues serve it; 1 by default.")
    ] = None,
) -> None:
    """Change a queue, or make it before its first document."""
    changes: dict[str, Any] = {"description": description, "weight": weight}
    changed = {setting: value for setting, value in changes.items() if value is not None}
    if not changed:
        raise InvalidInputError("nothing to change: give --description or --weight")
    settings = session.queue.change_queue(name, session.operator, **changed)
    if session.as_json:
        session.emit({"queue": name, **settings._asdict()})
    else:
        session.print_text("named_queue_set", name=name)


def pause(session: Session, name: NameArgument) -> None:
    """Start no more documents of a queue; running ones finish."""
    _set_paused(session, name, paused=True)


def resume(session: Session, name: NameArgument) -> None:
    """Start documents of a queue again."""
    _set_paused(session, name, paused=False)


def _set_paused(session: Session, name: str, *, paused: bool) -> None:
    (session.queue.pause if paused else session.queue.resume)(session.operator, queue=name)
    if session.as_json:
        session.emit({"queue": name, "paused": paused})
    else:
        session.print_text("named_queue_now_paused" if paused else "named_queue_now_runs", name=name)


def queue_record(status: QueueStatus) -> dict[str, Any]:
    """Build the JSON of a queue."""
    return {
        "queue": status.name,
        **status.settings._asdict(),
        "paused": status.paused,
        "waiting": status.waiting,
        "running": status.running,
    }
