"""Search among a million documents with metadata on both SQL stores, and what the index costs submits and claims.

Every document has a name of its own, two values of metadata and, one in ten, a batch. `--documents 100000` is quicker.
"""

import argparse
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import inturn
from bench.measure import check_limit, interleaved, median, spread, wall_seconds
from bench.peers.postgres_server import database, server
from bench.services import folder
from inturn import NewDocument, Queue
from inturn.store_types import DocumentFilter, TimeRange
from inturn.stores import migrate
from inturn.worker.search_index import MAX_SHARE

DOCUMENTS = 1_000_000
CUSTOMERS = 1_000
BATCH_SIZE = 500
ROUNDS = 9
MAX_SEARCH_MS = 100
MAX_SLOWDOWN = 1.1
BULK = 20
"""Submits of 500, or batches of 50 claimed and finished, in one round."""


def make_documents(first: int, n: int = BATCH_SIZE) -> list[NewDocument]:
    return [
        NewDocument(
            f"invoice {number:07}.pdf",
            uri=f"s3://bucket/incoming/{number:07}.pdf",
            metadata={"invoice": f"PL-2024-{number}", "department": f"office {number % 40}"},
            batch=f"batch {number // 1_000}" if number % 10 == 0 else None,
        )
        for number in range(first, first + n)
    ]


def fill(queue: Queue, n: int) -> float:
    """Submit so many documents; return the seconds it took."""

    def submit() -> None:
        for first in range(0, n, BATCH_SIZE):
            queue.submit(f"customer {first // BATCH_SIZE % CUSTOMERS}", make_documents(first))

    return wall_seconds(submit)


def searches(n: int) -> dict[str, tuple[str, str | None, int]]:
    """Text, customer and the documents that have to come back at least, by what they stand for."""
    odd = n // 2 + 7
    owner = f"customer {odd // BATCH_SIZE % CUSTOMERS}"
    return {
        "metadata, one document": (f"invoice:PL-2024-{odd}", None, 1),
        "… of a customer's key": (f"invoice:PL-2024-{odd}", owner, 1),
        "metadata, none": ("invoice:PL-2024-x", None, 0),
        "metadata, 1 of 40": ("department:office 17", None, 10),
        "beginning of a value": (f"invoice:PL-2024-{odd // 10}", None, 1),
        "word of a name": (f"{odd:07}", None, 1),
        "two words": (f"invoice {odd:07}", None, 1),
        "a word of all": ("invoice", None, 10),
        "… of a customer's key, too": ("invoice", owner, 10),
        "batch": ("batch 5", None, 0),
        "customer": ("customer 77", None, 0),
    }


def measure_searches(queue: Queue, n: int) -> int:
    missed = 0
    for label, (text, customer, wanted) in searches(n).items():
        answers = [queue.search(text, customer=customer) for _ in range(3)]
        assert len(answers[0].documents) >= wanted, (label, answers[0])  # noqa: S101
        (times,) = interleaved([partial(queue.search, text, customer=customer)], ROUNDS)
        print(f"{label}: {spread([1_000 * took for took in times])} ms, complete: {answers[0].is_complete}")
        missed += check_limit(label, median(times) * 1_000, MAX_SEARCH_MS, at_most=True)
    return missed


def measure_ranges(queue: Queue, n: int) -> None:
    """The first page of a minute in the middle, against the newest page of all."""
    middle = queue.documents(DocumentFilter(), limit=1, after=str(n // 2)).items[0].submitted_at
    where = DocumentFilter(submitted=TimeRange(middle - 1_000_000, middle + 1))
    assert queue.documents(where, limit=100).items  # noqa: S101
    calls: list[Callable[[], object]] = [
        partial(queue.documents, where, limit=100),
        partial(queue.counts, where),
        partial(queue.documents, limit=100),
    ]
    ranged, counted, newest = interleaved(calls, ROUNDS)
    for label, times in (("page of a range", ranged), ("its counts", counted), ("newest page", newest)):
        print(f"{label}: {spread([1_000 * took for took in times])} ms")


def measure_index(queue: Queue, n: int) -> None:
    def index() -> None:
        while queue.index_documents(limit=10_000):
            pass

    took = wall_seconds(index)
    print(f"index of {n:,} documents: {took:.1f} s, {took / n * 1e6:.1f} µs a document")
    print(f"cleaning, nothing to do: {wall_seconds(queue.clean_index) * 1_000:.0f} ms")


@contextmanager
def indexing_beside(queue: Queue) -> Iterator[None]:
    """What maintenance does with a backlog: it takes `MAX_SHARE` of the time."""
    stopped = threading.Event()

    def run() -> None:
        while not stopped.is_set():
            took = wall_seconds(partial(queue.index_documents, limit=1_000))
            stopped.wait(max(0.05, (1 / MAX_SHARE - 1) * took))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def drain(queue: Queue, batch: int = 50) -> None:
    outcomes = []
    for _ in range(BULK):
        claimed = queue.ack_and_claim(outcomes, "bench", batch).claimed
        outcomes = [queue.done(claim, {"pages": 3}) for claim in claimed]
    queue.store.ack_and_claim(outcomes, None)


def measure_slowdown(queue: Queue, other: Queue, n: int) -> int:
    """Submit and claim while another process of the queue indexes, against without, in turns."""
    place = iter(range(n, 1_000_000_000, BATCH_SIZE))

    def submit() -> None:
        for _ in range(BULK):
            queue.submit(f"customer {next(place) % CUSTOMERS}", make_documents(next(place)))

    def beside(work: Callable[[], object]) -> None:
        with indexing_beside(other):
            work()

    missed = 0
    for label, work, per_round in (
        ("submits by 500", submit, BULK * BATCH_SIZE),
        ("claim and finish by 50", partial(drain, queue), BULK * 50),
    ):
        alone, indexed = interleaved([work, partial(beside, work)], ROUNDS)
        print(
            f"{label}: documents/s {per_round / median(alone):,.0f}, while indexing {per_round / median(indexed):,.0f}"
        )
        missed += check_limit(
            f"{label}, while indexing against not", median(indexed) / median(alone), MAX_SLOWDOWN, at_most=True
        )
    return missed


def measure(url: str, n: int) -> int:
    with inturn.open(url) as queue, inturn.open(url) as other:
        took = fill(queue, n)
        print(f"submitted {n:,} documents: {n / took:,.0f} a second")
        missed = measure_slowdown(queue, other, n)
        measure_index(queue, n)
        missed += measure_searches(queue, n)
        measure_ranges(queue, n)
    return missed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench search")
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--store", choices=("sqlite", "postgres"), action="append")
    options = parser.parse_args(arguments or [])
    missed = 0
    for store in options.store or ("sqlite", "postgres"):
        print(f"-- {store}", flush=True)
        with ExitStack() as stack:
            if store == "sqlite":
                url = str(stack.enter_context(folder()) / "queue.db")
            else:
                url = database(stack.enter_context(server()), "search")
                migrate(url)
            missed += measure(url, options.documents)
    return missed


if __name__ == "__main__":
    raise SystemExit(main())
