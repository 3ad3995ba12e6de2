"""What steps and parts cost: the end of a step against the end of a document, a large split, an upgrade.

    python -m bench steps [--part next split upgrade] [--baseline PATH]

- *next*: documents are claimed and ended k at a time. On one side their processor is done, on the other each goes to
  the queue of its next step. `end` is the call that records the outcomes, alone; `end and claim` records them and
  claims the next k, so that it also folds what the moves wrote into the lane log. Both sides take turns on stores of
  their own. CPU is that of this process, and with PostgreSQL of the server.
- *split*: one document is split into 10,000 parts, these are claimed and done 50 at a time, and the whole is merged.
- *upgrade*: a store of a million documents, made by the older checkout that `--baseline` names, is opened or migrated.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import psycopg

import inturn
from bench.measure import check_limit, median, spread, wall_seconds
from bench.peers.postgres_server import SETTINGS, database, server, server_cpu_seconds
from bench.services import ROOT, folder
from inturn import NewDocument, Operator, Policy, PriorityPolicy, Queue
from inturn.model import Claim
from inturn.store_types import Outcome

CLAIMS: Final = (1, 10, 50)
CUSTOMERS: Final = 50
CALLS: Final = {1: 600, 10: 200, 50: 80}
"""Calls of a turn by claim size, so that a turn takes about a second."""
TURNS: Final = 7
WARM_UP_CALLS: Final = 8
"""Calls before the clock starts; the server plans a prepared statement for good after six."""
MAX_NEXT_COST: Final = 1.3
RESULT: Final = {"pages": 3}
ONE_LEVEL: Final = Policy(PriorityPolicy(thresholds=(-(10**6),)))
BENCH: Final = Operator("bench", "measure steps")
PARTS: Final = 10_000
SPLITS: Final = 3
DOCUMENTS: Final = 1_000_000
MAX_UPGRADE_SECONDS: Final = 30
OLDER_STORE: Final = Path(__file__).with_name("peers") / "older_store.py"
"""Fills a store with another checkout's code."""


# -- the end of a step ----------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """What a turn took: µs of the clock and of the processors for a document."""

    wall: float
    cpu: float


