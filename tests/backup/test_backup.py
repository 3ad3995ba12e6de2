"""Backups restore: the queue with its files, made under load, put into an empty place, whole or closed (G12)."""

import hashlib
import io
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

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
from inturn.queue import Queue
from inturn.store import DocumentFilter, Operator
from inturn.stores import migrate, restore_target, snapshot_file, snapshot_source
from inturn.stores.snapshots import SnapshotSource
from inturn.stores.sqlite import schema
from inturn.stores.sqlite.backup import SqliteTarget
from inturn.stores.transfer import ClosedKind, ClosedMarker
from services import drop_schema, needs_postgres, new_schema

ANNA = Operator("anna", "because the test says so")


def ignored(_: int) -> None:
    """Nobody looks how far it is."""


class Place(NamedTuple):
    """A queue and its files."""

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


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Place, Place]]:
    """A queue, and an empty place of the same kind."""
    if request.param == "sqlite":
        urls = [str(tmp_path / "queue.db"), str(tmp_path / "restored.db")]
    else:
        urls = [new_schema(), new_schema(migrated=False)]
    yield (
        Place(urls[0], FolderBlobs(tmp_path / "queue.blobs")),
        Place(urls[1], FolderBlobs(tmp_path / "restored.blobs")),
    )
    if request.param != "sqlite":
        for url in urls:
            drop_schema(url)


def hashes(place: Place) -> dict[str, str]:
    """Every document's hash as its bytes have it."""
    result, after = {}, None
    with inturn.open(place.url) as queue:
        while True:
            page = queue.documents(limit=1_000, after=after)
            for document in page.items:
                with place.blobs.open(document.spec.blob or "") as file:
                    result[document.id] = hashlib.sha256(file.read()).hexdigest()
                assert result[document.id] == document.spec.sha256
            if (after := page.next) is None:
                return result


def test_a_backup_is_restored_with_every_file(places: tuple[Place, Place], tmp_path: Path) -> None:
    here, there = places
    with inturn.open(here.url) as queue:
        ids = here.submit(queue, "acme", 5)
        (claimed,) = queue.claim("worker", 1)
        result = here.blobs.put(io.BytesIO(b"a file of the result"))
        files = (inturn.model.ResultFile("r", result.key, result.size, result.sha256),)
        queue.ack_and_claim([queue.done(claimed)._replace(files=files)], "worker", 1)
        before = queue.counts()
    manifest = here.back_up(tmp_path / "copy")
    assert (manifest.documents, manifest.files, manifest.missing) == (5, 6, [])
    wanted = hashes(here)
    for path in (*here.blobs.folder.rglob("*-*"),):
        path.unlink()  # what is linked in the backup stays
    assert there.restore(tmp_path / "copy") == RestoreResult(5, 6, [])
    assert hashes(there) == wanted
    assert there.blobs.has(result.key)
    with inturn.open(there.url) as queue:
        assert queue.counts() == before
        assert queue.store.recount(repair=False) == ()
        assert {claim.document.id for claim in queue.claim("worker", 9)} <= set(ids)


