"""A change of the order: what was released before it is refunded by the order it was released under."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from inturn import NewDocument, Queue
from inturn.clock import ManualClock
from inturn.policy import Order, Policy, TurnPolicy
from inturn.store import Store
from inturn.store_answers import SchedulerSnapshot
from inturn.store_types import Operator
from inturn.stores import open_store
from inturn.values import seconds
from services import drop_schema, needs_postgres, new_schema

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


def lanes_after(store: Store, before: Order, after: Order, clock: ManualClock) -> SchedulerSnapshot:
    queue = Queue(store, clock=clock)
    store.set_policy(Policy(turns=TurnPolicy(before)), ANNA)
    queue.submit("acme", [NewDocument("x")] * 3)
    first, second = queue.claim("worker", 2)
    queue.release(first)
    queue.release(second)
    store.set_policy(Policy(turns=TurnPolicy(after)), ANNA)
    queue.submit("globex", [NewDocument("x")])
    return store.scheduler_snapshot()


@pytest.mark.parametrize(("before", "after"), [(Order.FAIR, Order.CLASSIC), (Order.CLASSIC, Order.FAIR)])
def test_release_before_a_change_of_order_is_refunded_as_in_memory(url: str, before: Order, after: Order) -> None:
    clock = ManualClock(START)
    with closing(open_store("memory://", clock)) as memory, closing(open_store(url, clock)) as store:
        assert lanes_after(store, before, after, clock) == lanes_after(memory, before, after, clock)
