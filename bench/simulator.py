"""The simulator through the real queue, against a bare heap loop that plays the same scenario.

The bare loop is the same engine with the queue and store replaced by one heap of (level, seq): same arrivals, same
events, same records, no lines, turns, leases, events or documents. What is left between the two is the price of the
real thing.
"""

import multiprocessing
from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush

from bench.measure import check_limit, interleaved, median, pss, spread, wall_seconds
from inturn import NewDocument, PriorityPolicy, Queue, Receipt
from inturn.analysis import Scenario, build_report, built_in_scenarios, load_scenario, simulate_scenario
from inturn.analysis.arrival_processes import Poisson
from inturn.analysis.engine import Simulation, document_specs
from inturn.analysis.scenario import Group, ServiceTime, generate_arrivals
from inturn.clock import ManualClock
from inturn.model import Claim, Document, DocumentState
from inturn.policy import Counter
from inturn.store_types import AckAndClaim, Outcome
from inturn.stores import open_store

DOCUMENTS = 100_000


class BareHeap:
    """As little as can play a scenario: the spec's check and a heap."""

    def __init__(self) -> None:
        self._policy = PriorityPolicy()
        self._counters: dict[str, Counter] = {}
        self._heap: list[tuple[int, int, str, int]] = []
        self._seq = 0

    def submit(self, customer: str, documents: Sequence[NewDocument], *, now: int) -> list[Receipt]:
        receipts = []
        for _ in documents:
            checked = self._policy.check(self._counters.get(customer), now)
            self._counters[customer] = checked.counter
            heappush(self._heap, (checked.level, self._seq, customer, now))
            receipts.append(Receipt(str(self._seq), checked.level, checked.counter.count))
            self._seq += 1
        return receipts

    def ack_and_claim(
        self, outcomes: Sequence[Outcome], worker: str, limit: int, *, lease: int, now: int
    ) -> AckAndClaim:
        del outcomes, lease
        claimed = []
        while self._heap and len(claimed) < limit:
            level, seq, customer, at = heappop(self._heap)
            document = Document(
                str(seq), customer, seq, DOCUMENT_SPEC, level, 0, DocumentState.RUNNING, at, at,
                None, now, None, 1, seq, worker, None, False, None,
            )  # fmt: skip
            claimed.append(Claim(document, seq))
        return AckAndClaim((), tuple(claimed))


DOCUMENT_SPEC = NewDocument("bare")


def scenario(documents: int) -> Scenario:
    """Fifty customers, four workers, nearly full: documents come and go one by one."""
    group = Group("all", Poisson(load=0.9, until=documents / 0.9 / 4), ServiceTime("exponential", 1.0), customers=50)
    return Scenario("bench", "bench", 4, (group,))


def speed() -> int:
    chosen = scenario(DOCUMENTS)
    arrivals = generate_arrivals(chosen)
    n = len(arrivals)

    def bare() -> None:
        drawn = generate_arrivals(chosen)
        Simulation(drawn, document_specs(chosen), chosen.workers, BareHeap()).run()

    ours, theirs = interleaved([lambda: simulate_scenario(chosen), bare], 5)
    print(f"{n:,} documents one by one; us {spread(ours)} s, bare heap loop {spread(theirs)} s;"
          f" {n / median(ours):,.0f} documents/s")  # fmt: skip
    return check_limit("times a bare heap loop", median(ours) / median(theirs), 4, at_most=True)


def scenarios() -> int:
    """Every scenario that comes with Inturn, in the fair order: the best of three runs each, on one core."""
    documents, took = 0, 0.0
    for chosen in built_in_scenarios().values():
        documents += len(generate_arrivals(chosen))
        took += min(wall_seconds(lambda chosen=chosen: simulate_scenario(chosen)) for _ in range(3))  # type: ignore[misc]
    return check_limit("simulated documents a second, all scenarios", documents / took, 20_000, at_most=False)


def linear() -> int:
    item = []
    for documents in (20_000, 200_000, 1_000_000):
        chosen = scenario(documents)
        took = min(
            wall_seconds(lambda chosen=chosen: simulate_scenario(chosen)) for _ in range(3 if documents < 10**6 else 1)
        )  # type: ignore[misc]
        item.append(took / documents * 1e6)
        print(f"{documents:,} documents: {item[-1]:.1f} us a document")
    return check_limit("1,000,000 against 20,000, a document", item[-1] / item[0], 1.5, at_most=True)


def _fill_million(answer: "multiprocessing.Queue[int]") -> None:
    clock = ManualClock()
    before = pss()
    queue = Queue(open_store("memory://", clock), clock=clock)
    for n in range(1_000_000):
        queue.submit(f"customer {n % 1_000}", [NewDocument(f"document {n}.pdf")])
    answer.put(pss() - before)
    del queue


def memory() -> int:
    """In a process of its own, each document submitted alone under a name of its own: the dearest way."""
    context = multiprocessing.get_context("spawn")
    answer: multiprocessing.Queue[int] = context.Queue()
    process = context.Process(target=_fill_million, args=(answer,))
    process.start()
    used = answer.get()
    process.join()
    return check_limit("MB for 1,000,000 waiting documents", used / 1e6, 1_000, at_most=True)


def reports() -> int:
    """Reading the figures off a run must not take longer than the run."""
    chosen = replace(load_scenario("day-90"), seed=5)
    played = simulate_scenario(chosen)
    return check_limit(
        "report against run",
        wall_seconds(lambda: build_report(played)) / wall_seconds(lambda: simulate_scenario(chosen)),
        1,
        at_most=True,
    )


def main() -> int:
    return speed() + scenarios() + linear() + reports() + memory()
