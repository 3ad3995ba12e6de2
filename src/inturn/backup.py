"""Backs up and restores a queue: a folder with a snapshot and all blobs that the snapshot refers to.

    <backup>/backup.json   the manifest; written last
    <backup>/queue.db      the snapshot (queue.zip of PostgreSQL)
    <backup>/blobs/        the bytes of documents and results, in the layout of `FolderBlobs`

The snapshot is taken first, then the blobs are copied. A blob may be deleted in between, together with its document.
Then a new snapshot is taken, which no longer refers to the blob, and its other blobs are copied. A blob that two
snapshots in a row refer to, and that cannot be read, is missing.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from inturn.blobs import Blobs, FolderBlobs
from inturn.blobs.copy import copy_blob, list_keys
from inturn.errors import (
    BlobDamagedError,
    BlobNotFoundError,
    IllegalTransitionError,
    InvalidInputError,
    StoreCorruptError,
    StoreVersionError,
)
from inturn.files import create_private_file, fsync_paths, make_private_folder
from inturn.stores.snapshots import RestoreTarget, SnapshotFile, SnapshotInfo, SnapshotSource

MANIFEST: Final = "backup.json"
BLOBS_FOLDER: Final = "blobs"
FORMAT_VERSION: Final = 1

OnProgress = Callable[[int], None]
"""Called with the number of blobs copied since the last call."""
OpenSnapshot = Callable[[str, Path], SnapshotFile]
"""Opens the snapshot of a kind at a path."""


class Manifest(NamedTuple):
    """Describes a backup; the content of backup.json."""

    kind: str
    """The kind of store."""
    snapshot: str
    """The name of the snapshot's file."""
    sha256: str
    """The hash of the snapshot, which also identifies the backup."""
    schema: int
    made_at: int
    documents: int
    files: int | None
    """None if the backup was made without blobs."""
    size: int
    """Bytes of the snapshot and of all blobs."""
    missing: list[str]
    """Keys of blobs that were missing or damaged."""


class RestoreResult(NamedTuple):
    """Counts the restored documents and blobs."""

    documents: int
    files: int
    lost: list[str]
    """Keys of blobs that are damaged or missing in the backup."""


class Backup:
    """Makes one backup."""

    def __init__(self, source: SnapshotSource, open_snapshot: OpenSnapshot, blobs: Blobs | None, folder: Path) -> None:
        self._source = source
        self._open_snapshot = open_snapshot
        self._blobs = blobs
        self._partial_folder = folder.with_name(f"{folder.name}.part")
        self._folder = folder
        self._snapshot_path = self._partial_folder / source.name

    def run(self, advance: OnProgress, *, with_blobs: bool, force: bool) -> Manifest:
        """Write the backup into a temporary folder, then rename it."""
        _remove_folder(self._partial_folder)
        try:
            make_private_folder(self._partial_folder)
            manifest = self._write_contents(advance, with_blobs=with_blobs)
            with create_private_file(self._partial_folder / MANIFEST) as file:
                file.write(json.dumps({"format": FORMAT_VERSION, **manifest._asdict()}).encode())
            fsync_paths(self._partial_folder / MANIFEST, self._partial_folder)
            self._publish(force=force)
        finally:
            _remove_folder(self._partial_folder)
        return manifest

    def _write_contents(self, advance: OnProgress, *, with_blobs: bool) -> Manifest:
        info = self._take_snapshot()
        files, missing = 0, set[str]()
        if with_blobs:
            info, files, missing = self._copy_blobs(info, advance)
        size = sum(path.stat().st_size for path in self._partial_folder.rglob("*") if path.is_file())
        return Manifest(
            self._source.kind,
            self._source.name,
            sha256_of(self._snapshot_path),
            info.schema,
            time.time_ns() // 1_000,
            info.documents,
            files if with_blobs else None,
            size,
            sorted(missing),
        )

    def _take_snapshot(self) -> SnapshotInfo:
        self._snapshot_path.unlink(missing_ok=True)
        self._source.write(self._snapshot_path)
        return self._snapshot_file().check()

    def _snapshot_file(self) -> SnapshotFile:
        return self._open_snapshot(self._source.kind, self._snapshot_path)

    def _copy_blobs(self, info: SnapshotInfo, advance: OnProgress) -> tuple[SnapshotInfo, int, set[str]]:
        """Copy blobs, and take new snapshots until no blob of the last one was deleted meanwhile."""
        folder_blobs = FolderBlobs(self._partial_folder / BLOBS_FOLDER)
        missing: set[str] = set()
        while True:
            before, missing = missing, self._copy_missing(folder_blobs, advance)
            if missing <= before:
                break
            info = self._take_snapshot()
        wanted = {key for key, _ in self._snapshot_file().references()}
        folder_blobs.delete(list_keys(folder_blobs) - wanted)  # of earlier snapshots
        folder_blobs.sync()
        return info, len(wanted - missing), missing

    def _copy_missing(self, target: FolderBlobs, advance: OnProgress) -> set[str]:
        """Copy the blobs of the snapshot that the backup lacks; return the keys that cannot be copied."""
        missing = set()
        for key, sha256 in self._snapshot_file().references():
            if target.has(key):
                continue
            if self._blobs is None:
                raise InvalidInputError(
                    "documents of this queue have files: give their address with --blobs, or leave them out with"
                    " --without-blobs"
                )
            try:
                if not (isinstance(self._blobs, FolderBlobs) and target.link(self._blobs, key)):
                    copy_blob(self._blobs, target, key, sha256)
            except (BlobNotFoundError, BlobDamagedError):
                missing.add(key)
            else:
                advance(1)
        return missing

    def _publish(self, *, force: bool) -> None:
        old = self._folder.with_name(f"{self._folder.name}.old")
        if force and self._folder.exists():
            _remove_folder(old)
            self._folder.rename(old)
        self._partial_folder.rename(self._folder)
        fsync_paths(self._folder.parent)
        _remove_folder(old)


