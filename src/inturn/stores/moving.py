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
    IllegalMoveError,
    InturnError,
    InvalidInputError,
    NotFoundError,
    StoreBusyError,
    StoreError,
)
from inturn.model import SECOND
from inturn.store import Discrepancy

BATCH: Final = 5_000
SILENT_AFTER: Final = 60 * SECOND
"""A worker that was heard of since is taken for alive."""
TRIES: Final = 5

Row = Sequence[Any]
Told = Callable[[str, int, int], None]
"""Hears of a table, its rows moved so far, and all of them."""


class MarkKind(StrEnum):
    """Why a queue is closed."""

    LEAVING = "leaving"
    LEFT = "left"
    ARRIVING = "arriving"
    RESTORING = "restoring"
    BACKUP = "backup"


_WHY: Final = {
    MarkKind.LEAVING: (
        "{shown} is being moved to {peer} and closed meanwhile; if that was interrupted, run the same inturn move"
        " again, or go on here with inturn move --from … --undo"
    ),
    MarkKind.LEFT: "{shown} was moved to {peer}; use that address",
    MarkKind.ARRIVING: (
        "{shown} is not complete: a move from {peer} goes on or was interrupted; wait for it, or run the same"
        " inturn move again"
    ),
    MarkKind.RESTORING: (
        "{shown} is not complete: a restore of {peer} goes on or was interrupted; wait for it, or run the same"
        " inturn restore again"
    ),
    MarkKind.BACKUP: "{shown} is part of a backup, and stays as it is; put it elsewhere with inturn restore",
}


class Mark(NamedTuple):
    """What a closed queue says of itself."""

    kind: MarkKind
    peer: str
    """The address of the other end, as it may be shown."""
    token: str
    """Both ends of one move have the same."""
    run: str = ""
    """The process that fills the target."""

    def why(self, shown: str) -> str:
        """In words, for whoever wanted to use the queue."""
        return _WHY[self.kind].format(shown=shown, peer=self.peer)


class QueueRecord(NamedTuple):
    """The queue's own numbers: the last ones given, where the turns are, and whether it is paused."""

    seq: int
    fence: int
    event: int
    policy: int
    ordered: str
    turns: str
    paused_by: str | None
    paused_why: str | None


class Busy(NamedTuple):
    """What keeps a source from being moved."""

    running: int
    workers: tuple[str, ...]
    """Those heard of lately."""
    unsettled: bool
    """Something came in since the lines were last settled."""


class Reader(Protocol):
    """One state of a source."""

    def busy(self) -> Busy:
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


class End(Protocol):
    """One end of a move."""

    shown: str
    """Its address, as it may stand in a message."""

    def is_there(self) -> bool:
        """Whether there is a queue; of another version: StoreVersionError."""
        ...

    def is_same(self, other: "End") -> bool:
        """Whether both are one queue, as far as addresses tell."""
        ...

    def mark(self) -> Mark | None:
        """Why it is closed; None for one that can be used."""
        ...

    def tables(self) -> dict[str, list[str]]:
        """The tables that are moved row by row, and the columns of each: all that there are in the catalog, without
        those that only this kind of store has.
        """
        ...

    def let_go(self) -> None:
        """Close connections."""
        ...

    # -- a source -----------------------------------------------------------------------------------------------------

    def settle(self) -> tuple[Discrepancy, ...]:
        """Fold all changes into the lines and number all events; what does not agree with the documents."""
        ...

    def close(self, mark: Mark) -> Busy:
        """Close it, unless it is busy, and wait for whoever writes; what it was busy with."""
        ...

    def remark(self, mark: Mark) -> None:
        """Change the mark of a closed queue; IllegalMoveError if it has none with this token."""
        ...

    def reopen(self) -> None:
        """Take the mark away."""
        ...

    def reading(self) -> AbstractContextManager[Reader]:
        """Read one state of it."""
        ...

    # -- a target -----------------------------------------------------------------------------------------------------

    def make(self) -> None:
        """Make an empty queue if there is none."""
        ...

    def is_used(self) -> bool:
        """Whether anything was ever done in it."""
        ...

    def arrive(self, mark: Mark) -> None:
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


