"""Copies blobs between stores under their own keys. Each hash is checked before the copy is visible."""

import shutil
from collections.abc import Iterable
from typing import Final

from inturn.blobs.base import CHUNK_BYTES, Blobs, require_hash
from inturn.errors import BlobNotFoundError

FAR_FUTURE: Final = 2**62
"""A time in microseconds; all blobs are older."""
MAX_NAMED_KEYS: Final = 3


def copy_blob(source: Blobs, target: Blobs, key: str, sha256: str | None) -> None:
    """Copy one blob, completely or not at all; check its hash if it is known."""
    with source.open(key) as file, target.begin(key=key) as writer:
        shutil.copyfileobj(file, writer, CHUNK_BYTES)
        if sha256 is not None:
            require_hash(key, sha256, writer.sha256)
        writer.commit()


def list_keys(blobs: Blobs) -> set[str]:
    """Return the keys of all blobs in a store."""
    return set(blobs.keys(FAR_FUTURE))


def require_keys(wanted: Iterable[str], stored: set[str], location: str) -> None:
    """Raise `BlobNotFoundError` if a wanted key is not stored; the message names some."""
    missing = [key for key in wanted if key not in stored]
    if missing:
        named = ", ".join(missing[:MAX_NAMED_KEYS]) + (" …" if len(missing) > MAX_NAMED_KEYS else "")
        raise BlobNotFoundError(
            f"{len(missing)} files of documents or results are not in {location} ({named}); give their address with"
            f" --from-blobs, restore them, or delete their documents"
        )
