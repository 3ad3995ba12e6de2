"""Several processes and threads on one file: no turn is lost or doubled, nobody waits in vain, commits are shared."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from empty_queue import empty_queue
from inturn.errors import KeyConflictError, StoreError
from inturn.ids import RandomIds
from inturn.model import NewDocument
from inturn.store_types import DocumentFilter, EventKind, Submission
from inturn.stores.sqlite import SqliteStore
from inturn.stores.sqlite.connection import Job, write_lock_path
from inturn.stores.sqlite.write_lock import WriteLock
from sqlite_file import writer_of
from step_rounds import check_limits, check_random_steps

Start = Callable[..., Any]
DOCUMENT = NewDocument("a document")
CUSTOMERS = ["acme", "böhm", "cruz", "dąb", "east"]
THREADS = 8


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(empty_queue(path))
    yield opened
    opened.close()


def submission(customer: str, n: int = 1, **more: Any) -> Submission:
    return Submission(customer, RandomIds().make(n, 0), [DOCUMENT] * n, **more)


def all_at_once(start: Start, *calls: tuple[object, ...]) -> list[Any]:
    """Run the children together; what each told."""
    children = [start(*call) for call in calls]
    for child in children:
        assert child.receive() == "ready"
    for child in children:
        child.go()
    return [child.end()[0] for child in children]


def test_submitters_of_one_customer_lose_no_count(start: Start, store: SqliteStore, path: Path, sound: Start) -> None:
    item = 60
    reported = all_at_once(start, *[("submit_some", path, "acme", item)] * 4)
    receipts = [receipt for process in reported for receipt in process]
    assert sorted(count for _, _, count in receipts) == list(range(1 - 4 * item, 1))
    assert store.customer("acme").count == 1 - 4 * item
    documents = store.documents(DocumentFilter(), limit=1_000).items
    assert {document.id for document in documents} == {id_ for id_, _, _ in receipts}
    assert len({document.seq for document in documents}) == 4 * item
    for process in reported:
        assert [count for _, _, count in process] == sorted((count for _, _, count in process), reverse=True)
    sound(store, path)


def test_claimers_share_no_document_and_leave_none(start: Start, store: SqliteStore, path: Path, sound: Start) -> None:
    for customer in CUSTOMERS:
        store.submit(submission(customer, 60))
    limits = [1, 3, 7, 10]
    reported = all_at_once(start, *[("claim_all", path, f"worker {n}", limit) for n, limit in enumerate(limits)])
    taken = [id_ for claims in reported for id_, _, _ in claims]
    assert len(taken) == len(set(taken)) == 60 * len(CUSTOMERS)
    finished = [id_ for event in store.events(0, limit=10_000) if event.kind is EventKind.FINISHED
                for id_ in event.documents]  # fmt: skip
    assert sorted(finished) == sorted(taken)
    fences = [store.document(id_).fence for id_ in taken]
    assert sorted(fences) == list(range(1, len(taken) + 1))
    sound(store, path)


def test_submitters_and_claimers_together_lose_nothing(
    start: Start, store: SqliteStore, path: Path, sound: Start
) -> None:
    store.submit(submission("acme", 50))
    submitters = [("submit_some", path, customer, 40) for customer in ("acme", "böhm")]
    all_at_once(start, *submitters, *[("claim_all", path, f"worker {n}", 4) for n in range(2)])
    (rest,) = all_at_once(start, ("claim_all", path, "last", 10))
    states = store.counts(DocumentFilter()).states
    assert states == {"done": 130}
    assert len(rest) <= 130
    assert store.customer("acme").count == 1 - 90
    sound(store, path)


def test_a_waiting_process_is_woken_by_a_submit_of_another(start: Start, store: SqliteStore, path: Path) -> None:
    child = start("wait_for_one", path)
    assert child.receive() == "ready"
    (receipt,) = store.submit(submission("acme"))
    assert child.end() == [[receipt.id]]


def test_processes_that_make_one_file_at_once_all_use_it(start: Start, tmp_path: Path, sound: Start) -> None:
    for n in range(4):
        path = tmp_path / f"new {n}.db"
        ids = all_at_once(start, *[("make", path)] * 3)
        store = SqliteStore(path)
        assert {document.id for document in store.documents(DocumentFilter(), limit=10).items} == set(ids)
        assert store.customer("acme").count == 1 - len(ids)
        assert [version.number for version in store.policies()] == [1]
        tables = apsw.Connection(str(path))
        assert tables.execute("SELECT count(*) FROM queue_state").get == 1
        tables.close()
        sound(store, path)
        store.close()


FORKED = """
import os, sys
from inturn.errors import StoreError
from inturn.stores.sqlite import SqliteStore

