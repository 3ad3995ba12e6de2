"""`inturn worker` and `inturn upkeep`: what goes on until it is told to stop."""

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from inturn import __version__
from inturn.blobs import Blobs
from inturn.cli import logs
from inturn.cli.probe import sandbox_layers
from inturn.cli.session import Session, without_password
from inturn.config import BUILT_IN, DAY, Settings
from inturn.errors import InturnError
from inturn.model import SECOND, clean_text, seconds
from inturn.processing.options import WorkerOptions
from inturn.processing.sandbox import Limits
from inturn.processing.upkeep import Tidied, Upkeep, UpkeepThread

if TYPE_CHECKING:
    from inturn.processing.fetch import Fetcher

OWN_SETTINGS = ("blobs", "processor", "slots", "lease", "timeout", "grace", "fetch", "keep")


def worker(
    session: Session,
    *,
    name: Annotated[str | None, typer.Option("--name", help="The worker's name; else one of its own.")] = None,
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="A processor of your own in the sandbox too; the built-in one always is.")
    ] = False,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when nothing is left to do.")] = False,
    no_upkeep: Annotated[bool, typer.Option("--no-upkeep", help="Leave upkeep to others.")] = False,
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
        until_empty=until_empty,
        name="" if name is None else clean_text("a worker's name", name),
    )
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
) -> None:
    """Move on what is due and delete what is old: one round, or until told to stop. Workers do this by themselves."""
    keeper = _upkeep(session, session.blobs())
    if once:
        _tell_round(session, keeper.round())
        return
    logs.begin(as_json=session.as_json)
    thread = UpkeepThread(keeper)
    with _stopped() as over:
        logs.tell(
            f"upkeep of {without_password(session.settings.store)}, history is kept for {session.settings.keep:g} days"
        )
        try:
            keeper.round()
        except InturnError as wrong:
            logs.log.warning("upkeep failed, trying again: %s", wrong)
        thread.start()
        over.wait()
        thread.stop()
    logs.tell("upkeep ended")


def _box(settings: Settings, *, wanted: bool) -> Limits | None:
    """The sandbox; with a timeout of its own it gets CPU time in proportion."""
    if not wanted and settings.processor != BUILT_IN:
        return None
    usual = Limits()
    if settings.timeout is None:
        return usual
    return Limits(wall=settings.timeout, cpu=max(1, math.ceil(usual.cpu * settings.timeout / usual.wall)))


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
    counts = {name: value for name, value in tidied._asdict().items() if name != "swept"}
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
