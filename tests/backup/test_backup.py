"""Backup and restore of a queue with its blobs, under load and interrupted (G12)."""

import hashlib
import io
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

import apsw
import pytest

import inturn
from inturn.backup import Backup, Manifest, Restore, RestoreResult, read_manifest, require_free_path
from inturn.blobs import BlobWriter, FolderBlobs
from inturn.blobs.copy import list_keys
from inturn.errors import (
    BlobFullError,
    IllegalTransitionError,
    InvalidInputError,
    StoreCorruptError,
    StoreMovedError,
    StoreVersionError,
)
from inturn.model import NewDocument
from inturn.policy import Policy
from inturn.queue import Queue
from inturn.store_types import SYSTEM_OPERATOR, DocumentFilter, Operator
from inturn.stores import migrate, restore_target, snapshot_file, snapshot_source
from inturn.stores.snapshots import SnapshotSource
from inturn.stores.sql.scheduler_state import INITIAL_STATE
from inturn.stores.sqlite import schema
from inturn.stores.sqlite.backup import SqliteTarget
from services import drop_schema, needs_postgres, new_schema
from waiting import wait_until

ANNA = Operator("anna", "because the test says so")


def ignored(_: int) -> None:
    """Ignores the progress."""


class QueueWithBlobs(NamedTuple):
    """The address of a queue, and its blobs."""

    url: str
    blobs: FolderBlobs

    def submit(self, queue: Queue, customer: str, n: int = 1) -> list[str]:
        """Documents with bytes of their own; the ids."""
        documents = []
        for number in range(n):
            blob = self.blobs.put(io.BytesIO(f"{customer} {number} {len(documents)}".encode() * 50))
            documents.append(NewDocument("x", blob=blob.key, sha256=blob.sha256, size=blob.size))
        return [receipt.id for receipt in queue.submit(customer, documents)]

    def purge(self, queue: Queue, customer: str) -> None:
        """As `inturn purge` does: the rows, then the bytes."""
        with suppress(inturn.NotFoundError):
            self.blobs.delete(queue.purge(customer, ANNA).blobs)

    def back_up(self, folder: Path, source: SnapshotSource | None = None, *, with_blobs: bool = True) -> Manifest:
        run = Backup(source or snapshot_source(self.url), snapshot_file, self.blobs, folder)
        return run.run(ignored, with_blobs=with_blobs, force=False)

    def restore(self, folder: Path, blobs: FolderBlobs | None = None) -> RestoreResult:
        job = Restore(folder, snapshot_file, restore_target(self.url))
        job.check()
        return job.run(blobs or self.blobs, ignored)


QueuePair = tuple[QueueWithBlobs, QueueWithBlobs]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def queues(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueuePair]:
    """A queue, and the address of an empty target of the same kind."""
    if request.param == "sqlite":
        urls = [str(tmp_path / "queue.db"), str(tmp_path / "restored.db")]
    else:
        urls = [new_schema(), new_schema(migrated=False)]
    yield (
        QueueWithBlobs(urls[0], FolderBlobs(tmp_path / "queue.blobs")),
        QueueWithBlobs(urls[1], FolderBlobs(tmp_path / "restored.blobs")),
    )
    if request.param != "sqlite":
        for url in urls:
            drop_schema(url)


def hashes(setup: QueueWithBlobs) -> dict[str, str]:
    """Every document's hash as its bytes have it."""
    result, after = {}, None
    with inturn.open(setup.url) as queue:
        while True:
            page = queue.documents(limit=1_000, after=after)
            for document in page.items:
                with setup.blobs.open(document.spec.blob or "") as file:
                    result[document.id] = hashlib.sha256(file.read()).hexdigest()
                assert result[document.id] == document.spec.sha256
            if (after := page.next) is None:
                return result


def test_a_backup_is_restored_with_every_file(queues: QueuePair, tmp_path: Path) -> None:
    source, target = queues
    with inturn.open(source.url) as queue:
        ids = source.submit(queue, "acme", 5)
        (claimed,) = queue.claim("worker", 1)
        result = source.blobs.put(io.BytesIO(b"a file of the result"))
        files = (inturn.model.ResultFile("r", result.key, result.size, result.sha256),)
        queue.ack_and_claim([queue.done(claimed)._replace(files=files)], "worker", 1)
        before = queue.counts()
    manifest = source.back_up(tmp_path / "copy")
    assert (manifest.documents, manifest.files, manifest.missing) == (5, 6, [])
    wanted = hashes(source)
    for path in (*source.blobs.folder.rglob("*-*"),):
        path.unlink()  # what is linked in the backup stays
    assert target.restore(tmp_path / "copy") == RestoreResult(5, 6, [])
    assert hashes(target) == wanted
    assert target.blobs.has(result.key)
    with inturn.open(target.url) as queue:
        assert queue.counts() == before
        assert queue.store.recount(repair=False) == ()
        assert {claim.document.id for claim in queue.claim("worker", 9)} <= set(ids)


