"""Groups in SQLite: what is written and read, and what is not when no document has a group."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from inturn.clock import ManualClock
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store_types import Operator
from inturn.stores.sqlite import SqliteStore
from inturn.validation import fingerprint
from inturn.values import seconds
from sqlite_file import writer_of

ANNA = Operator("anna", "test")
EARLIER_FINGERPRINT = "420add5cc3bf7cc41a3429acffab312d1b548bcf1bf22da572acbb1ef4382928"
"""What the version before groups stored for the document of the test below."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def queue(path: Path) -> Iterator[Queue]:
    clock = ManualClock(seconds(10**9))
    with Queue(SqliteStore(path, clock), clock=clock) as opened:
        yield opened


def count_rows(path: Path, table: str) -> int:
    connection = apsw.Connection(str(path))
    try:
        return int(connection.execute(f"SELECT count(*) FROM {table}").get)  # noqa: S608 - ours
    finally:
        connection.close()


def started(queue: Queue, n: int) -> list[str]:
    return [claim.document.spec.name for claim in queue.claim("worker", n)]


def submit(queue: Queue, *documents: tuple[str, str | None]) -> list[str]:
    """Submit documents, given as name and group, into level 1 and on; return their ids."""
    receipts = queue.submit("acme", [NewDocument(name, group=group) for name, group in documents])
    return [receipt.id for receipt in receipts]


def test_no_row_of_groups_without_a_group(queue: Queue, path: Path) -> None:
    queue.submit("acme", [NewDocument("x")] * 50)
    queue.claim("worker", 10)
    assert count_rows(path, "customer_group") == count_rows(path, "lane_group") == 0


def test_emptied_lane_leaves_no_rows_of_groups(queue: Queue, path: Path) -> None:
    submit(queue, ("1", "a"), ("2", "b"), ("3", None))
    assert len(queue.claim("worker", 1)) == 1
    assert count_rows(path, "lane_group") == 3
    assert len(queue.claim("worker", 10)) == 2
    assert count_rows(path, "lane_group") == 0
    assert count_rows(path, "customer_group") == 2


def test_head_that_left_with_its_group_is_replaced(queue: Queue) -> None:
    """Both documents of a group leave before the next claim: neither is the head of the lane any more."""
    ids = submit(queue, ("1", "a"), ("2", "a"), ("3", "b"))
    queue.store.sweep()
    queue.cancel_many(ids[:2], ANNA)
    assert queue.store.scheduler_snapshot().lanes[0].head.seq == 3
    assert started(queue, 3) == ["3"]


def test_head_that_left_before_the_first_group_came_is_replaced(queue: Queue) -> None:
    """The head leaves and a document with a group comes, both before the next claim."""
    ids = submit(queue, ("1", None), ("2", None))
    queue.store.sweep()
    queue.cancel_many(ids[:1], ANNA)
    submit(queue, ("3", "a"))
    assert queue.store.scheduler_snapshot().lanes[0].head.seq == 2
    assert started(queue, 3) == ["2", "3"]


def test_idempotency_key_from_before_groups_is_recognized() -> None:
    document = NewDocument("a.pdf", uri="s3://in/a.pdf", batch="march", metadata={"n": 1})
    assert fingerprint([document]) == EARLIER_FINGERPRINT
    assert fingerprint([document._replace(group="team-a")]) != EARLIER_FINGERPRINT


def test_cost_of_a_claim_does_not_grow_with_the_groups(tmp_path: Path) -> None:
    few, many = (count_steps(tmp_path / f"{n}.db", n) for n in (30, 3_000))
    assert many <= 1.5 * few


def test_cost_of_a_recount_grows_with_the_documents(tmp_path: Path) -> None:
    """Not with documents times groups."""

    def recount(queue: Queue) -> None:
        assert queue.store.recount(repair=False) == ()

    few, many = (count_steps(tmp_path / f"{n}.db", n, recount) for n in (100, 1_000))
    assert many <= 15 * few


def claim_five(queue: Queue) -> None:
    assert [name for _ in range(5) for name in started(queue, 1)] == ["1", "2", "3", "4", "5"]


def count_steps(path: Path, groups: int, work: Callable[[Queue], None] = claim_five) -> int:
    """Count the steps of SQLite's machine for five claims of one, or other work, beside so many groups that wait."""
    clock, counted = ManualClock(seconds(10**9)), []

    def profile(event: dict[str, Any]) -> None:
        counted.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    store = SqliteStore(path, clock)
    with Queue(store, clock=clock) as queue:
        queue.submit("acme", [NewDocument("before")] * 21)  # the levels above 9
        queue.submit("acme", [NewDocument(str(n), group=f"user {n % groups}") for n in range(2 * groups)])
        queue.claim("worker", 22)
        connection = writer_of(store)
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, profile)
        work(queue)
        connection.trace_v2(0, None)
    return sum(counted)
