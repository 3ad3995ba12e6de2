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


class IllegalTransitionError(InturnError):
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


class StoreNotFoundError(StoreError, NotFoundError):
    """There is no queue at this address; the message says which command makes one."""

    code = "store_not_found"


class StoreVersionError(StoreError):
    """The store was made by a newer version of Inturn: use that one. Or by an older one: run inturn migrate."""

    code = "store_version"


class StoreMovedError(StoreError):
    """The queue was moved elsewhere, or a move into it is not complete; the message says where, and what to do."""

    code = "store_moved"


class RetentionRefusedError(InturnError):
    """A maintenance round deleted nothing because its clock may be wrong; the message says why, and what to do."""

    code = "retention_refused"


class BlobError(InturnError):
    """A document's bytes could not be written or read; nothing half-written was left to be seen."""

    code = "blob"


class BlobNotFoundError(BlobError, NotFoundError):
    """There are no bytes under this key: they were deleted, or the address is that of another blob store."""

    code = "blob_not_found"


class BlobDamagedError(BlobError):
    """The bytes are not the ones that were put there: their SHA-256 differs. Restore them from a backup."""

    code = "blob_damaged"


class BlobTooLargeError(BlobError, InvalidInputError):
    """There are more bytes than the limit allows; nothing was kept."""

    code = "blob_too_large"


class BlobFullError(BlobError):
    """The disk of the blob store is full: nothing was kept; make room and try again."""

    code = "blob_full"


class FetchError(InturnError):
    """A document could not be fetched from its uri this time; another attempt may succeed."""

    code = "fetch"


class FetchRefusedError(FetchError):
    """A uri that is not allowed, or leads where it may not: another attempt would end the same way."""

    code = "fetch_refused"
