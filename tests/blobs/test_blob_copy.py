"""Blobs copied between a folder and S3, under their own keys."""

import io
from pathlib import Path
from typing import Any

import pytest

from inturn.blobs import FolderBlobs
from inturn.blobs.copy import copy_blob, list_keys, require_keys
from inturn.errors import BlobDamagedError, BlobNotFoundError

BYTES = b"a document" * 300_000


def test_a_copy_has_the_same_key_and_bytes(harness: Any, tmp_path: Path) -> None:
    source = FolderBlobs(tmp_path / "source")
    blob = source.put(io.BytesIO(BYTES))
    copy_blob(source, harness.blobs, blob.key, blob.sha256)
    harness.blobs.check(blob.key, blob.sha256)
    assert list_keys(harness.blobs) == {blob.key}
    copy_blob(harness.blobs, back := FolderBlobs(tmp_path / "back"), blob.key, None)
    back.check(blob.key, blob.sha256)


def test_a_damaged_blob_is_not_copied(harness: Any, tmp_path: Path) -> None:
    blob = harness.blobs.put(io.BytesIO(BYTES))
    harness.replace(blob.key, b"a bad disk")
    target = FolderBlobs(tmp_path / "target")
    with pytest.raises(BlobDamagedError):
        copy_blob(harness.blobs, target, blob.key, blob.sha256)
    assert list_keys(target) == set()


def test_copy_ignores_leftovers_of_a_dead_writer(tmp_path: Path) -> None:
    source, target = FolderBlobs(tmp_path / "source"), FolderBlobs(tmp_path / "target")
    blob = source.put(io.BytesIO(BYTES))
    target.begin(key=blob.key).write(b"half of it")
    copy_blob(source, target, blob.key, blob.sha256)
    target.check(blob.key, blob.sha256)


def test_error_counts_missing_blobs_and_names_some(harness: Any) -> None:
    blob = harness.blobs.put(io.BytesIO(BYTES))
    require_keys([blob.key], list_keys(harness.blobs), "here")
    with pytest.raises(BlobNotFoundError, match=r"4 files .* are not in here \(a, b, c …\)"):
        require_keys([blob.key, "a", "b", "c", "d"], list_keys(harness.blobs), "here")
