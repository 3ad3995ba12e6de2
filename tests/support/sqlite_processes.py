"""What the children of tests do to a SQLite file: one line of JSON for each message (`store_children`)."""

import fcntl
import json
from pathlib import Path

import apsw

from inturn.errors import InturnError, StaleFenceError
from inturn.ids import RandomIds
from inturn.model import NewDocument
from inturn.store_types import ClaimRequest, Submission
from inturn.stores.sqlite import SqliteStore, connection, notifier
from inturn.stores.sqlite.connection import write_lock_path
from step_rounds import claim_and_finish, run_steps
from store_processes import (
    MINUTE,
    claim_all,
    finish_and_claim_for_ever,
    known_ids,
    make,
    send,
    submit_some,
    wait_for_start,
)

LEASE = 200_000
NEVER = 3_600.0

__all__ = [
    "claim_all",
    "claim_and_finish",
    "finish_and_claim_for_ever",
    "hold_lock",
    "hold_write_lock_file",
    "known_ids",
    "make",
    "run_steps",
    "submit_for_ever",
    "submit_impatiently",
    "submit_some",
    "wait_for_one",
    "work_for_ever",
]


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
