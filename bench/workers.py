"""Whole workers, two slots each: documents a second, what twelve SIGKILLs cost, how long a light customer waits.

Both sides are durable: Redis with `appendonly yes, appendfsync always`, SQLite with `synchronous=FULL`, all in folders
on one disk. Finished documents are counted in each system's own store.

    python -m bench.workers [throughput] [kills] [light] [fleet]

runs all parts, or those named: `throughput` no-ops on one worker process, `kills` the twelve SIGKILLs, `light` the
light customer behind a flood, `fleet` four worker processes with documents of 5 ms, on PostgreSQL and RabbitMQ too.
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

from bench.measure import check_limit, median
from bench.peers.celery_app import ACKS_LATE_SETTINGS, DEFAULT_SETTINGS, QUIET_OPTIONS, TUNED_SETTINGS, CelerySystem
from bench.peers.celery_rabbitmq import CeleryRabbitSystem
from bench.peers.handler import payload
from bench.peers.huey_app import HueySystem
from bench.peers.inturn_system import InturnPostgresSystem, InturnSystem, has_worker
from bench.peers.rq_jobs import RqSystem
from bench.services import SystemUnderTest, wait_until

HANDLER_SECONDS = 0.020
ROUNDS = 5
CUSTOMERS = 20
IDLE_TIMEOUT_SECONDS = 8.0
"""Seconds without a result after which none is expected: more than the 5 s that Huey waits for a locked database."""
KILLS = 12
KILL_DOCUMENTS = 600
KILL_SEED = 7
"""Of the moments of the kills: the same for every side, and so near to each other that the last strikes work too."""
RECOVERY_TIMEOUT_SECONDS = 120.0
"""Seconds after the last kill: Celery looks for messages past their visibility timeout every 100 s."""
FLOOD_DOCUMENTS = 5_000
MAX_WAIT_SECONDS = 75.0
FLEET_WORKERS = 4
FLEET_SLOTS = FLEET_WORKERS * 2
FLEET_HANDLER_SECONDS = 0.005
FLEET_ROUNDS = 5
FLEET_DOCUMENTS = 6_000
SKIPPED_MESSAGE = "Inturn: skipped, `inturn worker` is not there yet"


# -- throughput -----------------------------------------------------------------------------------------------------


class DrainResult(NamedTuple):
    """Documents a second, how many have no result though nothing moves any more, and the rate of the second half."""

    rate: float
    missing: int
    late_rate: float


def drain(side: SystemUnderTest, n: int, sleep: float = 0.0) -> DrainResult:
    """From the first that was seen finished to the last, all enqueued before the worker starts."""
    with side:
        side.enqueue([payload(f"document {item}", f"customer {item % CUSTOMERS}", sleep=sleep) for item in range(n)])
        side.start()
        if not wait_until(side.finished, 30):
            raise RuntimeError(f"{side.name} finishes nothing: {side.output_tail()}")
        began, before = time.monotonic(), side.finished()
        last, seen = began, before
        middle, seen_by_middle = began, before
        while seen < n and time.monotonic() - last < IDLE_TIMEOUT_SECONDS:
            time.sleep(0.02)
            now = side.finished()
            if now > seen:
                last, seen = time.monotonic(), now
                if seen_by_middle < n / 2:
                    middle, seen_by_middle = last, seen
        return DrainResult(
            (seen - before) / max(last - began, 1e-9),
            n - seen,
            (seen - seen_by_middle) / max(last - middle, 1e-9),
        )


def throughput() -> int:
    """Interleaved rounds; the number of documents is such that each takes a few seconds."""
    sides: list[tuple[SystemUnderTest, int]] = [
        (CelerySystem("Celery on Redis", TUNED_SETTINGS, QUIET_OPTIONS), 1_500),
        (HueySystem("thread"), 3_000),
        (HueySystem("process"), 3_000),
        (RqSystem("Worker"), 80),
        (RqSystem("SimpleWorker"), 200),
    ]
    if has_worker():
        sides.insert(0, (InturnSystem("--until-empty"), 5_000))
    else:
        print(SKIPPED_MESSAGE)
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
        result = rates[side.name]
        print(f"| {side.name} | {n:,} | {median(result):,.0f} | {min(result):,.0f} to {max(result):,.0f}"
              f" | {median(result) / celery:.2f} | {missing[side.name]} | {side.settings} |")  # fmt: skip
    if "Inturn" not in rates:
        return 0
    ours = median(rates["Inturn"])
    huey = max(median(result) for name, result in rates.items() if name.startswith("Huey"))
    return check_limit("whole worker against Celery on Redis", ours / celery, 2, at_most=False) + check_limit(
        "whole worker against Huey on SQLite, its better kind", ours / huey, 1, at_most=False
    )


# -- kills ----------------------------------------------------------------------------------------------------------


class KillReport(NamedTuple):
    """What the kills cost."""

    hits: int
    never_processed: int
    processed_twice: int
    results: int
    pending: int
    seconds: float


class KilledRun(NamedTuple):
    """A side whose workers were killed so often and started once more, and when that was."""

    side: SystemUnderTest
    log: Path
    hits: int
    began: float


DOCUMENT_NAMES = [f"document-{item}" for item in range(KILL_DOCUMENTS)]


def _logged_runs(log: Path) -> list[str]:
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


def kill_repeatedly(side: SystemUnderTest) -> KilledRun:
    """Kill its workers again and again: each time so long after the first document since their start."""
    chance = random.Random(KILL_SEED)
    log = side.path / "runs.log"
    side.enqueue(
        [
            payload(name, f"customer {item % 6}", sleep=HANDLER_SECONDS, log=str(log))
            for item, name in enumerate(DOCUMENT_NAMES)
        ]
    )
    struck = sum(_kill_once(side, log, chance.uniform(0.3, 1.0)) for _ in range(KILLS))
    side.start()
    return KilledRun(side, log, struck, time.monotonic())


def measure_recovery(run: KilledRun) -> KillReport:
    """Let it finish, within bounds, and count."""
    side, log, struck, began = run
    wait_until(lambda: side.finished() >= KILL_DOCUMENTS, began + RECOVERY_TIMEOUT_SECONDS - time.monotonic(), 0.1)
    seconds = time.monotonic() - began
    runs = Counter(_logged_runs(log))
    never, twice = sum(not runs[name] for name in DOCUMENT_NAMES), sum(runs[name] > 1 for name in DOCUMENT_NAMES)
    return KillReport(struck, never, twice, side.finished(), side.pending(), seconds)


def _kill_once(side: SystemUnderTest, log: Path, delay: float) -> bool:
    """Whether it struck while documents were run."""
    before = len(_logged_runs(log))
    side.start()
    wait_until(lambda: len(_logged_runs(log)) > before, 8, 0.02)
    time.sleep(delay - 0.1)
    late = len(_logged_runs(log))
    time.sleep(0.1)
    struck = len(_logged_runs(log)) > late
    side.kill()
    return struck


def kills() -> int:
    """Inturn by itself; the peers are killed one after the other, and wait for what they miss side by side."""
    tolls: list[tuple[SystemUnderTest, KillReport]] = []
    if has_worker():
        with InturnSystem("--lease", "5") as ours:
            tolls.append((ours, measure_recovery(kill_repeatedly(ours))))
    else:
        print(SKIPPED_MESSAGE)
    with ExitStack() as stack:
        peers = [
            CelerySystem("Celery on Redis, acks_late, 8 s visibility timeout", ACKS_LATE_SETTINGS),
            CelerySystem("Celery on Redis, defaults", DEFAULT_SETTINGS),
            RqSystem("Worker"),
        ]
        survivors = [kill_repeatedly(stack.enter_context(peer)) for peer in peers]
        tolls += [(survivor.side, measure_recovery(survivor)) for survivor in survivors]
    print(f"\n{KILL_DOCUMENTS} documents of 6 customers, {HANDLER_SECONDS * 1e3:.0f} ms each, 2 slots; {KILLS} "
          f"SIGKILLs of all worker"
          f" processes, then up to {RECOVERY_TIMEOUT_SECONDS:.0f} s to finish:\n")  # fmt: skip
    print("| side | kills that struck work | never processed | more than once | results | "
          "without result, known to its store | seconds to finish | settings |")  # fmt: skip
    print("|---|---:|---:|---:|---:|---:|---:|---|")
    for side, kill_report in tolls:
        ended = (
            f"{kill_report.seconds:.0f}"
            if kill_report.results == KILL_DOCUMENTS
            else f"not in {RECOVERY_TIMEOUT_SECONDS:.0f}"
        )
        print(f"| {side.name} | {kill_report.hits} | {kill_report.never_processed} | {kill_report.processed_twice} | "
              f"{kill_report.results} | {kill_report.pending}"
              f" | {ended} | {side.settings} |")  # fmt: skip
    mine = [kill_report for side, kill_report in tolls if side.name == "Inturn"]
    return sum(
        check_limit("documents never processed", kill_report.never_processed, 0, at_most=True) for kill_report in mine
    ) + sum(check_limit("results recorded", kill_report.results, KILL_DOCUMENTS, at_most=False) for kill_report in mine)


# -- a light customer -----------------------------------------------------------------------------------------------


class FloodRun(NamedTuple):
    """When the light customer's document was sent, and where its handler logs that it began."""

    side: SystemUnderTest
    sent: float
    log: Path


