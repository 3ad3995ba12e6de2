"""How a worker works."""

from dataclasses import dataclass, field

from inturn.errors import InvalidInputError
from inturn.extract.limits import ExtractLimits
from inturn.model import SECOND
from inturn.queue import DEFAULT_LEASE
from inturn.sandbox.confinement import SandboxLimits


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What may be chosen about a worker. Times are microseconds."""

    slots: int = 2
    lease: int = DEFAULT_LEASE
    timeout: int = 900 * SECOND
    """For one document; in the sandbox it is the box's own."""
    grace: int = 30 * SECOND
    """For what runs when the worker is told to stop."""
    documents_per_child: int = 1_000
    memory_per_child: int = 2 << 30
    """A child that holds more bytes after a document is replaced."""
    box: SandboxLimits | None = None
    """The sandbox that children work in. The default processor always has one."""
    bounds: ExtractLimits = field(default_factory=ExtractLimits)
    """What the default processor reads of a document at most."""
    until_empty: bool = False
    """End when nothing is left that waiting could make claimable."""
    name: str = ""

    def __post_init__(self) -> None:
        if type(self.slots) is not int or not 1 <= self.slots <= 1_000:
            raise InvalidInputError(f"a worker has 1 to 1000 slots, not {self.slots!r}")
        for name, least in (("lease", SECOND // 10), ("timeout", 1), ("grace", 0), ("documents_per_child", 1)):
            if type(getattr(self, name)) is not int or getattr(self, name) < least:
                raise InvalidInputError(f"{name} must be a whole number, {least} or more, not {getattr(self, name)!r}")
