"""Protocols for backup and restore: a queue as one file, and a target to restore it to.

A target is closed by a marker from before its first row until its files are complete. Opening it in between, or after
an interruption, fails with the command to repeat.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol


class SnapshotInfo(NamedTuple):
    """What a snapshot holds."""

    schema: int
    """The number of its last migration."""
    documents: int


class SnapshotSource(Protocol):
    """A queue that can be written to one file while it is in use."""

    kind: str
    """The kind of store that can read it again."""
    name: str
    """What the file is called in a backup."""

    def write(self, path: Path) -> None:
        """Write the queue as of one instant to a new file; nothing in the queue is changed, its schema neither."""
        ...


class SnapshotFile(Protocol):
    """A snapshot in a backup."""

    def check(self) -> SnapshotInfo:
        """Read all of it; StoreCorruptError if it is damaged, StoreVersionError if this version cannot read it."""
        ...

    def references(self) -> Iterator[tuple[str, str | None]]:
        """Every blob that a document or a result refers to, with its SHA-256 if that is known. May repeat one."""
        ...


class RestoreTarget(Protocol):
    """A place for a queue: there is none yet, or one that this very restore began to fill."""

    kind: str
    display_url: str

    def is_begun(self, token: str) -> bool:
        """Whether a restore with this token was interrupted here; IllegalTransitionError if anything else is here."""
        ...

    def fill(self, snapshot: Path, backup: str, token: str) -> None:
        """Put the queue there, closed; a restore that was interrupted goes on."""
        ...

    def open(self, token: str) -> None:
        """Remove the marker."""
        ...
