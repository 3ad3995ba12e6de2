"""Transfer of a whole queue between stores of any kind: the two ends, the closed marker, and the order of steps.

A queue under transfer is closed: every write and every open is refused with the reason.
1. The source is closed as LEAVING once nothing runs in it.
2. The target is closed as ARRIVING, emptied, and filled batch by batch.
3. The source is marked as LEFT, then the target is opened.
An interrupted transfer is run again from the beginning. The later run takes the target over from an earlier one.
An import has step 2 alone, with a file as its source and the marker IMPORTING.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from itertools import islice
from typing import Any, ClassVar, Final, NamedTuple

from inturn.errors import (
    IllegalTransitionError,
    InturnError,
    InvalidInputError,
    NotFoundError,
    StoreBusyError,
    StoreError,
)
from inturn.values import SECOND

BATCH_ROWS: Final = 1_000
"""Rows in memory at a time; a result has at most 256 KiB."""
WORKER_TIMEOUT: Final = 60 * SECOND
"""A worker whose last report is younger is taken for alive."""
FIRST_USED_TABLES: Final = ("customer", "document", "idempotency_key", "event")
"""One of these has a row in every queue that was ever used."""
CUSTOMER_FILTERS: Final = {
    "attempt": "customer = {id}",
    "customer": "id = {id}",
    "customer_group": "customer = {id}",
    "document": "customer = {id}",
    "event": "customer = (SELECT name FROM customer WHERE id = {id})",
    "file": "document IN (SELECT seq FROM document WHERE customer = {id})",
    "history": "scope = 'customer' AND key = (SELECT name FROM customer WHERE id = {id})",
    "idempotency_key": "customer = {id}",
    "limits": "customer = {id}",
    "lane": "customer = {id}",
    "lane_group": "customer = {id}",
    "queue_work": "customer = {id}",
}
"""Tables with rows of one customer, and which rows. API keys are left out: they give access."""
REQUEUED_KIND: Final = "CASE kind WHEN 'joined' THEN 'requeued' ELSE kind END"
"""A target looks for all waiting documents among the requeued ones, so none of them joins a lane anew."""

Row = Sequence[Any]
Batch = tuple[str, Sequence[Row]]
"""A table and some of its rows, with the columns of `Header.columns`."""
ProgressCallback = Callable[[int], None]
"""Is called with the number of rows added."""


class ClosedKind(StrEnum):
    """Why a queue is closed."""

    LEAVING = "leaving"
    LEFT = "left"
    ARRIVING = "arriving"
    IMPORTING = "importing"
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
    ClosedKind.IMPORTING: (
        "{shown} is not complete: an import of {peer} goes on, was interrupted or refused; wait for it, or run"
        " inturn import again"
    ),
    ClosedKind.RESTORING: (
        "{shown} is not complete: a restore of {peer} goes on or was interrupted; wait for it, or run the same"
        " inturn restore again"
    ),
    ClosedKind.BACKUP: "{shown} is part of a backup, and stays as it is; put it elsewhere with inturn restore",
}


class ClosedMarker(NamedTuple):
    """The reason that a closed queue gives."""

    kind: ClosedKind
    peer: str
    """The display URL of the other end, or the name of a file."""
    token: str
    """The same at both ends of one move."""
    run: str = ""
    """The process that fills the target."""

    def describe(self, display_url: str) -> str:
        """The reason in words."""
        return _CLOSED_MESSAGES[self.kind].format(shown=display_url, peer=self.peer)


class QueueRecord(NamedTuple):
    """The queue's own row: the last numbers given, the scheduler's state, and whether it is paused."""

    seq: int
    fence: int
    event: int
    policy: int
    ordered: str
    scheduler_state: str
    paused_by: str | None
    paused_why: str | None


class Header(NamedTuple):
    """What precedes the rows: all that an import checks before it writes."""

    store: str
    """The kind of the source."""
    live: bool
    """Whether documents may have been running."""
    customer: str | None
    """The only customer in it; such a file is no queue."""
    queue: QueueRecord | None
    columns: dict[str, list[str]]
    rows: dict[str, int]


class TransferReader(ABC):
    """One snapshot of a queue, as rows in a form that no store owns: ids are text, flags are bool."""

    SOURCES: ClassVar[Mapping[str, str]] = {}
    """Tables that are read from a query."""
    EXPRESSIONS: ClassVar[Mapping[tuple[str, str], str]] = {}
    """Columns that are read from an expression."""

    def __init__(self) -> None:
        self._filters: Mapping[str, str] = {}

    @abstractmethod
    def now(self) -> int:
        """The time by the clock that worker reports go by."""

    @abstractmethod
    def queue(self) -> QueueRecord:
        """The queue's own row."""

    @abstractmethod
    def catalog(self) -> dict[str, list[str]]:
        """Tables and columns that are transferred: all of the catalog but for those that only this store has."""

    @abstractmethod
    def primary_key(self, table: str) -> list[str]:
        """The columns that rows are sorted by."""

    @abstractmethod
    def select(self, query: str, *values: object) -> Iterator[Row]:
        """The rows of a query with a `?` for each value, in bounded memory."""

    def header(self, store: str, *, live: bool, customer: str | None = None) -> Header:
        """Describe the rows that follow; with a customer, restrict this reader to its rows."""
        columns, queue = self.catalog(), None if customer is not None else self.queue()
        if customer is not None:
            ids = [id_ for (id_,) in self.select("SELECT id FROM customer WHERE name = ?", customer)]
            if not ids:
                raise NotFoundError(f"there is no customer {customer!r}; inturn customers lists them")
            self._filters = {table: sql.format(id=ids[0]) for table, sql in CUSTOMER_FILTERS.items()}
            columns = {table: columns[table] for table in CUSTOMER_FILTERS}
        return Header(store, live, customer, queue, columns, {table: self.count(table) for table in columns})

    def count(self, table: str) -> int:
        """How many rows a table has."""
        ((rows,),) = self.select(f"SELECT count(*) FROM {self._from(table)}")  # noqa: S608 - names of the catalog
        return int(rows)

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[Sequence[Row]]:
        """A table in batches, sorted by its primary key."""
        names = ", ".join(self.EXPRESSIONS.get((table, name), f'"{name}"') for name in columns)
        order = ", ".join(f'"{name}"' for name in self.primary_key(table))
        cursor = self.select(f"SELECT {names} FROM {self._from(table)} ORDER BY {order}")  # noqa: S608 - names of the catalog
        while batch := list(islice(cursor, BATCH_ROWS)):
            yield batch

    def batches(self, columns: Mapping[str, Sequence[str]]) -> Iterator[Batch]:
        """All rows of these tables."""
        for table, names in columns.items():
            for rows in self.rows(table, names):
                yield table, rows

    def blobs(self) -> Iterator[tuple[str, str | None]]:
        """Every blob that a document or a result refers to, with its SHA-256 if that is known."""
        query = (
            f"SELECT blob, max(sha256) FROM (SELECT blob, sha256 FROM {self._from('document')} AND blob IS NOT NULL"  # noqa: S608
            f" UNION ALL SELECT blob, sha256 FROM {self._from('file')}) AS referenced GROUP BY blob"
        )
        return ((blob, sha256) for blob, sha256 in self.select(query))

    def has_rows(self, tables: Iterable[str]) -> bool:
        """Whether any of these tables has a row."""
        return any(True for table in tables for _ in self.select(f'SELECT 1 FROM "{table}" LIMIT 1'))  # noqa: S608

    def require_idle(self, display_url: str) -> None:
        """Refuse a queue with live workers or running documents."""
        since = self.now() - WORKER_TIMEOUT
        workers = [name for (name,) in self.select(f"SELECT name FROM worker WHERE seen_at >= {since} ORDER BY name")]  # noqa: S608
        if workers:
            raise StoreBusyError(
                f"workers of {display_url} reported in the last minute: {', '.join(workers)}; stop them with SIGTERM"
                f" and wait until they have ended (a killed one counts as alive for a minute)"
            )
        ((running,),) = self.select("SELECT count(*) FROM document WHERE state = 'running'")
        if running:
            raise StoreBusyError(
                f"{running} documents of {display_url} are running; let their workers finish and stop. Those of a"
                f" worker that died wait again once their lease has ended and inturn maintenance --once was run"
            )

    def _from(self, table: str) -> str:
        source = self.SOURCES.get(table, f'"{table}"')
        return f'{source} AS "{table}" WHERE {self._filters.get(table, "TRUE")}'


