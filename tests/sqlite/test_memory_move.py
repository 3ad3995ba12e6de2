"""A file moved into memory, where the reference says what should come of it, and back."""

import shutil
from pathlib import Path
from typing import Any

import everything
import pytest
from everything import ANNA, BEGIN, contents, dispatched, move

from inturn.blobs import FolderBlobs
from inturn.clock import ManualClock
from inturn.errors import IllegalMoveError, InvalidInputError, StoreBusyError, StoreMovedError
from inturn.model import SECOND, NewDocument, WorkerReport
from inturn.queue import Queue
from inturn.stores.memory import MemoryStore
from inturn.stores.memory.moving import MemoryEnd
from inturn.stores.moving import End, Move, undo
from inturn.stores.sqlite.moving import SqliteEnd


@pytest.fixture
def source(tmp_path: Path) -> str:
    everything.fill(str(tmp_path / "queue.db"), FolderBlobs(tmp_path / "blobs"), ManualClock(BEGIN))
    return str(tmp_path / "queue.db")


@pytest.mark.parametrize("later", [SECOND, 20 * 60 * SECOND])
def test_the_reference_goes_on_as_the_file_would_have(source: str, tmp_path: Path, later: int) -> None:
    stayed = dispatched(str(shutil.copy(source, tmp_path / "stayed.db")), BEGIN + later)
    store = MemoryStore()
    move(source, MemoryEnd(store))
    assert dispatched(store, BEGIN + later) == stayed


def all_but_running(end: End) -> dict[str, Any]:
    """How many run is exact for customers with a cap alone, and none does."""
    at = sorted(end.tables()["limits"]).index("running")
    found = contents(end)
    return {**found, "limits": [[*row[:at], *row[at + 1 :]] for row in found["limits"]]}


def test_there_and_back_every_row_is_the_same(source: str, tmp_path: Path) -> None:
    store, back = MemoryStore(), str(tmp_path / "back.db")
    move(source, MemoryEnd(store))
    assert all_but_running(MemoryEnd(store)) == all_but_running(SqliteEnd(Path(source)))
    move(MemoryEnd(store), back)
    assert all_but_running(SqliteEnd(Path(back))) == all_but_running(SqliteEnd(Path(source)))
    with pytest.raises(StoreMovedError, match="was moved to"):
        store.pause(ANNA)


def test_while_it_moves_it_refuses_everything(source: str, tmp_path: Path) -> None:
    store = MemoryStore()
    queue, file = Queue(store), SqliteEnd(Path(source))
    moving = Move(file, MemoryEnd(store))
    assert moving.check()
    moving.begin()
    with pytest.raises(StoreMovedError, match="is not complete"):
        queue.submit("acme", [NewDocument("x")])
    move(source, end := MemoryEnd(store))
    with pytest.raises(IllegalMoveError, match="another move"):
        moving.load(lambda *_: None)
    file.let_go()
    assert queue.submit("acme", [NewDocument("x")])
    back = SqliteEnd(tmp_path / "back.db")
    leaving = Move(end, back)
    assert leaving.check()
    leaving.begin()
    with pytest.raises(StoreMovedError, match="is being moved to"):
        queue.claim("worker")
    undo(end)
    assert queue.claim("worker")
    with pytest.raises(IllegalMoveError, match="opened again"):
        leaving.load(lambda *_: None)
    back.let_go()


def test_what_cannot_be_moved_is_refused(tmp_path: Path) -> None:
    store, other = MemoryStore(), MemoryStore()
    queue = Queue(store)
    queue.submit("acme", [NewDocument("x")])
    (claimed,) = queue.claim("worker")
    with pytest.raises(StoreBusyError, match="are running"):
        move(MemoryEnd(store), str(tmp_path / "new.db"))
    queue.finish(claimed)
    store.see_worker(WorkerReport("w1", "here", 1, 1, 0, "none", 0))
    with pytest.raises(StoreBusyError, match="w1"):
        move(MemoryEnd(store), str(tmp_path / "new.db"))
    with pytest.raises(InvalidInputError, match="the same queue"):
        move(MemoryEnd(store), MemoryEnd(store))
    with pytest.raises(IllegalMoveError, match="of its own"):
        move(MemoryEnd(other), MemoryEnd(store))
