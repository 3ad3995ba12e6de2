"""What the processes of these tests do: `python children.py WHAT ARGUMENT …`, one line of JSON for each thing told."""

import json
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg

from inturn.clock import SystemClock
from inturn.errors import StaleFenceError, StoreError
from inturn.ids import RandomIds
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store import ClaimRequest, Outcome, OutcomeKind, Submission
from inturn.stores.postgres import PostgresStore

MINUTE = 60_000_000


def send(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def wait_for_start() -> None:
    """All children of a test begin together, when it says so."""
    send("ready")
    sys.stdin.readline()


def known_ids(seed: str) -> Iterator[str]:
    """Ids that the test can work out for itself."""
    return (str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed} {n}")) for n in range(10**9))


def submit_some(url: str, customer: str, n: str) -> None:
    """Submit n documents, one by one; tell all receipts at the end."""
    store = PostgresStore(url)
    wait_for_start()
    ids, receipts = RandomIds(), []
    for number in range(int(n)):
        receipts += store.submit(Submission(customer, ids.make(1, 0), [NewDocument(f"document {number}")]))
    send(receipts)
    store.close()


def claim_all(url: str, worker: str, limit: str) -> None:
    """Claim and finish until nothing is left; tell what was claimed, and under which fences."""
    store = PostgresStore(url)
    wait_for_start()
    taken = []
    while claimed := store.claim(ClaimRequest(worker, int(limit), MINUTE)):
        for document, fence in claimed:
            store.finish(document.id, fence, json.dumps(worker))
            taken.append((document.id, fence, document.customer))
    send(taken)
    store.close()


def hold_submit(url: str, customer: str) -> None:
    """Submit in a transaction of one's own, which is left open until told to go on."""
    store = PostgresStore(url)
    with psycopg.connect(store.address.conninfo) as connection:
        store.submit_in(connection, Submission(customer, RandomIds().make(1, 0), [NewDocument("held")]))
        send("held")
        sys.stdin.readline()
    send("committed")
    store.close()


def skewed_clock(url: str, customer: str, offset: str) -> None:
    """Submit, claim and beat on a machine whose clock is wrong by so many microseconds."""
    real = time.time_ns
    time.time_ns = lambda: real() + 1_000 * int(offset)  # type: ignore[assignment]
    time.time = lambda: time.time_ns() / 1e9  # type: ignore[assignment]
    SystemClock.now = lambda _: time.time_ns() // 1_000  # type: ignore[method-assign]
    queue = Queue(PostgresStore(url))
    wait_for_start()
    queue.submit(customer, [NewDocument("a document")] * 3)
    claimed = queue.claim(f"worker {offset}", 1)
    send([queue.heartbeat(claimed), [claim.document.lease_until for claim in claimed]])
    queue.close()


def make(url: str) -> None:
    """Open a queue that may not be there yet, and use it."""
    wait_for_start()
    store = PostgresStore(url)
    send(store.submit(Submission("acme", RandomIds().make(1, 0), [NewDocument("a document")]))[0].id)
    store.close()


def wait_for_one(url: str) -> None:
    """Sleep until told; tell what could be claimed then, and how long it took to be told."""
    store = PostgresStore(url)
    request = ClaimRequest("waiter", 1, MINUTE)
    store.wait(0)
    assert store.claim(request) == ()
    send("ready")
    while not (claimed := store.claim(request)):
        store.wait(60)
    send([claim.document.id for claim in claimed])
    store.close()


def submit_for_ever(url: str, seed: str, customer: str) -> None:
    """Submit documents with known ids; tell how many submits have returned. What failed is repeated with its key."""
    store, ids = PostgresStore(url), known_ids(seed)
    send("ready")
    for done in range(1, 10**9):
        submission = Submission(
            customer, [next(ids)], [NewDocument(f"{seed} {done}", max_attempts=100)], f"{seed} {done}", "x"
        )
        while True:
            try:
                store.submit(submission)
                break
            except StoreError:
                time.sleep(0.05)
        send(done)


def work_for_ever(url: str, worker: str, limit: str) -> None:
    """Claim with short leases and finish; tell each id that was finished, and its fence."""
    store = PostgresStore(url)
    send("ready")
    while True:
        try:
            for document, fence in store.claim(ClaimRequest(worker, int(limit), 2_000_000)):
                try:
                    store.finish(document.id, fence, json.dumps(worker))
                except StaleFenceError:
                    continue
                send([document.id, fence])
        except StoreError:
            time.sleep(0.05)


def finish_and_claim_for_ever(url: str, worker: str, limit: str) -> None:
    """Finish and claim in one call, with short leases; tell each id and fence as claimed, and as finished."""
    store, outcomes = PostgresStore(url), list[Outcome]()
    request = ClaimRequest(worker, int(limit), 1_500_000)
    send("ready")
    while True:
        statuses, claimed = store.ack_and_claim(outcomes, request)
        for outcome, status in zip(outcomes, statuses, strict=True):
            if status != "stale":
                send(["finished", outcome.id, outcome.fence])
        for document, fence in claimed:
            send(["claimed", document.id, fence])
        outcomes = [Outcome(document.id, fence, OutcomeKind.DONE, result="1") for document, fence in claimed]
        if not claimed:
            store.wait(0.05)


def main() -> None:
    what, *args = sys.argv[1:]
    globals()[what](*args)


if __name__ == "__main__":
    main()