class Load:
    """Submits documents and purges customers while a backup runs."""

    def __init__(self, setup: QueueWithBlobs) -> None:
        self._setup = setup
        self._stopping = threading.Event()
        self.accepted: list[str] = []
        self.threads = [threading.Thread(target=item) for item in (self._submit, self._submit_and_purge)]

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self.threads:
            thread.join()

    def _submit(self) -> None:
        with inturn.open(self._setup.url) as queue:
            while not self._stopping.is_set():
                self.accepted += self._setup.submit(queue, "stays", 3)
                for claimed in queue.claim("worker", 2):
                    with suppress(inturn.StaleFenceError):  # purged meanwhile
                        queue.finish(claimed, {"pages": 1})

    def _submit_and_purge(self) -> None:
        with inturn.open(self._setup.url) as queue:
            while not self._stopping.is_set():
                self._setup.submit(queue, "goes", 5)
                self._setup.purge(queue, "goes")


def test_a_backup_under_load_has_every_file_that_it_refers_to(queues: QueuePair, tmp_path: Path) -> None:
    source, target = queues
    with inturn.open(source.url) as queue:
        source.submit(queue, "goes", 50)
    with Load(source) as load:
        wait_until(lambda: len(load.accepted) >= 30 or not all(thread.is_alive() for thread in load.threads))
        assert all(thread.is_alive() for thread in load.threads)
        accepted = list(load.accepted)
        manifest = source.back_up(tmp_path / "copy")
    assert manifest.missing == []
    assert list_keys(FolderBlobs(tmp_path / "copy" / "blobs")) == {
        key for key, _ in snapshot_file(manifest.kind, tmp_path / "copy" / manifest.snapshot).references()
    }
    result = target.restore(tmp_path / "copy")
    assert (result.documents, result.files, result.lost) == (manifest.documents, manifest.files, [])
    restored = hashes(target)
    assert len(restored) == manifest.documents
    assert set(accepted) <= set(restored)
    with inturn.open(target.url) as queue:
        assert sum(queue.counts().states.values()) == manifest.documents
        assert queue.store.recount(repair=False) == ()


class DeletingSource(SnapshotSource):
    """Purges a customer right after the first snapshot."""

    def __init__(self, setup: QueueWithBlobs, customer: str) -> None:
        self._source = snapshot_source(setup.url)
        self.kind, self.name = self._source.kind, self._source.name
        self._setup = setup
        self._customer = customer
        self.snapshots = 0

    def write(self, path: Path) -> None:
        self._source.write(path)
        self.snapshots += 1
        if self.snapshots == 1:
            with inturn.open(self._setup.url) as queue:
                self._setup.purge(queue, self._customer)
                self._setup.submit(queue, "late", 2)


def test_files_deleted_after_the_snapshot_make_another_one(queues: QueuePair, tmp_path: Path) -> None:
    source, target = queues
    with inturn.open(source.url) as queue:
        source.submit(queue, "acme", 3)
        source.submit(queue, "goes", 3)
    snapshots = DeletingSource(source, "goes")
    manifest = source.back_up(tmp_path / "copy", snapshots)
    assert (snapshots.snapshots, manifest.documents, manifest.files, manifest.missing) == (2, 5, 5, [])
    assert target.restore(tmp_path / "copy").lost == []
    assert hashes(target) == hashes(source)


def test_files_that_were_missing_before_are_named_and_the_rest_is_kept(queues: QueuePair, tmp_path: Path) -> None:
    source, target = queues
    with inturn.open(source.url) as queue:
        ids = source.submit(queue, "acme", 3)
        lost = queue.document(ids[0]).spec.blob or ""
    source.blobs.delete([lost])
    manifest = source.back_up(tmp_path / "copy")
    assert (manifest.files, manifest.missing) == (2, [lost])
    assert target.restore(tmp_path / "copy") == RestoreResult(3, 2, [lost])


def test_a_file_damaged_in_the_backup_is_left_out_and_named(queues: QueuePair, tmp_path: Path) -> None:
    source, target = queues
    with inturn.open(source.url) as queue:
        ids = source.submit(queue, "acme", 2)
        key = queue.document(ids[0]).spec.blob or ""
    source.back_up(tmp_path / "copy")
    (damaged,) = (tmp_path / "copy" / "blobs").rglob(key)
    damaged.unlink()
    damaged.write_bytes(b"something else")
    assert target.restore(tmp_path / "copy") == RestoreResult(2, 1, [key])
    assert not target.blobs.has(key)


