"""Shares of worker time on real stores, with real workers of eight slots whose documents sleep.

    python -m bench shares [--seconds 30] [--scenario NAME …]

Each scenario runs for half a minute on SQLite and on PostgreSQL, once charged by documents and once by time, in turns.
The first 21 documents of each customer are in levels 1 to 8 and start first. Their part becomes small in longer runs.
Times are those that the store recorded: waits from submission to claim, work from the worker's report.

- *long and short*: one bulk customer whose documents take a hundred times as long as another's, and light customers.
- *heavy tails*: ten bulk customers, Pareto service times.
- *slots held*: an account sends 21 documents of 9 s every 15 s, with a reset interval of 15 s, so that all are in
  levels 1 to 8. Light customers come once a second. By time, with the share cap and without.
"""

import argparse
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from bench.measure import check_limit
from bench.peers.handler import payload
from bench.peers.inturn_system import InturnPostgresSystem, InturnSystem
from inturn import Charge, CostPolicy, Document, NewDocument, Operator, Policy, PriorityPolicy, TurnPolicy, seconds
from inturn.validation import MAX_BATCH

DEFAULT_SECONDS: Final = 30.0
SLOTS: Final = 8
LIGHT_SECONDS: Final = 0.05
BENCH: Final = Operator("bench", "measure shares")
BY_DOCUMENTS: Final = Policy(turns=TurnPolicy(charge=Charge.COST, max_share=1.0), costs=CostPolicy(1, 0))
BY_TIME: Final = Policy()
FAST_RESET: Final = PriorityPolicy(reset_interval=seconds(15))


class Arrival(NamedTuple):
    """Documents of one customer that come at a time, in seconds from the start, and sleep for so long each."""

    at: float
    customer: str
    durations: Sequence[float]


class Outcome(NamedTuple):
    """Shares of worker seconds by bulk customer, and waits of light customers in seconds."""

    shares: dict[str, float]
    jain: float
    mean_wait: float
    worst_wait: float


def long_and_short(run_seconds: float) -> Iterator[Arrival]:
    yield Arrival(0, "bulk long", [4.0] * int(7 * run_seconds))
    yield Arrival(0, "bulk short", [0.04] * int(270 * run_seconds))
    yield from _light_customers(run_seconds)


def heavy_tails(run_seconds: float) -> Iterator[Arrival]:
    chance = random.Random(1)
    for number in range(10):
        scale = 0.02 * (1 + number)
        yield Arrival(
            0, f"bulk {number}", [min(8.0, scale * chance.paretovariate(1.5)) for _ in range(int(67 * run_seconds))]
        )
    yield from _light_customers(run_seconds)


def slots_held(run_seconds: float) -> Iterator[Arrival]:
    for number in range(int(run_seconds / 15)):
        yield Arrival(number * 15.1, "bulk account", [9.0] * 21)
    yield from _light_customers(run_seconds)


def _light_customers(run_seconds: float) -> Iterator[Arrival]:
    chance, at = random.Random(2), 2.0
    while at < run_seconds - 3:
        yield Arrival(at, f"light {at:.3f}", [LIGHT_SECONDS])
        at += chance.expovariate(1.0)


def run(side: InturnSystem, policy: Policy, arrivals: Sequence[Arrival], run_seconds: float) -> Outcome:
    """Play the arrivals beside a worker, and read what the store recorded."""
    with side:
        side.queue.set_policy(policy, BENCH)
        early = [arrival for arrival in arrivals if arrival.at == 0]
        for arrival in early:
            _submit(side, arrival)
        side.start()
        began = time.monotonic()
        late = sorted(arrival for arrival in arrivals if arrival.at > 0)
        thread = threading.Thread(target=_submit_in_time, args=(side, late, began))
        thread.start()
        time.sleep(run_seconds)
        thread.join()
        now = side.queue.now()
        documents = list(_all_documents(side))
    return _measure(documents, now)


