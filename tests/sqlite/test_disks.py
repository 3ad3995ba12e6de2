"""G8: a disk that is full or broken gives an error, never a false "accepted"; and when it is well again, work goes on.

SQLite's log is written, then synced, then the commit is made known. What fails before the sync was never there. When
the sync itself fails nobody can know what the disk kept: for every process that is alive the commit did not happen, and
after a crash it is there entirely or not at all (`test_a_sync_that_failed_before_a_crash…`).
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from inturn.errors import StoreError, StoreFullError
from inturn.ids import RandomIds
from inturn.model import Claim, DocumentState, NewDocument
from inturn.store_types import ClaimRequest, DocumentFilter, Submission
from inturn.stores.sqlite import SqliteStore, connection
from sqlite_file import reader_of

Sound = Callable[..., None]
DOCUMENT = NewDocument("a document", max_attempts=100)
CUSTOMERS = ("acme", "böhm", "cruz")
HOUR = 3_600_000_000
LOG, DATABASE = "log", "database"


class Disk(apsw.VFS):
    """The machine's own files, of which writes and syncs fail when told to."""

    NAME = "inturn-broken-disk"

    def __init__(self) -> None:
        super().__init__(self.NAME, "")
        self.chance = random.Random(2)
        self.odds: dict[tuple[str, str], float] = {}
        self.failed: set[tuple[str, str]] = set()
        """What failed since this was last cleared."""
        self.failures = 0

    def xOpen(self, name: Any, flags: list[int]) -> "DiskFile":  # noqa: N802
        return DiskFile(self, name, flags)

    def use(self, file: str, act: str) -> None:
        """Do it, or fail."""
        if self.chance.random() < self.odds.get((file, act), 0):
            self.failed.add((file, act))
            self.failures += 1
            raise self.chance.choice([apsw.FullError, apsw.IOError])("the test's disk")

    def heal(self) -> None:
        self.odds = {}


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._kind = LOG if flags[0] & apsw.SQLITE_OPEN_WAL else DATABASE

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.use(self._kind, "write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.use(self._kind, "sync")
        super().xSync(flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._disk.use(self._kind, "read")
        return super().xRead(amount, offset)


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk()
    yield made
    made.unregister()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def store(path: Path, disk: Disk) -> Iterator[SqliteStore]:
    opened = SqliteStore(path, vfs=disk.NAME)
    yield opened
    disk.heal()
    opened.close()


def submission(customer: str, n: int = 1) -> Submission:
    return Submission(customer, RandomIds().make(n, 0), [DOCUMENT] * n)


class Life:
    """Submits, claims and finishes at random; what was answered is remembered, whatever failed."""

    def __init__(self, store: SqliteStore, disk: Disk, seed: int) -> None:
        self.store, self.disk, self.chance = store, disk, random.Random(seed)
        self.accepted: dict[str, str] = {}
        self.refused: dict[str, set[tuple[str, str]]] = {}
        self.held: list[Claim] = []
        self.done: set[str] = set()
        self.errors = 0

    def step(self) -> None:
        what = self.chance.choice([self.submit, self.submit, self.claim, self.finish])
        self.disk.failed.clear()
        try:
            what()
        except StoreError:
            self.errors += 1
            assert self.disk.failed

    def submit(self) -> None:
        given = submission(self.chance.choice(CUSTOMERS), self.chance.choice([1, 1, 4]))
        try:
            receipts = self.store.submit(given)
        except StoreError:
            self.refused |= dict.fromkeys(given.ids, frozenset(self.disk.failed))
            raise
        assert [receipt.id for receipt in receipts] == given.ids
        self.accepted |= dict.fromkeys(given.ids, given.customer)

    def claim(self) -> None:
        self.held += self.store.claim(ClaimRequest("worker", self.chance.choice([1, 5]), HOUR))

    def finish(self) -> None:
        if self.held:
            document, fence = self.held[-1]
            self.store.finish(document.id, fence, "0")
            self.held.pop()
            self.done.add(document.id)

    def drain(self) -> None:
        """Finish all that is left."""
        while self.held:
            self.finish()
        while claimed := self.store.claim(ClaimRequest("worker", 100, HOUR)):
            self.held += claimed
            while self.held:
                self.finish()


def everything(store: SqliteStore) -> dict[str, Any]:
    return {document.id: document for document in store.documents(DocumentFilter(), limit=100_000).items}


@pytest.mark.parametrize("act", ["write", "sync"])
def test_a_commit_that_failed_did_not_happen(
    disk: Disk, path: Path, monkeypatch: pytest.MonkeyPatch, sound: Sound, act: str
) -> None:
    monkeypatch.setattr(connection, "WAL_CHECKPOINT_PAGES", 1_000_000)
    store = SqliteStore(path, vfs=disk.NAME)
    life = Life(store, disk, seed=3)
    disk.odds = {(LOG, act): 0.02 if act == "write" else 0.2}
    for _ in range(400):
        life.step()
        if life.chance.random() < 0.05:
            assert everything(store).keys() == life.accepted.keys()
    assert life.errors > 40
    disk.heal()
    result = everything(store)
    assert result.keys() == life.accepted.keys()
    assert {id_ for id_, document in result.items() if document.state is DocumentState.DONE} == life.done
    assert {id_ for id_, document in result.items() if document.state is DocumentState.RUNNING} == {
        claimed.document.id for claimed in life.held
    }
    life.drain()
    assert life.done == life.accepted.keys()
    store.close()
    again = SqliteStore(path)
    assert everything(again).keys() == life.accepted.keys()
    assert again.counts(DocumentFilter()).states == {DocumentState.DONE: len(life.accepted)}
    for customer in CUSTOMERS:
        assert again.customer(customer).count == 1 - list(life.accepted.values()).count(customer)
    sound(again, path)
    again.close()


def test_a_checkpoint_that_fails_loses_nothing(
    disk: Disk, path: Path, monkeypatch: pytest.MonkeyPatch, sound: Sound
) -> None:
    """The log is copied into the database after a commit. SQLite would not even tell that this failed; apsw does, so
    here a submit may raise though its documents are kept: never the other way round.
    """
    monkeypatch.setattr(connection, "WAL_CHECKPOINT_PAGES", 30)
    store = SqliteStore(path, vfs=disk.NAME)
    life = Life(store, disk, seed=4)
    disk.odds = dict.fromkeys([(DATABASE, "write"), (DATABASE, "sync")], 0.05) | {(LOG, "write"): 0.005}
    for _ in range(400):
        life.step()
    assert life.errors > 20
    disk.heal()
    result = everything(store).keys()
    assert life.accepted.keys() <= result <= life.accepted.keys() | life.refused.keys()
    copying = {(DATABASE, "write"), (DATABASE, "sync")}
    assert {id_ for id_ in result - life.accepted.keys() if not life.refused[id_] & copying} == set()
    while claimed := store.claim(ClaimRequest("worker", 100, HOUR), now=2**61):
        for document, fence in claimed:
            store.finish(document.id, fence, "0", now=2**61)
    store.close()
    again = SqliteStore(path)
    assert everything(again).keys() == result
    assert again.counts(DocumentFilter()).states == {DocumentState.DONE: len(result)}
    sound(again, path)
    again.close()


def test_a_sync_that_failed_before_a_crash_left_all_or_nothing(
    store: SqliteStore, disk: Disk, path: Path, tmp_path: Path, sound: Sound
) -> None:
    first = submission("acme", 3)
    store.submit(first)
    disk.odds = {(LOG, "sync"): 1}
    second = submission("acme", 3)
    with pytest.raises(StoreError):
        store.submit(second)
    assert everything(store).keys() == set(first.ids)
    crashed = tmp_path / "crashed.db"
    shutil.copy(path, crashed)
    shutil.copy(path.with_name("queue.db-wal"), tmp_path / "crashed.db-wal")
    again = SqliteStore(crashed)
    assert everything(again).keys() in ({*first.ids}, {*first.ids, *second.ids})
    sound(again, crashed)
    again.close()


def test_a_full_disk_says_what_to_do(store: SqliteStore, disk: Disk) -> None:
    disk.odds = {(LOG, "write"): 1}
    disk.chance.choice = lambda kinds: kinds[0]  # type: ignore[method-assign, assignment]
    with pytest.raises(StoreFullError, match="make room") as full:
        store.submit(submission("acme"))
    assert full.value.code == "store_full"
    disk.heal()
    assert store.submit(submission("acme"))[0].count == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a connection may fail to close, too
def test_no_half_a_store_is_made_on_a_full_disk(disk: Disk, path: Path, sound: Sound) -> None:
    errors = []
    for n in range(60):
        disk.chance.seed(n)
        disk.chance.choice = lambda kinds: kinds[0]  # type: ignore[method-assign, assignment]
        disk.odds = dict.fromkeys([(file, act) for file in (LOG, DATABASE) for act in ("write", "sync")], 0.05)
        try:
            store = SqliteStore(path, vfs=disk.NAME)
        except StoreError as refused:
            errors.append(refused)
            continue
        disk.heal()
        store.close()
        path.unlink()
    assert len(errors) > 10
    assert {type(error) for error in errors} == {StoreFullError}
    disk.heal()
    store = SqliteStore(path)
    store.submit(submission("acme"))
    sound(store, path)
    store.close()


def test_a_disk_that_cannot_be_read_is_named(store: SqliteStore, disk: Disk) -> None:
    store.submit(submission("acme", 20))
    connection = reader_of(store)
    disk.odds = dict.fromkeys([(LOG, "read"), (DATABASE, "read")], 1)
    connection.pragma("cache_size", 0)
    connection.release_memory()
    with pytest.raises(StoreError, match=r"the test's disk|disk I/O|full"):
        store.counts(DocumentFilter())
    disk.heal()
    assert store.counts(DocumentFilter()).states == {DocumentState.WAITING: 20}


def test_a_doorbell_that_cannot_ring_refuses_nothing(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        (receipt,) = store.submit(submission("acme"))
    assert store.document(receipt.id).state is DocumentState.WAITING


def test_a_search_answers_while_nothing_can_be_written(store: SqliteStore, disk: Disk) -> None:
    """It indexes new documents first: what it cannot write, it reads."""
    store.submit(Submission("acme", RandomIds().make(2_500, 0), [NewDocument(f"file {n}.txt") for n in range(2_500)]))
    disk.odds = {(LOG, "write"): 1}
    with pytest.raises(StoreError):
        store.index_documents(limit=1)
    assert [document.spec.name for document in store.search("file 1234", limit=10).documents] == ["file 1234.txt"]
    disk.heal()
    assert store.index_documents(limit=1) == 2_047
