"""A queue as support people meet it: 40 customers and a day with an outage, held customers, retries, and workers.

Tests count the clicks of each support task on it, and `scripts/screenshots.py support` takes the pictures for
docs/support.md. `write(path)` fills an empty store; all times are before now.
"""

import random
import time
from pathlib import Path
from typing import Final

import inturn
from inturn.clock import ManualClock
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store_types import Claim, Operator
from inturn.values import SECOND
from inturn.worker_report import Progress, WorkerReport

HOUR: Final = 3_600 * SECOND
MINUTE: Final = 60 * SECOND
CUSTOMERS: Final = tuple(
    f"{trade} {place}"
    for trade in ("Bakery", "Clinic", "Dental", "Hotel", "Kanzlei", "Notary", "Optik", "Vet")
    for place in ("Abel", "Costa", "Haas", "Nowak")
)
"""The small ones."""
BULK: Final = "Nordlicht Archive"
OUTAGE: Final = "Porto Logistics"
"""The customer whose documents failed in the night."""
PAUSED: Final = "Helix Insurance"
CAPPED: Final = "Farmácia Sol"
LIMITED: Final = "Estudio Vega"
INVOICE: Final = "PL-2024-1812"
BROKEN: Final = ("Kanzlei Haas", "Notary Costa", "Clinic Nowak")
"""Customers with documents that failed in the last hour."""
MARIA: Final = Operator("maria", "their tax numbers are wrong, new files come on Monday")
WORKERS: Final = ("scan-1", "scan-2")


def write(path: Path, *, bulk: int = 600) -> None:
    """Fill a store; `bulk` is how many documents wait of the largest customer."""
    now = time.time_ns() // 1_000
    clock = ManualClock(now - 30 * HOUR)
    with inturn.open(str(path), clock=clock) as queue:
        queue.fold_history(limit=1)  # the history begins here
        _night(queue, clock)
        clock.set(now - 3 * HOUR)
        _held(queue)
        clock.set(now - 40 * MINUTE)
        _broken(queue, clock)
        clock.set(now - 25 * MINUTE)
        for first in range(0, bulk, 5_000):
            pages = range(first, min(bulk, first + 5_000))
            queue.submit(BULK, [NewDocument(f"box {n // 50 + 1} page {n % 50 + 1}.tif", pages=2) for n in pages])
        _day(queue, clock, now)
        clock.set(now)
        _work(queue, clock)
        while not queue.fold_history(limit=10_000).is_complete:
            pass
        while queue.index_documents(limit=10_000):
            pass


def _night(queue: Queue, clock: ManualClock) -> None:
    """Invoices that came yesterday and failed in the night, while the service that reads them was away."""
    names = [f"PL-2024-{number}" for number in range(1_800, 1_830)]
    queue.submit(OUTAGE, [NewDocument(f"invoice {name}.pdf", metadata={"invoice": name}) for name in names])
    for claim in queue.claim("scan-1", 6):
        queue.finish(claim, {"text": "Dear Sir or Madam"})
    clock.advance(18 * HOUR)
    for claim in queue.claim("scan-1", 24):
        clock.advance(20 * SECOND)
        queue.fail(claim, "the OCR service did not answer within 60 seconds", final=True)


def _held(queue: Queue) -> None:
    for name, amount in ((PAUSED, 60), (CAPPED, 31), (LIMITED, 12)):
        queue.submit(name, [NewDocument(f"claim {n + 1}.pdf") for n in range(amount)])
    queue.pause(MARIA, PAUSED)
    queue.change_customer(CAPPED, Operator("anna", "their server takes two at a time"), cap=2)
    queue.change_customer(LIMITED, Operator("anna", "as agreed"), rate=inturn.RateLimit(3, HOUR))


def _broken(queue: Queue, clock: ManualClock) -> None:
    """Broken files of three customers; one document of each is tried again later."""
    for name in BROKEN:
        queue.submit(name, [NewDocument(f"scan {n + 1}.pdf") for n in range(4)])
    for claim in _claims_of(queue, BROKEN):
        clock.advance(5 * SECOND)
        if claim.document.spec.name == "scan 4.pdf":
            queue.fail(claim, "the network was away", retry_in=HOUR)
        else:
            queue.fail(
                claim, f"page {claim.document.spec.name[5]} of '{claim.document.spec.name}' is broken", final=True
            )


def _claims_of(queue: Queue, customers: tuple[str, ...]) -> list[Claim]:
    """Claim until all documents of these customers have come; release the others."""
    claims = list(queue.claim("scan-1", 100))
    for claim in claims:
        if claim.document.customer not in customers:
            queue.release(claim)
    return [claim for claim in claims if claim.document.customer in customers]


def _day(queue: Queue, clock: ManualClock, now: int) -> None:
    """What small customers sent since, and what was done of it."""
    seeded = random.Random(3)
    while clock.now() < now - 30 * SECOND:
        for name in seeded.sample(CUSTOMERS, 3):
            queue.submit(name, [NewDocument(f"letter {n + 1}.pdf") for n in range(seeded.choice((1, 2, 5)))])
        clock.advance(10 * SECOND)
        for claim in queue.claim("scan-1", 6):
            queue.finish(claim, {"text": "Dear Sir or Madam"})
        clock.advance(20 * SECOND)


def _work(queue: Queue, clock: ManualClock) -> None:
    """Leave four documents running on each worker."""
    for name in WORKERS:
        ids = [claim.document.id for claim in queue.claim(name, 4, lease=24 * HOUR)]
        report = WorkerReport(
            name, "scan.example", 1, 4, len(ids), "extract", clock.now() - HOUR,
            progress={id_: Progress(1, 3) for id_ in ids}, at_work=dict.fromkeys(ids, 20 * SECOND), version="1.4.0",
        )  # fmt: skip
        queue.record_worker(report)