def _submit(side: InturnSystem, arrival: Arrival) -> None:
    documents = [
        NewDocument("x", metadata=payload("x", arrival.customer, sleep=duration)) for duration in arrival.durations
    ]
    for first in range(0, len(documents), MAX_BATCH):
        side.queue.submit(arrival.customer, documents[first : first + MAX_BATCH])


def _submit_in_time(side: InturnSystem, arrivals: Sequence[Arrival], began: float) -> None:
    for arrival in arrivals:
        time.sleep(max(0.0, began + arrival.at - time.monotonic()))
        _submit(side, arrival)


def _all_documents(side: InturnSystem) -> Iterator[Document]:
    after = None
    while True:
        page = side.queue.documents(limit=1_000, after=after)
        yield from page.items
        after = page.next
        if after is None:
            return


def _measure(documents: Sequence[Document], now: int) -> Outcome:
    used: Counter[str] = Counter()
    waits = []
    for document in documents:
        if document.customer.startswith("bulk"):
            began = document.began_at or document.started_at
            work = document.worked if document.worked is not None else (now - began if began else 0)
            used[document.customer] += work
        elif document.started_at is not None:
            waits.append((document.started_at - document.submitted_at) / seconds(1))
        else:
            waits.append((now - document.submitted_at) / seconds(1))
    total = sum(used.values())
    shares = {customer: work / total for customer, work in sorted(used.items())}
    return Outcome(shares, _jain(list(used.values())), statistics.fmean(waits), max(waits))


def _jain(values: Sequence[float]) -> float:
    """1 if all are equal, 1/n if one has everything."""
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def _row(scenario: str, store: str, policy: str, outcome: Outcome) -> str:
    largest = max(outcome.shares.values())
    return (
        f"| {scenario} | {store} | {policy} | {largest:.0%} | {outcome.jain:.3f} | {outcome.mean_wait:.2f}"
        f" | {outcome.worst_wait:.2f} |"
    )


def main(arguments: Sequence[str] = ()) -> int:
    scenarios: dict[str, tuple[Callable[[float], Iterator[Arrival]], dict[str, Policy]]] = {
        "long and short": (long_and_short, {"documents": BY_DOCUMENTS, "time": BY_TIME}),
        "heavy tails": (heavy_tails, {"documents": BY_DOCUMENTS, "time": BY_TIME}),
        "slots held": (
            slots_held,
            {
                "time, no share cap": Policy(FAST_RESET, replace(BY_TIME.turns, max_share=1.0)),
                "time, 7/8": Policy(FAST_RESET),
            },
        ),
    }
    parser = argparse.ArgumentParser(prog="python -m bench shares")
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS, help="length of a run")
    parser.add_argument("--scenario", nargs="+", choices=scenarios, default=list(scenarios))
    given = parser.parse_args(arguments)
    options = ("--slots", str(SLOTS))
    sides = {"SQLite": InturnSystem(*options), "PostgreSQL": InturnPostgresSystem(*options)}
    print("| scenario | store | charge | largest share | Jain by seconds | light: mean wait, s | worst, s |")
    print("|---|---|---|---:|---:|---:|---:|")
    outcomes: dict[tuple[str, str, str], Outcome] = {}
    for name in given.scenario:
        arrivals, policies = scenarios[name]
        for store, side in sides.items():
            for charge, policy in policies.items():
                outcome = outcomes[name, store, charge] = run(
                    side, policy, list(arrivals(given.seconds)), given.seconds
                )
                print(_row(name, store, charge, outcome), flush=True)
    failed = 0
    for (name, store, charge), outcome in outcomes.items():
        if charge == "time":
            failed += check_limit(f"{store}, {name}: Jain by seconds", outcome.jain, 0.99, at_most=False)
            failed += check_limit(f"{store}, {name}: light mean wait", outcome.mean_wait, 1, at_most=True)
    return failed