class Side:
    """A store of one side. Its documents end in one way: with `queue`, that is a step of theirs."""

    def __init__(self, target: str, name: str, limit: int, queue: str | None = None) -> None:
        self.name = name
        self._target, self._limit, self._next = target, limit, queue
        if target.startswith("postgresql:"):
            inturn.migrate(target)
        self._queue = inturn.open(target)
        self._queue.set_policy(ONE_LEVEL, BENCH)
        self._outcomes: list[Outcome] = []

    def fill(self, documents: int) -> None:
        share = -(-documents // CUSTOMERS)
        for customer in range(CUSTOMERS):
            self._queue.submit(f"customer {customer:02}", [NewDocument("document.pdf")] * share)
        if self._target.startswith("postgresql:"):
            with psycopg.connect(self._target, autocommit=True) as connection:
                connection.execute(b"VACUUM ANALYZE")

    def turn(self, calls: int, *, alone: bool) -> Cost:
        """Measure so many calls that record outcomes, or record them and claim."""
        documents = calls * self._limit
        self.fill(documents + (WARM_UP_CALLS + 1) * self._limit)
        for _ in range(WARM_UP_CALLS):
            self._exchange()
        ends: list[list[Outcome]] = []
        if alone:
            ends = [self._outcomes, *(self._claim() for _ in range(calls - 1))]
            self._outcomes = []
        before = self._server_cpu()
        wall, cpu = _measured(
            lambda: [self._queue.ack(end) for end in ends] if alone else [self._exchange() for _ in range(calls)]
        )
        cpu += self._server_cpu() - before
        self._queue.ack(self._outcomes)
        self._outcomes = []
        while claimed := self._claim():
            self._queue.ack(claimed)
        return Cost(wall * 1e6 / documents, cpu * 1e6 / documents)

    def _exchange(self) -> None:
        answer = self._queue.ack_and_claim(self._outcomes, "bench", self._limit)
        self._outcomes = [self._end(claim) for claim in answer.claimed]

    def _claim(self) -> list[Outcome]:
        return [self._end(claim) for claim in self._queue.claim("bench", self._limit)]

    def _end(self, claim: Claim) -> Outcome:
        if self._next is None:
            return self._queue.done(claim, RESULT)
        return self._queue.next_step(claim, self._next, RESULT)

    def _server_cpu(self) -> float:
        return server_cpu_seconds(self._target) if self._target.startswith("postgresql:") else 0.0

    def close(self) -> None:
        self._queue.close()


def _measured(work: Callable[[], object]) -> tuple[float, float]:
    used = time.process_time()
    wall = wall_seconds(work)
    return wall, time.process_time() - used


def next_step(store: str, target: Callable[[str], str]) -> int:
    missed = 0
    for limit in CLAIMS:
        for alone in (True, False):
            label = "end" if alone else "end and claim"
            names = [f"{side}_{limit}_{'alone' if alone else 'claim'}" for side in ("done", "next")]
            sides = [Side(target(names[0]), "done", limit), Side(target(names[1]), "next", limit, "second")]
            costs: dict[str, list[Cost]] = {side.name: [] for side in sides}
            for turn in range(TURNS):
                for side in sides if turn % 2 else sides[::-1]:
                    costs[side.name].append(side.turn(CALLS[limit], alone=alone))
            for side in sides:
                side.close()
            missed += _print_costs(f"{store}, {label}, {limit} a call", costs)
    return missed


def _print_costs(label: str, costs: dict[str, list[Cost]]) -> int:
    pairs = list(zip(costs["next"], costs["done"], strict=True))
    for name, values in costs.items():
        print(
            f"{label}: {name} {spread([1e6 / cost.wall for cost in values])} documents/s,"
            f" CPU {spread([cost.cpu for cost in values])} µs a document"
        )
    print(f"{label}: documents/s of done over next {spread([step.wall / done.wall for step, done in pairs])}")
    ratios = [step.cpu / done.cpu for step, done in pairs]
    print(f"{label}: CPU of next over done {spread(ratios)}", flush=True)
    return check_limit(f"{label}: CPU of next over done", median(ratios), MAX_NEXT_COST, at_most=True)


# -- a large split --------------------------------------------------------------------------------------------------


def split(store: str, target: str) -> None:
    """Split a document, process its parts, and merge it."""
    if target.startswith("postgresql:"):
        inturn.migrate(target)
    with inturn.open(target) as queue:
        for _ in range(SPLITS):
            print(f"{store}: {'; '.join(_split_once(queue, target))}", flush=True)


def _split_once(queue: Queue, target: str) -> Iterator[str]:
    queue.submit("acme", [NewDocument("whole.pdf", queue="split")])
    (whole,) = queue.claim("bench", queues=["split"])
    parts = [NewDocument(f"page {number}", queue="page") for number in range(1, PARTS + 1)]

    def end_parts() -> None:
        outcomes: list[Outcome] = []
        while True:
            claimed = queue.ack_and_claim(outcomes, "bench", 50, queues=["page"]).claimed
            if not claimed:
                return
            outcomes = [queue.done(claim, RESULT) for claim in claimed]

    def merge() -> None:
        (claim,) = queue.claim("bench", queues=["merge"])
        states = [part.state for part in queue.parts(claim.document.id, limit=PARTS)]
        queue.finish(claim, {"parts": len(states)})

    for name, work in (
        ("split", lambda: queue.ack([queue.split(whole, parts, "merge", RESULT)])),
        ("parts by 50", end_parts),
        ("merge", merge),
    ):
        before = server_cpu_seconds(target) if target.startswith("postgresql:") else 0.0
        wall, cpu = _measured(work)
        cpu += (server_cpu_seconds(target) if target.startswith("postgresql:") else 0.0) - before
        yield f"{name} {wall:.3f} s, CPU {cpu:.3f} s"


# -- an upgrade -----------------------------------------------------------------------------------------------------


def upgrade(store: str, target: str, baseline: Path) -> int:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(baseline / "src"), str(ROOT)])}
    command = [sys.executable, str(OLDER_STORE), target, str(DOCUMENTS)]
    subprocess.run(command, env=environment, check=True, cwd=baseline)  # noqa: S603 - our own
    if target.startswith("postgresql:"):
        seconds = wall_seconds(lambda: inturn.migrate(target))
    else:
        seconds = wall_seconds(lambda: inturn.open(target).close())
    with inturn.open(target) as queue:
        print(f"{store}: {sum(queue.counts().states.values()):,} documents after the upgrade")
    return check_limit(f"{store}: seconds of the upgrade", seconds, MAX_UPGRADE_SECONDS, at_most=True)


# -- all ------------------------------------------------------------------------------------------------------------


@contextmanager
def stores(chosen: Sequence[str]) -> Iterator[dict[str, Callable[[str], str]]]:
    """Yield what makes the address of a new store, by kind of store."""
    with ExitStack() as stack:
        path = stack.enter_context(folder())
        kinds: dict[str, Callable[[str], str]] = {}
        if "SQLite" in chosen:
            kinds["SQLite"] = lambda name: str(path / f"{name}.db")
        if "PostgreSQL" in chosen:
            url = stack.enter_context(server())
            kinds["PostgreSQL"] = lambda name: database(url, name)
            print("PostgreSQL: " + ", ".join(f"{name}={value}" for name, value in SETTINGS.items()))
        yield kinds


def parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench steps", description="Measure steps and parts.")
    names = ("next", "split", "upgrade")
    parser.add_argument("--part", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--store", nargs="+", choices=("SQLite", "PostgreSQL"), default=("SQLite", "PostgreSQL"))
    parser.add_argument("--baseline", type=Path, metavar="PATH", help="a checkout from before steps, for `upgrade`")
    options = parser.parse_args(arguments)
    if options.baseline is not None:
        options.baseline = options.baseline.resolve()
    return options


def main(arguments: Sequence[str] = ()) -> int:
    options, missed = parse_options(arguments), 0
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with stores(options.store) as kinds:
        for store, target in kinds.items():
            if "next" in options.part:
                missed += next_step(store, target)
            if "split" in options.part:
                split(store, target("split"))
            if "upgrade" in options.part and options.baseline is not None:
                missed += upgrade(store, target("upgrade"), options.baseline)
            elif "upgrade" in options.part:
                print("upgrade: needs --baseline, a checkout from before steps")
    return missed
