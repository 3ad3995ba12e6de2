"""The simulator through the real queue, against a bare heap loop that plays the same scenario.

The bare loop is the same engine with the queue and store replaced by one heap of (level, seq): same arrivals, same
events, same records, no lines, turns, leases, events or documents. What is left between the two is the price of the
real thing.
"""

import multiprocessing
from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush

from bench.measure import interleaved, median, pss, seconds, spread, verdict
from inturn import NewDocument, PriorityPolicy, Queue, Receipt
from inturn.clock import ManualClock
from inturn.model import Claimed, Document, DocumentState
from inturn.policy import Counter
from inturn.simulate import Scenario, built_in, load, report, run
from inturn.simulate.arrivals import Poisson
from inturn.simulate.engine import Playing, given_by
from inturn.simulate.scenario import Group, Service, arrivals_of
from inturn.store import Exchanged, Outcome
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

    def exchange(self, outcomes: Sequence[Outcome], worker: str, limit: int, *, lease: int, now: int) -> Exchanged:
        del outcomes, lease
        claimed = []
        while self._heap and len(claimed) < limit:
            level, seq, customer, at = heappop(self._heap)
            document = Document(
                str(seq), customer, seq, GIVEN, level, 0, DocumentState.RUNNING, at, at,
                None, now, None, 1, seq, worker, None, False, None,
            )  # fmt: skip
            claimed.append(Claimed(document, seq))
        return Exchanged((), tuple(claimed))


GIVEN = NewDocument("bare")


def scenario(documents: int) -> Scenario:
    """Fifty customers, four workers, nearly full: documents come and go one by one."""
    group = Group("all", Poisson(load=0.9, until=documents / 0.9 / 4), Service("exponential", 1.0), customers=50)
    return Scenario("bench", "bench", 4, (group,))


def speed() -> int:
    chosen = scenario(DOCUMENTS)
    arrivals = arrivals_of(chosen)
    n = len(arrivals)

    def bare() -> None:
        drawn = arrivals_of(chosen)
        Playing(drawn, given_by(chosen), chosen.workers, BareHeap()).to_the_end()

    ours, theirs = interleaved([lambda: run(chosen), bare], 5)
    print(f"{n:,} documents one by one; us {spread(ours)} s, bare heap loop {spread(theirs)} s;"
          f" {n / median(ours):,.0f} documents/s")  # fmt: skip
    return verdict("times a bare heap loop", median(ours) / median(theirs), 4, at_most=True)


def scenarios() -> int:
    """Every scenario that comes with Inturn, in the fair order: the best of three runs each, on one core."""
    documents, took = 0, 0.0
    for chosen in built_in().values():
        documents += len(arrivals_of(chosen))
        took += min(seconds(lambda chosen=chosen: run(chosen)) for _ in range(3))  # type: ignore[misc]
    return verdict("simulated documents a second, all scenarios", documents / took, 20_000, at_most=False)


def linear() -> int:
    each = []
    for documents in (20_000, 200_000, 1_000_000):
        chosen = scenario(documents)
        took = min(seconds(lambda chosen=chosen: run(chosen)) for _ in range(3 if documents < 10**6 else 1))  # type: ignore[misc]
        each.append(took / documents * 1e6)
        print(f"{documents:,} documents: {each[-1]:.1f} us a document")
    return verdict("1,000,000 against 20,000, a document", each[-1] / each[0], 1.5, at_most=True)


def _million(answer: "multiprocessing.Queue[int]") -> None:
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
    process = context.Process(target=_million, args=(answer,))
    process.start()
    used = answer.get()
    process.join()
    return verdict("MB for 1,000,000 waiting documents", used / 1e6, 1_000, at_most=True)


def reports() -> int:
    """Reading the figures off a run must not take longer than the run."""
    chosen = replace(load("day-90"), seed=5)
    played = run(chosen)
    return verdict(
        "report against run", seconds(lambda: report(played)) / seconds(lambda: run(chosen)), 1, at_most=True
    )


def main() -> int:
    return speed() + scenarios() + linear() + reports() + memory()
