"""`inturn workers`: what workers do, and which of them take documents."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from inturn.cli.durations import format_duration
from inturn.cli.output import WIDE_TERMINAL, WIDER_TERMINAL, Column, print_table
from inturn.cli.session import Session
from inturn.i18n import Texts
from inturn.insights import AtWork, is_silent
from inturn.worker_report import Worker

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The worker's name.")]


def list_(session: Session) -> None:
    """List workers: their slots and documents, and which of them take documents."""
    now = session.queue.now()
    workers = session.insights.at_work()
    if session.as_json:
        for activity in workers:
            session.emit(worker_record(activity, now))
        return
    texts = session.texts
    if not workers:
        session.print_text("workers_none")
        return
    columns = [
        Column(texts.text("head_worker"), folds=True),
        Column(texts.text("head_slots"), number=True),
        Column(texts.text("head_state"), folds=True),
        Column(texts.text("head_documents"), folds=True),
        Column(texts.text("head_seen"), number=True, from_width=WIDE_TERMINAL),
        Column(texts.text("head_host"), from_width=WIDER_TERMINAL),
        Column(texts.text("head_version"), from_width=WIDER_TERMINAL),
    ]
    print_table(session.console, columns, [_worker_row(activity, now, texts) for activity in workers])


def pause(session: Session, name: NameArgument) -> None:
    """Let a worker take no more documents; it finishes what it has.

    A restart of its process ends the pause.
    """
    _set_paused(session, name, paused=True)


def resume(session: Session, name: NameArgument) -> None:
    """Let a paused worker take documents again."""
    _set_paused(session, name, paused=False)


def _set_paused(session: Session, name: str, *, paused: bool) -> None:
    queue, operator = session.queue, session.operator
    (queue.pause_worker if paused else queue.resume_worker)(name, operator)
    if session.as_json:
        session.emit({"worker": name, "paused": paused})
    else:
        session.print_text("worker_now_paused" if paused else "worker_now_resumed", name=name)


def worker_record(activity: AtWork, now: int) -> dict[str, Any]:
    """Build the JSON of a worker."""
    worker = activity.worker
    report = worker.report._asdict()
    del report["progress"], report["at_work"]
    return {
        **report,
        "seen_at": worker.seen_at,
        "silent": is_silent(worker, now),
        "paused": None if worker.paused is None else worker.paused._asdict(),
        "documents": [document.id for document in activity.documents],
        "claimed_ahead": activity.claimed_ahead,
    }


def _worker_row(activity: AtWork, now: int, texts: Texts) -> tuple[str, ...]:
    worker = activity.worker
    report = worker.report
    documents = [
        f"{document.customer}: {document.spec.name} ({format_duration(max(0, now - (document.work_began_at or now)))})"
        for document in activity.documents
    ]
    return (
        report.name,
        f"{texts.number(report.busy)}/{texts.number(report.slots)}",
        "; ".join(_describe_status(worker, now, texts)),
        "; ".join(documents) or "-",
        format_duration(max(0, now - worker.seen_at)),
        f"{report.host} ({report.process})",
        report.version or "-",
    )


def _describe_status(worker: Worker, now: int, texts: Texts) -> Iterator[str]:
    """Describe all that keeps a worker from taking documents, or that it takes them."""
    paused = worker.paused
    if paused is not None:
        yield texts.text("worker_paused_by", name=paused.operator, why=paused.why or "-")
    if worker.report.stopping:
        yield texts.text("worker_stopping")
    if is_silent(worker, now):
        yield texts.text("worker_silent")
    elif worker.open_slots:
        yield texts.text("worker_takes")
