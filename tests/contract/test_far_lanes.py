"""More lanes than one claim reads ahead: the SQL stores choose the lanes that memory chooses."""

from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest

from inturn import NewDocument, Queue
from inturn.clock import ManualClock
from inturn.policy import Policy, PriorityPolicy, TurnPolicy
from inturn.store import Store
from inturn.store_types import Operator
from inturn.stores import open_store
from inturn.values import seconds
from services import drop_schema, needs_postgres, new_schema

POLICY = Policy(PriorityPolicy(thresholds=(-1_000,)), TurnPolicy(overdue_every=2))
ANNA = Operator("anna", "a test")
START = seconds(1_700_000_000)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "queue.db")
    else:
        url = new_schema()
        yield url
        drop_schema(url)


def order(stores: list[Store], clock: ManualClock) -> list[int]:
    """The order of 1,050 starts, 52 of them out of turn. The openings claim in turn, and so remember nothing."""
    stores[0].set_policy(POLICY, ANNA)
    queues = [Queue(store, clock=clock) for store in stores]
    for number in range(200):
        queues[0].submit(f"customer {number}", [NewDocument("x")] * 6)
        clock.advance(1)
    clock.advance(seconds(1_000))
    taken = []
    for queue in islice(cycle(queues), 150):
        taken += [claimed.document.seq for claimed in queue.claim("worker", 7)]
        clock.advance(seconds(0.5))
    for store in stores:
        store.close()
    return taken


def test_more_resting_lanes_than_a_claim_reads_ahead(url: str) -> None:
    clock, other = ManualClock(START), ManualClock(START)
    stores = [open_store(url, clock) for _ in range(2)]
    assert order(stores, clock) == order([open_store("memory://", other)], other)


def test_a_level_stays_overdue_when_its_oldest_documents_leave(url: str) -> None:
    clock = ManualClock(START)
    submitter, worker = (Queue(open_store(url, clock), clock=clock) for _ in range(2))
    submitter.store.set_policy(Policy(PriorityPolicy(thresholds=(-1,)), TurnPolicy(overdue_every=2)), ANNA)

    def submit_to_level_2(customer: str) -> str:
        submitter.store.check(customer, 2)
        clock.advance(1)
        return submitter.submit(customer, [NewDocument("x")])[0].id

    ids = [submit_to_level_2(f"customer {number}") for number in range(60)]
    submitter.store.scheduler_snapshot()  # writes the lanes down, so that the worker has to read them
    clock.advance(seconds(1_000))
    submitter.submit("new", [NewDocument("x")] * 2)
    assert [claimed.document.level for claimed in worker.claim("worker", 2)] == [1, 2]
    submitter.store.cancel(ids[1:50], ANNA)
    submit_to_level_2("fresh")
    submitter.submit("newer", [NewDocument("x")])
    assert [claimed.document.id for claimed in worker.claim("worker", 2)][1] == ids[50]
    for queue in (submitter, worker):
        queue.store.close()
