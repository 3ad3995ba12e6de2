"""Connections to the file, translation of their errors, and the writer with group commit.

`synchronous=FULL` in WAL mode: when a commit returns, it is on the disk. Writers of one process queue up, and the
next one commits for all of them (group commit). Writers of several processes queue at a file lock beside the database
(`write_lock`).
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import apsw

from inturn.errors import (
    InturnError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreMovedError,
    StoreReadOnlyError,
    StoreVersionError,
)
from inturn.files import FILE_MODE, touch_private_file
from inturn.stores.sqlite.write_lock import WriteLock

BUSY_TIMEOUT_MS: Final = 30_000
WAL_CHECKPOINT_PAGES: Final = 4_000
"""16 MB of log. Every commit writes the first pages of indexes; a large log copies them to the database less often."""
MAX_WAL_BYTES: Final = 64 * 1024 * 1024
Answer = TypeVar("Answer")


def connect(path: Path, *, read_only: bool = False, vfs: str | None = None) -> apsw.Connection:
    """Open the file with the settings that durability needs. A new file is readable by its owner alone."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    with translate_errors(path):
        if path.is_dir():
            raise StoreError(f"{path} is a folder; give the path of a file")
        if vfs is None:
            with suppress(OSError):  # SQLite says what keeps it from opening the file
                touch_private_file(path)
        connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        # Without this SQLite plans a statement anew for every value bound to it: 13 us instead of 3.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {MAX_WAL_BYTES}")
        connection.execute("PRAGMA cache_size = -65536")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    return connection


