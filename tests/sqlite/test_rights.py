"""Files of a queue are their owner's alone, from the moment they are created, whatever the umask."""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inturn.blobs import FolderBlobs
from inturn.clock import ManualClock
from inturn.files import create_private_file, open_private_fd, permissive_files, touch_private_file, write_private
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.stores.memory import MemoryStore
from inturn.stores.sqlite import SqliteStore

changed: list[str] = []
"""Paths and descriptors whose mode somebody changed: a file that was created with its mode is not among them."""


def _hook(event: str, args: tuple[object, ...]) -> None:
    if event == "os.chmod":
        changed.append(str(args[0]))


sys.addaudithook(_hook)


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=["umask 0", "umask 022", "umask 777"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    try:
        yield request.param
    finally:
        os.umask(before)


@pytest.fixture
def folder(tmp_path: Path, umask: int) -> Path:
    del umask
    changed.clear()
    return tmp_path


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


def test_new_store_and_files_beside_it_are_private(folder: Path, umask: int) -> None:
    store = SqliteStore(folder / "queue.db")
    Queue(store).submit("acme", [NewDocument("a")])
    made = modes(folder)
    assert made == dict.fromkeys(("queue.db", "queue.db-wal", "queue.db-shm", "queue.db-gate"), 0o600)
    store.close()
    if umask != 0o777:
        assert changed == []  # created so, not changed afterwards


def test_backups_are_private(folder: Path, umask: int) -> None:
    store = SqliteStore(folder / "queue.db")
    store.backup(folder / "copy.db")
    store.close()
    MemoryStore(ManualClock(0)).backup(folder / "memory.json")
    made = modes(folder)
    assert (made["copy.db"], made["memory.json"]) == (0o600, 0o600)
    if umask != 0o777:
        assert changed == []
    again = SqliteStore(folder / "copy.db")
    assert again.policy().number == 1
    again.close()


def test_blobs_and_their_folders_are_private(folder: Path, umask: int) -> None:
    blobs = FolderBlobs(folder / "a" / "blobs")
    with blobs.begin() as writing:
        writing.write(b"bytes")
        key = writing.commit().key
    for name, mode in modes(folder).items():
        assert mode == (0o600 if name.endswith(key) else 0o700), name
    if umask != 0o777:
        assert changed == []


def test_files_that_were_there_keep_their_mode_and_work(folder: Path) -> None:
    for name in ("queue.db", "queue.db-gate"):
        path = folder / name
        path.touch()
        path.chmod(0o660)
    store = SqliteStore(folder / "queue.db")
    Queue(store).submit("acme", [NewDocument("a")])
    assert set(modes(folder).values()) == {0o660}
    store.close()


def test_gate_has_the_mode_of_the_database_beside_it(folder: Path) -> None:
    (folder / "queue.db").touch()
    (folder / "queue.db").chmod(0o640)
    store = SqliteStore(folder / "queue.db")
    assert modes(folder)["queue.db-gate"] == 0o640
    store.close()


def test_store_behind_a_dangling_link_is_private(folder: Path) -> None:
    (folder / "link.db").symlink_to(folder / "real.db")
    store = SqliteStore(folder / "link.db")
    assert stat.S_IMODE((folder / "real.db").stat().st_mode) == 0o600
    store.close()


def test_private_files_are_opened_and_written_anew(folder: Path) -> None:
    path = folder / "file"
    assert touch_private_file(path)
    assert not touch_private_file(path)
    with write_private(path) as file:
        file.write(b"long content")
    with write_private(path) as file:
        file.write(b"short")
    assert path.read_bytes() == b"short"
    with pytest.raises(FileExistsError):
        create_private_file(path)
    os.close(open_private_fd(path, os.O_RDONLY))
    with create_private_file(folder / "other") as file:
        file.write(b"new")
    assert set(modes(folder).values()) == {0o600}


def test_wide_files_are_found(folder: Path) -> None:
    path, inner = folder / "file", folder / "inner"
    touch_private_file(path)
    inner.mkdir(0o700)
    inner.chmod(0o750)
    assert [
        (permissive_file.path, permissive_file.mode, permissive_file.is_folder)
        for permissive_file in permissive_files([path, inner, folder / "none"])
    ] == [(inner, 0o750, True)]
