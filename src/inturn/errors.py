"""Everything Inturn refuses or cannot do: one tree, a stable code each.

The message says what was wrong and what to do; the code never changes and is what programs compare.
"""

from typing import ClassVar


class InturnError(Exception):
    """Inturn refuses this, or cannot do it."""

    code: ClassVar[str] = "error"


class InvalidInputError(InturnError, ValueError):
    """A value is outside what is allowed; the message names the value and the allowed range."""

    code = "invalid_input"


class NotFoundError(InturnError, LookupError):
    """There is no such document, customer or version."""

    code = "not_found"


class StaleFenceError(InturnError):
    """The claim was lost (lease expired, cancelled or purged): somebody else answers for the document now."""

    code = "stale_fence"


class IllegalMoveError(InturnError):
    """The document's state does not allow this."""

    code = "illegal_move"


class KeyConflictError(InturnError):
    """The idempotency key was used before for other content."""

    code = "key_conflict"


class VersionConflictError(InturnError):
    """Somebody else changed the policy in between; read it again and repeat."""

    code = "version_conflict"


class StoreError(InturnError):
    """The store could not do its work; nothing was written."""

    code = "store_error"


class StoreBusyError(StoreError):
    """Another process has held the store for too long; try again."""

    code = "store_busy"


class StoreFullError(StoreError):
    """The disk is full: nothing was written; make room and try again."""

    code = "store_full"


class StoreReadOnlyError(StoreError):
    """The store cannot be written to: check the rights of the file and its folder."""

    code = "store_read_only"


class StoreCorruptError(StoreError):
    """The file is no store of ours, or is damaged: restore a backup."""

    code = "store_corrupt"


class StoreVersionError(StoreError):
    """The store was made by a newer version of Inturn; use that version."""

    code = "store_version"
