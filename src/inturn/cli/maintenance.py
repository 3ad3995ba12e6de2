"""`inturn maintenance`: requeue expired leases, delete old documents and orphaned files."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from inturn.blobs import Blobs
from inturn.cli import logs
from inturn.cli.durations import DAY
from inturn.cli.session import Session, redact_password
from inturn.errors import InturnError, RetentionRefusedError
from inturn.worker.maintenance import Maintenance, MaintenanceResult, MaintenanceThread


def maintenance(
    session: Session,
    *,
    once: Annotated[bool, typer.Option("--once", help="Run one round and exit.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="The clock is right: delete what is old by it, even if the last round was refused."
        ),
    ] = False,
) -> None:
    """Requeue expired leases and delete old documents.

    Runs until stopped, or one round with --once. Workers do this as well.
    """
    maintenance = create_maintenance(session, session.blobs())
    if once:
        round_result = maintenance.run_round(force=force)
        _print_round(session, round_result)
        if round_result.refusal is not None:
            raise RetentionRefusedError(str(round_result.refusal))
        return
    logs.configure(as_json=session.as_json)
    thread = MaintenanceThread(maintenance)
    with _stop_event() as stopped:
        store, days = redact_password(session.settings.store), session.settings.keep
        logs.info(f"maintenance of {store}, history is kept for {days:g} days")
        try:
            refusal = maintenance.run_round(force=force).refusal
            if refusal is not None:
                logs.log.warning("maintenance: %s", refusal)
        except InturnError as error:
            logs.log.warning("maintenance failed, trying again: %s", error)
        thread.start()
        stopped.wait()
        thread.stop()
    logs.info("maintenance ended")


def create_maintenance(session: Session, blobs: Blobs | None) -> Maintenance:
    """Build the maintenance of a session's queue, with the retention of this machine's settings."""
    return Maintenance(session.queue, blobs, keep=round(session.settings.keep * DAY))


def _print_round(session: Session, result: MaintenanceResult) -> None:
    counts = {name: value for name, value in result._asdict().items() if name not in {"swept", "refusal"}}
    if session.as_json:
        session.emit({**result.swept._asdict(), **counts})
    else:
        session.print_text("maintenance_round", moved=sum(result.swept), **counts)


@contextmanager
def _stop_event() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and Ctrl-C set."""
    stopped = threading.Event()
    handlers = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopped
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
