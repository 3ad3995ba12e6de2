"""`inturn worker`: process documents until stopped."""

import math
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from inturn import __version__
from inturn.cli import logs
from inturn.cli.host_checks import sandbox_layers
from inturn.cli.maintenance import create_maintenance
from inturn.cli.session import Session, redact_password
from inturn.config import DEFAULT_PROCESSOR, Settings
from inturn.errors import InturnError, InvalidInputError
from inturn.extract.limits import MEGABYTE, ExtractLimits
from inturn.sandbox.confinement import SandboxLimits
from inturn.values import SECOND, clean_text, seconds
from inturn.worker.marked import find_processors, select_processors
from inturn.worker.options import QueueOptions, WorkerOptions, parse_queues
from inturn.worker.routing import processor_spec

if TYPE_CHECKING:
    from inturn.fetch import Fetcher
    from inturn.worker.worker import Worker

STDIN_FD: Final = 0
LIMIT_SETTINGS = ("max_pages", "max_megapixels", "max_text", "max_unpacked", "max_memory")
SETTING_NAMES = ("blobs", "processor", "queues", "slots", "lease", "timeout", "grace", "fetch", "keep", *LIMIT_SETTINGS)


def worker(  # noqa: PLR0913 - one for each option
    session: Session,
    module: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE]", help="A module with functions marked as the processors of queues. [INTURN_MODULE]"
        ),
    ] = None,
    *,
    name: Annotated[str | None, typer.Option("--name", help="The worker's name; else a generated one.")] = None,
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="Run your own processor in the sandbox; the built-in one always is.")
    ] = False,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="Exit when nothing is left to do.")] = False,
    no_maintenance: Annotated[bool, typer.Option("--no-upkeep", help="Leave maintenance to other processes.")] = False,
    until_stdin_closes: Annotated[
        bool,
        typer.Option(
            "--until-stdin-closes", help="Stop when standard input closes, which is when its parent process ends."
        ),
    ] = False,
) -> None:
    """Process documents until stopped.

    SIGTERM or Ctrl-C stops the worker once its running documents have finished. A second signal stops it at once.
    """
    from inturn.worker.worker import Worker  # noqa: PLC0415 - slow to import

    settings = session.settings
    logs.configure(as_json=session.as_json)
    served = _served_queues(settings, module or settings.module)
    spec = processor_spec(served.paths, settings.processor)
    box = _sandbox_limits(settings, spec, served.longest_timeout, is_requested=sandbox)
    options = WorkerOptions(
        slots=settings.slots,
        lease=seconds(settings.lease),
        timeout=seconds(settings.timeout or 900),
        grace=seconds(settings.grace),
        box=box,
        bounds=_extract_limits(settings),
        until_empty=until_empty,
        name="" if name is None else clean_text("a worker's name", name),
        queues=served.paths,
        per_queue=served.options if box is None else served.with_timeout(settings.timeout),
    )
    session.require_queue()
    blobs = session.blobs(may_create=True)
    at_work = Worker(
        session.queue,
        settings.processor,
        blobs=blobs,
        fetcher=_fetcher(settings),
        maintenance=None if no_maintenance else create_maintenance(session, blobs),
        options=options,
    )
    _log_start(settings, at_work.name, served, spec, box)
    if until_stdin_closes:
        threading.Thread(target=_stop_at_end_of_stdin, args=(at_work,), name="inturn-stdin", daemon=True).start()
    at_work.run()
    paused = session.queue.paused() if until_empty else None
    if paused is not None:
        raise InturnError(
            f"the queue is paused by {paused.name} and not empty: see inturn status, then run inturn resume"
        )


