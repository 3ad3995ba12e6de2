"""Replay: how near it comes to what happened, and what a million documents cost.

Near: a run of the demo and recorded days of two hours on SQLite and PostgreSQL (`tests/support/recorded_day.py`: clumsy
workers, one of them away for a while, retries, a change of the policy; nothing of the simulator). Cost: a million
documents from a file and from a SQLite store, as `inturn simulate --replay` by itself, its memory read from outside.
"""

import csv
import random
import subprocess
import sys
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

import recorded_day
from bench.measure import check_limit
from bench.peers.postgres_server import database, server
from bench.services import folder, start_process
from inturn import NewDocument, Queue
from inturn.analysis.compare import compare
from inturn.analysis.history_reader import read_history
from inturn.analysis.replay import UNCHANGED_PLAN
from inturn.stores import migrate, open_store
from inturn.values import SECOND

MILLION = 1_000_000
SEEDS = (1, 2, 3, 4, 5, 6)
UNSEEN_SEEDS = (101, 102, 103, 104, 105, 106)
"""Days that nobody looked at while it was made."""
WEEK_SECONDS = 7 * 86_400
BATCH_SIZE = 500


def check_accuracy(name: str, url: str) -> int:
    """How far the mean wait of each group is off, 1 if one is more than a tenth off."""
    store = open_store(url)
    history = read_history(store, 0)
    missed = 0
    for group in compare(history, UNCHANGED_PLAN, None).groups:
        if group.measured is None:
            continue
        off = group.current.mean / group.measured.mean - 1
        print(
            f"{name}: {group.group} a day, {group.documents:,} documents: mean {group.measured.mean:.3f} s measured,"
            f" {group.current.mean:.3f} s played ({off:+.1%});"
            f" p95 {group.measured.p95:.2f} s and {group.current.p95:.2f} s"
        )
        missed += abs(off) > 0.1
    store.close()
    return check_limit(f"{name}: groups more than 10 % off", missed, 0, at_most=True)


def demo() -> int:
    with folder() as path:
        command = [sys.executable, "-m", "demo", "--documents", "400", "--folder", str(path / "demo")]
        start_process(command, path).wait()
        return check_accuracy("demo", str(path / "demo" / "inturn.db"))


def recorded_days() -> int:
    failed = 0
    for seed in (*SEEDS, *UNSEEN_SEEDS):
        with folder() as path:
            store = open_store(str(path / "queue.db"))
            recorded_day.record(store, seed=seed)
            store.close()
            failed += check_accuracy(f"two hours on SQLite, seed {seed}", str(path / "queue.db"))
    with server() as url:
        for seed in (SEEDS[0], UNSEEN_SEEDS[0]):
            own = database(url, f"replay{seed}")
            migrate(own)
            store = open_store(own)
            recorded_day.record(store, seed=seed)
            store.close()
            failed += check_accuracy(f"two hours on PostgreSQL, seed {seed}", own)
    return failed


def write_week(path: Path) -> None:
    """A million documents of two thousand customers in bursts, eight and a half seconds each: 16 can just do them."""
    drawn = random.Random(1)
    sizes = list(accumulate(drawn.paretovariate(1.1) for _ in range(2_000)))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("customer", "arrived", "service", "pages"))
        left = MILLION
        while left:
            customer = drawn.choices(range(2_000), cum_weights=sizes)[0]
            at, burst = drawn.random() * WEEK_SECONDS, min(left, 1 + int(drawn.expovariate(1 / 20)))
            for _ in range(burst):
                service = f"{drawn.expovariate(1 / 8.5):.3f}"
                writer.writerow((f"customer {customer}", f"{at:.3f}", service, drawn.randrange(1, 40)))
            left -= burst


def fill(url: str) -> None:
    """As many in a store: submitted, claimed and finished in batches, each at its time."""
    drawn = random.Random(2)
    store = open_store(url)
    queue = Queue(store)
    now = 1_700_000_000 * SECOND
    for _ in range(MILLION // BATCH_SIZE):
        now += 300 * SECOND
        queue.submit(f"customer {drawn.randrange(2_000)}", [NewDocument("a document")] * BATCH_SIZE, now=now)
        claimed = queue.claim("worker", BATCH_SIZE, lease=86_400 * SECOND, now=now + SECOND)
        store.ack_and_claim([queue.done(claim) for claim in claimed], None, now=now + 200 * SECOND)
    store.close()


def measure_replay(label: str, *options: str) -> int:
    """Wall time and the most memory of one command."""
    command = [sys.executable, "-m", "inturn.cli", "simulate", "--replay", "--order", "classic", *options]
    began, most = time.monotonic(), 0
    with folder() as path:
        process = start_process(command, path)
        while process.poll() is None:
            most = max(most, _peak_memory(process))
            time.sleep(0.2)
        said = (path / "said.txt").read_text(encoding="utf-8", errors="replace")
        if process.returncode:
            raise RuntimeError(said[-500:])
    took = time.monotonic() - began
    slow = check_limit(f"{label}: seconds to read and play {MILLION:,} documents twice", took, 600, at_most=True)
    return slow + check_limit(f"{label}: MB at most", most / 1e6, 2_000, at_most=True)


def _peak_memory(process: "subprocess.Popen[bytes]") -> int:
    """The most that it had in memory so far, in bytes; 0 when it is gone."""
    try:
        lines: list[Any] = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def million() -> int:
    with folder() as path:
        write_week(path / "week.csv")
        failed = measure_replay("file", "--csv", str(path / "week.csv"), "--slots", "16")
        failed += measure_replay("file, most of it waiting", "--csv", str(path / "week.csv"), "--slots", "4")
        fill(str(path / "queue.db"))
        return failed + measure_replay("SQLite", "--store", str(path / "queue.db"))


def main() -> int:
    return demo() + recorded_days() + million()
