"""A store under test with short words for what the tests do to it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from inturn.clock import Clock, ManualClock
from inturn.counters import Counters, StoreCounters
from inturn.model import Claim, Document, DocumentState, NewDocument, Receipt, seconds
from inturn.policy import Policy
from inturn.queue import Queue
from inturn.store import AckStatus, DocumentFilter, Operator, Outcome, OutcomeKind, Store

START: Final = seconds(1_700_000_000)
ANNA: Final = Operator("anna", "because the test says so")
LEASE: Final = seconds(60)


class StoreHarness:
    """A queue on the store under test, its clock, and what tests say again and again."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.queue = Queue(store, clock=clock)

    def advance(self, by: float) -> int:
        """Let seconds pass."""
        return self.clock.advance(seconds(by))

    def submit(self, customer: str, n: int = 1, *, key: str | None = None, **fields: Any) -> tuple[Receipt, ...]:
        """Submit n documents that are alike."""
        document = NewDocument(**{"name": "a document", **fields})
        return self.queue.submit(customer, [document] * n, key=key)

    def submit_one(self, customer: str, **fields: Any) -> str:
        """Submit one document; its id."""
        return self.submit(customer, **fields)[0].id

    def claim(self, limit: int = 1, worker: str = "worker") -> tuple[Claim, ...]:
        """Claim for a minute."""
        return self.queue.claim(worker, limit, lease=LEASE)

    def claim_one(self) -> Claim:
        """Claim exactly one."""
        (claimed,) = self.claim()
        return claimed

    def claim_customers(self, limit: int = 100) -> list[str]:
        """Whose documents are claimed, in order."""
        return [claimed.document.customer for claimed in self.claim(limit)]

    def finish_all(self) -> list[str]:
        """Claim and finish one by one until nothing is left; the ids in order."""
        ids = []
        while claimed := self.claim():
            ids.append(claimed[0].document.id)
            self.queue.finish(claimed[0])
        return ids

    def ack(self, claimed: Claim, kind: OutcomeKind = OutcomeKind.DONE, **fields: Any) -> AckStatus:
        """Say one outcome and hear what became of it."""
        outcome = Outcome(claimed.document.id, claimed.fence, kind, **fields)
        return self.store.ack_and_claim([outcome], None).statuses[0]

    def state(self, id: str) -> DocumentState:
        """A document's state."""
        return self.store.document(id).state

    def document(self, id: str) -> Document:
        """A document."""
        return self.store.document(id)

    def waiting_by_level(self, customer: str) -> dict[int, int]:
        """A customer's waiting documents by level, as its lines count them."""
        return {line.level: line.waiting for line in self.store.customer(customer).lanes}

    def all_documents(self) -> Sequence[Document]:
        """Every document, newest first."""
        return self.store.documents(DocumentFilter(), limit=10_000).items

    def set_policy(self, policy: Policy) -> None:
        """Put a policy in force."""
        self.store.set_policy(policy, ANNA)


class StoreSuite:
    """What each part of the suite needs: a store of the kind under test."""

    def make_store(self, clock: Clock, folder: Path) -> Store:
        """A new, empty store that tells the time by this clock when `now` is left out."""
        raise NotImplementedError

    def reopen(self, path: Path, clock: Clock) -> Store:
        """The store that `backup` wrote to this path."""
        raise NotImplementedError

    @pytest.fixture
    def rig(self, tmp_path: Path) -> Any:
        """The store under test."""
        clock = ManualClock(START)
        store = self.make_store(clock, tmp_path)
        yield StoreHarness(store, clock)
        store.close()

    @pytest.fixture
    def clock(self, rig: StoreHarness) -> ManualClock:
        """The clock of the store under test."""
        return rig.clock

    @pytest.fixture
    def counters(self, rig: StoreHarness) -> Counters:
        """The counters of the store under test."""
        return Counters(lambda: StoreCounters(rig.store))