class ServedQueues(NamedTuple):
    """What a worker serves: the path of each queue's own processor, and the options of some."""

    paths: dict[str, str | None]
    options: dict[str, QueueOptions]

    @property
    def longest_timeout(self) -> int:
        """The longest of the queues' own timeouts; 0 without any."""
        return max((own.timeout or 0 for own in self.options.values()), default=0)

    def with_timeout(self, timeout: float | None) -> dict[str, QueueOptions]:
        """Return the options with a timeout for each queue: the sandbox itself has the longest of them."""
        if not self.longest_timeout:
            return self.options
        usual = seconds(timeout or SandboxLimits().wall_seconds)
        own = {name: self.options.get(name, QueueOptions()) for name in self.paths}
        return {name: options._replace(timeout=options.timeout or usual) for name, options in own.items()}


def require_module_or_processor(settings: Settings, module: str | None) -> None:
    """Refuse a processor beside a module with processors: it would get no document."""
    if module is not None and settings.is_set("processor"):
        raise InvalidInputError(
            f"give a module with processors ({module}) or one processor ({settings.processor}), not both; a queue may"
            f" have another with --queue NAME=MODULE:FUNCTION"
        )


def _served_queues(settings: Settings, module: str | None) -> ServedQueues:
    """Return the queues of a module, or of the settings; `--queue` chooses from those of the module, or adds one."""
    if module is None:
        return ServedQueues(parse_queues(settings.queues.split(",")), {})
    require_module_or_processor(settings, module)
    chosen = parse_queues(settings.queues.split(",")) if settings.is_set("queues") else {}
    from_module = [name for name, path in chosen.items() if path is None]
    marked = select_processors(module, find_processors(module), from_module if chosen else None)
    paths = chosen | {name: processor.path for name, processor in marked.items()}
    return ServedQueues(paths, {name: processor.options for name, processor in marked.items()})


def _stop_at_end_of_stdin(worker: "Worker") -> None:
    """Stop a worker once standard input has closed; a worker that is stopping already keeps its grace."""
    with suppress(OSError):
        while os.read(STDIN_FD, 4096):
            pass
    if not worker.report().stopping:
        logs.log.warning("standard input has closed, so the parent process has ended: stopping")
        worker.stop()


def _sandbox_limits(
    settings: Settings, processor: str, longest_timeout: int, *, is_requested: bool
) -> SandboxLimits | None:
    """Return the sandbox's limits, or None without a sandbox. CPU time is in proportion to the longest timeout."""
    if not is_requested and processor != DEFAULT_PROCESSOR:
        return None
    defaults, memory = SandboxLimits(), round(settings.max_memory * MEGABYTE)
    wall = max(settings.timeout or defaults.wall_seconds, longest_timeout / SECOND)
    cpu = max(1, math.ceil(defaults.cpu_seconds * wall / defaults.wall_seconds))
    return SandboxLimits(wall_seconds=wall, cpu_seconds=cpu, memory_bytes=memory)


def _extract_limits(settings: Settings) -> ExtractLimits:
    return ExtractLimits(
        pages=settings.max_pages,
        pixels=round(settings.max_megapixels * 1_000_000),
        text_bytes=round(settings.max_text * MEGABYTE),
        unpacked_bytes=round(settings.max_unpacked * MEGABYTE),
    )


def _fetcher(settings: Settings) -> "Fetcher | None":
    from inturn.fetch import Fetcher  # noqa: PLC0415 - brings TLS

    hosts = [part.strip() for part in (settings.fetch or "").split(",") if part.strip()]
    return Fetcher(hosts) if hosts else None


def _log_start(
    settings: Settings, name: str, served: ServedQueues, processor: str, limits: SandboxLimits | None
) -> None:
    store, blobs = redact_password(settings.store), settings.blobs or "none"
    logs.info(f"inturn {__version__}, worker {name}", worker=name, version=__version__)
    logs.info(f"store {store}, blobs {blobs}", store=store, blobs=settings.blobs)
    layers = None if limits is None else sandbox_layers()
    sandbox = layers or "none: the processor has the worker's rights (--sandbox confines it)"
    slots = f"{settings.slots} {'slot' if settings.slots == 1 else 'slots'}"
    fields = {"processor": processor, "queues": ",".join(served.paths), "slots": settings.slots, "sandbox": layers}
    logs.info(f"processor {processor}, {slots}, sandbox: {sandbox}", **fields)