def require_free_path(folder: Path, *, force: bool) -> None:
    """Refuse a path for a backup that exists already, or whose parent is missing."""
    if not folder.absolute().parent.is_dir():
        raise InvalidInputError(f"there is no folder {folder.absolute().parent}; make it first")
    if not folder.exists():
        return
    if not (folder / MANIFEST).is_file():
        raise IllegalTransitionError(f"{folder} exists already and is no backup; give another name")
    if not force:
        raise IllegalTransitionError(f"{folder} exists already; give another name, or --force to replace that backup")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a backup."""
    path = folder / MANIFEST
    try:
        fields: dict[str, Any] = json.loads(path.read_bytes())
        if fields.pop("format") != FORMAT_VERSION:
            raise StoreVersionError(f"{folder} was written by a newer version of Inturn; restore it with that one")
        return Manifest(**fields)
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidInputError(
            f"{folder} is no backup: give the folder that inturn backup wrote, with {MANIFEST} in it"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreCorruptError(f"{path} is damaged: {error}; use another backup") from error


class Restore:
    """Restores one backup. An interrupted restore resumes when it is run again."""

    def __init__(self, folder: Path, open_snapshot: OpenSnapshot, target: RestoreTarget) -> None:
        self._folder = folder.absolute()
        self._target = target
        self.manifest = read_manifest(folder)
        self._snapshot_path = self._folder / Path(self.manifest.snapshot).name
        self._snapshot = open_snapshot(self.manifest.kind, self._snapshot_path)

    def check(self) -> SnapshotInfo:
        """Refuse a damaged snapshot, a target of another kind, and a target in use."""
        manifest, target = self.manifest, self._target
        if manifest.kind != target.kind:
            raise InvalidInputError(
                f"this is a backup of a queue in {_STORE_NAMES[manifest.kind]}, and {target.display_url} is"
                f" {_STORE_NAMES[target.kind]}; restore it to its own kind, then copy it with inturn move"
            )
        self.is_begun = target.is_begun(manifest.sha256)
        if not self._snapshot_path.is_file() or sha256_of(self._snapshot_path) != manifest.sha256:
            raise StoreCorruptError(
                f"{self._snapshot_path} is damaged: its SHA-256 is not the one in the manifest; use another backup"
            )
        return self._snapshot.check()

    def run(self, blobs: Blobs | None, advance: OnProgress) -> RestoreResult:
        """Fill the target, which stays closed until its blobs are copied. Without `blobs` none is copied."""
        token = self.manifest.sha256
        self._target.fill(self._snapshot_path, str(self._folder), token)
        files, lost = (0, []) if blobs is None else self._copy_blobs(blobs, advance)
        self._target.open(token)
        return RestoreResult(self.manifest.documents, files, lost)

    def missing_in(self, blobs: Blobs) -> set[str]:
        """Return the keys that the snapshot refers to and the blob store lacks."""
        stored = list_keys(blobs)
        return {key for key, _ in self._snapshot.references() if key not in stored}

    def _copy_blobs(self, blobs: Blobs, advance: OnProgress) -> tuple[int, list[str]]:
        """Copy all blobs and check their hashes, also those that an interrupted run has copied."""
        folder_blobs = FolderBlobs(self._folder / BLOBS_FOLDER)
        stored = list_keys(blobs) if self.is_begun else set()
        files, lost = 0, []
        for key, sha256 in _unique(self._snapshot.references()):
            try:
                if not (key in stored and _is_intact(blobs, key, sha256)):
                    copy_blob(folder_blobs, blobs, key, sha256)
                files += 1
            except (BlobNotFoundError, BlobDamagedError):
                lost.append(key)
            advance(1)
        return files, lost


_STORE_NAMES: Final = {"sqlite": "a file", "postgresql": "PostgreSQL"}


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_intact(blobs: Blobs, key: str, sha256: str | None) -> bool:
    """Return whether a blob matches its hash; False if the hash is unknown."""
    with suppress(BlobDamagedError):
        if sha256 is not None:
            blobs.check(key, sha256)
            return True
    return False


def _unique(references: Iterator[tuple[str, str | None]]) -> Iterator[tuple[str, str | None]]:
    seen: set[str] = set()
    for key, sha256 in references:
        if key not in seen:
            seen.add(key)
            yield key, sha256


def _remove_folder(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
