"""What the children of tests do to a PostgreSQL queue: one line of JSON for each message (`store_children`)."""

import json
import sys
import time

import psycopg

from inturn.clock import SystemClock
from inturn.errors import StaleFenceError, StoreError
from inturn.ids import RandomIds
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store_types import ClaimRequest, Submission
from inturn.stores.postgres import PostgresStore
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

__all__ = [
    "claim_all",
    "claim_and_finish",
    "finish_and_claim_for_ever",
    "hold_submit",
    "known_ids",
    "make",
    "run_steps",
    "skewed_clock",
    "submit_for_ever",
    "submit_some",
    "wait_for_one",
    "work_for_ever",
]


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
