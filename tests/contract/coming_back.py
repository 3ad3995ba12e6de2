"""A walk on which documents come back into their lines, or leave them, all the time, on a store and in memory."""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from inturn import Queue
from inturn.clock import ManualClock
from inturn.model import DocumentState, NewDocument, seconds
from inturn.policy import Policy, PriorityPolicy
from inturn.store import ClaimRequest, CustomerFilter, DocumentFilter, Operator, Outcome, OutcomeKind, Store, Submission
from inturn.stores.memory import MemoryStore

ANNA = Operator("anna", "a test")
CUSTOMERS = ("acme", "beta", "gamma")
LEASE = seconds(60)
ALL = 10_000
Answer = TypeVar("Answer")


class Walk:
    """Both must take the same documents, tell the same lengths and the same places, and find nothing amiss.

    A store that is opened several times remembers its lines in each: every step is done by one of them.
    """

    def __init__(self, stores: Sequence[Store], clock: ManualClock, seed: int) -> None:
        self._stores, self._memory, self._clock = stores, MemoryStore(clock), clock
        self._chance = random.Random(seed)
        self._given = 0
        self._both(lambda store: store.set_policy(Policy(PriorityPolicy(seconds(20), (-2, -8))), ANNA))

    def go(self, steps: int) -> None:
        """So many steps, each of both."""
        does = [self._submit, self._cancel, self._expedite, self._retry, self._purge, self._work]
        for step in range(steps):
            self._clock.advance(seconds(self._chance.choice([0.1, 0.1, 1.0, 30.0])))
            self._chance.choices(does, [30, 10, 5, 3, 2, 50])[0]()
            if step % 5 == 0:
                self._look()
        for each in self._stores:
            assert each.recount(repair=False) == ()
            each.close()
        self._memory.close()

    def _both(self, ask: Callable[[Store], Answer]) -> Answer:
        first, second = ask(self._memory), ask(self._chance.choice(self._stores))
        assert first == second
        return first

    def _some(self, state: DocumentState, n: int) -> list[str]:
        where = DocumentFilter(states=frozenset({state}))
        found = [each.id for each in self._memory.documents(where, limit=ALL).items]
        return self._chance.sample(found, min(n, len(found)))

    def _submit(self) -> None:
        n = self._chance.choice([1, 4, 25])
        ids = [f"00000000-0000-7000-8000-{self._given + k:012x}" for k in range(n)]
        self._given += n
        documents = [NewDocument("x", delay=self._chance.choice([0, 0, 0, seconds(5)])) for _ in ids]
        submission = Submission(self._chance.choice(CUSTOMERS), ids, documents)
        self._both(lambda store: store.submit(submission))

    def _cancel(self) -> None:
        leave = self._some(DocumentState.WAITING, self._chance.choice([1, 5, 20]))
        self._both(lambda store: store.cancel(leave, ANNA))

    def _expedite(self) -> None:
        for one in self._some(DocumentState.WAITING, 1):
            self._both(lambda store: store.expedite(one, ANNA))  # noqa: B023 - asked at once

    def _retry(self) -> None:
        again = self._some(DocumentState.CANCELLED, 3)
        self._both(lambda store: store.retry(again, ANNA))

    def _purge(self) -> None:
        for customer in self._chance.sample(self._memory.customers(CustomerFilter(), limit=ALL).items, 1):
            self._both(lambda store: store.purge(customer.name, ANNA))  # noqa: B023 - asked at once

    def _work(self) -> None:
        """Most succeed; some are handed back, delayed, or never heard of again."""
        request = ClaimRequest("worker", self._chance.choice([1, 1, 3, 10]), LEASE)
        outcomes = []
        for id_, fence in [(each.document.id, each.fence) for each in self._both(lambda store: store.claim(request))]:
            kind = self._chance.choices(["done", "handed back", "delayed", "lost"], [5, 2, 2, 1])[0]
            retry_in = seconds(self._chance.choice([0, 3, 40]))
            outcomes += {
                "done": [Outcome(id_, fence, OutcomeKind.DONE, result="0")],
                "handed back": [Outcome(id_, fence, OutcomeKind.HANDED_BACK)],
                "delayed": [Outcome(id_, fence, OutcomeKind.FAILED, error="no", retry_in=retry_in)],
                "lost": [],
            }[kind]
        self._both(lambda store: store.exchange(outcomes, None))

    def _look(self) -> None:
        self._both(lambda store: store.customers(CustomerFilter(waiting=True), limit=ALL))
        asked = self._some(DocumentState.WAITING, 3)
        self._both(lambda store: [store.ahead(one) for one in asked])
        for customer in CUSTOMERS:
            self._both(lambda store: store.documents(DocumentFilter(customer=customer), limit=7))  # noqa: B023 - at once


Left = tuple[list[tuple[str, object]], list[str]]


def leave_changes(queue: Queue) -> Left:
    """A queue with much that no claim has seen yet: lines emptied and filled again, documents that came back.

    How long its lines are, and what waits.
    """
    for customer in CUSTOMERS:
        queue.submit(customer, [NewDocument("x")] * 12)
    taken = queue.claim("worker", 5)
    queue.submit("acme", [NewDocument("y")] * 3)
    for each in taken:
        queue.hand_back(each)
    queue.cancel([each.id for each in queue.documents().items if each.customer == "beta"][3], ANNA)
    queue.purge("gamma", ANNA)
    queue.submit("gamma", [NewDocument("z")] * 2)
    waiting = DocumentFilter(states=frozenset({DocumentState.WAITING}))
    return _lines(queue), sorted(each.id for each in queue.documents(waiting).items)


def go_on(queue: Queue, left: Left) -> None:
    """Nothing is lost and nothing comes twice."""
    lines, ids = left
    assert _lines(queue) == lines
    (new,) = queue.submit("beta", [NewDocument("new")])
    assert sorted(each.document.id for each in queue.claim("worker", 100)) == sorted([*ids, new.id])
    assert queue.store.recount(repair=False) == ()


def _lines(queue: Queue) -> list[tuple[str, object]]:
    return [(each.name, each.lines) for each in queue.customers().items]
