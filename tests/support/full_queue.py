"""A queue in which there is something of everything, for those who take it elsewhere; and all that it holds."""

import io
from typing import Any

import inturn
from inturn.blobs import Blobs
from inturn.clock import ManualClock
from inturn.insights import Insights
from inturn.model import SECOND, NewDocument, ResultFile
from inturn.policy import Policy
from inturn.store import Claim, Operator, Outcome, OutcomeKind, Store, Work
from inturn.stores import open_store, open_transfer_endpoint
from inturn.stores.transfer import Transfer, TransferEndpoint

BEGIN = 1_700_000_000 * SECOND
MINUTE = 60 * SECOND
ANNA = Operator("anna", "because the test says so")


def fill(url: str, blobs: Blobs, clock: ManualClock) -> None:
    """Several customers, levels and batches, limits of all kinds, and documents in every state but running."""
    with inturn.open(url, clock=clock) as queue:
        store = queue.store
        store.set_policy(Policy.from_dict({**Policy().to_dict(), "overdue_every": 4}), ANNA)
        for customer, n in (("acme", 30), ("Büro Süd", 12), ("trickle", 2), ("paused", 6), ("capped", 5), ("rated", 5)):
            documents = [document(blobs, f"{customer} Nr. {i}.pdf", batch=f"batch {n}") for i in range(n)]
            queue.submit(customer, documents, key=f"first of {customer}")
            clock.advance(SECOND)
        queue.change_customer("acme", ANNA, weight=2.5)
        queue.change_customer("capped", ANNA, cap=1, keep=90 * 24 * 60 * MINUTE)
        queue.change_customer("rated", ANNA, rate=inturn.RateLimit(3, 60 * MINUTE))
        queue.pause(ANNA, "paused")
        queue.check("elsewhere", 4, key="a check alone")
        queue.submit("trickle", [NewDocument("later", delay=10 * MINUTE), NewDocument("soon", delay=SECOND)])
        queue.submit(
            "late", [NewDocument("too late", start_by=clock.now() + SECOND), NewDocument("x", metadata={"ü": 1})]
        )
        clock.advance(2 * SECOND)
        work(store, blobs, clock)
        waiting = [document.id for document in queue.documents(inturn.DocumentFilter(customer="Büro Süd")).items]
        queue.cancel(waiting[0], ANNA)
        queue.expedite(waiting[1], ANNA)
        queue.retry(waiting[0], ANNA)
        queue.cancel(waiting[2], ANNA)
        store.set_policy(store.policy().policy, ANNA)
        queue.submit("acme", [NewDocument("after all the others", start_by=clock.now() + 3 * MINUTE)] * 2)


def document(blobs: Blobs, name: str, **fields: Any) -> NewDocument:
    blob = blobs.put(io.BytesIO(name.encode()))
    return NewDocument(name, blob=blob.key, sha256=blob.sha256, size=blob.size, media_type="application/pdf", **fields)


def work(store: Store, blobs: Blobs, clock: ManualClock) -> None:
    """Claim some, and let them end in every way there is."""
    for round_ in range(5):
        claimed = inturn.Queue(store).claim("worker", limit=4)
        outcomes = [outcome(claim, number + round_, blobs) for number, claim in enumerate(claimed)]
        store.ack_and_claim(outcomes, None)
        clock.advance(SECOND)


def outcome(claim: Claim, number: int, blobs: Blobs) -> Outcome:
    id_, fence = claim.document.id, claim.fence
    if number % 4 == 0:
        blob = blobs.put(io.BytesIO(id_.encode()))
        files = (ResultFile("page-1.png", blob.key, blob.size, blob.sha256, "image/png"),)
        text = '{"pages": 1, "text": "\\u0000ü"}'
        return Outcome(id_, fence, OutcomeKind.DONE, result=text, files=files, work=Work(0, 0))
    if number % 4 == 1:
        return Outcome(id_, fence, OutcomeKind.FAILED, error="no good: ü", retry_in=None)
    if number % 4 == 2:
        return Outcome(id_, fence, OutcomeKind.FAILED, error="not now", retry_in=5 * MINUTE)
    return Outcome(id_, fence, OutcomeKind.RELEASED)


def contents(end: str | TransferEndpoint) -> dict[str, Any]:
    """All rows of all tables, whatever the order of their columns, and the queue's own numbers."""
    end = open_transfer_endpoint(end) if isinstance(end, str) else end
    try:
        with end.open_reader() as reader:
            result: dict[str, Any] = {
                table: [row for rows in reader.rows(table, sorted(columns)) for row in map(list, rows)]
                for table, columns in end.tables().items()
            }
            return {**result, "queue": reader.queue(), "blobs": sorted(reader.blobs())}
    finally:
        end.disconnect()


def transfer(source: str | TransferEndpoint, target: str | TransferEndpoint, **options: Any) -> dict[str, int] | None:
    """As the command does it; None when nothing was left to do."""
    leaving, arriving = (open_transfer_endpoint(item) if isinstance(item, str) else item for item in (source, target))
    try:
        running_transfer = Transfer(leaving, arriving, **options)
        if not running_transfer.check():
            return None
        running_transfer.begin()
        return running_transfer.load(lambda *_: None)
    finally:
        leaving.disconnect()
        arriving.disconnect()


def drain(queue_at: str | Store, now: int) -> list[Any]:
    """What comes of a queue from here on: every claim until nothing is left, with fences and what they say of it."""
    clock = ManualClock(now)
    reported: list[Any] = []
    store = open_store(queue_at, clock) if isinstance(queue_at, str) else queue_at
    store._clock = clock
    with inturn.Queue(store, clock=clock) as queue:
        queue.resume(ANNA, "paused")
        insights = Insights(queue.store, clock)
        reported += [insights.why(document.id) for document in queue.documents(limit=500).items]
        for round_ in range(200):
            claimed = queue.claim("another", limit=1 + round_ % 3)
            reported += claimed
            for claim in claimed:
                queue.finish(claim, {"round": round_})
            clock.advance(MINUTE)
        reported.append(queue.check("acme"))
        reported.append(queue.counts())
        reported.append(queue.events(limit=10_000))
        reported.append([queue.result(document.id) for document in queue.documents(limit=500).items])
        reported.append([queue.files(document.id) for document in queue.documents(limit=500).items])
        attempts = [queue.attempts(document.id) for document in queue.documents(limit=500).items]
        assert {attempt.ended for tried in attempts for attempt in tried} >= {"delayed", "handed_back"}
        reported.append(attempts)
    return reported
