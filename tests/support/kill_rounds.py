"""Eight processes that claim and finish while some of them are killed: nothing is lost, nothing is given twice."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from inturn.ids import RandomIds
from inturn.model import DocumentState, NewDocument
from inturn.store import Store
from inturn.store_types import DocumentFilter, EventKind, Submission
from waiting import TIMEOUT_SECONDS, wait_until

CLAIMERS = 8
KILLS = 500 if os.environ.get("INTURN_SOAK") == "1" else 10
CUSTOMERS = ("acme", "böhm", "cruz", "dąb", "east")
GROUPS = (None, "team-a", None, "team-b")
DOCUMENTS_A_ROUND = 40


def run_kill_rounds(store: Store, start_claimer: Callable[[str, int], Any], seed: int = 1) -> None:
    """Submit, kill a claimer at a random moment and start another, again and again; then all documents must end.

    `start_claimer` starts a process that claims for a worker of this name, so many documents at once.
    """
    chance, reports = random.Random(seed), list[Any]()
    claimers = [start_claimer(f"worker {n}", 1 + 3 * (n % 2)) for n in range(CLAIMERS)]
    for claimer in claimers:
        assert claimer.receive() == "ready"
    for number in range(KILLS):
        ids = RandomIds().make(DOCUMENTS_A_ROUND, 0)
        documents = [NewDocument("a document", group=GROUPS[n % 4], max_attempts=100) for n in range(DOCUMENTS_A_ROUND)]
        store.submit(Submission(chance.choice(CUSTOMERS), ids, documents))
        time.sleep(chance.uniform(0.0, 0.05))  # a random moment; nothing waits for it
        killed = chance.randrange(CLAIMERS)
        reports += claimers[killed].kill()
        claimers[killed] = start_claimer(f"worker {CLAIMERS + number}", 1 + 3 * (number % 2))
    total = KILLS * DOCUMENTS_A_ROUND
    wait_until(lambda: store.counts(DocumentFilter()).states == {DocumentState.DONE: total}, TIMEOUT_SECONDS + KILLS)
    for claimer in claimers:
        reports += claimer.kill()
    _check_reports([report for report in reports if report != "ready"], total)
    _check_events(store, total)
    assert store.recount(repair=False) == ()


def _check_reports(reports: list[Any], total: int) -> None:
    """A killed process may not have told everything that it did."""
    claimed = [(id_, fence) for what, id_, fence in reports if what == "claimed"]
    finished = [(id_, fence) for what, id_, fence in reports if what == "finished"]
    assert len({fence for _, fence in claimed}) == len(claimed)
    assert len({id_ for id_, _ in finished}) == len(finished) > total / 2
    assert set(finished) <= set(claimed)


def _check_events(store: Store, total: int) -> None:
    number, finished, started = 0, Counter[str](), Counter[str]()
    while events := store.events(number, limit=5_000):
        assert [event.number for event in events] == list(range(number + 1, number + 1 + len(events)))
        number = events[-1].number
        for event in events:
            finished.update(event.documents if event.kind is EventKind.FINISHED else ())
            started.update(event.documents if event.kind is EventKind.STARTED else ())
    assert len(finished) == total
    assert set(finished.values()) == {1}
    assert finished <= started
