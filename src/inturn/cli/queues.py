"""`inturn queues`: the queues of a store, for documents that different workers process."""

from typing import Annotated, Any

import typer

from inturn.cli.customer import format_optional, format_rate, parse_max_running, parse_rate
from inturn.cli.json_input import read_json
from inturn.cli.output import Column, print_table
from inturn.cli.session import Session
from inturn.errors import InvalidInputError
from inturn.forms import parse_form
from inturn.i18n import Texts
from inturn.model import QueueSettings, QueueStatus

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The queue's name.")]


def list_(session: Session) -> None:
    """List queues: what waits and runs in them, and which are paused."""
    statuses = session.queue.queues()
    if session.as_json:
        for status in statuses:
            session.emit(queue_record(status))
        return
    texts = session.texts
    has_limits = any(status.settings.cap or status.settings.rate for status in statuses)
    has_people = any(status.settings.manual for status in statuses)
    columns = [
        Column(texts.text("head_queue"), folds=True),
        Column(texts.text("head_waiting"), number=True),
        Column(texts.text("head_running"), number=True),
        Column(texts.text("head_weight"), number=True),
        *([Column(texts.text(head), number=True) for head in ("head_cap", "head_rate")] if has_limits else []),
        *([Column(texts.text("head_manual"))] if has_people else []),
        Column(texts.text("head_paused")),
        Column(texts.text("head_description"), folds=True),
    ]
    rows = [_queue_row(status, texts, has_limits=has_limits, has_people=has_people) for status in statuses]
    print_table(session.console, columns, rows)


def _queue_row(status: QueueStatus, texts: Texts, *, has_limits: bool, has_people: bool) -> tuple[str, ...]:
    settings = status.settings
    limits = (format_optional(settings.cap, texts), format_rate(settings.rate, texts)) if has_limits else ()
    return (
        status.name,
        texts.number(status.waiting),
        texts.number(status.running),
        texts.number(settings.weight),
        *limits,
        *((texts.text("yes") if settings.manual else "-",) if has_people else ()),
        texts.text("yes") if status.paused else "-",
        settings.description or "-",
    )


def set_(  # noqa: PLR0913 - one option for each setting
    session: Session,
    name: NameArgument,
    *,
    description: Annotated[str | None, typer.Option("--description", metavar="TEXT", help="What it is for.")] = None,
    weight: Annotated[
        float | None, typer.Option("--weight", help="How often workers of several queues serve it; 1 by default.")
    ] = None,
    cap: Annotated[
        str | None,
        typer.Option(
            "--max-running",
            "--cap",
            metavar="N|none",
            help="Concurrency limit: documents that may run at a time, of all customers.",
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate", metavar="N/TIME|none", help="Rate limit: documents that may start in a time, such as 100/1m."
        ),
    ] = None,
    manual: Annotated[
        bool | None, typer.Option("--manual/--no-manual", help="People serve it, with inturn manual or the page.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--form", metavar="FILE|none", help="What people fill in: a JSON list of fields, in a file."),
    ] = None,
) -> None:
    """Change a queue, or make it before its first document."""
    changes: dict[str, Any] = {"description": description, "weight": weight, "manual": manual}
    changed = {setting: value for setting, value in changes.items() if value is not None}
    if cap is not None:
        changed["cap"] = parse_max_running(cap)
    if rate is not None:
        changed["rate"] = parse_rate(rate)
    if form is not None:
        changed["form"] = None if form == "none" else parse_form(read_json("a form", form))
    if changed.get("form") is not None:
        _require_manual(session, name, manual=manual)
    if not changed and name in {status.name for status in session.queue.queues()}:
        raise InvalidInputError(
            "nothing to change: give --description, --weight, --max-running, --rate, --manual or --form"
        )
    settings = session.queue.change_queue(name, session.operator, **changed)
    if session.as_json:
        session.emit({"queue": name, **settings_record(settings)})
    else:
        session.print_text("named_queue_set", name=name)


def _require_manual(session: Session, name: str, *, manual: bool | None) -> None:
    if manual is None:
        manual = any(status.settings.manual for status in session.queue.queues() if status.name == name)
    if not manual:
        raise InvalidInputError("a form is for queues that people serve: give --manual with --form")


def pause(session: Session, name: NameArgument) -> None:
    """Start no more documents of a queue; running ones finish."""
    _set_paused(session, name, paused=True)


def resume(session: Session, name: NameArgument) -> None:
    """Start documents of a queue again."""
    _set_paused(session, name, paused=False)


def _set_paused(session: Session, name: str, *, paused: bool) -> None:
    name = session.queue.queue_status(name).name
    (session.queue.pause if paused else session.queue.resume)(session.operator, queue=name)
    if session.as_json:
        session.emit({"queue": name, "paused": paused})
    else:
        session.print_text("named_queue_now_paused" if paused else "named_queue_now_runs", name=name)


def queue_record(status: QueueStatus) -> dict[str, Any]:
    """Build the JSON of a queue."""
    return {
        "queue": status.name,
        **settings_record(status.settings),
        "paused": status.paused,
        "waiting": status.waiting,
        "running": status.running,
    }


def settings_record(settings: QueueSettings) -> dict[str, Any]:
    """Build the JSON of a queue's settings."""
    form = None if settings.form is None else [field.to_dict() for field in parse_form(settings.form)]
    return {**settings.to_dict(), "form": form}