store = SqliteStore(sys.argv[1])
store.check("acme", 1)
child = os.fork()
if child == 0:
    for use in (lambda: store.check("acme", 1), lambda: store.customer("acme")):
        try:
            use()
        except StoreError as refused:
            print(refused, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(store.check("acme", 1)[0].count)
store.close()
"""


def test_a_forked_child_is_told_to_open_the_store_itself(python: Start, path: Path) -> None:
    done = python("-c", FORKED, path)
    *refused, count = done.stdout.splitlines()
    assert [("fork" in line, "open it again" in line) for line in refused] == [(True, True)] * 2, done.stderr
    assert count == "-1"


# -- threads share commits --------------------------------------------------------------------------------------------


class Spy:
    """Counts transactions and jobs, and tells when all jobs of a test are queued behind the gate."""

    def __init__(self, store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writer = writer = store._writer  # noqa: SLF001 - as below
        self.transactions: list[int] = []
        self._arrivals = threading.Semaphore(0)
        transact, arrivals = writer._transact, self._arrivals  # noqa: SLF001 - a commit shows not how many share it

        class Pending(list[Job[Any]]):
            def extend(self, jobs: Iterable[Job[Any]]) -> None:
                super().extend(jobs)
                arrivals.release()

        def counted(jobs: list[Job[Any]]) -> None:
            self.transactions.append(len(jobs))
            transact(jobs)

        monkeypatch.setattr(writer, "_transact", counted)
        monkeypatch.setattr(writer, "_pending", Pending())

    def until_queued(self, n: int) -> None:
        for _ in range(n):
            assert self._arrivals.acquire(timeout=60)


def run_behind_gate(store: SqliteStore, spy: Spy, works: list[Callable[[], Any]]) -> list[Any]:
    """Let all works queue up while another holds the gate; the answer or error of each."""

    def caught(work: Callable[[], Any]) -> Any:
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - what each thread saw is what is tested
            return error

    gate = WriteLock(write_lock_path(store.path))
    try:
        with ThreadPoolExecutor(len(works)) as pool:
            gate.acquire()
            futures = [pool.submit(caught, work) for work in works]
            spy.until_queued(len(works))
            gate.release()
            return [future.result(60) for future in futures]
    finally:
        gate.close()


def test_threads_share_a_commit(store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, sound: Start) -> None:
    spy = Spy(store, monkeypatch)
    reported = run_behind_gate(store, spy, [lambda: store.submit(submission("acme"))] * THREADS)
    assert spy.transactions == [THREADS]
    assert sorted(receipt.count for (receipt,) in reported) == list(range(1 - THREADS, 1))
    assert {store.document(receipt.id).state for (receipt,) in reported} == {"waiting"}
    sound(store, path)


def test_several_submissions_are_one_commit(store: SqliteStore, path: Path, sound: Start) -> None:
    began: list[str] = []

    def trace(_: apsw.Cursor, statement: str, __: Any) -> bool:
        began.extend([statement] * statement.startswith("BEGIN"))
        return True

    connection = writer_of(store)
    connection.exec_trace = trace
    answers = store.submit_all([submission(f"customer {number % 3}") for number in range(9)])
    connection.exec_trace = None
    assert [receipt.count for receipts in answers if isinstance(receipts, tuple) for receipt in receipts] == [
        0, 0, 0, -1, -1, -1, -2, -2, -2
    ]  # fmt: skip
    assert began == ["BEGIN IMMEDIATE"]
    sound(store, path)


def test_a_refused_call_does_not_concern_the_others(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, sound: Start
) -> None:
    store.submit(submission("acme", idempotency_key="k", fingerprint="one"))
    spy = Spy(store, monkeypatch)
    refused = submission("acme", 2, idempotency_key="k", fingerprint="other")
    stranger = submission("a stranger", 2)
    twice = Submission("a stranger", [stranger.ids[0]] * 2, stranger.documents)
    works = [lambda: store.submit(submission("acme"))] * (THREADS - 2)
    works[3:3] = [lambda: store.submit(refused), lambda: store.submit(twice)]
    reported = run_behind_gate(store, spy, works)
    assert spy.transactions == [THREADS]
    assert [getattr(item, "code", "accepted") for item in reported] == (
        ["accepted"] * 3 + ["key_conflict", "invalid_input"] + ["accepted"] * (THREADS - 5)
    )
    assert isinstance(reported[3], KeyConflictError)
    store.close()
    again = SqliteStore(path)
    assert again.counts(DocumentFilter()).states == {"waiting": THREADS - 1}
    assert again.customer("acme").count == 1 - (THREADS - 1)
    assert [document.id for document in again.documents(DocumentFilter(customer="a stranger"), limit=9).items] == []
    sound(again, path)
    again.close()


def test_a_mistake_in_one_call_does_not_concern_the_others(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, sound: Start
) -> None:
    spy = Spy(store, monkeypatch)
    works = [lambda: store.submit(submission("acme"))] * (THREADS - 1)
    works.append(lambda: store.submit(submission("acme"), now=2**70))
    *reported, error = run_behind_gate(store, spy, works)
    assert isinstance(error, Exception)
    assert [item for item in reported if isinstance(item, Exception)] == []
    assert store.customer("acme").count == 1 - (THREADS - 1)
    sound(store, path)


class BrokenConnection:
    """A connection whose next commit fails, and the rollback after it."""

    def __init__(self, real: apsw.Connection) -> None:
        self._real = real
        self._failing = {"COMMIT", "ROLLBACK"}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, statement: str, *values: Any) -> Any:
        if statement in self._failing:
            self._failing.remove(statement)
            raise apsw.IOError("the disk is gone")
        return self._real.execute(statement, *values)


def test_when_even_the_rollback_fails_nobody_is_told_yes(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, sound: Start
) -> None:
    store.submit(submission("acme"))
    spy = Spy(store, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(spy.writer, "connection", BrokenConnection(spy.writer.connection))
        reported = run_behind_gate(store, spy, [lambda: store.submit(submission("acme"))] * THREADS)
    assert [type(item) for item in reported] == [StoreError] * THREADS
    assert store.submit(submission("acme"))[0].count == -1
    assert store.counts(DocumentFilter()).states == {"waiting": 2}
    sound(store, path)


def test_threads_that_submit_while_others_commit_lose_nothing(store: SqliteStore, path: Path, sound: Start) -> None:
    begin = threading.Barrier(THREADS)

    def submit_many() -> list[str]:
        begin.wait(60)
        return [store.submit(submission("acme"))[0].id for _ in range(25)]

    with ThreadPoolExecutor(THREADS) as pool:
        ids = [id_ for future in [pool.submit(submit_many) for _ in range(THREADS)] for id_ in future.result(60)]
    assert {document.id for document in store.documents(DocumentFilter(), limit=1_000).items} == set(ids)
    assert store.customer("acme").count == 1 - len(ids) == 1 - 25 * THREADS
    sound(store, path)


def test_8_processes_that_move_and_split_documents_lose_none(start: Start, store: SqliteStore, path: Path) -> None:
    check_random_steps(store, start, path)


def test_limits_of_a_queue_are_exact_with_8_processes(start: Start, store: SqliteStore, path: Path) -> None:
    check_limits(store, start, path)