def test_restore_refuses_a_target_in_use(queues: QueuePair, tmp_path: Path) -> None:
    source, target = queues
    with inturn.open(source.url) as queue:
        source.submit(queue, "acme", 1)
    source.back_up(tmp_path / "copy")
    with pytest.raises(IllegalTransitionError, match="restore to"):
        source.restore(tmp_path / "copy")
    target.restore(tmp_path / "copy")
    with pytest.raises(IllegalTransitionError, match="restore to"):
        target.restore(tmp_path / "copy")


class FullDisk(FolderBlobs):
    """A folder whose disk is full after a few files."""

    left = 2

    def begin(self, *, limit: int | None = None, key: str | None = None) -> BlobWriter:
        if self.left == 0:
            raise BlobFullError("the disk is full")
        self.left -= 1
        return super().begin(limit=limit, key=key)


def test_an_interrupted_restore_is_closed_and_goes_on(queues: QueuePair, tmp_path: Path) -> None:
    source, target = queues
    with inturn.open(source.url) as queue:
        source.submit(queue, "acme", 6)
    source.back_up(tmp_path / "copy")
    with inturn.open(source.url) as queue:
        source.submit(queue, "acme", 1)
    source.back_up(tmp_path / "other")
    with pytest.raises(BlobFullError):
        target.restore(tmp_path / "copy", FullDisk(target.blobs.folder))
    assert len(list_keys(target.blobs)) == 2
    with pytest.raises(StoreMovedError, match="run the same inturn restore again"):
        inturn.open(target.url)
    with pytest.raises(IllegalTransitionError, match="run the same inturn restore again"):
        target.restore(tmp_path / "other")
    some = next(target.blobs.folder.rglob("*-*"))
    some.write_bytes(b"half of it")
    assert target.restore(tmp_path / "copy") == RestoreResult(6, 6, [])
    assert len(hashes(target)) == 6


def test_a_damaged_snapshot_is_refused_and_nothing_is_made(queues: QueuePair, tmp_path: Path) -> None:
    source, target = queues
    with inturn.open(source.url) as queue:
        source.submit(queue, "acme", 2)
    snapshot = tmp_path / "copy" / source.back_up(tmp_path / "copy").snapshot
    data = bytearray(snapshot.read_bytes())
    data[len(data) // 2] ^= 0xFF
    snapshot.write_bytes(data)
    with pytest.raises(StoreCorruptError, match="use another backup"):
        target.restore(tmp_path / "copy")
    snapshot.unlink()
    with pytest.raises(StoreCorruptError):
        target.restore(tmp_path / "copy")
    assert not restore_target(target.url).is_begun("")


def test_a_backup_without_files_says_so(queues: QueuePair, tmp_path: Path) -> None:
    source, _ = queues
    with inturn.open(source.url) as queue:
        source.submit(queue, "acme", 2)
    manifest = source.back_up(tmp_path / "copy", with_blobs=False)
    assert manifest.files is None
    assert not (tmp_path / "copy" / "blobs").exists()
    assert read_manifest(tmp_path / "copy") == manifest
    setup = QueueWithBlobs(source.url, None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="--without-blobs"):
        setup.back_up(tmp_path / "more")
    assert [path.name for path in tmp_path.iterdir() if "more" in path.name] == []


# -- files ----------------------------------------------------------------------------------------------------------


def test_the_other_kind_of_store_is_refused(tmp_path: Path) -> None:
    source = QueueWithBlobs(str(tmp_path / "queue.db"), FolderBlobs(tmp_path / "blobs"))
    inturn.open(source.url).close()
    source.back_up(tmp_path / "copy")
    with pytest.raises(InvalidInputError, match="inturn move"):
        QueueWithBlobs("postgresql://nowhere.invalid/x", source.blobs).restore(tmp_path / "copy")


def insert_rows_of_schema_2(connection: apsw.Connection, now: int) -> None:
    values = (json.dumps(Policy().to_dict()), now, *SYSTEM_OPERATOR)
    connection.execute("INSERT INTO policy (number, settings, at, operator, why) VALUES (1, ?, ?, ?, ?)", values)
    columns = "one, seq, fence, event, policy, ordered, turns"
    connection.execute(f"INSERT INTO queue ({columns}) VALUES (1, 0, 0, 0, 1, 'fair', ?)", (INITIAL_STATE,))  # noqa: S608


def test_an_older_file_is_backed_up_and_restored_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = (
        QueueWithBlobs(str(tmp_path / name), FolderBlobs(tmp_path / f"{name}.blobs")) for name in ("old", "new")
    )
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:2])
        patch.setattr(schema, "_insert_initial_rows", insert_rows_of_schema_2)
        migrate(source.url)
    before = Path(source.url).read_bytes()
    manifest = source.back_up(tmp_path / "copy")
    assert (manifest.schema, Path(source.url).read_bytes() == before) == (2, True)
    target.restore(tmp_path / "copy")
    assert migrate(target.url) == [migration.name for migration in schema.MIGRATIONS[2:]]
    with inturn.open(target.url) as queue:
        source.submit(queue, "acme", 1)