def enable_wal(connection: apsw.Connection) -> None:
    """Change the file to WAL. When two do so at once, SQLite answers busy without waiting."""
    until = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except apsw.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)
        else:
            return


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate SQLite errors into store errors with the remedy."""
    try:
        yield
    except (apsw.Error, PermissionError) as error:
        raise _to_store_error(path, error) from error


def _to_store_error(path: Path, exc: Exception) -> StoreError:
    if isinstance(exc, PermissionError):
        return StoreReadOnlyError(f"{path} cannot be reached: check the rights of the folders above it")
    if getattr(exc, "extendedresult", 0) == apsw.SQLITE_CONSTRAINT_TRIGGER:  # only a closed queue has triggers
        return StoreMovedError(str(exc))
    return _sqlite_error(path, exc)


def _sqlite_error(path: Path, exc: Exception) -> StoreError:
    for kinds, error, message in _ERROR_MAP:
        if isinstance(exc, kinds):
            return error(message.format(path=path, exc=exc, seconds=BUSY_TIMEOUT_MS // 1000))
    if isinstance(exc, apsw.SQLError) and _OTHER_SCHEMA.search(str(exc)):
        return StoreVersionError(
            f"{path} was changed by another version of Inturn ({exc}); nothing was written: stop this process and"
            f" start it again with the newest version"
        )
    return StoreError(f"{path}: {exc}; nothing was written")


_OTHER_SCHEMA: Final = re.compile("^no such (table|column)|has no column named|upgraded by a newer version")
_ERROR_MAP: Final[tuple[tuple[tuple[type[Exception], ...], type[StoreError], str], ...]] = (
    (
        (apsw.BusyError, apsw.LockedError),
        StoreBusyError,
        "{path} has been locked by another process for {seconds} s; try again",
    ),
    ((apsw.FullError,), StoreFullError, "the disk of {path} is full; nothing was written: make room and try again"),
    (
        (apsw.ReadOnlyError, apsw.PermissionsError),
        StoreReadOnlyError,
        "{path} cannot be written: check the rights of the file and of its folder",
    ),
    (
        (apsw.CantOpenError,),
        StoreReadOnlyError,
        "{path} cannot be opened: check that its folder exists and may be written to",
    ),
    (
        (apsw.CorruptError, apsw.NotADBError),
        StoreCorruptError,
        "{path} is damaged or no Inturn database ({exc}); check the path, and if it is right, restore a backup",
    ),
)


def write_lock_path(database: Path) -> Path:
    """Return the path of the lock file of a database. Writers hold it, and write to it after each commit."""
    return database.with_name(database.name + "-gate")


def database_files(database: Path) -> tuple[Path, ...]:
    """Return the paths of all files that a database may have."""
    return (database, *(database.with_name(database.name + end) for end in ("-wal", "-shm", "-journal", "-gate")))


def _file_mode(database: Path) -> int:
    """Return the mode of the database file, which the files beside it get too."""
    try:
        return database.stat().st_mode & 0o666
    except OSError:
        return FILE_MODE


class Job(Generic[Answer]):
    """The work of one caller in a group commit."""

    __slots__ = ("answer", "done", "error", "work")

    def __init__(self, work: Callable[[], Answer]) -> None:
        self.work = work
        self.answer: Answer | None = None
        self.error: BaseException | None = None
        self.done = False


class Writer:
    """Run write transactions with group commit. The work of each caller is atomic."""

    def __init__(
        self,
        path: Path,
        connection: apsw.Connection,
        on_rollback: Callable[[], None],
    ) -> None:
        self.connection = connection
        self._path = path
        self._write_lock = WriteLock(write_lock_path(path), _file_mode(path), BUSY_TIMEOUT_MS / 1000)
        self._on_rollback = on_rollback
        self._commit_lock = threading.Lock()
        self._pending: list[Job[Any]] = []
        self._pending_lock = threading.Lock()

    def run(self, work: Callable[[], Answer]) -> Answer:
        """Run the work in a transaction, and commit it."""
        job = Job(work)
        self._commit([job])
        if job.error is not None:
            raise job.error
        return job.answer  # type: ignore[return-value]  # done without an error: it has its answer

    def run_all(self, works: Sequence[Callable[[], Answer]]) -> list[Answer | InturnError]:
        """Run several works in one commit, each in a savepoint; return the answer or the error of each."""
        jobs = [Job(work) for work in works]
        self._commit(jobs)
        answers: list[Answer | InturnError] = []
        for job in jobs:
            if job.error is not None and not isinstance(job.error, InturnError):
                raise job.error
            answers.append(job.answer if job.error is None else job.error)  # type: ignore[arg-type]  # as above
        return answers

    def _commit(self, jobs: Sequence[Job[Any]]) -> None:
        with self._pending_lock:
            self._pending.extend(jobs)
        with self._commit_lock:
            if not jobs[-1].done:
                self._commit_pending()

    def close(self) -> None:
        """Close the connection."""
        with self._commit_lock:
            self.connection.close()
            self._write_lock.close()

    def _commit_pending(self) -> None:
        jobs: list[Job[Any]] = []
        try:
            self._write_lock.acquire()
            try:
                jobs = self._take_pending()
                self._transact(jobs)
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._write_lock.release()
        except BaseException as error:  # noqa: BLE001 - each caller raises it in its own thread
            jobs = jobs or self._take_pending()
            self._fail(jobs, error)
        for job in jobs:
            job.done = True

    def _fail(self, jobs: list[Job[Any]], exc: BaseException) -> None:
        base_exception = exc
        if isinstance(exc, (apsw.Error, PermissionError)):
            base_exception = _to_store_error(self._path, exc)
            base_exception.__cause__ = exc
        for job in jobs:
            job.error = job.error or base_exception

    def _take_pending(self) -> list[Job[Any]]:
        with self._pending_lock:
            jobs, self._pending = self._pending, []
        return jobs

    def _transact(self, jobs: list[Job[Any]]) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        self.connection.execute("BEGIN IMMEDIATE")
        if len(jobs) == 1:
            jobs[0].answer = jobs[0].work()
        else:
            for job in jobs:
                self._run_in_savepoint(job)
        self.connection.execute("COMMIT")

    def _run_in_savepoint(self, job: Job[Any]) -> None:
        """Run one caller's work in a savepoint, so that its failure does not affect the others."""
        self.connection.execute("SAVEPOINT job")
        try:
            job.answer = job.work()
        except apsw.Error:
            raise
        except Exception as refused:  # noqa: BLE001 - raised in the thread of whoever asked
            job.error = refused
            self.connection.execute("ROLLBACK TO job")
            self._on_rollback()
        self.connection.execute("RELEASE job")

    def _roll_back(self) -> None:
        self._on_rollback()
        with suppress(apsw.Error):
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
