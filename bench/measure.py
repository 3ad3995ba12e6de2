"""Timing, memory and verdicts that the benchmarks share."""

import gc
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def wall_seconds(function: Callable[[], object]) -> float:
    """Wall time of one call, on a collected heap."""
    gc.collect()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def interleaved(sides: Sequence[Callable[[], object]], repeats: int) -> list[list[float]]:
    """Times of each side, taken in turns, so that a noisy minute hits all of them."""
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats):
        for side, work in zip(times, sides, strict=True):
            side.append(wall_seconds(work))
    return times


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def spread(values: Sequence[float]) -> str:
    middle, low, high = (
        f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in (median(values), min(values), max(values))
    )
    return f"{middle} ({low} to {high})"


def pss(pid: int | None = None) -> int:
    """The proportional set size of a process, by default of this one, in bytes."""
    for line in Path(f"/proc/{pid or os.getpid()}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel tells no Pss")


def check_limit(label: str, value: float, limit: float, *, at_most: bool) -> int:
    """Print a figure with its bound; 1 when it misses it."""
    held = value <= limit if at_most else value >= limit
    print(f"{'ok  ' if held else 'MISS'} {label}: {value:,.2f} ({'at most' if at_most else 'at least'} {limit:,g})")
    return 0 if held else 1


def pss_of_tree(pid: int) -> int:
    """The proportional set size of a process and all that it started, in bytes."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return pss(pid) + sum(pss_of_tree(int(child)) for child in children)
