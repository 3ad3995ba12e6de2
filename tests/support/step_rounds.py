"""Eight processes that move documents from queue to queue, split them and act as operators, all at once.

Afterwards nothing may be lost, no document may wait for parts that have ended, and no limit may have been exceeded.
"""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from inturn.errors import IllegalTransitionError, NotFoundError
from inturn.ids import RandomIds
from inturn.model import ENDED, Claim, DocumentState, NewDocument, RateLimit
from inturn.queue import Queue
from inturn.store import Store
from inturn.store_types import DocumentFilter, Event, EventKind, Operator, Outcome, Submission
from inturn.stores import open_store
from store_processes import send, wait_for_start
from waiting import wait_until

WORKERS = 8
QUEUES = ("default", "split", "page", "merge", "export")
CUSTOMERS = ("acme", "böhm", "cruz")
ROUNDS = 40
CAP = 3
RATE = RateLimit(40, 1_000_000)
ANNA = Operator("anna", "because the test says so")
STARTS = frozenset({EventKind.STARTED})
ENDS = frozenset({EventKind.FINISHED, EventKind.FAILED, EventKind.DELAYED, EventKind.RELEASED})


def run_steps(url: str, worker: str, seed: str) -> None:
    """Claim from all queues and end each claim in a random way; now and then cancel or retry a document."""
    queue, chance, ids = Queue(open_store(url)), random.Random(int(seed)), list[str]()
    wait_for_start()
    for _ in range(ROUNDS):
        claims = queue.claim(worker, chance.randint(1, 4), queues=QUEUES)
        ids += [claim.document.id for claim in claims]
        queue.ack([_end_somehow(queue, claim, chance) for claim in claims])
        if ids and chance.random() < 0.2:
            act = chance.choice([queue.cancel, queue.retry])
            try:
                act(chance.choice(ids), ANNA)
            except (IllegalTransitionError, NotFoundError):
                continue
    send("done")
    queue.close()


def _end_somehow(queue: Queue, claim: Claim, chance: random.Random) -> Outcome:
    what, document = chance.random(), claim.document
    if what < 0.1:
        return queue.failed(claim, "torn", retry_in=0)
    if what < 0.15:
        return queue.released(claim)
    if document.queue == "default":
        return queue.next_step(claim, "split")
    if document.queue == "split" or (document.queue == "page" and what > 0.95 and document.step == 0):
        parts = [NewDocument(f"part {n}", queue="page", max_attempts=2) for n in range(chance.randint(1, 5))]
        return queue.split(claim, parts, "merge")
    if document.queue == "merge" and what > 0.9:
        return queue.next_step(claim, "export", json.dumps(document.step))
    return queue.done(claim, document.queue)


def check_random_steps(store: Store, start: Callable[..., Any], url: object) -> None:
    """Run the processes together, then end what is left, alone."""
    queue = Queue(store)
    for number, customer in enumerate(CUSTOMERS * 4):
        steps = ("default", "split") if number % 2 else ()
        store.submit(
            Submission(customer, RandomIds().make(6, 0), [NewDocument("a document", steps=steps, max_attempts=9)] * 6)
        )
    children = [start("run_steps", url, f"worker {n}", n) for n in range(WORKERS)]
    _run_together(children)
    wait_until(lambda: _drain(queue))
    assert set(store.counts(DocumentFilter()).states) <= ENDED
    assert store.recount(repair=False) == ()
    for document in store.documents(DocumentFilter(states=frozenset({DocumentState.DONE})), limit=10_000).items:
        results = store.results(document.id)
        assert [result.step for result in results] == list(range(document.step + 1))
        parts = store.parts(document.id, limit=10)
        assert all(part.state in ENDED for part in parts)
        assert [part.part for part in parts] == list(range(1, len(parts) + 1))


def _drain(queue: Queue) -> bool:
    """End everything that can be claimed; return whether nothing is left."""
    while claims := queue.claim("last", 100, queues=QUEUES):
        queue.ack([queue.done(claim, "last") for claim in claims])
    return set(queue.counts().states) <= ENDED


def claim_and_finish(url: str, worker: str, limit: str) -> None:
    """Claim and finish documents of one queue until none has not ended."""
    queue = Queue(open_store(url))
    wait_for_start()
    while not set(queue.counts().states) <= ENDED:
        claims = queue.claim(worker, int(limit), queues=["api"])
        if not claims:
            queue.wait(0.05)
        queue.ack([queue.done(claim) for claim in claims])
    send("done")
    queue.close()


def check_limits(store: Store, start: Callable[..., Any], url: object) -> None:
    """Let processes exhaust a queue with a cap and a rate limit, then look at every start and end of a run."""
    queue = Queue(store)
    queue.change_queue("api", ANNA, cap=CAP, rate=RATE)
    for customer in CUSTOMERS:
        store.submit(Submission(customer, RandomIds().make(30, 0), [NewDocument("a call", queue="api")] * 30))
    _run_together([start("claim_and_finish", url, f"worker {n}", 1 + n % 3) for n in range(WORKERS)])
    running, starts = set[str](), list[int]()
    for event in _events(store):
        if event.kind in STARTS:
            running |= set(event.documents)
            starts += [event.at] * len(event.documents)
            assert len(running) <= CAP
        elif event.kind in ENDS:
            running -= set(event.documents)
    assert len(starts) == 30 * len(CUSTOMERS)
    starts.sort()
    for n, first in enumerate(starts):
        last = starts[min(n + 2 * RATE.documents, len(starts) - 1)]
        assert n + 2 * RATE.documents >= len(starts) or last - first >= RATE.per


def _run_together(children: list[Any]) -> None:
    for child in children:
        assert child.receive() == "ready"
    for child in children:
        child.go()
    assert [child.end()[0] for child in children] == ["done"] * len(children)


def _events(store: Store) -> Iterator[Event]:
    number = 0
    while events := store.events(number, limit=5_000):
        yield from events
        number = events[-1].number
