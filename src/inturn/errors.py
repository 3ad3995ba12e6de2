"""The exceptions of Inturn: one tree, with a stable `code` for programs.

The message describes the problem and what to do about it.
"""

from typing import ClassVar


class InturnError(Exception):
    """Base class of all errors of Inturn."""

    code: ClassVar[str] = "error"


class InvalidInputError(InturnError, ValueError):
    """A value is invalid; the message names the value and the allowed range."""

    code = "invalid_input"


class NotFoundError(InturnError, LookupError):
    """There is no such document, customer or version."""

    code = "not_found"


class StaleFenceError(InturnError):
    """The claim was lost: its lease expired, or the document was cancelled or purged. Drop the outcome."""

    code = "stale_fence"


class IllegalTransitionError(InturnError):
    """The document's state does not allow this transition."""

    code = "illegal_move"


class KeyConflictError(InturnError):
    """The idempotency key was used before for other content."""

    code = "key_conflict"


class VersionConflictError(InturnError):
    """The policy or the setting was changed meanwhile; read it again and repeat the change."""

    code = "version_conflict"


class StoreError(InturnError):
    """The store failed; nothing was written."""

    code = "store_error"


class StoreBusyError(StoreError):
    """Another process locked the store for too long; try again."""

    code = "store_busy"


class StoreFullError(StoreError):
    """The disk is full and nothing was written; free some space and try again."""

    code = "store_full"


class StoreReadOnlyError(StoreError):
    """The store is not writable; check the permissions of the file and its folder."""

    code = "store_read_only"


class StoreCorruptError(StoreError):
    """The file is not an Inturn store, or is damaged; restore a backup."""

    code = "store_corrupt"


class StoreNotFoundError(StoreError, NotFoundError):
    """There is no queue at this address; the message names the command that creates one."""

    code = "store_not_found"


class StoreVersionError(StoreError):
    """The schema has another version. If newer, use a newer Inturn; if older, run `inturn migrate`."""

    code = "store_version"


class StoreMovedError(StoreError):
    """The queue was transferred to another store, or a transfer into it is incomplete; the message has the details."""

    code = "store_moved"


class RetentionRefusedError(InturnError):
    """A maintenance round deleted nothing because its clock may be wrong; the message has the details."""

    code = "retention_refused"


class BlobError(InturnError):
    """A blob could not be written or read; no partial blob is visible."""

    code = "blob"


class BlobNotFoundError(BlobError, NotFoundError):
    """There is no blob with this key: it was deleted, or it is in another blob store."""

    code = "blob_not_found"


class BlobDamagedError(BlobError):
    """The SHA-256 of a blob differs from the stored one; restore the blob from a backup."""

    code = "blob_damaged"


class BlobTooLargeError(BlobError, InvalidInputError):
    """The content is larger than the limit; nothing was stored."""

    code = "blob_too_large"


class BlobFullError(BlobError):
    """The disk of the blob store is full and nothing was stored; free some space and try again."""

    code = "blob_full"


class FetchError(InturnError):
    """A document could not be fetched from its uri; another attempt may succeed."""

    code = "fetch"


class FetchRefusedError(FetchError):
    """The uri, or a redirect from it, is not allowed; another attempt would fail too."""

    code = "fetch_refused"
