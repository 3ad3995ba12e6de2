"""A queue in memory as one end of a move: its state as rows, and rows as its state."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from inturn.api_keys import ApiKey
from inturn.clock import SystemClock
from inturn.errors import IllegalTransitionError, StoreMovedError
from inturn.model import EXPEDITED_LEVEL, NO_METADATA, CustomerSettings, DocumentState, settings_to_dict
from inturn.policy.lanes import DEFAULT_SETTINGS
from inturn.policy.scheduler import Order
from inturn.store import Attempt, Discrepancy, Event
from inturn.stores.memory.rows import Row as DocumentRow
from inturn.stores.memory.snapshot import ROW_FIELDS, SPEC_FIELDS, state_from_json
from inturn.stores.memory.state import State
from inturn.stores.memory.store import MemoryStore
from inturn.stores.transfer import (
    BATCH_ROWS,
    WORKER_TIMEOUT,
    ClosedMarker,
    QueueRecord,
    Row,
    TransferBlockers,
    TransferEndpoint,
    TransferReader,
)

DISPLAY_URL: Final = "memory://"
ROW_COLUMNS: Final = (
    "seq", "id", "state", "level", "count", "submitted_at", "ready_at", "attempt", "due_at", "started_at",
    "finished_at", "fence", "worker", "last_outcome", "error", "result", "delayed_at", "began_at", "worked",
)  # fmt: skip
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "api_key": ApiKey._fields,
    "attempt": ("customer", "document", *Attempt._fields),
    "customer": ("id", "name", "count", "updated_at", "settings", "paused", "capped", "keeps"),
    "document": (*ROW_COLUMNS, *SPEC_FIELDS, "customer", "lane"),
    "event": ("number", "at", "kind", "customer", "documents", "operator", "why", "detail"),
    "file": ("document", "name", "blob", "size", "sha256", "media_type"),
    "idempotency_key": ("customer", "key", "fingerprint", "at", "answer"),
    "limits": ("customer", "settings", "running", "tat", "rate_closed_until"),
    "lane": (
        "customer", "level", "weight", "turn", "stamp", "waiting", "head_seq", "head_ready_at", "head_cost",
        "scheduled", "out_of_turn_at", "sort_key", "sort_tie",
    ),
    "policy": ("number", "settings", "at", "operator", "why"),
}  # fmt: skip


class ClosedState:
    """Stands in the place of a closed queue's state: whoever touches it is told why."""

    def __init__(self, state: State, mark: ClosedMarker) -> None:
        self.__dict__.update(kept=state, mark=mark)

    def __getattr__(self, name: str) -> Any:
        raise StoreMovedError(self.__dict__["mark"].why(DISPLAY_URL))

    def __setattr__(self, name: str, value: object) -> None:
        raise StoreMovedError(self.__dict__["mark"].why(DISPLAY_URL))


