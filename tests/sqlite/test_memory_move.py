"""A file moved into memory, where the reference says what should come of it, and back."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import full_queue
from full_queue import ANNA, BEGIN, contents, drain, transfer
from inturn.blobs import FolderBlobs
from inturn.clock import ManualClock
from inturn.errors import IllegalTransitionError, InvalidInputError, StoreBusyError, StoreMovedError
from inturn.model import SECOND, NewDocument, WorkerReport
from inturn.queue import Queue
from inturn.stores.memory import MemoryStore
from inturn.stores.memory.transfer import MemoryEndpoint
from inturn.stores.sqlite.transfer import SqliteEndpoint
from inturn.stores.transfer import Transfer, TransferEndpoint, undo


@pytest.fixture
def source(tmp_path: Path) -> str:
    full_queue.fill(str(tmp_path / "queue.db"), FolderBlobs(tmp_path / "blobs"), ManualClock(BEGIN))
    return str(tmp_path / "queue.db")


@pytest.mark.parametrize("later", [SECOND, 20 * 60 * SECOND])
def test_the_reference_goes_on_as_the_file_would_have(source: str, tmp_path: Path, later: int) -> None:
    stayed = drain(str(shutil.copy(source, tmp_path / "stayed.db")), BEGIN + later)
    store = MemoryStore()
    transfer(source, MemoryEndpoint(store))
    assert drain(store, BEGIN + later) == stayed


def all_but_running(end: TransferEndpoint) -> dict[str, Any]:
    """How many run is exact for customers with a cap alone, and none does."""
    at = sorted(end.tables()["limits"]).index("running")
    result = contents(end)
    return {**result, "limits": [[*row[:at], *row[at + 1 :]] for row in result["limits"]]}


def test_there_and_back_every_row_is_the_same(source: str, tmp_path: Path) -> None:
    store, back = MemoryStore(), str(tmp_path / "back.db")
    transfer(source, MemoryEndpoint(store))
    assert all_but_running(MemoryEndpoint(store)) == all_but_running(SqliteEndpoint(Path(source)))
    transfer(MemoryEndpoint(store), back)
    assert all_but_running(SqliteEndpoint(Path(back))) == all_but_running(SqliteEndpoint(Path(source)))
    with pytest.raises(StoreMovedError, match="was moved to"):
        store.pause(ANNA)


def test_while_it_moves_it_refuses_everything(source: str, tmp_path: Path) -> None:
    store = MemoryStore()
    queue, file = Queue(store), SqliteEndpoint(Path(source))
    running_transfer = Transfer(file, MemoryEndpoint(store))
    assert running_transfer.check()
    running_transfer.begin()
    with pytest.raises(StoreMovedError, match="is not complete"):
        queue.submit("acme", [NewDocument("x")])
    transfer(source, end := MemoryEndpoint(store))
    with pytest.raises(IllegalTransitionError, match="another move"):
        running_transfer.load(lambda *_: None)
    file.disconnect()
    assert queue.submit("acme", [NewDocument("x")])
    back = SqliteEndpoint(tmp_path / "back.db")
    leaving = Transfer(end, back)
    assert leaving.check()
    leaving.begin()
    with pytest.raises(StoreMovedError, match="is being moved to"):
        queue.claim("worker")
    undo(end)
    assert queue.claim("worker")
    with pytest.raises(IllegalTransitionError, match="opened again"):
        leaving.load(lambda *_: None)
    back.disconnect()


def test_what_cannot_be_moved_is_refused(tmp_path: Path) -> None:
    store, other = MemoryStore(), MemoryStore()
    queue = Queue(store)
    queue.submit("acme", [NewDocument("x")])
    (claimed,) = queue.claim("worker")
    with pytest.raises(StoreBusyError, match="are running"):
        transfer(MemoryEndpoint(store), str(tmp_path / "new.db"))
    queue.finish(claimed)
    store.record_worker(WorkerReport("w1", "here", 1, 1, 0, "none", 0))
    with pytest.raises(StoreBusyError, match="w1"):
        transfer(MemoryEndpoint(store), str(tmp_path / "new.db"))
    with pytest.raises(InvalidInputError, match="the same queue"):
        transfer(MemoryEndpoint(store), MemoryEndpoint(store))
    with pytest.raises(IllegalTransitionError, match="of its own"):
        transfer(MemoryEndpoint(other), MemoryEndpoint(store))
