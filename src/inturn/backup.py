"""A backup: a folder with a snapshot of the queue and every file that the snapshot refers to.

    <backup>/backup.json   what it is; written last
    <backup>/queue.db      the queue (queue.zip of PostgreSQL)
    <backup>/blobs/        documents' and results' files, laid out as in every folder of blobs

The snapshot comes first, then its files. A file that was deleted in between belongs to a document that is gone too. So
a new snapshot is made, which no longer knows it, and what is still missing is taken. A file that the next snapshot
still knows was missing before.
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
from inturn.blobs.copying import FOREVER, copy
from inturn.errors import (
    BlobDamagedError,
    BlobNotFoundError,
    IllegalMoveError,
    InvalidInputError,
    StoreCorruptError,
    StoreVersionError,
)
from inturn.files import make_private_folder, new_private, sync_paths
from inturn.stores.snapshots import RestoreTarget, SnapshotFacts, SnapshotFile, SnapshotSource

MANIFEST: Final = "backup.json"
BLOBS: Final = "blobs"
FORMAT: Final = 1
CHUNK: Final = 1 << 20

Advance = Callable[[int], None]
"""Called with the number of files that are done."""
Open = Callable[[str, Path], SnapshotFile]
"""Opens the snapshot of a kind at a path."""


class Manifest(NamedTuple):
    """What a backup holds."""

    kind: str
    """The kind of store."""
    snapshot: str
    """The snapshot's file."""
    sha256: str
    """The snapshot's hash, which also tells one backup from another."""
    schema: int
    made_at: int
    documents: int
    files: int | None
    """None: made without them."""
    size: int
    """Bytes of the snapshot and of all files."""
    missing: list[str]
    """Files that were missing or damaged when it was made."""


class Restored(NamedTuple):
    """What a restore came to."""

    documents: int
    files: int
    lost: list[str]
    """Files that are damaged or missing in the backup."""


class Backup:
    """One run of a backup."""

    def __init__(self, source: SnapshotSource, open_file: Open, blobs: Blobs | None, folder: Path) -> None:
        self._source = source
        self._open = open_file
        self._blobs = blobs
        self._part = folder.with_name(f"{folder.name}.part")
        self._folder = folder
        self._path = self._part / source.name

    def run(self, advance: Advance, *, with_blobs: bool, force: bool) -> Manifest:
        """Write the backup beside its place, then put it there."""
        _remove(self._part)
        try:
            make_private_folder(self._part)
            manifest = self._fill(advance, with_blobs=with_blobs)
            with new_private(self._part / MANIFEST) as file:
                file.write(json.dumps({"format": FORMAT, **manifest._asdict()}).encode())
            sync_paths(self._part / MANIFEST, self._part)
            self._put(force=force)
        finally:
            _remove(self._part)
        return manifest

    def _fill(self, advance: Advance, *, with_blobs: bool) -> Manifest:
        facts = self._snapshot()
        files, missing = 0, set[str]()
        if with_blobs:
            facts, files, missing = self._take_files(facts, advance)
        size = sum(path.stat().st_size for path in self._part.rglob("*") if path.is_file())
        return Manifest(
            self._source.kind,
            self._source.name,
            hash_of(self._path),
            facts.schema,
            time.time_ns() // 1_000,
            facts.documents,
            files if with_blobs else None,
            size,
            sorted(missing),
        )

    def _snapshot(self) -> SnapshotFacts:
        self._path.unlink(missing_ok=True)
        self._source.write(self._path)
        return self._file().check()

    def _file(self) -> SnapshotFile:
        return self._open(self._source.kind, self._path)

    def _take_files(self, facts: SnapshotFacts, advance: Advance) -> tuple[SnapshotFacts, int, set[str]]:
        """Snapshots are made anew until no file of the last one was deleted before it was taken."""
        kept = FolderBlobs(self._part / BLOBS)
        missing: set[str] = set()
        while True:
            before, missing = missing, self._take_missing(kept, advance)
            if missing <= before:
                break
            facts = self._snapshot()
        wanted = {key for key, _ in self._file().references()}
        kept.delete(key for key in kept.keys(FOREVER) if key not in wanted)  # of snapshots before the last one
        kept.sync()
        return facts, len(wanted - missing), missing

    def _take_missing(self, kept: FolderBlobs, advance: Advance) -> set[str]:
        """Take the files that the snapshot refers to and the backup has not yet; those that are not to be had."""
        missing = set()
        for key, sha256 in self._file().references():
            if kept.has(key):
                continue
            if self._blobs is None:
                raise InvalidInputError(
                    "documents of this queue have files: say where they are with --blobs, or leave them out with"
                    " --without-blobs"
                )
            try:
                if not (isinstance(self._blobs, FolderBlobs) and kept.link(self._blobs, key)):
                    copy(self._blobs, kept, key, sha256)
            except (BlobNotFoundError, BlobDamagedError):
                missing.add(key)
            else:
                advance(1)
        return missing

    def _put(self, *, force: bool) -> None:
        old = self._folder.with_name(f"{self._folder.name}.old")
        if force and self._folder.exists():
            _remove(old)
            self._folder.rename(old)
        self._part.rename(self._folder)
        sync_paths(self._folder.parent)
        _remove(old)


