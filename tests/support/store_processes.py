"""What children of tests do to any store that lasts: one line of JSON for each message (`store_children`)."""

import json
import sys
import uuid
from collections.abc import Iterator
from typing import Any

from inturn.ids import RandomIds
from inturn.model import NewDocument
from inturn.store_types import ClaimRequest, Outcome, OutcomeKind, Submission
from inturn.stores import open_store

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
    """Submit n documents, one by one; send all receipts at the end."""
    store = open_store(url)
    wait_for_start()
    ids, receipts = RandomIds(), []
    for number in range(int(n)):
        receipts += store.submit(Submission(customer, ids.make(1, 0), [NewDocument(f"document {number}")]))
    send(receipts)
    store.close()


def claim_all(url: str, worker: str, limit: str) -> None:
    """Claim and finish until nothing is left; send what was claimed, and under which fences."""
    store = open_store(url)
    wait_for_start()
    taken = []
    while claimed := store.claim(ClaimRequest(worker, int(limit), MINUTE)):
        for document, fence in claimed:
            store.finish(document.id, fence, json.dumps(worker))
            taken.append((document.id, fence, document.customer))
    send(taken)
    store.close()


def make(url: str) -> None:
    """Open a queue that may not be there yet, and use it."""
    wait_for_start()
    store = open_store(url)
    send(store.submit(Submission("acme", RandomIds().make(1, 0), [NewDocument("a document")]))[0].id)
    store.close()


def finish_and_claim_for_ever(url: str, worker: str, limit: str) -> None:
    """Finish and claim in one call, with short leases; send each id and fence as claimed, and as finished."""
    store, outcomes = open_store(url), list[Outcome]()
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