class MemoryEndpoint(TransferEndpoint):
    """A store of this process. Nothing of it survives, so that there is no other version and nothing to make."""

    display_url = DISPLAY_URL

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._loaded_rows: dict[str, list[dict[str, Any]]] = {}

    def exists(self) -> bool:
        return True

    def is_same(self, other: TransferEndpoint) -> bool:
        return isinstance(other, MemoryEndpoint) and other._store is self._store  # noqa: SLF001 - its own class

    def closed_marker(self) -> ClosedMarker | None:
        closed: Any = self._store._state  # noqa: SLF001 - its own room
        return closed.__dict__["mark"] if isinstance(closed, ClosedState) else None

    def tables(self) -> dict[str, list[str]]:
        return {table: list(columns) for table, columns in COLUMNS.items()}

    def disconnect(self) -> None:
        """Nothing is held."""

    def _state(self) -> State:
        result: Any = self._store._state  # noqa: SLF001 - its own room
        state: State = result.__dict__["kept"] if isinstance(result, ClosedState) else result
        return state

    def _replace_state(self, state: Any) -> None:
        self._store._state = state  # noqa: SLF001 - its own room

    # -- a source -----------------------------------------------------------------------------------------------------

    def fold_and_recount(self) -> tuple[Discrepancy, ...]:
        return self._store.recount(repair=False)

    def close(self, marker: ClosedMarker) -> TransferBlockers:
        with self.open_reader() as reader:
            busy = reader.blockers()
            if not busy.running and not busy.workers:
                self._replace_state(ClosedState(self._state(), marker))
            return busy

    def update_marker(self, marker: ClosedMarker) -> None:
        closed_marker = self.closed_marker()
        if closed_marker is None or closed_marker.token != marker.token:
            raise IllegalTransitionError(f"{self.display_url} was opened again meanwhile; move it again")
        self._replace_state(ClosedState(self._state(), marker))

    def reopen(self) -> None:
        self._replace_state(self._state())

    @contextmanager
    def open_reader(self) -> Iterator[TransferReader]:
        with self._store._lock:  # noqa: SLF001 - its own room
            yield MemoryTransferReader(self._state())

    # -- a target -----------------------------------------------------------------------------------------------------

    def create(self) -> None:
        """It is there."""

    def is_used(self) -> bool:
        state = self._state()
        return bool(state.lanes.customers or state.journal.last)

    def begin_load(self, marker: ClosedMarker) -> None:
        self._loaded_rows = {table: [] for table in COLUMNS}
        self._replace_state(ClosedState(self._state(), marker))

    def write(self, run: str, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._require_run(run)
        self._loaded_rows[table] += [dict(zip(columns, row, strict=True)) for row in rows]

    def counts(self) -> dict[str, int]:
        return {table: len(rows) for table, rows in self._loaded_rows.items()}

    def complete(self, run: str, queue: QueueRecord) -> None:
        self._require_run(run)
        state = state_from_json(_snapshot_from_rows(self._loaded_rows, queue))
        for loaded_row in self._loaded_rows["customer"]:
            if loaded_row["settings"] is None:
                state.lanes.customers[
                    loaded_row["name"]
                ].settings = DEFAULT_SETTINGS  # these very ones: it has none of its own
        self._replace_state(state)

    def _require_run(self, run: str) -> None:
        mark = self.closed_marker()
        if mark is None or mark.run != run:
            raise IllegalTransitionError(f"another move has taken {self.display_url} over; leave it to that one")


class MemoryTransferReader(TransferReader):
    """A state as rows. Customers have no ids here: they get the numbers in which they came."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._ids = {name: number for number, name in enumerate(state.lanes.customers, start=1)}

    def blockers(self) -> TransferBlockers:
        state, since = self._state, SystemClock().now() - WORKER_TIMEOUT
        running = sum(row.state is DocumentState.RUNNING for row in state.documents.values())
        workers = sorted(name for name, worker in state.workers.items() if worker.seen_at >= since)
        return TransferBlockers(running, tuple(workers), has_pending_changes=False)

    def queue(self) -> QueueRecord:
        state, turns = self._state, self._state.lanes.scheduler
        levels = [[*level.virtual_time, level.max_turn, level.overdue_uses, level.open_lanes] for level in turns.levels]
        standing = json.dumps([turns.next_stamp, turns.dispatched, turns.rotation, levels])
        paused = state.paused or (None, None)
        policy, order = state.policies[-1].number, str(turns.policy.order)
        return QueueRecord(state.seq, state.fence, state.journal.last, policy, order, standing, *paused)

    def count(self, table: str) -> int:
        return sum(1 for _ in self._records(table))

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[list[Row]]:
        result = [dict(zip(COLUMNS[table], record, strict=True)) for record in self._records(table)]
        rows: list[Row] = [[item[name] for name in columns] for item in result]
        for start in range(0, len(rows), BATCH_ROWS):
            yield rows[start : start + BATCH_ROWS]

    def blobs(self) -> Iterator[tuple[str, str | None]]:
        stored: dict[str, str | None] = {}
        for row in self._state.documents.values():
            if row.spec.blob is not None:
                stored[row.spec.blob] = row.spec.sha256
            stored |= {file.blob: file.sha256 for file in row.files}
        yield from stored.items()

    def _records(self, table: str) -> Iterator[Row]:
        rows: Iterator[Row] = getattr(self, f"_{table}")()
        return rows

    def _api_key(self) -> Iterator[Row]:
        yield from sorted(self._state.api_keys.values())

    def _attempt(self) -> Iterator[Row]:
        rows = sorted(self._state.documents.values(), key=lambda row: (self._ids[row.customer], row.id))
        for row in rows:
            for attempt in self._state.attempts.get(row.id, {}).values():
                yield (self._ids[row.customer], row.id, *attempt)

    def _policy(self) -> Iterator[Row]:
        for number, policy, at, operator in self._state.policies:
            yield (number, json.dumps(policy.to_dict()), at, *operator)

    def _customer(self) -> Iterator[Row]:
        for name, customer_row in self._state.lanes.customers.items():
            settings, counter = customer_row.settings, customer_row.counter or (None, None)
            flags = (settings.paused, settings.cap is not None, settings.keep is not None)
            yield (self._ids[name], name, *counter, _settings(settings), *flags)

    def _limits(self) -> Iterator[Row]:
        for name, customer_row in self._state.lanes.customers.items():
            if customer_row.settings is not DEFAULT_SETTINGS:
                limits = (customer_row.running, customer_row.tat, customer_row.rate_closed_until)
                yield (self._ids[name], _settings(customer_row.settings), *limits)

    def _lane(self) -> Iterator[Row]:
        fair = self._state.lanes.scheduler.policy.order is Order.FAIR
        for name, customer in self._state.lanes.customers.items():
            for level, line in sorted(customer.lanes.items()):
                head = line.head or (None, None, None)
                place = (line.turn, line.stamp) if fair else (head[0] or 0, 0)
                stands = (line.weight, line.turn, line.stamp, line.waiting)
                yield (self._ids[name], level, *stands, *head, line.scheduled, line.out_of_turn_at, *place)

    def _document(self) -> Iterator[Row]:
        for row in self._in_order():
            stored = row.spec._asdict()
            given = (stored[name] for name in SPEC_FIELDS)
            own = (getattr(row, name) for name in ROW_COLUMNS)
            yield (*own, *given, self._ids[row.customer], row.lane_level)

    def _file(self) -> Iterator[Row]:
        for row in self._in_order():
            for name, *rest in sorted(row.files):
                yield (row.seq, name, *rest)

    def _idempotency_key(self) -> Iterator[Row]:
        stored = [
            (self._ids[customer], key, record) for (customer, key), record in self._state.idempotency_keys.items()
        ]
        for owner, key, (fingerprint, at, answer) in sorted(stored):
            yield (owner, key, fingerprint, at, json.dumps(answer))

    def _event(self) -> Iterator[Row]:
        for number, at, kind, customer, documents, operator, detail in self._state.journal.events:
            text = None if detail is NO_METADATA else json.dumps(dict(detail))
            yield (number, at, kind, customer, list(documents), *(operator or (None, None)), text)

    def _in_order(self) -> list[DocumentRow]:
        return sorted(self._state.documents.values(), key=lambda row: row.seq)


def _settings(settings: CustomerSettings) -> str | None:
    return None if settings is DEFAULT_SETTINGS else json.dumps(settings_to_dict(settings._asdict()))


def _snapshot_from_rows(rows: Mapping[str, list[dict[str, Any]]], queue: QueueRecord) -> dict[str, Any]:
    """Rows as a backup of a memory store has them."""
    names = {row["id"]: row["name"] for row in rows["customer"]}
    next_stamp, dispatched, rotation, levels = json.loads(queue.scheduler_state)
    return {
        "seq": queue.seq,
        "fence": queue.fence,
        "paused": None if queue.paused_by is None else (queue.paused_by, queue.paused_why),
        "policies": [_policy(row) for row in sorted(rows["policy"], key=lambda item: int(item["number"]))],
        "documents": _documents(rows, names),
        "customers": _customers(rows),
        "keys": [
            [names[row["customer"]], row["key"], row["fingerprint"], row["at"], json.loads(row["answer"])]
            for row in rows["idempotency_key"]
        ],
        "events": [_event(row) for row in rows["event"]],
        "last_event": queue.event,
        "turns": [next_stamp, dispatched, rotation, [level[:-1] for level in levels]],
        "access": [[row[name] for name in ApiKey._fields] for row in rows["api_key"]],
        "attempts": [[row[name] for name in ("document", *Attempt._fields)] for row in rows["attempt"]],
    }


def _policy(row: Mapping[str, Any]) -> list[Any]:
    return [row["number"], json.loads(row["settings"]), row["at"], [row["operator"], row["why"]]]


def _event(row: Mapping[str, Any]) -> Sequence[Any]:
    operator = None if row["operator"] is None else (row["operator"], row["why"])
    detail = NO_METADATA if row["detail"] is None else json.loads(row["detail"])
    return Event(row["number"], row["at"], row["kind"], row["customer"], row["documents"], operator, detail)  # type: ignore[arg-type]  # as JSON has it


def _customers(rows: Mapping[str, list[dict[str, Any]]]) -> list[list[Any]]:
    limits = {row["customer"]: row for row in rows["limits"]}
    lines: dict[int, list[list[Any]]] = {}
    for row in rows["lane"]:
        lines.setdefault(row["customer"], []).append([row["level"], row["turn"], row["stamp"], row["out_of_turn_at"]])
    result = []
    for row in rows["customer"]:
        id_, stored = row["id"], limits.get(row["id"], {"tat": 0, "rate_closed_until": None})
        counter = None if row["count"] is None else (row["count"], row["updated_at"])
        settings = (
            settings_to_dict(DEFAULT_SETTINGS._asdict()) if row["settings"] is None else json.loads(row["settings"])
        )
        rate = (stored["tat"], stored["rate_closed_until"])
        result.append([row["name"], counter, settings, *rate, lines.get(id_, [])])
    return result


def _documents(rows: Mapping[str, list[dict[str, Any]]], names: Mapping[int, str]) -> list[list[Any]]:
    files: dict[int, list[list[Any]]] = {}
    for item in rows["file"]:
        stored = [item[name] for name in COLUMNS["file"][1:]]
        files.setdefault(item["document"], []).append(stored)
    result = []
    for item in rows["document"]:
        metadata = {} if item["metadata"] is None else json.loads(item["metadata"])
        given = {**{name: item[name] for name in SPEC_FIELDS}, "metadata": metadata or NO_METADATA}
        row = {
            **item,
            "customer": names[item["customer"]],
            "expedited": item["lane"] == EXPEDITED_LEVEL,
            "lease_until": None,
            "leased_at": None,
            "doubted_at": None,
            "files": files.get(item["seq"], []),
        }
        result.append([given, *(row[name] for name in ROW_FIELDS)])
    return result