def require_place(folder: Path, *, force: bool) -> None:
    """Refuse a place for a backup that is taken, or that cannot be."""
    if not folder.absolute().parent.is_dir():
        raise InvalidInputError(f"there is no folder {folder.absolute().parent}; make it first")
    if not folder.exists():
        return
    if not (folder / MANIFEST).is_file():
        raise IllegalMoveError(f"{folder} is there already and no backup; give another name")
    if not force:
        raise IllegalMoveError(f"{folder} is there already; give another name, or --force to replace that backup")


def read_manifest(folder: Path) -> Manifest:
    """What the backup in a folder holds."""
    path = folder / MANIFEST
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        if found.pop("format") != FORMAT:
            raise StoreVersionError(f"{folder} was written by a newer version of Inturn; restore it with that one")
        return Manifest(**found)
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidInputError(
            f"{folder} is no backup: give the folder that inturn backup wrote, with {MANIFEST} in it"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreCorruptError(f"{path} is damaged: {error}; use another backup") from error


class Restore:
    """One run of a restore. Interrupted, it is run again and goes on."""

    def __init__(self, folder: Path, open_file: Open, target: RestoreTarget) -> None:
        self._folder = folder.absolute()
        self._target = target
        self.manifest = read_manifest(folder)
        self._path = self._folder / Path(self.manifest.snapshot).name
        self._snapshot = open_file(self.manifest.kind, self._path)

    def check(self) -> SnapshotFacts:
        """Refuse a snapshot that is damaged, and a target of another kind, or one that is used."""
        manifest, target = self.manifest, self._target
        if manifest.kind != target.kind:
            raise InvalidInputError(
                f"this is a backup of a queue in {_KINDS[manifest.kind]}, and {target.shown} is {_KINDS[target.kind]};"
                f" restore it to its own kind, and inturn move it then"
            )
        self.is_begun = target.is_begun(manifest.sha256)
        if not self._path.is_file() or hash_of(self._path) != manifest.sha256:
            raise StoreCorruptError(f"{self._path} is damaged: its SHA-256 is not the one noted; use another backup")
        return self._snapshot.check()

    def run(self, blobs: Blobs | None, advance: Advance) -> Restored:
        """Fill the target, which is closed until its files are there; without blobs no file is looked at."""
        token = self.manifest.sha256
        self._target.fill(self._path, str(self._folder), token)
        files, lost = (0, []) if blobs is None else self._copy_files(blobs, advance)
        self._target.open(token)
        return Restored(self.manifest.documents, files, lost)

    def missing_in(self, blobs: Blobs) -> set[str]:
        """Files that the queue refers to and that are not there."""
        there = set(blobs.keys(FOREVER))
        return {key for key, _ in self._snapshot.references() if key not in there}

    def _copy_files(self, blobs: Blobs, advance: Advance) -> tuple[int, list[str]]:
        """Each compared with its hash, those that an interrupted run has copied too."""
        kept = FolderBlobs(self._folder / BLOBS)
        there = set(blobs.keys(FOREVER)) if self.is_begun else set()
        files, lost = 0, []
        for key, sha256 in _once(self._snapshot.references()):
            try:
                if not (key in there and _is_sound(blobs, key, sha256)):
                    copy(kept, blobs, key, sha256)
                files += 1
            except (BlobNotFoundError, BlobDamagedError):
                lost.append(key)
            advance(1)
        return files, lost


_KINDS: Final = {"sqlite": "a file", "postgresql": "PostgreSQL"}


def hash_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_sound(blobs: Blobs, key: str, sha256: str | None) -> bool:
    """Whether a file is whole. Where no hash is known it is copied once more."""
    with suppress(BlobDamagedError):
        if sha256 is not None:
            blobs.check(key, sha256)
            return True
    return False


def _once(references: Iterator[tuple[str, str | None]]) -> Iterator[tuple[str, str | None]]:
    seen: set[str] = set()
    for key, sha256 in references:
        if key not in seen:
            seen.add(key)
            yield key, sha256


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
