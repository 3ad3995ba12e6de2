"""What the processes of these tests do: `python children.py WHAT ARGUMENT …`, one line of JSON for each thing told."""

import fcntl
import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from inturn.errors import InturnError, StaleFenceError
from inturn.ids import RandomIds
from inturn.model import NewDocument
from inturn.store import ClaimRequest, Outcome, OutcomeKind, Submission
from inturn.stores.sqlite import SqliteStore, connection, notifier
from inturn.stores.sqlite.connection import write_lock_path

MINUTE = 60_000_000
LEASE = 200_000
NEVER = 3_600.0


def send(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def wait_for_start() -> None:
    """All children of a test begin together, when it says so."""
    send("ready")
    sys.stdin.readline()


def names() -> Iterator[str]:
    return (f"document {n}" for n in range(10**9))


def known_ids(seed: str) -> Iterator[str]:
    """Ids that the test can work out for itself."""
    return (str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed} {n}")) for n in range(10**9))


def submit_some(path: str, customer: str, n: str) -> None:
    """Submit n documents, one by one; tell all receipts at the end."""
    store = SqliteStore(path)
    wait_for_start()
    ids, receipts = RandomIds(), []
    for name, _ in zip(names(), range(int(n)), strict=False):
        receipts += store.submit(Submission(customer, ids.make(1, 0), [NewDocument(name)]))
    send(receipts)
    store.close()


def claim_all(path: str, worker: str, limit: str) -> None:
    """Claim and finish until nothing is left; tell the ids."""
    store = SqliteStore(path)
    wait_for_start()
    taken = []
    while claimed := store.claim(ClaimRequest(worker, int(limit), MINUTE)):
        for document, fence in claimed:
            store.finish(document.id, fence, json.dumps(worker))
            taken.append(document.id)
    send(taken)
    store.close()


def wait_for_one(path: str) -> None:
    """Sleep at the doorbell, which nothing but a commit can end here; tell what could be claimed then."""
    notifier.POLL_INTERVAL_SECONDS = NEVER  # type: ignore[misc]
    store = SqliteStore(path)
    request = ClaimRequest("waiter", 1, MINUTE)
    assert store.claim(request) == ()
    send("ready")
    store.wait(NEVER)
    send([claimed.document.id for claimed in store.claim(request)])
    store.close()


def make(path: str) -> None:
    """Open a file that may not be there yet, and use it."""
    wait_for_start()
    store = SqliteStore(path)
    receipts = store.submit(Submission("acme", RandomIds().make(1, 0), [NewDocument("a document")]))
    send(receipts[0].id)
    store.close()


def submit_for_ever(path: str, seed: str, customer: str, batch_size: str) -> None:
    """Submit documents with known ids, so many at once; tell how many submits have returned."""
    store, n = SqliteStore(path), int(batch_size)
    ids = known_ids(seed)
    send("ready")
    for done in range(1, 10**9):
        documents = [NewDocument(f"{seed} {done}", max_attempts=100)] * n
        store.submit(Submission(customer, [next(ids) for _ in range(n)], documents))
        send(done)


def work_for_ever(path: str, worker: str, limit: str) -> None:
    """Claim with short leases and finish; tell each id that was finished."""
    store = SqliteStore(path)
    send("ready")
    while True:
        for document, fence in store.claim(ClaimRequest(worker, int(limit), LEASE)):
            try:
                store.finish(document.id, fence, json.dumps(worker))
            except StaleFenceError:
                continue
            send(document.id)


def finish_and_claim_for_ever(path: str, worker: str, limit: str) -> None:
    """Finish and claim in one call, with short leases; tell each id and fence as claimed, and as finished."""
    store, outcomes = SqliteStore(path), list[Outcome]()
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


def hold_lock(path: str) -> None:
    """Keep the write lock of the database until told to go on."""
    held = apsw.Connection(path)
    held.execute("BEGIN EXCLUSIVE")
    wait_for_start()
    held.execute("ROLLBACK")
    held.close()


def hold_write_lock_file(path: str) -> None:
    """Keep the gate, as a process that was stopped inside it would, until told to go on."""
    with write_lock_path(Path(path)).open("a") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        wait_for_start()


def submit_impatiently(path: str) -> None:
    """Submit with little patience for locks; tell the code of the error, or None."""
    connection.BUSY_TIMEOUT_MS = 200  # type: ignore[misc]
    store = SqliteStore(path)
    try:
        store.submit(Submission("acme", RandomIds().make(1, 0), [NewDocument("a document")]))
    except InturnError as refused:
        send([refused.code, str(refused)])
    else:
        send(None)
    store.close()


def main() -> None:
    what, *args = sys.argv[1:]
    globals()[what](*args)


if __name__ == "__main__":
    main()