def test_a_newer_backup_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = (
        QueueWithBlobs(str(tmp_path / name), FolderBlobs(tmp_path / f"{name}.blobs")) for name in ("old", "new")
    )
    inturn.open(source.url).close()
    source.back_up(tmp_path / "copy")
    monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:2])
    with pytest.raises(StoreVersionError, match="newer"):
        target.restore(tmp_path / "copy")


def test_a_path_that_is_claimed_for_a_restore_is_closed_from_its_first_moment(tmp_path: Path) -> None:
    source, target = (
        QueueWithBlobs(str(tmp_path / name), FolderBlobs(tmp_path / f"{name}.blobs")) for name in ("old", "new")
    )
    with inturn.open(source.url) as queue:
        source.submit(queue, "acme", 1)
    manifest = source.back_up(tmp_path / "copy")
    with pytest.raises(FileNotFoundError):
        SqliteTarget(Path(target.url)).fill(tmp_path / "gone", "the backup", manifest.sha256)
    uses: list[Callable[[], object]] = [lambda: inturn.open(target.url), lambda: migrate(target.url)]
    for use in uses:
        with pytest.raises(StoreMovedError, match="a restore of the backup"):
            use()
    assert target.restore(tmp_path / "copy").documents == 1
    assert len(hashes(target)) == 1


def test_a_log_left_behind_is_not_read_into_the_restored_file(tmp_path: Path) -> None:
    source, target = (
        QueueWithBlobs(str(tmp_path / name), FolderBlobs(tmp_path / f"{name}.blobs")) for name in ("old", "new")
    )
    inturn.open(source.url).close()
    source.back_up(tmp_path / "copy")
    (tmp_path / "new-wal").write_bytes(b"of another queue")
    with pytest.raises(inturn.StoreError, match="new-wal was left behind"):
        target.restore(tmp_path / "copy")


def test_backups_are_private_and_replace_only_backups(tmp_path: Path) -> None:
    source = QueueWithBlobs(str(tmp_path / "queue.db"), FolderBlobs(tmp_path / "blobs"))
    with inturn.open(source.url) as queue:
        source.submit(queue, "acme", 1)
    source.back_up(tmp_path / "copy")
    paths = [tmp_path / "copy", *(tmp_path / "copy").rglob("*")]
    assert {path.stat().st_mode & 0o077 for path in paths} == {0}
    (tmp_path / "mine").mkdir()
    with pytest.raises(IllegalTransitionError, match="no backup"):
        require_free_path(tmp_path / "mine", force=True)
    with pytest.raises(IllegalTransitionError, match="--force"):
        require_free_path(tmp_path / "copy", force=False)
    require_free_path(tmp_path / "copy", force=True)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "kind": 3}'])
def test_a_folder_that_is_no_backup_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInputError, match="is no backup"):
        read_manifest(tmp_path)
    (tmp_path / "backup.json").write_text(text)
    with pytest.raises(StoreCorruptError, match="use another backup"):
        read_manifest(tmp_path)
    (tmp_path / "backup.json").write_text('{"format": 2}')
    with pytest.raises(StoreVersionError, match="newer"):
        read_manifest(tmp_path)


def test_files_on_another_file_system_are_copied(tmp_path: Path) -> None:
    other = Path("/dev/shm")  # noqa: S108 - the other file system that every Linux has
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second file system source")
    source = QueueWithBlobs(str(tmp_path / "queue.db"), FolderBlobs(tmp_path / "blobs"))
    with inturn.open(source.url) as queue:
        source.submit(queue, "acme", 2)
        damaged = queue.documents(DocumentFilter(), limit=1).items[0].spec.blob or ""
    next(source.blobs.folder.rglob(damaged)).write_bytes(b"damaged")
    folder = other / f"inturn-{tmp_path.name}"
    try:
        manifest = source.back_up(folder)
        assert (manifest.files, manifest.missing) == (1, [damaged])
        (stored,) = list_keys(FolderBlobs(folder / "blobs"))
        assert next((folder / "blobs").rglob(stored)).stat().st_nlink == 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
