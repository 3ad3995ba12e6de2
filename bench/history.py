"""The history beside claims: what folding events costs those who claim, on both stores in one run.

A process claims and finishes batches of 50 as fast as it can. In every second turn another process folds as servers and
workers do. The ratio is the median of the pairs of turns. The processor time of both is given too, as it
depends less on what else the machine does.
"""

import multiprocessing
import os
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any

import inturn
from bench.measure import check_limit
from bench.peers.postgres_server import database, server
from bench.services import folder
from inturn import NewDocument
from inturn.worker.history import HistoryFolder

PAIRS = 10
TURN_SECONDS = 4.0
BATCH = 50
CUSTOMERS = 50


def main() -> int:
    missed = 0
    with folder() as path:
        missed += _measure("SQLite", str(path / "queue.db"))
    with server() as address:
        url = database(address, "history")
        inturn.migrate(url)
        missed += _measure("PostgreSQL", url)
    return missed


def _measure(name: str, url: str) -> int:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_fold, args=(url, theirs), daemon=True)
    with inturn.open(url) as queue:
        queue.store.history.fold(limit=10)
        child.start()
        ours.recv()
        turns: list[list[tuple[float, float, float]]] = [[], []]
        for number in range(2 * PAIRS):
            folds = (number + number // 2) % 2 == 1  # which comes first alternates
            ours.send("fold" if folds else "rest")
            turns[folds].append(_claim(queue))
            ours.send("rest")
        ours.send("end")
        folded, fold_cpu = ours.recv()
        child.join()
    ratios = [with_it[0] / without[0] for without, with_it in zip(*turns, strict=True)]
    documents = sum(turn[1] for turn in turns[1])
    own_cpu = sum(turn[2] for turn in turns[1])
    rates = [statistics.median(turn[0] for turn in side) for side in turns]
    print(f"{name}: documents/s without {rates[0]:,.0f}, with {rates[1]:,.0f}; events folded {folded:,}")
    print(f"{name}: processor seconds of claims {own_cpu:.1f} for {documents:,.0f} documents, of folds {fold_cpu:.2f}")
    print(f"{name}: pairs {', '.join(f'{ratio:.2f}' for ratio in sorted(ratios))}")
    missed = check_limit(f"{name}, throughput with the history", statistics.median(ratios), 0.98, at_most=False)
    share = fold_cpu / (PAIRS * TURN_SECONDS * (os.cpu_count() or 1))
    return missed + check_limit(f"{name}, folds' part of the machine", share, 0.02, at_most=True)


def _claim(queue: Any) -> tuple[float, float, float]:
    """Submit, claim and finish for a turn: documents claimed a second, documents, processor seconds."""
    began, cpu, done, outcomes = time.perf_counter(), time.process_time(), 0, []
    documents = [NewDocument("letter.pdf")] * 10
    while time.perf_counter() - began < TURN_SECONDS:
        for number in range(BATCH // 10):
            queue.submit(f"customer {(done // 10 + number) % CUSTOMERS}", documents)
        claimed = queue.ack_and_claim(outcomes, "bench", BATCH).claimed
        outcomes = [queue.done(claim, {"pages": 3}) for claim in claimed]
        done += len(claimed)
    queue.store.ack_and_claim(outcomes, None)
    took = time.perf_counter() - began
    return done / took, done, time.process_time() - cpu


def _fold(url: str, pipe: Connection) -> None:
    """Fold when told to, as the thread of a server does."""
    cpu = 0.0
    with inturn.open(url) as queue:
        folder_ = HistoryFolder(queue)
        first = queue.history_cursor().event
        pipe.send("ready")
        order = "rest"
        while order != "end":
            if pipe.poll(0.2):
                order = pipe.recv()
            elif order == "fold":
                began = time.process_time()
                folder_.fold_if_due()
                cpu += time.process_time() - began
        pipe.send((queue.history_cursor().event - first, cpu))
