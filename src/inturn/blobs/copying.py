"""Blobs copied from one keeper to another under their own keys, each compared with its hash before it can be seen."""

import hashlib
from collections.abc import Iterable
from typing import Final

from inturn.blobs.contract import CHUNK, Blobs, must_match
from inturn.errors import BlobNotFoundError

FOREVER: Final = 2**62
NAMED: Final = 3


def copy(source: Blobs, target: Blobs, key: str, sha256: str | None) -> None:
    """One blob, whole or not at all."""
    summed = hashlib.sha256()
    with source.open(key) as file, target.begin(key=key) as writing:
        while chunk := file.read(CHUNK):
            summed.update(chunk)
            writing.write(chunk)
        if sha256 is not None:
            must_match(key, sha256, summed.hexdigest())
        writing.commit()


def present(blobs: Blobs) -> set[str]:
    """The keys of all blobs that are there."""
    return set(blobs.keys(FOREVER))


def must_be_there(wanted: Iterable[str], kept: set[str], shown: str) -> None:
    """Refuse when any is missing, and name some."""
    missing = [key for key in wanted if key not in kept]
    if missing:
        named = ", ".join(missing[:NAMED]) + (" …" if len(missing) > NAMED else "")
        raise BlobNotFoundError(
            f"{len(missing)} files of documents or results are not in {shown} ({named}); say where they are with"
            f" --from-blobs, restore them, or delete their documents"
        )
