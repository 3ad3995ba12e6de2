"""A queue moved from one store into another of any kind: the records that both ends speak of, and the order of steps.

A queue that moves is closed: whoever writes to it or opens it is told where it went, or that it is not all there yet.
1. The source is closed as LEAVING, once nothing runs in it; from then on nobody changes it.
2. The target is closed as ARRIVING, emptied, and filled, batch by batch.
3. The source is marked as LEFT, then the target is opened.
So a move that was interrupted anywhere is run again from the beginning: the source is still what it was, and until the
last step the target is of no use to anybody. A later run takes the target over from an earlier one that still goes on.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from inturn.errors import (
    IllegalTransitionError,
    InturnError,
    InvalidInputError,
    NotFoundError,
    StoreBusyError,
    StoreError,
)
from inturn.model import SECOND
from inturn.store import Discrepancy

BATCH_ROWS: Final = 5_000
WORKER_TIMEOUT: Final = 60 * SECOND
"""A worker that was heard of since is taken for alive."""
MAX_TRIES: Final = 5

Row = Sequence[Any]
ProgressCallback = Callable[[str, int, int], None]
"""Hears of a table, its rows moved so far, and all of them."""


class ClosedKind(StrEnum):
    """Why a queue is closed."""

    LEAVING = "leaving"
    LEFT = "left"
    ARRIVING = "arriving"
    RESTORING = "restoring"
    BACKUP = "backup"


_CLOSED_MESSAGES: Final = {
    ClosedKind.LEAVING: (
        "{shown} is being moved to {peer} and closed meanwhile; if that was interrupted, run the same inturn move"
        " again, or go on here with inturn move --from … --undo"
    ),
    ClosedKind.LEFT: "{shown} was moved to {peer}; use that address",
    ClosedKind.ARRIVING: (
        "{shown} is not complete: a move from {peer} goes on or was interrupted; wait for it, or run the same"
        " inturn move again"
    ),
    ClosedKind.RESTORING: (
        "{shown} is not complete: a restore of {peer} goes on or was interrupted; wait for it, or run the same"
        " inturn restore again"
    ),
    ClosedKind.BACKUP: "{shown} is part of a backup, and stays as it is; put it elsewhere with inturn restore",
}


class ClosedMarker(NamedTuple):
    """What a closed queue says of itself."""

    kind: ClosedKind
    peer: str
    """The address of the other end, as it may be shown."""
    token: str
    """Both ends of one move have the same."""
    run: str = ""
    """The process that fills the target."""

    def describe(self, display_url: str) -> str:
        """In words, for whoever wanted to use the queue."""
        return _CLOSED_MESSAGES[self.kind].format(shown=display_url, peer=self.peer)


class QueueRecord(NamedTuple):
    """The queue's own numbers: the last ones given, where the turns are, and whether it is paused."""

    seq: int
    fence: int
    event: int
    policy: int
    ordered: str
    scheduler_state: str
    paused_by: str | None
    paused_why: str | None


class TransferBlockers(NamedTuple):
    """What keeps a source from being moved."""

    running: int
    workers: tuple[str, ...]
    """Those heard of lately."""
    has_pending_changes: bool
    """Something came in since the lines were last settled."""


class TransferReader(Protocol):
    """One state of a source."""

    def blockers(self) -> TransferBlockers:
        """What still goes on."""
        ...

    def queue(self) -> QueueRecord:
        """The queue's own numbers."""
        ...

    def count(self, table: str) -> int:
        """How many rows."""
        ...

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[list[Row]]:
        """A table in batches, by its key. Ids are text, lists of them lists, yes and no are bool."""
        ...

    def blobs(self) -> Iterator[tuple[str, str | None]]:
        """Every blob that a document or a result refers to, with its SHA-256 if that is known."""
        ...