class Move:
    """One run of a move. With `keep_source` the source is copied, and stays open."""

    def __init__(self, source: End, target: End, *, keep_source: bool = False) -> None:
        self._source = source
        self._target = target
        self._keep = keep_source
        self._run = uuid.uuid4().hex
        self._token = f"copy of {source.shown}" if keep_source else self._run

    def check(self) -> bool:
        """Refuse what cannot be moved, changing nothing; False when it was moved already and nothing is left to do."""
        source, target = self._source, self._target
        if source.is_same(target):
            raise InvalidInputError(f"--from and --to are the same queue, {source.shown}; give another target")
        if not source.is_there():
            raise NotFoundError(f"there is no queue at {source.shown}; give another --from")
        leaving = source.mark()
        arriving = target.mark() if target.is_there() else None
        if leaving is not None and not self._goes_on(leaving, arriving):
            return False
        if arriving is not None:
            if arriving.kind is not MarkKind.ARRIVING or not self._is_mine(arriving):
                raise IllegalMoveError(f"{arriving.why(target.shown)}; or give another --to")
        elif target.is_there() and target.is_used():
            raise IllegalMoveError(
                f"{target.shown} holds documents or a history of its own; give a target that was never used,"
                f" in PostgreSQL another ?schema="
            )
        if leaving is None:
            with source.reading() as reader:
                _refuse(source, reader.busy())
        return True

    def _goes_on(self, leaving: Mark, arriving: Mark | None) -> bool:
        """Whether a source that is closed is the rest of an earlier run; then its token is ours."""
        source, target = self._source, self._target
        if leaving.kind not in {MarkKind.LEAVING, MarkKind.LEFT} or self._keep:
            raise IllegalMoveError(leaving.why(source.shown))
        if leaving.kind is MarkKind.LEFT and (arriving is None or arriving.token != leaving.token):
            if arriving is None and leaving.peer == target.shown and target.is_there() and target.is_used():
                return False
            raise IllegalMoveError(leaving.why(source.shown))
        self._token = leaving.token
        return True

    def _is_mine(self, arriving: Mark) -> bool:
        return arriving.token == self._token or arriving.peer == self._source.shown

    def begin(self) -> None:
        """Close both ends, or neither if the target refuses."""
        source, target = self._source, self._target
        target.make()
        _compare(source, target)
        mark = Mark(MarkKind.LEAVING, target.shown, self._token)
        was_open = source.mark() is None
        if not was_open:
            source.remark(mark)
        elif not self._keep:
            self._close_source(mark)
        try:
            target.arrive(Mark(MarkKind.ARRIVING, source.shown, self._token, self._run))
        except InturnError:
            if was_open and not self._keep:
                source.reopen()
            raise

    def load(self, told: Told) -> dict[str, int]:
        """Fill the target and open it; the number of rows by table."""
        if self._keep:
            return self._copy(told)
        with self._source.reading() as reader:
            return self._fill(reader, told)

    def _copy(self, told: Told) -> dict[str, int]:
        """From a source that stays open: one state of it in which all is settled."""
        for _ in range(TRIES):
            _sound(self._source)
            with self._source.reading() as reader:
                busy = reader.busy()
                _refuse(self._source, busy)
                if not busy.unsettled:
                    return self._fill(reader, told)
        raise _restless(self._source)

    def _fill(self, reader: Reader, told: Told) -> dict[str, int]:
        source, target = self._source, self._target
        counts = {}
        for table, columns in source.tables().items():
            total, done = reader.count(table), 0
            if total == 0:
                told(table, 0, 0)
            for rows in reader.rows(table, columns):
                target.write(self._run, table, columns, rows)
                done += len(rows)
                told(table, done, total)
            counts[table] = done
        if target.counts() != counts:
            raise StoreError(f"{target.shown} does not hold what was written to it; run the same inturn move again")
        if not self._keep:
            source.remark(Mark(MarkKind.LEFT, target.shown, self._token))
        target.complete(self._run, reader.queue())
        return counts

    def _close_source(self, mark: Mark) -> None:
        for _ in range(TRIES):
            _sound(self._source)
            busy = self._source.close(mark)
            _refuse(self._source, busy)
            if not busy.unsettled:
                return
        raise _restless(self._source)


def undo(source: End) -> None:
    """Open a source again whose move was given up before its end."""
    mark = source.mark() if source.is_there() else None
    if mark is None:
        raise IllegalMoveError(f"{source.shown} is not closed by a move; nothing is to be undone")
    if mark.kind is not MarkKind.LEAVING:
        advice = {
            MarkKind.LEFT: "; move it back into a new place instead",
            MarkKind.ARRIVING: "; its source can be reopened",
        }
        raise IllegalMoveError(f"{mark.why(source.shown)}{advice.get(mark.kind, '')}")
    source.reopen()


def _refuse(source: End, busy: Busy) -> None:
    if busy.workers:
        raise StoreBusyError(
            f"workers of {source.shown} were heard of in the last minute: {', '.join(busy.workers)}; stop them with"
            f" SIGTERM and wait until they have ended (one that was killed falls silent after a minute)"
        )
    if busy.running:
        raise StoreBusyError(
            f"{busy.running} documents of {source.shown} are running; let their workers finish and stop. Those of a"
            f" worker that died wait again once their lease has ended and inturn upkeep --once was run"
        )


def _sound(source: End) -> None:
    wrong = source.settle()
    if wrong:
        raise StoreError(
            f"{len(wrong)} counts of {source.shown} do not agree with its documents; run inturn doctor --repair first"
        )


def _restless(source: End) -> StoreBusyError:
    return StoreBusyError(f"documents keep coming into {source.shown}; stop whoever submits them, then try again")


def _compare(source: End, target: End) -> None:
    """Both ends know the same tables and columns: otherwise some would be lost."""
    here, there = (
        {f"{table}.{each}" for table, names in end.tables().items() for each in names} for end in (source, target)
    )
    if here != there:
        raise StoreError(
            f"{source.shown} and {target.shown} do not have the same tables: {', '.join(sorted(here ^ there))};"
            f" run inturn migrate for both, and report this if that does not help"
        )
