"""`inturn worker` and `inturn upkeep`: what goes on until it is told to stop."""

import math
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from inturn import __version__
from inturn.blobs import Blobs
from inturn.cli import logs
from inturn.cli.probe import sandbox_layers
from inturn.cli.session import Session, without_password
from inturn.config import BUILT_IN, DAY, Settings
from inturn.errors import InturnError, RetentionRefusedError
from inturn.model import SECOND, clean_text, seconds
from inturn.processing.bounds import MEGABYTE, Bounds
from inturn.processing.options import WorkerOptions
from inturn.processing.sandbox import Limits
from inturn.processing.upkeep import Tidied, Upkeep, UpkeepThread

if TYPE_CHECKING:
    from inturn.processing.fetch import Fetcher
    from inturn.processing.worker import Worker

STDIN: Final = 0
BOUNDS = ("max_pages", "max_megapixels", "max_text", "max_unpacked", "max_memory")
OWN_SETTINGS = ("blobs", "processor", "slots", "lease", "timeout", "grace", "fetch", "keep", *BOUNDS)


def worker(
    session: Session,
    *,
    name: Annotated[str | None, typer.Option("--name", help="The worker's name; else one of its own.")] = None,
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="A processor of your own in the sandbox too; the built-in one always is.")
    ] = False,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when nothing is left to do.")] = False,
    no_upkeep: Annotated[bool, typer.Option("--no-upkeep", help="Leave upkeep to others.")] = False,
    until_stdin_closes: Annotated[
        bool,
        typer.Option("--until-stdin-closes", help="Stop when standard input closes: whoever started it has ended."),
    ] = False,
) -> None:
    """Process documents until told to stop: SIGTERM or Ctrl-C lets what runs finish, a second one ends it at once."""
    from inturn.processing.worker import Worker  # noqa: PLC0415 - only this command pays for what it needs

    settings = session.settings
    logs.begin(as_json=session.as_json)
    box = _box(settings, wanted=sandbox)
    options = WorkerOptions(
        slots=settings.slots,
        lease=seconds(settings.lease),
        timeout=seconds(settings.timeout or 900),
        grace=seconds(settings.grace),
        box=box,
        bounds=_bounds(settings),
        until_empty=until_empty,
        name="" if name is None else clean_text("a worker's name", name),
    )
    session.require_queue()
    blobs = session.blobs(creates=True)
    at_work = Worker(
        session.queue,
        settings.processor,
        blobs=blobs,
        fetcher=_fetcher(settings),
        upkeep=None if no_upkeep else _upkeep(session, blobs),
        options=options,
    )
    _tell_start(settings, at_work.name, box)
    if until_stdin_closes:
        threading.Thread(target=_stop_at_end_of_stdin, args=(at_work,), name="inturn-stdin", daemon=True).start()
    tally = at_work.run()
    came = ", ".join(f"{n} {what.replace('_', ' ')}" for what, n in tally._asdict().items())
    logs.tell(f"worker {at_work.name} ended: {came}", **tally._asdict())
    paused = session.queue.store.paused() if until_empty else None
    if paused is not None:
        raise InturnError(f"the queue is paused by {paused.name}, and not empty: see inturn status, then inturn resume")


def upkeep(
    session: Session,
    *,
    once: Annotated[bool, typer.Option("--once", help="One round, then end.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="This clock is right: delete what is old by it, though a round was refused.")
    ] = False,
) -> None:
    """Move on what is due and delete what is old: one round, or until told to stop. Workers do this by themselves."""
    keeper = _upkeep(session, session.blobs())
    if once:
        tidied = keeper.round(force=force)
        _tell_round(session, tidied)
        if tidied.refusal is not None:
            raise RetentionRefusedError(str(tidied.refusal))
        return
    logs.begin(as_json=session.as_json)
    thread = UpkeepThread(keeper)
    with _stopped() as over:
        logs.tell(
            f"upkeep of {without_password(session.settings.store)}, history is kept for {session.settings.keep:g} days"
        )
        try:
            refusal = keeper.round(force=force).refusal
            if refusal is not None:
                logs.log.warning("upkeep: %s", refusal)
        except InturnError as wrong:
            logs.log.warning("upkeep failed, trying again: %s", wrong)
        thread.start()
        over.wait()
        thread.stop()
    logs.tell("upkeep ended")


def _stop_at_end_of_stdin(worker: "Worker") -> None:
    """Stop a worker once standard input has closed; one that was told to stop already keeps its grace."""
    with suppress(OSError):
        while os.read(STDIN, 4096):
            pass
    if not worker.report().stopping:
        logs.log.warning("standard input has closed: what started this worker has ended, and so does it")
        worker.stop()


def _box(settings: Settings, *, wanted: bool) -> Limits | None:
    """The sandbox; with a timeout of its own it gets CPU time in proportion."""
    if not wanted and settings.processor != BUILT_IN:
        return None
    usual, memory = Limits(), round(settings.max_memory * MEGABYTE)
    if settings.timeout is None:
        return Limits(memory=memory)
    cpu = max(1, math.ceil(usual.cpu * settings.timeout / usual.wall))
    return Limits(wall=settings.timeout, cpu=cpu, memory=memory)


def _bounds(settings: Settings) -> Bounds:
    """What the built-in processor reads."""
    return Bounds(
        pages=settings.max_pages,
        pixels=round(settings.max_megapixels * 1_000_000),
        text=round(settings.max_text * MEGABYTE),
        expanded=round(settings.max_unpacked * MEGABYTE),
    )


def _fetcher(settings: Settings) -> "Fetcher | None":
    from inturn.processing.fetch import Fetcher  # noqa: PLC0415 - brings TLS

    hosts = [each.strip() for each in (settings.fetch or "").split(",") if each.strip()]
    return Fetcher(hosts) if hosts else None


def _upkeep(session: Session, blobs: Blobs | None) -> Upkeep:
    return Upkeep(session.queue, blobs, keep=round(session.settings.keep * DAY * SECOND))


def _tell_start(settings: Settings, name: str, box: Limits | None) -> None:
    store, blobs = without_password(settings.store), settings.blobs or "none"
    logs.tell(f"inturn {__version__}, worker {name}", worker=name, version=__version__)
    logs.tell(f"store {store}, blobs {blobs}", store=store, blobs=settings.blobs)
    layers = None if box is None else sandbox_layers()
    told = layers or "none: the processor may do what the worker may (--sandbox confines it)"
    slots = f"{settings.slots} {'slot' if settings.slots == 1 else 'slots'}"
    facts = {"processor": settings.processor, "slots": settings.slots, "sandbox": layers}
    logs.tell(f"processor {settings.processor}, {slots}, sandbox: {told}", **facts)


def _tell_round(session: Session, tidied: Tidied) -> None:
    counts = {name: value for name, value in tidied._asdict().items() if name not in {"swept", "refusal"}}
    if session.as_json:
        session.emit({**tidied.swept._asdict(), **counts})
    else:
        session.say("upkeep_round", moved=sum(tidied.swept), **counts)


@contextmanager
def _stopped() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set."""
    over = threading.Event()
    before = {each: signal.signal(each, lambda *_: over.set()) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield over
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
