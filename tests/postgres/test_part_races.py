"""Documents and their parts that are changed at the same moment, by two processes of one queue."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from inturn.ids import RandomIds
from inturn.model import Claim, DocumentState, NewDocument, RateLimit, ResultFile
from inturn.queue import Queue
from inturn.store_types import AckStatus, DocumentFilter, EventKind, Operator, Submission
from inturn.stores.postgres import PostgresStore
from inturn.stores.postgres.libpq import LibpqQueries
from inturn.stores.postgres.queries import PostgresQueries
from inturn.stores.sql.steps import StepRecorder
from inturn.values import seconds
from services import needs_postgres
from waiting import wait_until

pytestmark = needs_postgres
Meanwhile = Callable[[str, Callable[[], object]], None]
ANNA = Operator("anna", "because the test says so")
FILE = ResultFile("page.png", "blobs/page", 3, "ab" * 32)


@pytest.fixture
def queue(store: PostgresStore) -> Queue:
    return Queue(store)


@pytest.fixture
def other(url: str) -> Iterator[Queue]:
    """The queue as another process has it."""
    with Queue(PostgresStore(url)) as opened:
        yield opened


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Run something once, right after a query of this name."""

    def run_after(query: str, action: Callable[[], object]) -> None:
        actions = [action]

        def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
            def run(self: Any, name: str, /, *args: Any, **values: Any) -> Any:
                rows = original(self, name, *args, **values)
                if name == query and actions:
                    actions.pop()()
                return rows

            return run

        for queries in (PostgresQueries, LibpqQueries):
            for method in ("fetch_many", "fetch_one"):
                if method in vars(queries):
                    monkeypatch.setattr(queries, method, wrapped(vars(queries)[method]))

    return run_after


def claim(queue: Queue, name: str) -> Claim:
    (claimed,) = queue.claim("worker", 1, queues=[name])
    return claimed


def split(queue: Queue, n: int) -> str:
    """Submit a document and split it into parts; return its id."""
    (receipt,) = queue.submit("acme", [NewDocument("whole", queue="split")])
    parts = [NewDocument(f"part {number}", queue="page") for number in range(n)]
    queue.ack([queue.split(claim(queue, "split"), parts, "merge")])
    return receipt.id


def fail_and_retry_part(queue: Queue) -> tuple[str, Claim]:
    """Return a document that has failed at its merge, and the claim of its only part, which was retried."""
    id_ = split(queue, 1)
    part = claim(queue, "page")
    queue.fail(part, "torn", final=True)
    queue.fail(claim(queue, "merge"), "a page is missing", final=True)
    queue.retry(part.document.id, ANNA)
    return id_, claim(queue, "page")


def test_last_part_ends_while_its_document_is_retried(queue: Queue, other: Queue, meanwhile: Meanwhile) -> None:
    id_, part = fail_and_retry_part(queue)

    def end_part() -> None:
        other.finish(part)
        assert other.claim("worker", 9, queues=["merge"]) == ()  # takes the row that names the part's end

    meanwhile("unended_parts", end_part)
    queue.retry(id_, ANNA)
    assert claim(queue, "merge").document.id == id_


def test_part_ends_while_its_document_is_cancelled(queue: Queue, other: Queue, meanwhile: Meanwhile) -> None:
    id_ = split(queue, 2)
    part = claim(queue, "page")
    meanwhile("unended_parts", lambda: other.finish(part, "text"))
    queue.cancel(id_, ANNA)
    assert [(part.state, part.result) for part in queue.parts(id_)] == [("done", '"text"'), ("cancelled", None)]
    ends = [event.kind for event in queue.events() if part.document.id in event.documents][-1:]
    assert ends == [EventKind.FINISHED]
    assert queue.prunable(2**60) == 3


def test_part_is_retried_while_its_document_goes_on(queue: Queue, other: Queue, meanwhile: Meanwhile) -> None:
    id_ = split(queue, 1)
    part = claim(queue, "page")
    queue.fail(part, "torn", final=True)
    claims: list[tuple[Claim, ...]] = []
    claimer = threading.Thread(target=lambda: claims.append(other.claim("worker", 9, queues=["merge"])))

    def let_claim() -> None:
        claimer.start()
        wait_until(lambda: _waits_for_lock(queue) or not claimer.is_alive())

    meanwhile("touch_whole", let_claim)
    queue.retry(part.document.id, ANNA)
    claimer.join()
    assert claims == [()]
    queue.finish(claim(queue, "page"))
    assert claim(queue, "merge").document.id == id_