class TransferEndpoint(ABC):
    """A store as one end of a transfer."""

    kind: ClassVar[str]
    display_url: str
    """Its address without a password."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether there is a queue; of another version: StoreVersionError."""

    @abstractmethod
    def is_same(self, other: "TransferEndpoint") -> bool:
        """Whether both are one queue, as far as addresses show it."""

    @abstractmethod
    def closed_marker(self) -> ClosedMarker | None:
        """Why it is closed; None for one that can be used."""

    @abstractmethod
    def disconnect(self) -> None:
        """Close connections."""

    @abstractmethod
    def open_reader(self) -> AbstractContextManager[TransferReader]:
        """Read one snapshot."""

    @abstractmethod
    def close(self, marker: ClosedMarker) -> None:
        """Close a source once all writers are done; one that is not idle is refused and stays open."""

    @abstractmethod
    def update_marker(self, marker: ClosedMarker) -> None:
        """Change the marker of a closed queue; IllegalTransitionError if it has none with this token."""

    @abstractmethod
    def reopen(self) -> None:
        """Remove the marker."""

    @abstractmethod
    def create(self) -> None:
        """Create an empty queue if there is none."""

    @abstractmethod
    def begin_load(self, marker: ClosedMarker) -> None:
        """Close a target and empty it for this run."""

    @abstractmethod
    def write(self, run: str, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Add rows; refused if another run has taken over."""

    @abstractmethod
    def complete(self, run: str, queue: QueueRecord) -> None:
        """Set the queue's own row, make what derives from the rows, and open the queue: all in one transaction."""

    def is_used(self) -> bool:
        """Whether anything was ever done in it."""
        with self.open_reader() as reader:
            return reader.has_rows(FIRST_USED_TABLES)

    def require_token(self, token: str) -> None:
        """Refuse to go on when the marker of this move is gone."""
        stored = self.closed_marker()
        if stored is None or stored.token != token:
            raise IllegalTransitionError(f"{self.display_url} was opened again meanwhile; run inturn move again")


class Load:
    """One run that fills a target: the second half of a move, and all of an import."""

    def __init__(self, target: TransferEndpoint, kind: ClosedKind, peer: str) -> None:
        self._target = target
        run = uuid.uuid4().hex
        self.marker = ClosedMarker(kind, peer, run, run)

    def check(self) -> None:
        """Refuse a target that was used, or is closed for another reason."""
        target, own = self._target, self.marker
        if not target.exists():
            return
        marker = target.closed_marker()
        if marker is None:
            if target.is_used():
                raise IllegalTransitionError(
                    f"{target.display_url} holds documents or a history of its own; give a target that was never used,"
                    f" in PostgreSQL another ?schema="
                )
        elif marker.kind is not own.kind or (
            own.kind is not ClosedKind.IMPORTING and marker.token != own.token and marker.peer != own.peer
        ):
            raise IllegalTransitionError(f"{marker.describe(target.display_url)}; or give another --to")

    def create(self, columns: Mapping[str, Sequence[str]]) -> None:
        """Create the target and compare its columns with those to come: otherwise some would be lost."""
        self._target.create()
        with self._target.open_reader() as reader:
            catalog = reader.catalog()
        here, there = ({f"{table}.{name}" for table in item for name in item[table]} for item in (columns, catalog))
        if here != there:
            raise StoreError(
                f"{self._target.display_url} does not have the same tables: {', '.join(sorted(here ^ there))};"
                f" run inturn migrate for both, and report this if that does not help"
            )

    def fill(self, header: Header, batches: Iterable[Batch], on_progress: ProgressCallback) -> None:
        """Write all rows and count them."""
        target = self._target
        for table, rows in batches:
            target.write(self.marker.run, table, header.columns[table], rows)
            on_progress(len(rows))
        with target.open_reader() as reader:
            counts = {table: reader.count(table) for table in header.columns}
        if counts != header.rows:
            raise StoreError(f"{target.display_url} does not hold the rows that the source has; run the same again")


class Transfer:
    """One run of a move. With `keep_source` the source is copied, and stays open."""

    def __init__(self, source: TransferEndpoint, target: TransferEndpoint, *, keep_source: bool = False) -> None:
        self._source = source
        self._target = target
        self._keep_source = keep_source
        self._load = Load(target, ClosedKind.ARRIVING, source.display_url)

    def check(self) -> bool:
        """Refuse what cannot be moved, changing nothing; False when it was moved already and nothing is left to do."""
        source, target = self._source, self._target
        if source.is_same(target):
            raise InvalidInputError(f"--from and --to are the same queue, {source.display_url}; give another target")
        if not source.exists():
            raise NotFoundError(f"there is no queue at {source.display_url}; give another --from")
        leaving = source.closed_marker()
        if leaving is not None and not self._resumes(leaving):
            return False
        self._load.check()
        if leaving is None:
            with source.open_reader() as reader:
                reader.require_idle(source.display_url)
        return True

    def _resumes(self, leaving: ClosedMarker) -> bool:
        """Whether an earlier run closed the source and did not end; its token is taken over."""
        source, target = self._source, self._target
        arriving = target.closed_marker() if target.exists() else None
        if leaving.kind not in {ClosedKind.LEAVING, ClosedKind.LEFT} or self._keep_source:
            raise IllegalTransitionError(leaving.describe(source.display_url))
        if leaving.kind is ClosedKind.LEFT and (arriving is None or arriving.token != leaving.token):
            if arriving is None and leaving.peer == target.display_url and target.exists() and target.is_used():
                return False
            raise IllegalTransitionError(leaving.describe(source.display_url))
        self._load.marker = self._load.marker._replace(token=leaving.token)
        return True

    def _source_marker(self, kind: ClosedKind) -> ClosedMarker:
        return ClosedMarker(kind, self._target.display_url, self._load.marker.token)

    def begin(self) -> None:
        """Close both ends, or neither if the target refuses."""
        source, load = self._source, self._load
        with source.open_reader() as reader:
            load.create(reader.catalog())
        leaving = self._source_marker(ClosedKind.LEAVING)
        was_open = source.closed_marker() is None
        if not was_open:
            source.update_marker(leaving)
        elif not self._keep_source:
            source.close(leaving)
        try:
            self._target.begin_load(load.marker)
        except InturnError:
            if was_open and not self._keep_source:
                source.reopen()
            raise

    def load(self, on_progress: ProgressCallback) -> dict[str, int]:
        """Fill the target and open it; the number of rows by table."""
        source, load = self._source, self._load
        with source.open_reader() as reader:
            if self._keep_source:
                reader.require_idle(source.display_url)
            header, queue = reader.header(source.kind, live=False), reader.queue()
            load.fill(header, reader.batches(header.columns), on_progress)
        if not self._keep_source:
            source.update_marker(self._source_marker(ClosedKind.LEFT))
        self._target.complete(load.marker.run, queue)
        return header.rows


def undo(source: TransferEndpoint) -> None:
    """Open a source again whose move was given up before its end."""
    marker = source.closed_marker() if source.exists() else None
    if marker is None:
        raise IllegalTransitionError(f"{source.display_url} is not closed by a move; nothing is to be undone")
    if marker.kind is not ClosedKind.LEAVING:
        advice = {
            ClosedKind.LEFT: "; move it back into a new place instead",
            ClosedKind.ARRIVING: "; its source can be reopened",
        }
        raise IllegalTransitionError(f"{marker.describe(source.display_url)}{advice.get(marker.kind, '')}")
    source.reopen()
