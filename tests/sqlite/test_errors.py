"""A file that cannot be used: a clear error with its code and what to do, and nothing changed on the disk."""

import hashlib
import json
import os
import random
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import forked_cli
from inturn.errors import (
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreReadOnlyError,
    StoreVersionError,
)
from inturn.http.metrics import ServerMetrics, render_metrics
from inturn.ids import RandomIds
from inturn.insights import Insights
from inturn.model import NewDocument
from inturn.queue_reader import QueueReader
from inturn.store_types import DocumentFilter, Submission
from inturn.stores.sqlite import SqliteStore, connection
from sqlite_file import direct, reader_of

Run = Callable[..., Any]


def submission(n: int = 1) -> Submission:
    return Submission("acme", RandomIds().make(n, 0), [NewDocument("a document")] * n)


def made(path: Path, n: int = 0) -> Path:
    """A store with n documents, closed again."""
    store = SqliteStore(path)
    if n:
        store.submit(submission(n))
    store.close()
    return path


def disk(folder: Path) -> dict[str, str]:
    """Every file with what is in it; the lock beside a store and what SQLite needs to read it say nothing."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-gate", "-shm")) and not is_empty_log(path)
    }


def is_empty_log(path: Path) -> bool:
    return path.name.endswith("-wal") and path.stat().st_size == 0


def a_folder(path: Path) -> None:
    path.mkdir()


def in_a_missing_folder(path: Path) -> None:
    assert not path.parent.exists()


def random_bytes(path: Path) -> None:
    path.write_bytes(random.Random(5).randbytes(20_000))


def a_letter(path: Path) -> None:
    path.write_text("Dear Sir or Madam,\n" * 100, encoding="utf-8")


def half_a_store(path: Path) -> None:
    made(path, 200)
    os.truncate(path, path.stat().st_size // 2)


def a_store_without_its_last_pages(path: Path) -> None:
    made(path, 200)
    os.truncate(path, path.stat().st_size - 10_000)


def foreign_file(path: Path) -> None:
    theirs = apsw.Connection(str(path))
    theirs.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1); PRAGMA user_version = 1")
    theirs.close()


def a_newer_store(path: Path) -> None:
    newer = apsw.Connection(str(made(path, 1)))
    newer.pragma("user_version", newer.pragma("user_version") + 1)
    newer.close()


UNUSABLE = [
    (a_folder, StoreError, "store_error", "is a folder; give the path of a file"),
    (in_a_missing_folder, StoreReadOnlyError, "store_read_only", "check that its folder exists"),
    (random_bytes, StoreCorruptError, "store_corrupt", "restore a backup"),
    (a_letter, StoreCorruptError, "store_corrupt", "check the path, and if it is right, restore a backup"),
    (half_a_store, StoreCorruptError, "store_corrupt", "restore a backup"),
    (a_store_without_its_last_pages, StoreCorruptError, "store_corrupt", "restore a backup"),
    (foreign_file, StoreCorruptError, "store_corrupt", "none of Inturn's; give another path"),
    (a_newer_store, StoreVersionError, "store_version", "use that version, or restore a backup"),
]


@pytest.mark.parametrize(("spoil", "kind", "code", "advice"), UNUSABLE, ids=[item[0].__name__ for item in UNUSABLE])
def test_what_is_no_store_is_refused_and_left_as_it_is(
    tmp_path: Path, spoil: Callable[[Path], None], kind: type[StoreError], code: str, advice: str
) -> None:
    path = tmp_path / ("missing/queue.db" if spoil is in_a_missing_folder else "queue.db")
    spoil(path)
    before = disk(tmp_path)
    with pytest.raises(StoreError) as refused:
        SqliteStore(path)
    assert type(refused.value) is kind
    assert refused.value.code == code
    assert advice in str(refused.value)
    assert str(path) in str(refused.value)
    assert disk(tmp_path) == before


def test_somebody_elses_database_stays_theirs(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    foreign_file(path)
    with pytest.raises(StoreCorruptError):
        SqliteStore(path)
    theirs = apsw.Connection(str(path))
    assert theirs.pragma("journal_mode") == "delete"
    assert theirs.execute("SELECT x FROM theirs").get == 1
    theirs.close()
    assert [path.name for path in tmp_path.iterdir()] == ["theirs.db"]


def test_a_page_that_was_overwritten_is_told_when_it_is_read(tmp_path: Path) -> None:
    path = made(tmp_path / "queue.db", 400)
    spoiled = bytearray(path.read_bytes())
    pages = len(spoiled) // 4_096
    spoiled[4_096 * 2 :] = random.Random(6).randbytes(4_096 * (pages - 2))
    path.write_bytes(spoiled)

    def use() -> None:
        store = SqliteStore(path)
        try:
            store.counts(DocumentFilter())
            store.submit(submission())
        finally:
            store.close()

    with pytest.raises(StoreCorruptError, match="restore a backup") as refused:
        use()
    assert refused.value.code == "store_corrupt"


# -- locked -----------------------------------------------------------------------------------------------------------


def test_a_locked_store_is_busy_and_then_free(start: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 200)
    path = made(tmp_path / "queue.db", 1)
    holder = start("hold_lock", path)
    assert holder.receive() == "ready"
    store = SqliteStore(path)
    with pytest.raises(StoreBusyError, match=r"locked by another process.*try again") as refused:
        store.submit(submission())
    assert refused.value.code == "store_busy"
    assert store.counts(DocumentFilter()).states == {"waiting": 1}
    holder.go()
    assert holder.end() == []
    assert store.submit(submission())[0].count == -1
    store.close()


def test_a_gate_that_nobody_leaves_is_busy_too(start: Run, tmp_path: Path) -> None:
    path = made(tmp_path / "queue.db")
    holder = start("hold_write_lock_file", path)
    assert holder.receive() == "ready"
    code, message = start("submit_impatiently", path).receive()
    assert code == "store_busy"
    assert "try again" in message


def test_reading_takes_no_write_lock_and_changes_nothing(
    start: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`why`, overview, customer and metrics, with changes that no claim has applied to the lanes yet."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 200)
    path = made(tmp_path / "queue.db", 3)
    for holder in (start("hold_lock", path), start("hold_write_lock_file", path)):
        assert holder.receive() == "ready"
    store = SqliteStore(path)
    before = reader_of(store).pragma("data_version")
    queue = QueueReader(store)
    insights = Insights(queue)
    first, second, _ = sorted(store.documents(DocumentFilter(), limit=3).items, key=lambda document: document.seq)
    assert [sum(insights.why(document.id).ahead or ()) for document in (first, second)] == [0, 1]
    assert insights.overview().waiting == {1: 3}
    assert [(lane.level, lane.waiting) for lane in store.customer("acme").lanes] == [(1, 3)]
    assert b'inturn_waiting{level="1"} 3.0' in render_metrics(ServerMetrics(queue), insights, queue)
    assert [(lane.level, lane.waiting) for lane in store.scheduler_snapshot().lanes] == [(1, 3)]
    assert reader_of(store).pragma("data_version") == before
    with direct(path) as looking:
        assert looking.execute("SELECT count(*) FROM lane_log").get == 1
    store.close()


# -- read-only --------------------------------------------------------------------------------------------------------

AS_UNPRIVILEGED = """
import json, os, sys
from inturn.errors import StoreError
from inturn.http.metrics import ServerMetrics, render_metrics
from inturn.ids import RandomIds
from inturn.insights import Insights
from inturn.model import NewDocument
from inturn.store_types import Submission
from inturn.stores.sqlite import SqliteStore

