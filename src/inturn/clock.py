"""Where `now` comes from when a caller leaves it out. Times are integer microseconds since 1970 (UTC)."""

import time
from pathlib import Path
from typing import NamedTuple, Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> int:
        """Microseconds since 1970."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> int:
        """Microseconds since 1970."""
        return time.time_ns() // 1_000


class ManualClock:
    """A clock that stands still until it is moved: for tests and the simulator."""

    __slots__ = ("_now",)

    def __init__(self, now: int = 0) -> None:
        self._now = now

    def now(self) -> int:
        """The time it was last set to."""
        return self._now

    def set(self, now: int) -> None:
        """Jump to a time, forwards or backwards."""
        self._now = now

    def advance(self, by: int) -> int:
        """Move by so many microseconds and return the new time."""
        self._now += by
        return self._now


class Uptime(NamedTuple):
    """How long a machine has been up, in microseconds, and since which boot."""

    boot: str
    microseconds: int


def machine_uptime() -> Uptime | None:
    """Read this machine's uptime from the kernel, time asleep included; setting the clock does not change it.

    None where the kernel does not tell.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        seconds, *_ = Path("/proc/uptime").read_text(encoding="ascii").split()
        return Uptime(boot, round(float(seconds) * 1_000_000))
    except (OSError, ValueError):
        return None