def start_flood(side: SystemUnderTest) -> FloodRun:
    """Let it work on a flood, then send one document of somebody else."""
    side.enqueue([payload(f"flood {item}", "flood", sleep=HANDLER_SECONDS) for item in range(FLOOD_DOCUMENTS)])
    side.start()
    if not wait_until(lambda: side.finished() >= 20, 30):
        raise RuntimeError(f"{side.name} finishes nothing: {side.output_tail()}")
    log = side.path / "light.log"
    given = [payload("light", "light", sleep=HANDLER_SECONDS, log=str(log))]
    sent = time.monotonic()
    side.enqueue(given)
    return FloodRun(side, sent, log)


def measure_wait(flood: FloodRun) -> float | None:
    """Seconds from before its submit to the begin of its handler; None when it did not begin in time."""
    if not wait_until(flood.log.exists, flood.sent + MAX_WAIT_SECONDS - time.monotonic(), 0.05):
        return None
    wait_until(lambda: flood.log.read_text().endswith("\n"), 1)
    return float(flood.log.read_text().split()[1]) - flood.sent


def light_customer() -> int:
    """The peers side by side, as they mostly sleep; Inturn alone, fifteen times, since one in ten meets a pause of the
    whole machine.
    """
    ours: list[float] = []
    if has_worker():
        for _ in range(15):
            with InturnSystem() as side:
                ours.append(measure_wait(start_flood(side)) or MAX_WAIT_SECONDS)
    else:
        print(SKIPPED_MESSAGE)
    print(
        f"\n{FLOOD_DOCUMENTS:,} documents of one customer wait ({HANDLER_SECONDS * 1e3:.0f} ms each, 2 slots), "
        f"one of another comes:\n"
    )
    print("| side | seconds until it starts | in documents' times | settings |")
    print("|---|---:|---:|---|")
    if ours:
        print(f"| Inturn | {median(ours):.4f} ({min(ours):.4f} to {max(ours):.4f}) | "
              f"{median(ours) / HANDLER_SECONDS:.2f}"
              f" ({min(ours) / HANDLER_SECONDS:.2f} to {max(ours) / HANDLER_SECONDS:.2f}) | "
              f"{InturnSystem().settings} |")  # fmt: skip
    with ExitStack() as stack:
        peers = [CelerySystem("Celery on Redis", DEFAULT_SETTINGS), HueySystem("thread"), RqSystem("SimpleWorker")]
        floods = [start_flood(stack.enter_context(peer)) for peer in peers]
        for flood in floods:
            wait = measure_wait(flood)
            reported = (
                f"> {MAX_WAIT_SECONDS:.0f} | > {MAX_WAIT_SECONDS / HANDLER_SECONDS:,.0f}"
                if wait is None
                else f"{wait:.1f} | {wait / HANDLER_SECONDS:,.0f}"
            )
            print(f"| {flood.side.name} | {reported} | {flood.side.settings} |", flush=True)
    return (
        check_limit("a light customer's wait in documents' times", median(ours) / HANDLER_SECONDS, 1, at_most=True)
        if ours
        else 0
    )