if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    store = SqliteStore(sys.argv[1])
    store.submit(Submission("acme", RandomIds().make(1, 0), [NewDocument("a document")]))
except StoreError as refused:
    print(json.dumps([type(refused).__name__, refused.code, str(refused)]))
"""


@pytest.fixture
def open_way(tmp_path: Path) -> Path:
    """A folder that anybody can reach; pytest's own are closed to others."""
    for parent in (tmp_path, *tmp_path.parents[:3]):
        if parent.stat().st_uid == os.getuid():
            parent.chmod(parent.stat().st_mode | stat.S_IXOTH)
    return tmp_path


@pytest.mark.parametrize(("exists", "folder_mode"), [(True, 0o555), (True, 0o777), (False, 0o555)])
def test_a_store_without_rights_is_read_only(python: Run, open_way: Path, *, folder_mode: int, exists: bool) -> None:
    folder = open_way / "folder"
    folder.mkdir()
    path = folder / "queue.db"
    if exists:
        made(path, 1)
        (folder / "queue.db-gate").unlink()
        path.chmod(0o444)
    before = disk(folder)
    folder.chmod(folder_mode)
    try:
        done = python("-c", AS_UNPRIVILEGED, path)
    finally:
        folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    kind, code, message = json.loads(done.stdout)
    assert (kind, code) == ("StoreReadOnlyError", "store_read_only")
    assert "check" in message
    assert str(path) in message
    assert disk(folder) == before


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spoil", [a_folder, random_bytes, a_newer_store, foreign_file, half_a_store])
def test_the_command_line_says_it_without_a_traceback(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    path = tmp_path / "queue.db"
    spoil(path)
    command = forked_cli.command("status", "--store", str(path))
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    reported = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)  # noqa: S603 - our own
    code = next(item[2] for item in UNUSABLE if item[0] is spoil)
    assert json.loads(reported.stderr)["error"] == code