class TransferEndpoint(Protocol):
    """One end of a move."""

    display_url: str
    """Its address, as it may stand in a message."""

    def exists(self) -> bool:
        """Whether there is a queue; of another version: StoreVersionError."""
        ...

    def is_same(self, other: "TransferEndpoint") -> bool:
        """Whether both are one queue, as far as addresses tell."""
        ...

    def closed_marker(self) -> ClosedMarker | None:
        """Why it is closed; None for one that can be used."""
        ...

    def tables(self) -> dict[str, list[str]]:
        """The tables that are moved row by row, and the columns of each: all that there are in the catalog, without
        those that only this kind of store has.
        """
        ...

    def disconnect(self) -> None:
        """Close connections."""
        ...

    # -- a source -----------------------------------------------------------------------------------------------------

    def fold_and_recount(self) -> tuple[Discrepancy, ...]:
        """Fold all changes into the lines and number all events; what does not agree with the documents."""
        ...

    def close(self, marker: ClosedMarker) -> TransferBlockers:
        """Close it, unless it is busy, and wait for whoever writes; what it was busy with."""
        ...

    def update_marker(self, marker: ClosedMarker) -> None:
        """Change the mark of a closed queue; IllegalMoveError if it has none with this token."""
        ...

    def reopen(self) -> None:
        """Take the mark away."""
        ...

    def open_reader(self) -> AbstractContextManager[TransferReader]:
        """Read one state of it."""
        ...

    # -- a target -----------------------------------------------------------------------------------------------------

    def create(self) -> None:
        """Make an empty queue if there is none."""
        ...

    def is_used(self) -> bool:
        """Whether anything was ever done in it."""
        ...

    def begin_load(self, marker: ClosedMarker) -> None:
        """Close it and empty it for this run."""
        ...

    def write(self, run: str, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Add rows; refused if another run has taken over."""
        ...

    def counts(self) -> dict[str, int]:
        """The rows of every table."""
        ...

    def complete(self, run: str, queue: QueueRecord) -> None:
        """Set the queue's own numbers and open it."""
        ...


class Transfer:
    """One run of a move. With `keep_source` the source is copied, and stays open."""

    def __init__(self, source: TransferEndpoint, target: TransferEndpoint, *, keep_source: bool = False) -> None:
        self._source = source
        self._target = target
        self._keep_source = keep_source
        self._run = uuid.uuid4().hex
        self._token = f"copy of {source.display_url}" if keep_source else self._run

    def check(self) -> bool:
        """Refuse what cannot be moved, changing nothing; False when it was moved already and nothing is left to do."""
        source, target = self._source, self._target
        if source.is_same(target):
            raise InvalidInputError(f"--from and --to are the same queue, {source.display_url}; give another target")
        if not source.exists():
            raise NotFoundError(f"there is no queue at {source.display_url}; give another --from")
        leaving = source.closed_marker()
        arriving = target.closed_marker() if target.exists() else None
        if leaving is not None and not self._resumes(leaving, arriving):
            return False
        if arriving is not None:
            if arriving.kind is not ClosedKind.ARRIVING or not self._is_own_target(arriving):
                raise IllegalTransitionError(f"{arriving.describe(target.display_url)}; or give another --to")
        elif target.exists() and target.is_used():
            raise IllegalTransitionError(
                f"{target.display_url} holds documents or a history of its own; give a target that was never used,"
                f" in PostgreSQL another ?schema="
            )
        if leaving is None:
            with source.open_reader() as reader:
                _require_idle(source, reader.blockers())
        return True

    def _resumes(self, leaving: ClosedMarker, arriving: ClosedMarker | None) -> bool:
        """Whether a source that is closed is the rest of an earlier run; then its token is ours."""
        source, target = self._source, self._target
        if leaving.kind not in {ClosedKind.LEAVING, ClosedKind.LEFT} or self._keep_source:
            raise IllegalTransitionError(leaving.describe(source.display_url))
        if leaving.kind is ClosedKind.LEFT and (arriving is None or arriving.token != leaving.token):
            if arriving is None and leaving.peer == target.display_url and target.exists() and target.is_used():
                return False
            raise IllegalTransitionError(leaving.describe(source.display_url))
        self._token = leaving.token
        return True

    def _is_own_target(self, arriving: ClosedMarker) -> bool:
        return arriving.token == self._token or arriving.peer == self._source.display_url

    def begin(self) -> None:
        """Close both ends, or neither if the target refuses."""
        source, target = self._source, self._target
        target.create()
        _require_same_tables(source, target)
        mark = ClosedMarker(ClosedKind.LEAVING, target.display_url, self._token)
        was_open = source.closed_marker() is None
        if not was_open:
            source.update_marker(mark)
        elif not self._keep_source:
            self._close_source(mark)
        try:
            target.begin_load(ClosedMarker(ClosedKind.ARRIVING, source.display_url, self._token, self._run))
        except InturnError:
            if was_open and not self._keep_source:
                source.reopen()
            raise

    def load(self, on_progress: ProgressCallback) -> dict[str, int]:
        """Fill the target and open it; the number of rows by table."""
        if self._keep_source:
            return self._copy(on_progress)
        with self._source.open_reader() as reader:
            return self._fill(reader, on_progress)

    def _copy(self, on_progress: ProgressCallback) -> dict[str, int]:
        """From a source that stays open: one state of it in which all is settled."""
        for _ in range(MAX_TRIES):
            _require_consistent(self._source)
            with self._source.open_reader() as reader:
                busy = reader.blockers()
                _require_idle(self._source, busy)
                if not busy.has_pending_changes:
                    return self._fill(reader, on_progress)
        raise _still_changing_error(self._source)

    def _fill(self, reader: TransferReader, on_progress: ProgressCallback) -> dict[str, int]:
        source, target = self._source, self._target
        counts = {}
        for table, columns in source.tables().items():
            total, done = reader.count(table), 0
            if total == 0:
                on_progress(table, 0, 0)
            for rows in reader.rows(table, columns):
                target.write(self._run, table, columns, rows)
                done += len(rows)
                on_progress(table, done, total)
            counts[table] = done
        if target.counts() != counts:
            raise StoreError(
                f"{target.display_url} does not hold what was written to it; run the same inturn move again"
            )
        if not self._keep_source:
            source.update_marker(ClosedMarker(ClosedKind.LEFT, target.display_url, self._token))
        target.complete(self._run, reader.queue())
        return counts

    def _close_source(self, marker: ClosedMarker) -> None:
        for _ in range(MAX_TRIES):
            _require_consistent(self._source)
            busy = self._source.close(marker)
            _require_idle(self._source, busy)
            if not busy.has_pending_changes:
                return
        raise _still_changing_error(self._source)


def undo(source: TransferEndpoint) -> None:
    """Open a source again whose move was given up before its end."""
    mark = source.closed_marker() if source.exists() else None
    if mark is None:
        raise IllegalTransitionError(f"{source.display_url} is not closed by a move; nothing is to be undone")
    if mark.kind is not ClosedKind.LEAVING:
        advice = {
            ClosedKind.LEFT: "; move it back into a new place instead",
            ClosedKind.ARRIVING: "; its source can be reopened",
        }
        raise IllegalTransitionError(f"{mark.describe(source.display_url)}{advice.get(mark.kind, '')}")
    source.reopen()


def _require_idle(source: TransferEndpoint, blockers: TransferBlockers) -> None:
    if blockers.workers:
        raise StoreBusyError(
            f"workers of {source.display_url} were heard of in the last minute: {', '.join(blockers.workers)}; "
            f"stop them with"
            f" SIGTERM and wait until they have ended (one that was killed falls silent after a minute)"
        )
    if blockers.running:
        raise StoreBusyError(
            f"{blockers.running} documents of {source.display_url} are running; let their workers finish and "
            f"stop. Those of a"
            f" worker that died wait again once their lease has ended and inturn upkeep --once was run"
        )


def _require_consistent(source: TransferEndpoint) -> None:
    error = source.fold_and_recount()
    if error:
        raise StoreError(
            f"{len(error)} counts of {source.display_url} do not agree with its documents; run inturn doctor "
            f"--repair first"
        )


def _still_changing_error(source: TransferEndpoint) -> StoreBusyError:
    return StoreBusyError(f"documents keep coming into {source.display_url}; stop whoever submits them, then try again")


def _require_same_tables(source: TransferEndpoint, target: TransferEndpoint) -> None:
    """Both ends know the same tables and columns: otherwise some would be lost."""
    here, there = (
        {f"{table}.{name}" for table, names in end.tables().items() for name in names} for end in (source, target)
    )
    if here != there:
        raise StoreError(
            f"{source.display_url} and {target.display_url} do not have the same tables: "
            f"{', '.join(sorted(here ^ there))};"
            f" run inturn migrate for both, and report this if that does not help"
        )
