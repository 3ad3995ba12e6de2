"""A walk on which documents come back into their lines, or leave them, all the time, on a store and in memory."""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from inturn import Queue
from inturn.clock import ManualClock
from inturn.model import DocumentState, NewDocument
from inturn.policy import Policy, PriorityPolicy
from inturn.store import Store
from inturn.store_types import ClaimRequest, CustomerFilter, DocumentFilter, Operator, Outcome, OutcomeKind, Submission
from inturn.stores.memory import MemoryStore
from inturn.values import seconds

ANNA = Operator("anna", "a test")
CUSTOMERS = ("acme", "beta", "gamma")
LEASE = seconds(60)
MAX_ROWS = 10_000
Answer = TypeVar("Answer")


class RandomWalk:
    """Both must take the same documents, tell the same lengths and the same places, and find nothing amiss.

    A store that is opened several times remembers its lines in each: every step is done by one of them.
    """

    def __init__(self, stores: Sequence[Store], clock: ManualClock, seed: int) -> None:
        self._stores, self._memory, self._clock = stores, MemoryStore(clock), clock
        self._random = random.Random(seed)
        self._submitted = 0
        self._on_both(lambda store: store.set_policy(Policy(PriorityPolicy(seconds(20), (-2, -8))), ANNA))

    def run(self, steps: int) -> None:
        """So many steps, each of both."""
        does = [self._submit, self._cancel, self._expedite, self._retry, self._purge, self._work]
        for step in range(steps):
            self._clock.advance(seconds(self._random.choice([0.1, 0.1, 1.0, 30.0])))
            self._random.choices(does, [30, 10, 5, 3, 2, 50])[0]()
            if step % 5 == 0:
                self._compare_reads()
        for store in self._stores:
            assert store.recount(repair=False) == ()
            store.close()
        self._memory.close()

    def _on_both(self, ask: Callable[[Store], Answer]) -> Answer:
        first, second = ask(self._memory), ask(self._random.choice(self._stores))
        assert first == second
        return first

    def _sample_ids(self, state: DocumentState, n: int) -> list[str]:
        where = DocumentFilter(states=frozenset({state}))
        result = [document.id for document in self._memory.documents(where, limit=MAX_ROWS).items]
        return self._random.sample(result, min(n, len(result)))

    def _submit(self) -> None:
        n = self._random.choice([1, 4, 25])
        ids = [f"00000000-0000-7000-8000-{self._submitted + k:012x}" for k in range(n)]
        self._submitted += n
        documents = [NewDocument("x", delay=self._random.choice([0, 0, 0, seconds(5)])) for _ in ids]
        submission = Submission(self._random.choice(CUSTOMERS), ids, documents)
        self._on_both(lambda store: store.submit(submission))

    def _cancel(self) -> None:
        leave = self._sample_ids(DocumentState.WAITING, self._random.choice([1, 5, 20]))
        self._on_both(lambda store: store.cancel(leave, ANNA))

    def _expedite(self) -> None:
        for one in self._sample_ids(DocumentState.WAITING, 1):
            self._on_both(lambda store: store.expedite(one, ANNA))  # noqa: B023 - asked at once

    def _retry(self) -> None:
        again = self._sample_ids(DocumentState.CANCELLED, 3)
        self._on_both(lambda store: store.retry(again, ANNA))

    def _purge(self) -> None:
        for customer in self._random.sample(self._memory.customers(CustomerFilter(), limit=MAX_ROWS).items, 1):
            self._on_both(lambda store: store.purge(customer.name, ANNA))  # noqa: B023 - asked at once

    def _work(self) -> None:
        """Most succeed; some are handed back, delayed, or never heard of again."""
        request = ClaimRequest("worker", self._random.choice([1, 1, 3, 10]), LEASE)
        outcomes = []
        for id_, fence in [
            (claim.document.id, claim.fence) for claim in self._on_both(lambda store: store.claim(request))
        ]:
            kind = self._random.choices(["done", "handed back", "delayed", "lost"], [5, 2, 2, 1])[0]
            retry_in = seconds(self._random.choice([0, 3, 40]))
            outcomes += {
                "done": [Outcome(id_, fence, OutcomeKind.DONE, result="0")],
                "handed back": [Outcome(id_, fence, OutcomeKind.RELEASED)],
                "delayed": [Outcome(id_, fence, OutcomeKind.FAILED, error="no", retry_in=retry_in)],
                "lost": [],
            }[kind]
        self._on_both(lambda store: store.ack_and_claim(outcomes, None))

    def _compare_reads(self) -> None:
        self._on_both(lambda store: store.customers(CustomerFilter(waiting=True), limit=MAX_ROWS))
        asked = self._sample_ids(DocumentState.WAITING, 3)
        self._on_both(lambda store: [store.ahead_in_lane(one) for one in asked])
        for customer in CUSTOMERS:
            self._on_both(lambda store: store.documents(DocumentFilter(customer=customer), limit=7))  # noqa: B023 - at once


QueueSnapshot = tuple[list[tuple[str, object]], list[str]]


def make_unclaimed_changes(queue: Queue) -> QueueSnapshot:
    """A queue with much that no claim has seen yet: lines emptied and filled again, documents that came back.

    How long its lines are, and what waits.
    """
    for customer in CUSTOMERS:
        queue.submit(customer, [NewDocument("x")] * 12)
    taken = queue.claim("worker", 5)
    queue.submit("acme", [NewDocument("y")] * 3)
    for claim in taken:
        queue.release(claim)
    queue.cancel([document.id for document in queue.documents().items if document.customer == "beta"][3], ANNA)
    queue.purge("gamma", ANNA)
    queue.submit("gamma", [NewDocument("z")] * 2)
    waiting = DocumentFilter(states=frozenset({DocumentState.WAITING}))
    return _lanes(queue), sorted(document.id for document in queue.documents(waiting).items)


def check_nothing_lost(queue: Queue, snapshot: QueueSnapshot) -> None:
    """Nothing is lost and nothing comes twice."""
    lines, ids = snapshot
    assert _lanes(queue) == lines
    (new,) = queue.submit("beta", [NewDocument("new")])
    assert sorted(claim.document.id for claim in queue.claim("worker", 100)) == sorted([*ids, new.id])
    assert queue.store.recount(repair=False) == ()


def _lanes(queue: Queue) -> list[tuple[str, object]]:
    return [(customer.name, customer.lanes) for customer in queue.customers().items]
