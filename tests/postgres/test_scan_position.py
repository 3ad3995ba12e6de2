"""Documents are searched from `scan_from` of their lane on. Requeued ones before it must be found without a scan."""

from typing import Any

import psycopg
import pytest

import inturn
from inturn import NewDocument, Queue
from inturn.clock import ManualClock
from inturn.store_types import Operator
from inturn.stores import migrate
from inturn.stores.postgres import PostgresStore, schema
from inturn.stores.postgres.url import parse_url
from inturn.values import seconds
from requeue_walk import RandomWalk, check_nothing_lost, make_unclaimed_changes
from services import needs_postgres

pytestmark = needs_postgres
Admin = psycopg.Connection[tuple[Any, ...]]


@pytest.mark.parametrize("seed", range(3))
def test_documents_that_come_back_or_leave_keep_the_order_of_memory(url: str, seed: int) -> None:
    clock = ManualClock(seconds(1_700_000_000))
    RandomWalk([PostgresStore(url, clock=clock) for _ in range(1 + seed % 2)], clock, seed).run(120)


def test_queue_from_before_scan_positions_goes_on(url: str, before_fronts: str) -> None:
    clock = ManualClock(seconds(1_700_000_000))
    with inturn.open(url, clock=clock) as queue:
        left = make_unclaimed_changes(queue)
    options = f"-c search_path={parse_url(url).schema}"
    with psycopg.connect(parse_url(url).conninfo, autocommit=True, options=options) as admin:
        admin.execute(before_fronts.encode())
    assert migrate(url) == [migration.name for migration in schema.MIGRATIONS[4:]]
    with inturn.open(url, clock=clock) as queue:
        check_nothing_lost(queue, left)


def test_recount_corrects_a_scan_position_that_has_run_ahead(store: PostgresStore, admin: Admin) -> None:
    queue = Queue(store)
    queue.submit("acme", [NewDocument("x")] * 3)
    queue.claim("worker", 1)
    admin.execute("UPDATE lane SET scan_from = scan_from + 2")
    assert [discrepancy.what for discrepancy in store.recount(repair=True)] == ["found in level 1"]
    assert store.recount(repair=False) == ()
    assert len(queue.claim("worker", 5)) == 2


def test_claim_of_a_requeued_document_scans_none_that_ended_meanwhile(store: PostgresStore, admin: Admin) -> None:
    """The scan position stays where it was."""
    queue = Queue(store)
    queue.submit("acme", [NewDocument("x")] * 60)
    queue.claim("worker", 21)  # from here on all are of one lane
    (back,) = queue.claim("worker", 1)
    for claim in queue.claim("worker", 30):
        queue.finish(claim)
    queue.release(back)
    assert queue.claim("worker", 1)[0].document.id == back.document.id
    assert admin.execute("SELECT scan_from, head_seq FROM lane WHERE waiting > 0").fetchall() == [(53, 53)]


def test_recount_removes_a_requeued_row_whose_document_does_not_wait(store: PostgresStore, admin: Admin) -> None:
    """No claim starts it; what waits behind it goes on once it was put right."""
    queue = Queue(store)
    gone, waits = (receipt.id for receipt in queue.submit("acme", [NewDocument("x")] * 2))
    queue.cancel(gone, Operator("anna", "a test"))
    admin.execute(
        "INSERT INTO requeued SELECT customer, lane, seq, ready_at, cost FROM document WHERE id = %s", (gone,)
    )
    assert [
        (discrepancy.what, discrepancy.kept, discrepancy.counted) for discrepancy in store.recount(repair=True)
    ] == [("found in level 1", 2, 1)]
    assert store.recount(repair=False) == ()
    assert [claim.document.id for claim in queue.claim("worker", 5)] == [waits]
    assert queue.document(gone).state == "cancelled"
