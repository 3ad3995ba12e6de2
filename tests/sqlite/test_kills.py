"""G1 and G4: processes are killed while they submit and claim. Nothing accepted is lost, nothing is done twice, and
every count is exact.
"""

import os
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from inturn.model import DocumentState
from inturn.store import Store
from inturn.store_types import ClaimRequest, DocumentFilter, EventKind, Outcome, OutcomeKind
from inturn.stores.sqlite import SqliteStore
from kill_rounds import run_kill_rounds

Start = Callable[..., Any]
ROUNDS = 90 if os.environ.get("INTURN_SOAK") == "1" else 9
KILLED_A_ROUND = 3
CUSTOMERS = ("acme", "böhm", "cruz")
HOUR = 3_600_000_000


def known_ids(seed: str, n: int) -> list[str]:
    """The ids that `children.submit_for_ever` gives."""
    ids: Iterator[str] = (str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed} {at}")) for at in range(n))
    return list(islice(ids, n))


def last_of(output: list[Any]) -> int:
    """How many submits a submitter knew of when it was killed."""
    return max((line for line in output if isinstance(line, int)), default=0)


def pages(store: Store) -> Iterator[Any]:
    after = None
    while True:
        page = store.documents(DocumentFilter(), limit=1_000, after=after)
        yield from page.items
        if (after := page.next) is None:
            return


def drain(store: Store) -> list[str]:
    """Finish the rest an hour later, when every lease has run out."""
    now, finished = time.time_ns() // 1_000 + HOUR, []
    while claimed := store.claim(ClaimRequest("the last one", 500, HOUR), now=now):
        outcomes = [Outcome(claim.document.id, claim.fence, OutcomeKind.DONE, result="0") for claim in claimed]
        assert set(store.ack_and_claim(outcomes, None, now=now).statuses) == {"recorded"}
        finished += [outcome.id for outcome in outcomes]
    return finished


def finished_events(store: Store) -> Counter[str]:
    """How often each document was told to be finished."""
    number, times = 0, Counter[str]()
    while events := store.events(number, limit=5_000):
        number = events[-1].number
        times.update(id_ for event in events if event.kind is EventKind.FINISHED for id_ in event.documents)
    return times


def test_processes_killed_at_any_moment_lose_nothing(start: Start, tmp_path: Path, sound: Start) -> None:
    path, chance, kills = tmp_path / "queue.db", random.Random(1), 0
    SqliteStore(path).close()
    acknowledged: set[str] = set()
    may_be: list[set[str]] = []
    said_done: list[str] = []
    submitted: Counter[str] = Counter()
    for number in range(ROUNDS):
        customer, at_once = CUSTOMERS[number % len(CUSTOMERS)], chance.choice([1, 1, 3])
        seed = f"round {number}"
        submitter = start("submit_for_ever", path, seed, customer, at_once)
        workers = [start("work_for_ever", path, f"worker {number}.{n}", 1 + 4 * n) for n in range(2)]
        for child in (submitter, *workers):
            assert child.receive() == "ready"
        for child in chance.sample([submitter, *workers], KILLED_A_ROUND):
            time.sleep(chance.uniform(0.01, 0.05))  # a random moment; nothing waits for it
            reported = child.kill()
            kills += 1
            if child is submitter:
                n = last_of(reported) * at_once
                ids = known_ids(seed, n + at_once)
                acknowledged.update(ids[:n])
                may_be.append(set(ids[n:]))
                submitted[customer] += n
            else:
                said_done += reported
    store = SqliteStore(path)
    present = {document.id: document.customer for document in pages(store)}
    assert acknowledged - present.keys() == set()
    in_flight = present.keys() - acknowledged
    assert in_flight - set().union(*may_be) == set()
    for submission in may_be:
        assert submission & in_flight in (set(), submission)
    rest = drain(store)
    assert store.counts(DocumentFilter()).states == {DocumentState.DONE: len(present)}
    assert finished_events(store) == Counter(present.keys())
    assert Counter(said_done + rest) <= Counter(present.keys())
    for customer in CUSTOMERS:
        accepted = sum(item == customer for item in present.values())
        assert store.customer(customer).count == 1 - accepted
        assert submitted[customer] <= accepted
    assert kills == ROUNDS * KILLED_A_ROUND
    assert len(acknowledged) > 20
    assert len(said_done) > 20
    sound(store, path)
    store.close()


def test_8_claimers_of_which_some_are_killed_lose_nothing(start: Start, tmp_path: Path, sound: Start) -> None:
    path = tmp_path / "queue.db"
    store = SqliteStore(path)
    run_kill_rounds(store, lambda worker, limit: start("finish_and_claim_for_ever", path, worker, limit))
    sound(store, path)
    store.close()
