"""Options of a worker."""

from dataclasses import dataclass, field

from inturn.errors import InvalidInputError
from inturn.extract.limits import ExtractLimits
from inturn.model import SECOND
from inturn.queue import DEFAULT_LEASE
from inturn.sandbox.confinement import SandboxLimits


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

    def __post_init__(self) -> None:
        if type(self.slots) is not int or not 1 <= self.slots <= 1_000:
            raise InvalidInputError(f"a worker has 1 to 1000 slots, not {self.slots!r}")
        for name, least in (("lease", SECOND // 10), ("timeout", 1), ("grace", 0), ("documents_per_child", 1)):
            if type(getattr(self, name)) is not int or getattr(self, name) < least:
                raise InvalidInputError(f"{name} must be a whole number, {least} or more, not {getattr(self, name)!r}")
