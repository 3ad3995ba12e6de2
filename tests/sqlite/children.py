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
from inturn.store import ClaimRequest, Submission
from inturn.stores.sqlite import SqliteStore, connection, doorbell
from inturn.stores.sqlite.connection import gate_of

MINUTE = 60_000_000
LEASE = 200_000
NEVER = 3_600.0


def tell(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def begin() -> None:
    """All children of a test begin together, when it says so."""
    tell("ready")
    sys.stdin.readline()


def names() -> Iterator[str]:
    return (f"document {n}" for n in range(10**9))


def known_ids(seed: str) -> Iterator[str]:
    """Ids that the test can work out for itself."""
    return (str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed} {n}")) for n in range(10**9))


def submit_some(path: str, customer: str, n: str) -> None:
    """Submit n documents, one by one; tell all receipts at the end."""
    store = SqliteStore(path)
    begin()
    ids, receipts = RandomIds(), []
    for name, _ in zip(names(), range(int(n)), strict=False):
        receipts += store.submit(Submission(customer, ids.make(1, 0), [NewDocument(name)]))
    tell(receipts)
    store.close()


def claim_all(path: str, worker: str, limit: str) -> None:
    """Claim and finish until nothing is left; tell the ids."""
    store = SqliteStore(path)
    begin()
    taken = []
    while claimed := store.claim(ClaimRequest(worker, int(limit), MINUTE)):
        for document, fence in claimed:
            store.finish(document.id, fence, json.dumps(worker))
            taken.append(document.id)
    tell(taken)
    store.close()


def wait_for_one(path: str) -> None:
    """Sleep at the doorbell, which nothing but a commit can end here; tell what could be claimed then."""
    doorbell.POLL = NEVER  # type: ignore[misc]
    store = SqliteStore(path)
    request = ClaimRequest("waiter", 1, MINUTE)
    assert store.claim(request) == ()
    tell("ready")
    store.wait(NEVER)
    tell([claimed.document.id for claimed in store.claim(request)])
    store.close()


def make(path: str) -> None:
    """Open a file that may not be there yet, and use it."""
    begin()
    store = SqliteStore(path)
    receipts = store.submit(Submission("acme", RandomIds().make(1, 0), [NewDocument("a document")]))
    tell(receipts[0].id)
    store.close()


def submit_for_ever(path: str, seed: str, customer: str, at_once: str) -> None:
    """Submit documents with known ids, so many at once; tell how many submits have returned."""
    store, n = SqliteStore(path), int(at_once)
    ids = known_ids(seed)
    tell("ready")
    for done in range(1, 10**9):
        documents = [NewDocument(f"{seed} {done}", max_attempts=100)] * n
        store.submit(Submission(customer, [next(ids) for _ in range(n)], documents))
        tell(done)


def work_for_ever(path: str, worker: str, limit: str) -> None:
    """Claim with short leases and finish; tell each id that was finished."""
    store = SqliteStore(path)
    tell("ready")
    while True:
        for document, fence in store.claim(ClaimRequest(worker, int(limit), LEASE)):
            try:
                store.finish(document.id, fence, json.dumps(worker))
            except StaleFenceError:
                continue
            tell(document.id)


def hold_lock(path: str) -> None:
    """Keep the write lock of the database until told to go on."""
    held = apsw.Connection(path)
    held.execute("BEGIN EXCLUSIVE")
    begin()
    held.execute("ROLLBACK")
    held.close()


def hold_gate(path: str) -> None:
    """Keep the gate, as a process that was stopped inside it would, until told to go on."""
    with gate_of(Path(path)).open("a") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        begin()


def submit_impatiently(path: str) -> None:
    """Submit with little patience for locks; tell the code of the error, or None."""
    connection.BUSY_MS = 200  # type: ignore[misc]
    store = SqliteStore(path)
    try:
        store.submit(Submission("acme", RandomIds().make(1, 0), [NewDocument("a document")]))
    except InturnError as refused:
        tell([refused.code, str(refused)])
    else:
        tell(None)
    store.close()


def main() -> None:
    what, *args = sys.argv[1:]
    globals()[what](*args)


if __name__ == "__main__":
    main()
