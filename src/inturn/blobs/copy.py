"""Blobs copied from one keeper to another under their own keys, each compared with its hash before it can be seen."""

import hashlib
from collections.abc import Iterable
from typing import Final

from inturn.blobs.base import CHUNK_BYTES, Blobs, require_hash
from inturn.errors import BlobNotFoundError

FAR_FUTURE: Final = 2**62
MAX_NAMED_KEYS: Final = 3


def copy_blob(source: Blobs, target: Blobs, key: str, sha256: str | None) -> None:
    """One blob, whole or not at all."""
    summed = hashlib.sha256()
    with source.open(key) as file, target.begin(key=key) as writing:
        while chunk := file.read(CHUNK_BYTES):
            summed.update(chunk)
            writing.write(chunk)
        if sha256 is not None:
            require_hash(key, sha256, summed.hexdigest())
        writing.commit()


def list_keys(blobs: Blobs) -> set[str]:
    """The keys of all blobs that are there."""
    return set(blobs.keys(FAR_FUTURE))


def require_keys(wanted: Iterable[str], stored: set[str], location: str) -> None:
    """Refuse when any is missing, and name some."""
    missing = [key for key in wanted if key not in stored]
    if missing:
        named = ", ".join(missing[:MAX_NAMED_KEYS]) + (" …" if len(missing) > MAX_NAMED_KEYS else "")
        raise BlobNotFoundError(
            f"{len(missing)} files of documents or results are not in {location} ({named}); say where they are with"
            f" --from-blobs, restore them, or delete their documents"
        )