class Load:
    """Customers that come with documents, and are purged again, for as long as a backup takes."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._over = threading.Event()
        self.accepted: list[str] = []
        self._threads = [threading.Thread(target=item) for item in (self._submit, self._come_and_go)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _submit(self) -> None:
        with inturn.open(self._place.url) as queue:
            while not self._over.is_set():
                self.accepted += self._place.submit(queue, "stays", 3)
                for claimed in queue.claim("worker", 2):
                    with suppress(inturn.StaleFenceError):  # purged meanwhile
                        queue.finish(claimed, {"pages": 1})

    def _come_and_go(self) -> None:
        with inturn.open(self._place.url) as queue:
            while not self._over.is_set():
                self._place.submit(queue, "goes", 5)
                self._place.purge(queue, "goes")


def test_a_backup_under_load_has_every_file_that_it_refers_to(places: tuple[Place, Place], tmp_path: Path) -> None:
    here, there = places
    with inturn.open(here.url) as queue:
        here.submit(queue, "goes", 50)
    with Load(here) as load:
        while len(load.accepted) < 30:
            assert all(thread.is_alive() for thread in load._threads)
        accepted = list(load.accepted)
        manifest = here.back_up(tmp_path / "copy")
    assert manifest.missing == []
    assert list_keys(FolderBlobs(tmp_path / "copy" / "blobs")) == {
        key for key, _ in snapshot_file(manifest.kind, tmp_path / "copy" / manifest.snapshot).references()
    }
    came = there.restore(tmp_path / "copy")
    assert (came.documents, came.files, came.lost) == (manifest.documents, manifest.files, [])
    restored = hashes(there)
    assert len(restored) == manifest.documents
    assert set(accepted) <= set(restored)
    with inturn.open(there.url) as queue:
        assert sum(queue.counts().states.values()) == manifest.documents
        assert queue.store.recount(repair=False) == ()


class Deleting(SnapshotSource):
    """A queue of which a customer is purged right after the first snapshot."""

    def __init__(self, place: Place, customer: str) -> None:
        self._source = snapshot_source(place.url)
        self.kind, self.name = self._source.kind, self._source.name
        self._place = place
        self._customer = customer
        self.snapshots = 0

    def write(self, path: Path) -> None:
        self._source.write(path)
        self.snapshots += 1
        if self.snapshots == 1:
            with inturn.open(self._place.url) as queue:
                self._place.purge(queue, self._customer)
                self._place.submit(queue, "late", 2)


def test_files_deleted_after_the_snapshot_make_another_one(places: tuple[Place, Place], tmp_path: Path) -> None:
    here, there = places
    with inturn.open(here.url) as queue:
        here.submit(queue, "acme", 3)
        here.submit(queue, "goes", 3)
    source = Deleting(here, "goes")
    manifest = here.back_up(tmp_path / "copy", source)
    assert (source.snapshots, manifest.documents, manifest.files, manifest.missing) == (2, 5, 5, [])
    assert there.restore(tmp_path / "copy").lost == []
    assert hashes(there) == hashes(here)


def test_files_that_were_missing_before_are_named_and_the_rest_is_kept(
    places: tuple[Place, Place], tmp_path: Path
) -> None:
    here, there = places
    with inturn.open(here.url) as queue:
        ids = here.submit(queue, "acme", 3)
        lost = queue.document(ids[0]).spec.blob or ""
    here.blobs.delete([lost])
    manifest = here.back_up(tmp_path / "copy")
    assert (manifest.files, manifest.missing) == (2, [lost])
    assert there.restore(tmp_path / "copy") == RestoreResult(3, 2, [lost])


def test_a_file_damaged_in_the_backup_is_left_out_and_named(places: tuple[Place, Place], tmp_path: Path) -> None:
    here, there = places
    with inturn.open(here.url) as queue:
        ids = here.submit(queue, "acme", 2)
        key = queue.document(ids[0]).spec.blob or ""
    here.back_up(tmp_path / "copy")
    (damaged,) = (tmp_path / "copy" / "blobs").rglob(key)
    damaged.unlink()
    damaged.write_bytes(b"something else")
    assert there.restore(tmp_path / "copy") == RestoreResult(2, 1, [key])
    assert not there.blobs.has(key)


def test_a_used_place_is_refused(places: tuple[Place, Place], tmp_path: Path) -> None:
    here, there = places
    with inturn.open(here.url) as queue:
        here.submit(queue, "acme", 1)
    here.back_up(tmp_path / "copy")
    with pytest.raises(IllegalTransitionError, match="restore to"):
        here.restore(tmp_path / "copy")
    there.restore(tmp_path / "copy")
    with pytest.raises(IllegalTransitionError, match="restore to"):
        there.restore(tmp_path / "copy")


class Breaking(FolderBlobs):
    """A folder whose disk is full after a few files."""

    left = 2

    def begin(self, *, limit: int | None = None, key: str | None = None) -> BlobWriter:
        if self.left == 0:
            raise BlobFullError("the disk is full")
        self.left -= 1
        return super().begin(limit=limit, key=key)


def test_an_interrupted_restore_is_closed_and_goes_on(places: tuple[Place, Place], tmp_path: Path) -> None:
    here, there = places
    with inturn.open(here.url) as queue:
        here.submit(queue, "acme", 6)
    here.back_up(tmp_path / "copy")
    with inturn.open(here.url) as queue:
        here.submit(queue, "acme", 1)
    here.back_up(tmp_path / "other")
    with pytest.raises(BlobFullError):
        there.restore(tmp_path / "copy", Breaking(there.blobs.folder))
    assert len(list_keys(there.blobs)) == 2
    with pytest.raises(StoreMovedError, match="run the same inturn restore again"):
        inturn.open(there.url)
    with pytest.raises(IllegalTransitionError, match="run the same inturn restore again"):
        there.restore(tmp_path / "other")
    some = next(there.blobs.folder.rglob("*-*"))
    some.write_bytes(b"half of it")
    assert there.restore(tmp_path / "copy") == RestoreResult(6, 6, [])
    assert len(hashes(there)) == 6


def test_a_damaged_snapshot_is_refused_and_nothing_is_made(places: tuple[Place, Place], tmp_path: Path) -> None:
    here, there = places
    with inturn.open(here.url) as queue:
        here.submit(queue, "acme", 2)
    snapshot = tmp_path / "copy" / here.back_up(tmp_path / "copy").snapshot
    data = bytearray(snapshot.read_bytes())
    data[len(data) // 2] ^= 0xFF
    snapshot.write_bytes(data)
    with pytest.raises(StoreCorruptError, match="use another backup"):
        there.restore(tmp_path / "copy")
    snapshot.unlink()
    with pytest.raises(StoreCorruptError):
        there.restore(tmp_path / "copy")
    assert not restore_target(there.url).is_begun("")


def test_a_backup_without_files_says_so(places: tuple[Place, Place], tmp_path: Path) -> None:
    here, _ = places
    with inturn.open(here.url) as queue:
        here.submit(queue, "acme", 2)
    manifest = here.back_up(tmp_path / "copy", with_blobs=False)
    assert manifest.files is None
    assert not (tmp_path / "copy" / "blobs").exists()
    assert read_manifest(tmp_path / "copy") == manifest
    place = Place(here.url, None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="--without-blobs"):
        place.back_up(tmp_path / "more")
    assert [path.name for path in tmp_path.iterdir() if "more" in path.name] == []


# -- files ----------------------------------------------------------------------------------------------------------


def test_the_other_kind_of_store_is_refused(tmp_path: Path) -> None:
    here = Place(str(tmp_path / "queue.db"), FolderBlobs(tmp_path / "blobs"))
    inturn.open(here.url).close()
    here.back_up(tmp_path / "copy")
    with pytest.raises(InvalidInputError, match="inturn move"):
        Place("postgresql://nowhere.invalid/x", here.blobs).restore(tmp_path / "copy")


def test_an_older_file_is_backed_up_and_restored_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = (Place(str(tmp_path / name), FolderBlobs(tmp_path / f"{name}.blobs")) for name in ("old", "new"))
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:2])
        migrate(here.url)
    before = Path(here.url).read_bytes()
    manifest = here.back_up(tmp_path / "copy")
    assert (manifest.schema, Path(here.url).read_bytes() == before) == (2, True)
    there.restore(tmp_path / "copy")
    assert migrate(there.url) == [migration.name for migration in schema.MIGRATIONS[2:]]
    with inturn.open(there.url) as queue:
        here.submit(queue, "acme", 1)


def test_a_newer_backup_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = (Place(str(tmp_path / name), FolderBlobs(tmp_path / f"{name}.blobs")) for name in ("old", "new"))
    inturn.open(here.url).close()
    here.back_up(tmp_path / "copy")
    monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:2])
    with pytest.raises(StoreVersionError, match="newer"):
        there.restore(tmp_path / "copy")


def test_a_path_that_is_claimed_for_a_restore_is_closed_from_its_first_moment(tmp_path: Path) -> None:
    here, there = (Place(str(tmp_path / name), FolderBlobs(tmp_path / f"{name}.blobs")) for name in ("old", "new"))
    with inturn.open(here.url) as queue:
        here.submit(queue, "acme", 1)
    manifest = here.back_up(tmp_path / "copy")
    SqliteTarget(Path(there.url))._reserve_path(ClosedMarker(ClosedKind.RESTORING, "the backup", manifest.sha256))
    uses: list[Callable[[], object]] = [lambda: inturn.open(there.url), lambda: migrate(there.url)]
    for use in uses:
        with pytest.raises(StoreMovedError, match="a restore of the backup"):
            use()
    assert there.restore(tmp_path / "copy").documents == 1
    assert len(hashes(there)) == 1


def test_a_log_left_behind_is_not_read_into_the_restored_file(tmp_path: Path) -> None:
    here, there = (Place(str(tmp_path / name), FolderBlobs(tmp_path / f"{name}.blobs")) for name in ("old", "new"))
    inturn.open(here.url).close()
    here.back_up(tmp_path / "copy")
    (tmp_path / "new-wal").write_bytes(b"of another queue")
    with pytest.raises(inturn.StoreError, match="new-wal was left behind"):
        there.restore(tmp_path / "copy")


def test_backups_are_private_and_replace_only_backups(tmp_path: Path) -> None:
    here = Place(str(tmp_path / "queue.db"), FolderBlobs(tmp_path / "blobs"))
    with inturn.open(here.url) as queue:
        here.submit(queue, "acme", 1)
    here.back_up(tmp_path / "copy")
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
        pytest.skip("no second file system here")
    here = Place(str(tmp_path / "queue.db"), FolderBlobs(tmp_path / "blobs"))
    with inturn.open(here.url) as queue:
        here.submit(queue, "acme", 2)
        damaged = queue.documents(DocumentFilter(), limit=1).items[0].spec.blob or ""
    next(here.blobs.folder.rglob(damaged)).write_bytes(b"damaged")
    folder = other / f"inturn-{tmp_path.name}"
    try:
        manifest = here.back_up(folder)
        assert (manifest.files, manifest.missing) == (1, [damaged])
        (stored,) = list_keys(FolderBlobs(folder / "blobs"))
        assert next((folder / "blobs").rglob(stored)).stat().st_nlink == 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
