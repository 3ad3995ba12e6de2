"""Upkeep: what is due moves on without a claim, history goes by age, and blobs go when nobody refers to them."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import processors
from inturn.clock import ManualClock, SystemClock, Uptime, machine_uptime
from inturn.errors import NotFoundError
from inturn.model import DocumentState, NewDocument
from inturn.policy.history import HistorySpan
from inturn.queue import Queue
from inturn.store_history import HistoryScope
from inturn.store_types import DocumentFilter, EventKind
from inturn.stores.memory import MemoryStore
from inturn.stores.sqlite import SqliteStore
from inturn.values import MAX_TIME
from inturn.worker.maintenance import Maintenance, MaintenanceResult
from worker_harness import SECOND, TEST_OPERATOR, ScriptProcess, WorkerHarness, eventually

Start = Callable[..., ScriptProcess]
DAY = 86_400 * SECOND
HOUR = 3_600 * SECOND


def age(harness: WorkerHarness, key: str, by: int) -> None:
    """Let a blob look so many microseconds older."""
    with harness.blobs.local(key) as path:
        then = path.stat().st_mtime_ns - by * 1_000
        os.utime(path, ns=(then, then))


def blob(harness: WorkerHarness, data: bytes = b"bytes") -> str:
    with harness.blobs.begin() as writing:
        writing.write(data)
        return writing.commit().key


def has(harness: WorkerHarness, key: str) -> bool:
    with suppress(NotFoundError):
        harness.blobs.open(key).close()
        return True
    return False


def finish_all(queue: Queue, now: int) -> None:
    for claimed in queue.claim("a worker", 100, now=now):
        queue.finish(claimed, now=now)


# -- what is due ----------------------------------------------------------------------------------------------------


def test_what_is_due_moves_on_without_a_claim(harness: WorkerHarness) -> None:
    late = harness.queue.submit("late", [NewDocument("never started", start_by=int(time.time() * SECOND) - 1)])[0].id
    lost = harness.submit("echo", "lost")
    last = harness.submit("echo", "last", max_attempts=1)
    for claimed in harness.queue.claim("a worker that dies", 3, lease=1_000):
        assert claimed.document.id != late
    delayed = harness.submit("echo", "delayed", delay=1_000)
    eventually(lambda: harness.store.sweep() is not None and harness.state(delayed) is DocumentState.WAITING)
    maintenance_run = Maintenance(harness.queue)
    eventually(lambda: maintenance_run.sweep() is not None and harness.state(lost) is DocumentState.WAITING)
    assert harness.state(late) is DocumentState.EXPIRED
    assert harness.state(last) is DocumentState.FAILED
    assert (harness.queue.document(lost).attempt, harness.queue.document(delayed).attempt) == (1, 0)
    assert harness.store.recount(repair=False) == ()


def test_a_lease_is_swept_once_however_many_sweep(harness: WorkerHarness) -> None:
    ids = harness.submit_many(200, "echo")
    assert len(harness.queue.claim("a worker that dies", 200, lease=1_000)) == 200
    stores = [SqliteStore(harness.path) for _ in range(4)]
    now = int(time.time() * SECOND) + HOUR
    swept: list[int] = []
    threads = [
        threading.Thread(target=lambda store=store: swept.extend(store.sweep(now=now).leases_lost for _ in range(20)))
        for store in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    assert sum(swept) == 200
    assert harness.count_events(EventKind.LEASE_LOST) == dict.fromkeys(ids, 1)
    assert harness.store.recount(repair=False) == ()


# -- history --------------------------------------------------------------------------------------------------------


def test_history_goes_by_age_and_takes_its_bytes_along(harness: WorkerHarness) -> None:
    now = SystemClock().now()
    stored, gone = blob(harness), blob(harness)
    old = harness.queue.submit("acme", [NewDocument("old", blob=gone)], now=now - 40 * DAY)[0].id
    finish_all(harness.queue, now - 40 * DAY)
    new = harness.queue.submit("acme", [NewDocument("new", blob=stored)], now=now - 20 * DAY)[0].id
    finish_all(harness.queue, now - 20 * DAY)
    waits = harness.queue.submit("acme", [NewDocument("waits")], now=now - 400 * DAY)[0].id
    tidied = Maintenance(harness.queue, harness.blobs).run_round()
    assert (tidied.documents, tidied.blobs, tidied.orphans) == (1, 1, 0)
    with pytest.raises(NotFoundError):
        harness.queue.document(old)
    assert (harness.state(new), harness.state(waits)) == (DocumentState.DONE, DocumentState.WAITING)
    assert (has(harness, stored), has(harness, gone)) == (True, False)
    assert Maintenance(harness.queue, harness.blobs).run_round() == MaintenanceResult()


def test_a_customer_may_have_a_time_of_its_own(harness: WorkerHarness) -> None:
    now, ids = SystemClock().now(), {}
    for customer, keep in (("short", DAY), ("long", 90 * DAY), ("at once", 0), ("usual", None)):
        for days in (2, 40, 100):
            ids[customer, days] = harness.queue.submit(customer, [NewDocument("a")], now=now - days * DAY)[0].id
            finish_all(harness.queue, now - days * DAY)
        if keep is not None:
            harness.queue.change_customer(customer, TEST_OPERATOR, keep=keep)
    assert Maintenance(harness.queue, harness.blobs).run_round().documents == 9
    present = {document.id for document in harness.all_documents()}
    assert {key for key, id_ in ids.items() if id_ in present} == {("long", 2), ("long", 40), ("usual", 2)}


def test_without_a_time_nothing_goes_but_what_customers_said(harness: WorkerHarness) -> None:
    now = SystemClock().now()
    for customer in ("usual", "short"):
        harness.queue.submit(customer, [NewDocument("a")], now=now - 4_000 * DAY)
        finish_all(harness.queue, now - 4_000 * DAY)
    harness.queue.change_customer("short", TEST_OPERATOR, keep=DAY)
    assert Maintenance(harness.queue, keep=None).run_round().documents == 1
    assert [document.customer for document in harness.all_documents()] == ["usual"]


def test_more_than_one_helping_goes_in_one_round(harness: WorkerHarness) -> None:
    then = SystemClock().now() - 40 * DAY
    for customer in ("a", "b"):
        harness.queue.submit(customer, [NewDocument("x")] * 700, now=then)
    for _ in range(14):
        finish_all(harness.queue, then)
    assert Maintenance(harness.queue).run_round().documents == 1_400
    assert list(harness.all_documents()) == []


# -- orphans --------------------------------------------------------------------------------------------------------


def test_orphans_go_after_a_day_and_what_is_referred_to_stays(harness: WorkerHarness, marker_dir: Path) -> None:
    with_files = harness.submit("files", place=str(marker_dir))
    waiting = harness.submit("read", "later", b"waits", delay=HOUR)
    running = harness.start_worker()
    eventually(lambda: harness.state(with_files) is DocumentState.DONE)
    running.stop()
    referred = [file.blob for file in harness.queue.files(with_files)]
    referred.append(harness.queue.document(waiting).spec.blob or "")
    old, young, edge = blob(harness), blob(harness), blob(harness)
    for key in (*referred, old):
        age(harness, key, 2 * DAY)
    age(harness, edge, DAY - HOUR)
    unfinished = [harness.blobs.begin(), harness.blobs.begin()]
    for writing in unfinished:
        writing.write(b"half")
    left = harness.blobs.folder / "tmp" / unfinished[0].key
    os.utime(left, (0, 0))
    assert Maintenance(harness.queue, harness.blobs).run_round() == MaintenanceResult(orphans=2)
    assert (has(harness, old), has(harness, young), has(harness, edge)) == (False, True, True)
    assert all(has(harness, key) for key in referred)
    assert not left.exists()
    assert (harness.blobs.folder / "tmp" / unfinished[1].key).exists()
    for writing in unfinished:
        writing.abort()


def test_many_orphans_among_many_that_are_not(harness: WorkerHarness) -> None:
    keys = [blob(harness) for _ in range(40)]
    for key in keys:
        age(harness, key, 2 * DAY)
    harness.queue.submit("acme", [NewDocument("a", blob=key) for key in keys[::2]])
    assert Maintenance(harness.queue, harness.blobs).run_round().orphans == 20
    assert [has(harness, key) for key in keys] == [True, False] * 20


@pytest.mark.parametrize("off", [2 * DAY, -2 * DAY, 3_650 * DAY, -3_650 * DAY])
def test_orphans_are_old_by_the_clocks_of_store_and_machine(harness: WorkerHarness, off: int) -> None:
    young, old = blob(harness), blob(harness)
    age(harness, old, 2 * DAY + 60 * SECOND)
    clock = ManualClock(SystemClock().now() + off)
    assert Maintenance(harness.queue, harness.blobs, clock=clock).run_round().orphans == (1 if off > 0 else 0)
    assert has(harness, young)


# -- wrong clocks ---------------------------------------------------------------------------------------------------


class Machine:
    """A machine whose clock can be set wrong; its kernel knows better."""

    def __init__(self) -> None:
        self.clock = ManualClock(SystemClock().now())
        self.boot, self.up = "first boot", 100 * DAY

    def uptime(self) -> Uptime:
        return Uptime(self.boot, self.up)

    def passes(self, time: int) -> None:
        self.clock.advance(time)
        self.up += time

    def restarts(self, after: int, up: int = HOUR) -> None:
        self.clock.advance(after)
        self.boot, self.up = f"{self.boot} again", up


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def queue(machine: Machine) -> Queue:
    return Queue(MemoryStore(machine.clock), clock=machine.clock)


def end(queue: Queue, n: int) -> None:
    """So many documents are processed now."""
    queue.submit("acme", [NewDocument("n")] * n)
    for claimed in queue.claim("w", n):
        queue.finish(claimed)


def left(queue: Queue) -> int:
    return sum(queue.store.counts(DocumentFilter()).states.values())


def test_ordinary_rounds_delete_by_age_and_ask_nothing(queue: Queue, machine: Machine) -> None:
    maintenance_run = Maintenance(queue, uptime=machine.uptime, clock=machine.clock)
    assert maintenance_run.run_round() == MaintenanceResult()
    end(queue, 20)
    for _ in range(30):
        machine.passes(DAY - 1)
        assert maintenance_run.run_round() == MaintenanceResult()
    machine.passes(2 * DAY)
    assert maintenance_run.run_round().documents == 20  # all at once: its time has come, and the kernel agrees


def test_a_long_pause_of_a_machine_that_runs_asks_nothing(queue: Queue, machine: Machine) -> None:
    maintenance_run = Maintenance(queue, uptime=machine.uptime, clock=machine.clock)
    end(queue, 20)
    maintenance_run.run_round()
    machine.passes(400 * DAY)
    assert maintenance_run.run_round().documents == 20


@pytest.mark.parametrize("off", [2 * DAY, -2 * DAY, 365 * DAY, 3_650 * DAY, -3_650 * DAY])
def test_a_clock_that_jumps_deletes_nothing(queue: Queue, machine: Machine, off: int) -> None:
    maintenance_run = Maintenance(queue, uptime=machine.uptime, clock=machine.clock)
    end(queue, 20)
    machine.passes(29 * DAY)
    end(queue, 20)
    maintenance_run.run_round()
    machine.clock.advance(off)
    for _ in range(3):
        tidied = maintenance_run.run_round()
        assert tidied[1:-1] == (0, 0, 0, 0, 0)
        assert (tidied.refusal is not None) is (off > 0)  # a clock that is behind finds nothing old
    assert left(queue) == 40
    record = queue.store.maintenance()
    assert record is not None
    assert (record.refused_at is None) is (off < 0)
    machine.clock.advance(-off)
    assert maintenance_run.run_round() == MaintenanceResult()
    record = queue.store.maintenance()
    assert record is not None
    assert record.refused_at is None


@pytest.mark.parametrize("off", [DAY, -DAY, 3_650 * DAY, -3_650 * DAY])
def test_retention_goes_by_the_clock_of_the_store(queue: Queue, machine: Machine, off: int) -> None:
    end(queue, 10)
    machine.passes(20 * DAY)
    end(queue, 10)
    Maintenance(queue, uptime=machine.uptime, clock=machine.clock).run_round()
    own = ManualClock(machine.clock.now() + off)
    assert Maintenance(queue, uptime=machine.uptime, clock=own).run_round() == MaintenanceResult()
    machine.passes(11 * DAY)
    assert Maintenance(queue, uptime=machine.uptime, clock=own).run_round().documents == 10
    assert left(queue) == 10


@pytest.mark.parametrize("off", [-2 * DAY, -365 * DAY, -3_650 * DAY])
def test_documents_of_a_time_with_a_clock_behind_are_kept_as_long_as_others(
    queue: Queue, machine: Machine, off: int
) -> None:
    maintenance_run = Maintenance(queue, uptime=machine.uptime, clock=machine.clock)
    maintenance_run.run_round()
    machine.clock.advance(off)
    end(queue, 10)
    maintenance_run.run_round()
    machine.clock.advance(-off)
    for _ in range(29):
        tidied = maintenance_run.run_round()
        assert (tidied.documents, tidied.refusal) == (0, None)
        machine.passes(DAY)
    assert left(queue) == 10
    machine.passes(3 * DAY)
    assert maintenance_run.run_round().documents == 10


def test_a_refusal_says_why_and_what_to_do(queue: Queue, machine: Machine) -> None:
    maintenance_run = Maintenance(queue, uptime=machine.uptime, clock=machine.clock)
    end(queue, 20)
    maintenance_run.run_round()
    machine.clock.advance(3_650 * DAY)
    refusal = maintenance_run.run_round().refusal
    assert refusal is not None
    assert "3,650.0 days later" in str(refusal)
    assert "20 of 20 ended documents" in str(refusal)
    assert "inturn maintenance --once --force" in str(refusal)
    assert maintenance_run.run_round(force=True).documents == 20
    assert maintenance_run.run_round() == MaintenanceResult()


def test_what_is_due_moves_on_though_nothing_may_be_deleted(queue: Queue, machine: Machine) -> None:
    maintenance_run = Maintenance(queue, uptime=machine.uptime, clock=machine.clock)
    end(queue, 5)
    maintenance_run.run_round()
    queue.submit("acme", [NewDocument("n", delay=60 * SECOND)])
    machine.clock.advance(3_650 * DAY)
    tidied = maintenance_run.run_round()
    assert (tidied.swept.due, tidied.documents) == (1, 0)
    assert tidied.refusal is not None


def test_after_a_restart_few_documents_may_be_old(queue: Queue, machine: Machine) -> None:
    maintenance_run = Maintenance(queue, uptime=machine.uptime, clock=machine.clock)
    end(queue, 10)
    machine.passes(25 * DAY)
    end(queue, 90)
    maintenance_run.run_round()
    machine.restarts(after=6 * DAY)
    assert maintenance_run.run_round().documents == 10
    assert left(queue) == 90


def test_after_a_restart_with_a_clock_ahead_nothing_is_deleted(queue: Queue, machine: Machine) -> None:
    maintenance_run = Maintenance(queue, uptime=machine.uptime, clock=machine.clock)
    end(queue, 10)
    maintenance_run.run_round()
    machine.restarts(after=3_650 * DAY)
    refusal = maintenance_run.run_round().refusal
    assert refusal is not None
    assert (refusal.old, refusal.ended, left(queue)) == (10, 10, 10)


def test_a_clock_that_is_set_soon_after_the_start_is_no_jump(queue: Queue, machine: Machine) -> None:
    maintenance_run = Maintenance(queue, uptime=machine.uptime, clock=machine.clock)
    end(queue, 10)
    machine.passes(25 * DAY)
    end(queue, 90)
    maintenance_run.run_round()
    machine.restarts(after=0, up=60 * SECOND)
    assert maintenance_run.run_round() == MaintenanceResult()
    machine.passes(60 * SECOND)
    machine.clock.advance(6 * DAY)
    assert maintenance_run.run_round().documents == 10


@pytest.mark.parametrize("after", ["restart", "jump"])
def test_a_history_without_ended_documents_outlives_a_clock_ahead(queue: Queue, machine: Machine, after: str) -> None:
    maintenance_run = Maintenance(queue, keep=None, uptime=machine.uptime, clock=machine.clock)
    queue.submit("acme", [NewDocument("n")] * 3)
    maintenance_run.run_round()
    queue.fold_history(limit=100)
    began, rows = machine.clock.now(), queue.history(HistorySpan.HOUR, HistoryScope.QUEUE, 0, MAX_TIME)
    if after == "restart":
        machine.restarts(after=3_650 * DAY)
    else:
        machine.clock.advance(3_650 * DAY)
    for _ in range(3):
        refusal = maintenance_run.run_round().refusal
        assert refusal is not None
        assert (refusal.old, refusal.ended) == (1, 1)
        machine.passes(600 * SECOND)
    assert len(rows) == 1
    machine.clock.set(began)
    assert queue.history(HistorySpan.HOUR, HistoryScope.QUEUE, 0, MAX_TIME)[0].figures.submitted == 3


def test_events_are_part_of_the_history_before_they_are_deleted(queue: Queue, machine: Machine) -> None:
    """`inturn maintenance --once` may be the only one who folds."""
    maintenance_run = Maintenance(queue, keep=7 * DAY, uptime=machine.uptime, clock=machine.clock)
    maintenance_run.run_round()
    end(queue, 3)
    machine.passes(8 * DAY)
    assert maintenance_run.run_round().events > 0
    hours = queue.history(HistorySpan.HOUR, HistoryScope.QUEUE, 0, MAX_TIME)
    assert sum(hour.figures.done for hour in hours) == 3


def test_customers_with_a_time_of_their_own_count_as_well(queue: Queue, machine: Machine) -> None:
    maintenance_run = Maintenance(queue, keep=None, uptime=machine.uptime, clock=machine.clock)
    queue.change_customer("acme", TEST_OPERATOR, keep=7 * DAY)
    end(queue, 10)
    maintenance_run.run_round()
    machine.clock.advance(30 * DAY)
    refusal = maintenance_run.run_round().refusal
    assert refusal is not None
    assert (refusal.old, refusal.ended) == (10, 10)
    assert left(queue) == 10


def test_a_round_by_a_wrong_clock_leaves_bytes_alone(harness: WorkerHarness) -> None:
    key = blob(harness)
    age(harness, key, 2 * DAY)
    machine = Machine()
    queue = Queue(MemoryStore(machine.clock), clock=machine.clock)
    maintenance_run = Maintenance(queue, harness.blobs, uptime=machine.uptime, clock=machine.clock)
    machine.clock.advance(3_650 * DAY)
    machine.restarts(after=0)
    assert maintenance_run.run_round() == MaintenanceResult()
    assert has(harness, key)


def test_the_kernel_tells_how_long_the_machine_has_been_up() -> None:
    first, second = machine_uptime(), machine_uptime()
    assert first is not None
    assert second is not None
    assert first.boot == second.boot
    assert 0 < first.microseconds <= second.microseconds


def test_several_processes_tidy_at_once(harness: WorkerHarness, start: Start) -> None:
    now, ids = SystemClock().now(), []
    for n in range(10):
        then = now - (40 if n % 2 else 2) * DAY
        given = [NewDocument("a", blob=blob(harness)) for _ in range(10)]
        ids += [receipt.id for receipt in harness.queue.submit(f"customer {n}", given, now=then)]
        finish_all(harness.queue, then)
    orphans = [blob(harness) for _ in range(30)]
    for key in orphans:
        age(harness, key, 2 * DAY)
    keepers = [start("tidy", harness.folder) for _ in range(3)]
    for keeper in keepers:
        assert keeper.receive() == "ready"
        while keeper.receive() != 2:
            pass
    for keeper in keepers:
        keeper.kill()
    left = list(harness.all_documents())
    assert len(left) == 50
    assert all(has(harness, document.spec.blob or "") for document in left)
    assert not any(has(harness, key) for key in orphans)
    assert sum(1 for _ in harness.blobs.keys(now + DAY)) == 50
    assert harness.store.recount(repair=False) == ()


def test_a_worker_does_upkeep_beside_its_work(harness: WorkerHarness, marker_dir: Path) -> None:
    running = harness.start_worker(maintenance=Maintenance(harness.queue, harness.blobs))
    id_ = harness.submit("sign", place=str(marker_dir))
    eventually(lambda: harness.state(id_) is DocumentState.DONE)
    running.stop()
    assert processors.count_files(str(marker_dir)) == 1
