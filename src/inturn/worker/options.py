"""Options of a worker."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from inturn.config import current_processor_name
from inturn.errors import InvalidInputError
from inturn.extract.limits import ExtractLimits
from inturn.model import DEFAULT_QUEUE, clean_queue
from inturn.queue import DEFAULT_LEASE
from inturn.sandbox.confinement import SandboxLimits
from inturn.values import SECOND


class QueueOptions(NamedTuple):
    """What a worker does otherwise for the documents of one queue; None: as for all others."""

    timeout: int | None = None
    """For one document, in microseconds."""
    max_attempts: int | None = None
    """Attempts of the step in this queue, instead of those of the document. A lost lease counts by the document's."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Options of a worker. Times are microseconds."""

    slots: int = 2
    lease: int = DEFAULT_LEASE
    timeout: int = 900 * SECOND
    """For one document; in the sandbox `SandboxLimits.wall_seconds` holds instead."""
    grace: int = 30 * SECOND
    """For running documents when the worker stops."""
    documents_per_child: int = 1_000
    memory_per_child: int = 2 << 30
    """Bytes; a child that holds more after a document is replaced."""
    box: SandboxLimits | None = None
    """Limits of the children's sandbox; None: no sandbox. The default processor always has one."""
    bounds: ExtractLimits = field(default_factory=ExtractLimits)
    """Limits of the default processor."""
    until_empty: bool = False
    """End when the queue has no document that is claimable now or becomes so by waiting."""
    name: str = ""
    queues: Mapping[str, str | None] = field(default_factory=lambda: {DEFAULT_QUEUE: None})
    """The queues that it serves, each with the path of a processor of its own, or None for the worker's."""
    per_queue: Mapping[str, QueueOptions] = field(default_factory=dict)
    """Other options for some of its queues."""

    def __post_init__(self) -> None:
        if not self.queues:
            raise InvalidInputError("a worker serves at least one queue")
        for name in self.queues:
            clean_queue(name)
        if unknown := self.per_queue.keys() - self.queues.keys():
            raise InvalidInputError(f"there are options for {min(unknown)!r}, a queue that the worker does not serve")
        if type(self.slots) is not int or not 1 <= self.slots <= 1_000:
            raise InvalidInputError(f"a worker has 1 to 1000 slots, not {self.slots!r}")
        for name, least in (("lease", SECOND // 10), ("timeout", 1), ("grace", 0), ("documents_per_child", 1)):
            if type(getattr(self, name)) is not int or getattr(self, name) < least:
                raise InvalidInputError(f"{name} must be a whole number, {least} or more, not {getattr(self, name)!r}")

    @property
    def max_attempts(self) -> dict[str, int]:
        """The attempts of steps by queue, where they are not those of the document."""
        return {name: own.max_attempts for name, own in self.per_queue.items() if own.max_attempts is not None}


def parse_queues(texts: Iterable[str]) -> dict[str, str | None]:
    """Parse `queue` and `queue=module:function`; return the path of each queue's own processor, if it names one."""
    queues: dict[str, str | None] = {}
    for text in texts:
        name, equals, path = text.strip().partition("=")
        if clean_queue(name) in queues:
            raise InvalidInputError(f"the queue {name!r} is given twice; give each one once")
        if equals and not path:
            raise InvalidInputError(f"{text!r} names no processor; give {name}=module:function, or {name} alone")
        queues[name] = current_processor_name(path) if path else None
    return queues