# -- a fleet --------------------------------------------------------------------------------------------------------


def fleet(documents: int = FLEET_DOCUMENTS, rounds: int = FLEET_ROUNDS) -> int:
    """Drain the same documents on every side, in turns; every other round begins with the last side.

    The clock starts with the first worker's first document, while the others still start up and take the processors.
    The rate of the second half is without that.
    """
    redis, rabbitmq = "Celery on Redis", "Celery on RabbitMQ"
    sides: list[SystemUnderTest] = [
        CelerySystem(redis, TUNED_SETTINGS, QUIET_OPTIONS, workers=FLEET_WORKERS),
        CeleryRabbitSystem(rabbitmq, TUNED_SETTINGS, QUIET_OPTIONS, workers=FLEET_WORKERS),
    ]
    if has_worker():
        sides = [
            InturnPostgresSystem(name="Inturn on PostgreSQL", workers=FLEET_WORKERS),
            InturnSystem(name="Inturn on SQLite", workers=FLEET_WORKERS),
            *sides,
        ]
    else:
        print(SKIPPED_MESSAGE)
    results: dict[str, list[DrainResult]] = {side.name: [] for side in sides}
    for turn in range(rounds):
        for side in sides if turn % 2 == 0 else sides[::-1]:
            results[side.name].append(drain(side, documents, FLEET_HANDLER_SECONDS))
    rates = {name: [drained.rate for drained in drains] for name, drains in results.items()}
    late_rates = {name: median([drained.late_rate for drained in drains]) for name, drains in results.items()}
    missing = {name: sum(drained.missing for drained in drains) for name, drains in results.items()}
    ideal = FLEET_SLOTS / FLEET_HANDLER_SECONDS
    print(f"\n{documents:,} documents of {FLEET_HANDLER_SECONDS * 1e3:g} ms and 200 bytes, {CUSTOMERS} customers,"
          f" {FLEET_WORKERS} worker processes with 2 slots each, {rounds} rounds in turns, documents/s"
          f" ({FLEET_SLOTS} slots that never wait: {ideal:,.0f}):\n")  # fmt: skip
    print(f"| side | median | range | share of {ideal:,.0f} | second half, median | times {redis} | times {rabbitmq} |"
          " without result, all rounds | settings |")  # fmt: skip
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for side in sides:
        rate = median(rates[side.name])
        print(f"| {side.name} | {rate:,.0f} | {min(rates[side.name]):,.0f} to {max(rates[side.name]):,.0f}"
              f" | {rate / ideal:.0%} | {late_rates[side.name]:,.0f}"
              f" | {rate / median(rates[redis]):.2f} | {rate / median(rates[rabbitmq]):.2f}"
              f" | {missing[side.name]} | {side.settings} |", flush=True)  # fmt: skip
    return sum(check_limit(f"{name}: documents without result", n, 0, at_most=True) for name, n in missing.items() if n)


BENCHMARKS: dict[str, Callable[[], int]] = {
    "throughput": throughput,
    "kills": kills,
    "light": light_customer,
    "fleet": fleet,
}


def _stop(*_: Any) -> None:
    sys.exit("bench workers: told to stop")


def main(names: Sequence[str] = ()) -> int:
    signal.signal(signal.SIGTERM, _stop)  # so that what was started is stopped, as upon Ctrl-C
    print(f"{os.cpu_count()} cores; Redis with appendfsync always, SQLite with synchronous=FULL")
    return sum(BENCHMARKS[name]() for name in names or BENCHMARKS)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
