"""Documents are searched from `scan_from` of their lane on. Requeued ones before it must be found without a scan."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import inturn
from inturn import NewDocument, Queue
from inturn.clock import ManualClock
from inturn.store_types import Operator
from inturn.stores import migrate
from inturn.stores.sql.lanes import TableLane
from inturn.stores.sqlite import SqliteStore, schema
from inturn.values import seconds
from requeue_walk import RandomWalk, check_nothing_lost, make_unclaimed_changes
from sqlite_file import direct, writer_of


@pytest.mark.parametrize("seed", range(6))
def test_documents_that_come_back_or_leave_keep_the_order_of_memory(tmp_path: Path, seed: int) -> None:
    clock = ManualClock(seconds(1_700_000_000))
    RandomWalk([SqliteStore(tmp_path / "queue.db", clock) for _ in range(1 + seed % 2)], clock, seed).run(250)


def steps(store: SqliteStore, work: Callable[[], object]) -> int:
    """SQLite's own count of the steps of its virtual machine."""
    counted: list[int] = []

    def traced(event: dict[str, Any]) -> None:
        counted.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    connection = writer_of(store)
    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, traced)
    work()
    connection.trace_v2(0, None)
    return sum(counted)


def test_claim_of_a_requeued_document_scans_none_that_ended_meanwhile(tmp_path: Path) -> None:
    def steps_with(ended: int) -> int:
        clock = ManualClock(seconds(1_700_000_000))
        store = SqliteStore(tmp_path / f"{ended}.db", clock)
        queue = Queue(store)
        queue.submit("acme", [NewDocument("x")] * (ended + 30))
        queue.claim("worker", 21)  # from here on all are of one lane
        (back,) = queue.claim("worker", 1)
        queue.fail(back, "later", retry_in=seconds(5))
        for claim in queue.claim("worker", ended):
            queue.finish(claim)
        store.sweep()  # settles the charges of those that ended
        clock.advance(seconds(6))
        counted = steps(store, lambda: queue.claim("worker", 1) + queue.claim("worker", 1))
        store.close()
        return counted

    assert steps_with(900) < 1.5 * steps_with(9)


def test_file_from_before_scan_positions_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before_fronts: str
) -> None:
    path, clock = tmp_path / "queue.db", ManualClock(seconds(1_700_000_000))
    with inturn.open(str(path), clock=clock) as queue:
        left = make_unclaimed_changes(queue)
    with direct(path) as tables:
        tables.execute(before_fronts)
    with monkeypatch.context() as old:
        old.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:3])
        assert migrate(str(path)) == []
    assert migrate(str(path)) == [migration.name for migration in schema.MIGRATIONS[3:]]
    with inturn.open(str(path), clock=clock) as queue:
        check_nothing_lost(queue, left)


def test_recount_corrects_a_scan_position_that_has_run_ahead(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "queue.db", ManualClock(seconds(1_700_000_000)))
    queue = Queue(store)
    queue.submit("acme", [NewDocument("x")] * 3)
    queue.claim("worker", 1)
    with direct(store.path) as connection:
        connection.execute("UPDATE lane SET scan_from = scan_from + 2")
    assert [discrepancy.what for discrepancy in store.recount(repair=True)] == ["found in level 1"]
    assert store.recount(repair=False) == ()
    assert len(queue.claim("worker", 5)) == 2
    store.close()


def test_scan_position_before_the_head_is_kept() -> None:
    """A document that comes back before it would be the head then, and the other would not be found."""
    lane = TableLane("acme", 1, scan_from=5)
    lane.mark_exhausted(7)
    assert lane.scan_from == 5
    lane.mark_exhausted(4)
    assert lane.scan_from is None


def test_claim_skips_a_requeued_row_whose_document_does_not_wait(tmp_path: Path) -> None:
    """As a process leaves it that was at work before the file was migrated, and cancels something since."""
    store = SqliteStore(tmp_path / "queue.db", ManualClock(seconds(1_700_000_000)))
    queue = Queue(store)
    gone, waits = (receipt.id for receipt in queue.submit("acme", [NewDocument("x")] * 2))
    queue.cancel(gone, Operator("anna", "a test"))
    ghost = "INSERT INTO requeued SELECT customer, lane, seq, ready_at, cost FROM document WHERE state = 'cancelled'"
    with direct(store.path) as connection:
        connection.execute(ghost)
    assert [claim.document.id for claim in queue.claim("worker", 5)] == [waits]
    assert [
        (discrepancy.what, discrepancy.kept, discrepancy.counted) for discrepancy in store.recount(repair=True)
    ] == [("found in level 1", 1, 0)]
    assert store.recount(repair=False) == ()
    store.close()


def test_lane_emptied_by_a_process_from_before_scan_positions_is_empty(tmp_path: Path) -> None:
    """It does not say how many documents went."""
    store = SqliteStore(tmp_path / "queue.db", ManualClock(seconds(1_700_000_000)))
    queue = Queue(store)
    queue.submit("acme", [NewDocument("x")] * 2)
    queue.purge("acme", Operator("anna", "a test"))
    with direct(store.path) as connection:
        connection.execute("UPDATE lane_log SET n = NULL WHERE kind = 'emptied'")
    queue.submit("acme", [NewDocument("y")])
    assert [claim.document.spec.name for claim in queue.claim("worker", 5)] == ["y"]
    assert store.recount(repair=False) == ()
    store.close()
