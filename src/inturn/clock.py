"""Clocks: the source of `now` where a caller leaves it out. Times are microseconds since 1970 (UTC)."""

import time
from pathlib import Path
from typing import NamedTuple, Protocol


class Clock(Protocol):
    """A source of the current time."""

    def now(self) -> int:
        """Return microseconds since 1970."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> int:
        """Return microseconds since 1970."""
        return time.time_ns() // 1_000


class ManualClock:
    """A clock that changes only when set or advanced, for tests and the simulator."""

    __slots__ = ("_now",)

    def __init__(self, now: int = 0) -> None:
        self._now = now

    def now(self) -> int:
        """Return the time it was last set to."""
        return self._now

    def set(self, now: int) -> None:
        """Jump to a time, forwards or backwards."""
        self._now = now

    def advance(self, by: int) -> int:
        """Add microseconds and return the new time."""
        self._now += by
        return self._now


class Uptime(NamedTuple):
    """The uptime of a machine in microseconds, and its boot id."""

    boot: str
    microseconds: int


def machine_uptime() -> Uptime | None:
    """Read this machine's uptime from the kernel; None if it is not available.

    It includes time asleep, and setting the clock does not change it.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        seconds, *_ = Path("/proc/uptime").read_text(encoding="ascii").split()
        return Uptime(boot, round(float(seconds) * 1_000_000))
    except (OSError, ValueError):
        return None
