"""Inturn, on PostgreSQL or SQLite: one `ack_and_claim` stores the results of the last claim and claims anew.

An older checkout runs this file too, with its own `inturn` on the path.
"""

from collections.abc import Sequence

import inturn
from bench.peers.claimer import Step
from inturn import NewDocument, Queue
from inturn.model import Claim
from inturn.store_types import ClaimRequest, Outcome, OutcomeKind

SOURCE = inturn.__file__
LEASE = inturn.seconds(60)
RESULT = '{"pages": 3}'
FILL_BATCH = 10_000
SUBMISSION_BATCH = 250


def setup(target: str) -> None:
    if target.startswith("postgresql:"):
        inturn.migrate(target)


def fill(target: str, documents: int, customers: int) -> None:
    """Submit so many documents, shared out evenly among the customers."""
    shares = [documents // customers + (number < documents % customers) for number in range(customers)]
    with inturn.open(target) as queue:
        submissions = [
            queue.submission(f"customer {number:05}", make_documents(min(FILL_BATCH, share - start)))
            for number, share in enumerate(shares)
            for start in range(0, share, FILL_BATCH)
        ]
        for start in range(0, len(submissions), SUBMISSION_BATCH):
            for receipts in queue.store.submit_all(submissions[start : start + SUBMISSION_BATCH]):
                if isinstance(receipts, Exception):
                    raise receipts


def submit(queue: Queue, customer: str) -> None:
    queue.submit(customer, make_documents(1))


def make_documents(n: int) -> list[NewDocument]:
    return [NewDocument("document.pdf", metadata={"payload": "x" * 200}) for _ in range(n)]


class Claimer:
    def __init__(self, target: str, worker: str, limit: int) -> None:
        self.queue = inturn.open(target)
        self.claims: Sequence[Claim] = ()
        self._request = ClaimRequest(worker, limit, LEASE)

    def step(self) -> Step:
        outcomes = self._outcomes()
        self.claims = self.queue.store.ack_and_claim(outcomes, self._request).claimed
        return Step(len(self.claims), len(outcomes))

    def finish(self) -> int:
        outcomes, self.claims = self._outcomes(), ()
        if outcomes:
            self.queue.store.ack_and_claim(outcomes, None)
        return len(outcomes)

    def _outcomes(self) -> list[Outcome]:
        return [Outcome(claim.document.id, claim.fence, OutcomeKind.DONE, result=RESULT) for claim in self.claims]

    def close(self) -> None:
        self.queue.close()
