"""Whole workers, two slots each: documents a second, what twelve SIGKILLs cost, how long a light customer waits.

Both sides are durable: Redis with `appendonly yes, appendfsync always`, SQLite with `synchronous=FULL`, all in folders
on one disk. Finished documents are counted in each system's own store. `python -m bench.workers throughput` (or
`kills`, `light`) runs one part.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import median, verdict
from bench.peers.celery_app import FAST, LATE, PLAIN, QUIET, CelerySide
from bench.peers.handler import payload
from bench.peers.huey_app import HueySide
from bench.peers.inturn_side import InturnSide, there
from bench.peers.rq_jobs import RqSide
from bench.services import Side, wait_until

SLEEP = 0.020
ROUNDS = 5
CUSTOMERS = 20
STILL = 8.0
"""Seconds without a result after which none is expected: more than the 5 s that Huey waits for a locked database."""
KILLS = 12
KILLED = 600
SEED = 7
"""Of the moments of the kills: the same for every side, and so near to each other that the last strikes work too."""
PATIENCE = 120.0
"""Seconds after the last kill: Celery looks for messages past their visibility timeout every 100 s."""
FLOOD = 5_000
LONGEST = 75.0
SKIPPED = "Inturn: skipped, `inturn worker` is not there yet"


# -- throughput -----------------------------------------------------------------------------------------------------


class Drained(NamedTuple):
    """Documents a second, and how many have no result though nothing moves any more."""

    rate: float
    missing: int


def drain(side: Side, n: int) -> Drained:
    """From the first that was seen finished to the last, all enqueued before the worker starts."""
    with side:
        side.enqueue([payload(f"document {each}", f"customer {each % CUSTOMERS}") for each in range(n)])
        side.start()
        if not wait_until(side.finished, 30):
            raise RuntimeError(f"{side.name} finishes nothing: {side.said()}")
        began, before = time.monotonic(), side.finished()
        last, seen = began, before
        while seen < n and time.monotonic() - last < STILL:
            time.sleep(0.02)
            now = side.finished()
            if now > seen:
                last, seen = time.monotonic(), now
        return Drained((seen - before) / max(last - began, 1e-9), n - seen)


def throughput() -> int:
    """Interleaved rounds; the number of documents is such that each takes a few seconds."""
    sides: list[tuple[Side, int]] = [
        (CelerySide("Celery on Redis", FAST, QUIET), 1_500),
        (HueySide("thread"), 3_000),
        (HueySide("process"), 3_000),
        (RqSide("Worker"), 80),
        (RqSide("SimpleWorker"), 200),
    ]
    if there():
        sides.insert(0, (InturnSide("--until-empty"), 5_000))
    else:
        print(SKIPPED)
    rates: dict[str, list[float]] = {side.name: [] for side, _ in sides}
    missing: Counter[str] = Counter()
    for _ in range(ROUNDS):
        for side, n in sides:
            drained = drain(side, n)
            rates[side.name].append(drained.rate)
            missing[side.name] += drained.missing
    celery = median(rates["Celery on Redis"])
    print(f"\nNo-op, 200 bytes, {CUSTOMERS} customers, 2 slots, {ROUNDS} rounds in turns, documents/s:\n")
    print("| side | documents | median | range | times Celery | without result, all rounds | settings |")
    print("|---|---:|---:|---:|---:|---:|---|")
    for side, n in sides:
        found = rates[side.name]
        print(f"| {side.name} | {n:,} | {median(found):,.0f} | {min(found):,.0f} to {max(found):,.0f}"
              f" | {median(found) / celery:.2f} | {missing[side.name]} | {side.settings} |")  # fmt: skip
    if "Inturn" not in rates:
        return 0
    ours = median(rates["Inturn"])
    huey = max(median(found) for name, found in rates.items() if name.startswith("Huey"))
    return verdict("whole worker against Celery on Redis", ours / celery, 2, at_most=False) + verdict(
        "whole worker against Huey on SQLite, its better kind", ours / huey, 1, at_most=False
    )


# -- kills ----------------------------------------------------------------------------------------------------------


class Toll(NamedTuple):
    """What the kills cost."""

    struck: int
    never: int
    twice: int
    results: int
    held: int
    seconds: float


class Survivor(NamedTuple):
    """A side whose workers were killed so often and started once more, and when that was."""

    side: Side
    log: Path
    struck: int
    began: float


NAMES = [f"document-{each}" for each in range(KILLED)]


def _runs(log: Path) -> list[str]:
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


def killed(side: Side) -> Survivor:
    """Kill its workers again and again: each time so long after the first document since their start."""
    chance = random.Random(SEED)
    log = side.path / "runs.log"
    side.enqueue([payload(name, f"customer {each % 6}", sleep=SLEEP, log=str(log)) for each, name in enumerate(NAMES)])
    struck = sum(_one_kill(side, log, chance.uniform(0.3, 1.0)) for _ in range(KILLS))
    side.start()
    return Survivor(side, log, struck, time.monotonic())


def toll(survivor: Survivor) -> Toll:
    """Let it finish, within bounds, and count."""
    side, log, struck, began = survivor
    wait_until(lambda: side.finished() >= KILLED, began + PATIENCE - time.monotonic(), 0.1)
    seconds = time.monotonic() - began
    runs = Counter(_runs(log))
    never, twice = sum(not runs[name] for name in NAMES), sum(runs[name] > 1 for name in NAMES)
    return Toll(struck, never, twice, side.finished(), side.held(), seconds)


def _one_kill(side: Side, log: Path, after: float) -> bool:
    """Whether it struck while documents were run."""
    before = len(_runs(log))
    side.start()
    wait_until(lambda: len(_runs(log)) > before, 8, 0.02)
    time.sleep(after - 0.1)
    late = len(_runs(log))
    time.sleep(0.1)
    struck = len(_runs(log)) > late
    side.kill()
    return struck


def kills() -> int:
    """Inturn by itself; the peers are killed one after the other, and wait for what they miss side by side."""
    tolls: list[tuple[Side, Toll]] = []
    if there():
        with InturnSide("--lease", "5") as ours:
            tolls.append((ours, toll(killed(ours))))
    else:
        print(SKIPPED)
    with ExitStack() as stack:
        peers = [
            CelerySide("Celery on Redis, acks_late, 8 s visibility timeout", LATE),
            CelerySide("Celery on Redis, defaults", PLAIN),
            RqSide("Worker"),
        ]
        survivors = [killed(stack.enter_context(peer)) for peer in peers]
        tolls += [(each.side, toll(each)) for each in survivors]
    print(f"\n{KILLED} documents of 6 customers, {SLEEP * 1e3:.0f} ms each, 2 slots; {KILLS} SIGKILLs of all worker"
          f" processes, then up to {PATIENCE:.0f} s to finish:\n")  # fmt: skip
    print("| side | kills that struck work | never processed | more than once | results | "
          "without result, known to its store | seconds to finish | settings |")  # fmt: skip
    print("|---|---:|---:|---:|---:|---:|---:|---|")
    for side, found in tolls:
        ended = f"{found.seconds:.0f}" if found.results == KILLED else f"not in {PATIENCE:.0f}"
        print(f"| {side.name} | {found.struck} | {found.never} | {found.twice} | {found.results} | {found.held}"
              f" | {ended} | {side.settings} |")  # fmt: skip
    mine = [found for side, found in tolls if side.name == "Inturn"]
    return sum(verdict("documents never processed", found.never, 0, at_most=True) for found in mine) + sum(
        verdict("results recorded", found.results, KILLED, at_most=False) for found in mine
    )


# -- a light customer -----------------------------------------------------------------------------------------------


class Flooded(NamedTuple):
    """When the light customer's document was sent, and where its handler logs that it began."""

    side: Side
    sent: float
    log: Path


