"""Fixtures of the contract suite: a store under test with its clock and shortcuts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from inturn.clock import Clock, ManualClock
from inturn.counters import Counters, StoreCounters
from inturn.model import Claim, Document, DocumentState, NewDocument, Receipt
from inturn.policy import Policy, PriorityPolicy
from inturn.queue import Queue
from inturn.store import Store
from inturn.store_types import AckStatus, DocumentFilter, Operator, Outcome, OutcomeKind, TimeRange
from inturn.values import seconds

START: Final = seconds(1_700_000_000)
ANNA: Final = Operator("anna", "because the test says so")
LEASE: Final = seconds(60)
UNKNOWN_ID: Final = "018f3c5e-0000-7000-8000-000000000000"
SINGLE_LEVEL_POLICY: Final = Policy(PriorityPolicy(thresholds=(-(10**6),)))
"""All documents in level 1, so that the tests see turns only."""


def guarantee(*numbers: str) -> pytest.MarkDecorator:
    """Mark a test with the numbers of the guarantees in `inturn.store` that it tests."""
    return pytest.mark.guarantee(*numbers)


class StoreHarness:
    """A queue on the store under test, its clock, and shortcuts for common calls."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.queue = Queue(store, clock=clock)

    def advance(self, by: float) -> int:
        """Advance the clock by seconds."""
        return self.clock.advance(seconds(by))

    def submit(self, customer: str, n: int = 1, *, key: str | None = None, **fields: Any) -> tuple[Receipt, ...]:
        """Submit n equal documents."""
        document = NewDocument(**{"name": "a document", **fields})
        return self.queue.submit(customer, [document] * n, key=key)

    def submit_one(self, customer: str, **fields: Any) -> str:
        """Submit one document; return its id."""
        return self.submit(customer, **fields)[0].id

    def claim(self, limit: int = 1, worker: str = "worker") -> tuple[Claim, ...]:
        """Claim with a lease of a minute."""
        return self.queue.claim(worker, limit, lease=LEASE)

    def claim_one(self) -> Claim:
        """Claim exactly one document."""
        (claimed,) = self.claim()
        return claimed

    def claim_customers(self, limit: int = 100) -> list[str]:
        """Claim documents; return their customers in order."""
        return [claimed.document.customer for claimed in self.claim(limit)]

    def finish_all(self) -> list[str]:
        """Claim and finish one by one until nothing is left; return the ids in order."""
        ids = []
        while claimed := self.claim():
            ids.append(claimed[0].document.id)
            self.queue.finish(claimed[0])
        return ids

    def ack(self, claimed: Claim, kind: OutcomeKind = OutcomeKind.DONE, **fields: Any) -> AckStatus:
        """Record one outcome; return its status."""
        outcome = Outcome(claimed.document.id, claimed.fence, kind, **fields)
        return self.store.ack_and_claim([outcome], None).statuses[0]

    def in_range(self, since: int, until: int) -> DocumentFilter:
        """Return the filter of documents submitted in a range."""
        return DocumentFilter(submitted=TimeRange(since, until))

    def state(self, id: str) -> DocumentState:
        return self.store.document(id).state

    def document(self, id: str) -> Document:
        return self.store.document(id)

    def waiting_by_level(self, customer: str) -> dict[int, int]:
        """Return the lengths of a customer's lanes by level."""
        return {lane.level: lane.waiting for lane in self.store.customer(customer).lanes}

    def all_documents(self) -> Sequence[Document]:
        """Return all documents, newest first."""
        return self.store.documents(DocumentFilter(), limit=10_000).items

    def set_policy(self, policy: Policy) -> None:
        self.store.set_policy(policy, ANNA)


class StoreSuite:
    """Fixtures that create the store under test, for the tests of nested classes.

    pytest calls the fixtures of all tests on one instance of the outer class.
    """

    def make_store(self, clock: Clock, folder: Path) -> Store:
        """Create an empty store that uses this clock where `now` is left out."""
        raise NotImplementedError

    def reopen(self, path: Path, clock: Clock) -> Store:
        """Open the store that `backup` wrote to this path."""
        raise NotImplementedError

    @pytest.fixture
    def harness(self, tmp_path: Path) -> Any:
        clock = ManualClock(START)
        store = self.make_store(clock, tmp_path)
        yield StoreHarness(store, clock)
        store.close()

    @pytest.fixture
    def open_backup(self) -> Callable[[Path, Clock], Store]:
        return self.reopen

    @pytest.fixture
    def clock(self, harness: StoreHarness) -> ManualClock:
        return harness.clock

    @pytest.fixture
    def counters(self, harness: StoreHarness) -> Counters:
        return Counters(lambda: StoreCounters(harness.store))