def test_part_is_split_while_its_document_is_retried_from_the_start(
    queue: Queue, other: Queue, meanwhile: Meanwhile
) -> None:
    id_, part = fail_and_retry_part(queue)
    lines = [NewDocument("line", queue="line")]
    meanwhile("parts_below", lambda: other.ack([other.split(part, lines, "lines")]))
    queue.retry(id_, ANNA, from_start=True)
    assert [document.id for document in queue.documents().items] == [id_]


@pytest.mark.parametrize("kind", ["split", "next"])
def test_step_ends_while_its_customer_is_purged(
    queue: Queue, other: Queue, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    queue.submit("acme", [NewDocument("whole", queue="split", blob="blobs/whole")])
    claimed = claim(queue, "split")
    outcome = queue.next_step(claimed, "page")._replace(files=(FILE,))
    if kind == "split":
        outcome = queue.split(claimed, [NewDocument("part", queue="page")], "merge")
    written, may_commit, write = threading.Event(), threading.Event(), StepRecorder.write

    def write_and_wait(self: StepRecorder) -> None:
        write(self)
        written.set()
        assert may_commit.wait(60)

    monkeypatch.setattr(StepRecorder, "write", write_and_wait)
    statuses: list[tuple[AckStatus, ...]] = []
    worker = threading.Thread(target=lambda: statuses.append(queue.ack([outcome])))
    worker.start()
    assert written.wait(60)
    purge = threading.Thread(target=lambda: other.purge("acme", ANNA))
    purge.start()
    wait_until(lambda: _waits_for_lock(queue))
    may_commit.set()
    worker.join()
    purge.join()
    assert statuses == [(AckStatus.RECORDED,)]
    assert queue.documents(DocumentFilter(customer="acme")).items == ()
    assert queue.unreferenced_blobs(["blobs/page", "blobs/whole"]) == {"blobs/page", "blobs/whole"}
    assert queue.claim("worker", 9, queues=["page"]) == ()
    assert queue.recount(repair=False) == ()


def _waits_for_lock(queue: Queue) -> bool:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND state = 'active'"
    assert isinstance(queue.store, PostgresStore)
    with psycopg.connect(queue.store.address.conninfo) as admin:
        return admin.execute(query).fetchone() != (0,)


def test_stuck_document_is_found_and_goes_on(queue: Queue) -> None:
    id_ = split(queue, 1)
    queue.finish(claim(queue, "page"))
    assert isinstance(queue.store, PostgresStore)
    queue.store.write(lambda queries: queries.connection.execute(b"DELETE FROM lane_log WHERE kind = 'part_ended'"))
    assert queue.claim("worker", 9, queues=["merge"]) == ()
    (difference,) = queue.recount(repair=True)
    assert (difference.customer, difference.what) == ("acme", "split documents without unended parts")
    assert claim(queue, "merge").document.id == id_
    assert queue.recount(repair=False) == ()


def test_transaction_of_a_user_that_makes_a_queue_stops_no_claim(queue: Queue, other: Queue) -> None:
    queue.change_queue("ocr", ANNA, rate=RateLimit(100, seconds(1)))
    queue.submit("acme", [NewDocument("page", queue="ocr")] * 2)
    assert isinstance(queue.store, PostgresStore)
    with psycopg.connect(queue.store.address.conninfo) as connection:
        new = Submission("beta", RandomIds().make(1, 0), [NewDocument("page", queue="brand-new")])
        queue.store.submit_in(connection, new)
        assert claim(other, "ocr").document.state is DocumentState.RUNNING
        connection.rollback()


def test_end_of_a_run_in_a_capped_queue_wakes_those_that_wait(queue: Queue, other: Queue) -> None:
    queue.change_queue("ocr", ANNA, cap=1)
    queue.submit("acme", [NewDocument("page", queue="ocr")] * 2)
    running = claim(queue, "ocr")
    assert other.claim("worker", 1, queues=["ocr"]) == ()
    woken = threading.Event()
    other.wait(0)

    def wait_for_one() -> None:
        while not other.claim("worker", 1, queues=["ocr"]):
            other.wait(60)
        woken.set()

    waiter = threading.Thread(target=wait_for_one)
    waiter.start()
    queue.finish(running)
    assert woken.wait(60)
    waiter.join()