def flooded(side: Side) -> Flooded:
    """Let it work on a flood, then send one document of somebody else."""
    side.enqueue([payload(f"flood {each}", "flood", sleep=SLEEP) for each in range(FLOOD)])
    side.start()
    if not wait_until(lambda: side.finished() >= 20, 30):
        raise RuntimeError(f"{side.name} finishes nothing: {side.said()}")
    log = side.path / "light.log"
    given = [payload("light", "light", sleep=SLEEP, log=str(log))]
    sent = time.monotonic()
    side.enqueue(given)
    return Flooded(side, sent, log)


def waited(flood: Flooded) -> float | None:
    """Seconds from before its submit to the begin of its handler; None when it did not begin in time."""
    if not wait_until(flood.log.exists, flood.sent + LONGEST - time.monotonic(), 0.05):
        return None
    wait_until(lambda: flood.log.read_text().endswith("\n"), 1)
    return float(flood.log.read_text().split()[1]) - flood.sent


def light() -> int:
    """The peers side by side, as they mostly sleep; Inturn alone, fifteen times, since one in ten meets a pause of the
    whole machine.
    """
    ours: list[float] = []
    if there():
        for _ in range(15):
            with InturnSide() as side:
                ours.append(waited(flooded(side)) or LONGEST)
    else:
        print(SKIPPED)
    print(f"\n{FLOOD:,} documents of one customer wait ({SLEEP * 1e3:.0f} ms each, 2 slots), one of another comes:\n")
    print("| side | seconds until it starts | in documents' times | settings |")
    print("|---|---:|---:|---|")
    if ours:
        print(f"| Inturn | {median(ours):.4f} ({min(ours):.4f} to {max(ours):.4f}) | {median(ours) / SLEEP:.2f}"
              f" ({min(ours) / SLEEP:.2f} to {max(ours) / SLEEP:.2f}) | {InturnSide().settings} |")  # fmt: skip
    with ExitStack() as stack:
        peers = [CelerySide("Celery on Redis", PLAIN), HueySide("thread"), RqSide("SimpleWorker")]
        floods = [flooded(stack.enter_context(peer)) for peer in peers]
        for flood in floods:
            wait = waited(flood)
            told = (
                f"> {LONGEST:.0f} | > {LONGEST / SLEEP:,.0f}" if wait is None else f"{wait:.1f} | {wait / SLEEP:,.0f}"
            )
            print(f"| {flood.side.name} | {told} | {flood.side.settings} |", flush=True)
    return verdict("a light customer's wait in documents' times", median(ours) / SLEEP, 1, at_most=True) if ours else 0


PARTS: dict[str, Callable[[], int]] = {"throughput": throughput, "kills": kills, "light": light}


def _stop(*_: Any) -> None:
    sys.exit("bench workers: told to stop")


def main(parts: Sequence[str] = ()) -> int:
    signal.signal(signal.SIGTERM, _stop)  # so that what was started is stopped, as upon Ctrl-C
    print(f"{os.cpu_count()} cores; Redis with appendfsync always, SQLite with synchronous=FULL")
    return sum(PARTS[name]() for name in parts or PARTS)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
