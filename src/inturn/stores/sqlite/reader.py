"""Read a queue in SQLite on a connection of its own, so that no writer waits for it."""

import json
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final

from inturn.errors import NotFoundError
from inturn.model import ENDED, Customer, Document, LaneStatus, ResultFile, Worker, report_from_json
from inturn.policy.scheduler import LEVELS, Head
from inturn.store import (
    MAX_STORED_ATTEMPTS,
    Attempt,
    Counts,
    CustomerFilter,
    DocumentFilter,
    DocumentSort,
    Event,
    LaneSnapshot,
    Operator,
    Page,
    PolicyVersion,
    SchedulerSnapshot,
    Throughput,
)
from inturn.stores.sqlite.claim_window import ClaimWindow
from inturn.stores.sqlite.queries import (
    STATES,
    Queries,
    Row,
    attempt_from_row,
    document_from_row,
    event_from_row,
    pack_id,
    parse_settings,
    policy_from_row,
)

NEVER: Final = 2**63 - 1
LIST_QUERIES: Final = {DocumentSort.NEWEST: "newest_documents", DocumentSort.OLDEST: "oldest_documents"}
LANE_LIST_QUERIES: Final = {DocumentSort.NEWEST: "newest_documents_of", DocumentSort.OLDEST: "oldest_documents_of"}
_by_seq: Final = itemgetter(2)


class QueueReader:
    """Read queries; the caller lets one thread use it at a time."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def document(self, id_: str) -> Document:
        row = self._queries.fetch_one("document_by_id", id=pack_id(id_))
        if row is None:
            raise NotFoundError(f"there is no document {id_}")
        return document_from_row(row)

    def result(self, id_: str) -> str | None:
        row = self._queries.fetch_one("result", id=pack_id(id_))
        if row is None:
            raise NotFoundError(f"there is no document {id_}")
        text: str | None = row[1]
        return text

    def files(self, id_: str) -> tuple[ResultFile, ...]:
        self.document(id_)
        return tuple(ResultFile._make(row) for row in self._queries.fetch_all("files", id=pack_id(id_)))

    def attempts(self, id_: str) -> tuple[Attempt, ...]:
        self.document(id_)
        rows = self._queries.fetch_all("attempts", id=pack_id(id_), kept=MAX_STORED_ATTEMPTS)
        return tuple(attempt_from_row(row) for row in reversed(rows))

    def unreferenced_blobs(self, blobs: Sequence[str]) -> frozenset[str]:
        return frozenset(blob for blob in blobs if (self._queries.fetch_one("known_blob", blob=blob) or (0,))[0] == 0)

    def workers(self) -> tuple[Worker, ...]:
        return tuple(
            Worker(report_from_json(*texts), seen_at) for *texts, seen_at in self._queries.fetch_all("workers")
        )

    def documents(self, where: DocumentFilter, limit: int, after: str | None, sort: DocumentSort) -> Page[Document]:
        begin = 0 if sort is DocumentSort.OLDEST else NEVER
        values = {**self._filter_params(where), "after": begin if after is None else int(after), "limit": limit + 1}
        if where.customer is None:
            rows = self._queries.fetch_all(LIST_QUERIES[sort], **values)
        else:
            query = LANE_LIST_QUERIES[sort]
            rows = [row for lane in LEVELS for row in self._queries.fetch_all(query, **values, lane=lane)]
            rows.sort(key=_by_seq, reverse=sort is DocumentSort.NEWEST)
        shown = tuple(document_from_row(row) for row in rows[:limit])
        return Page(shown, str(shown[-1].seq) if len(rows) > limit else None)

    def counts(self, where: DocumentFilter) -> Counts:
        states: dict[Any, int] = {}
        waiting: dict[int, int] = {}
        for state, lane, n in self._queries.fetch_all("counts", **self._filter_params(where)):
            states[STATES[state]] = states.get(STATES[state], 0) + n
            if lane is not None:
                waiting[lane] = n
        return Counts(states, waiting)

    def _filter_params(self, where: DocumentFilter) -> dict[str, Any]:
        owner = None
        if where.customer is not None:
            row = self._queries.fetch_one("customer", name=where.customer)
            owner = -1 if row is None else row[0]
        return {
            "states": None if where.states is None else json.dumps(sorted(where.states)),
            "owner": owner,
            "level": where.level,
            "batch": where.batch,
            "text": None if where.text is None else where.text.lower(),
        }

    def customer(self, name: str) -> Customer:
        row = self._queries.fetch_one("customer", name=name)
        if row is None:
            raise NotFoundError(f"there is no customer {name!r}")
        owner, count, updated_at, settings = row
        return self._customers([(owner, name, count, updated_at, settings)])[0]

    def customers(self, where: CustomerFilter, limit: int, after: str | None) -> Page[Customer]:
        rows = self._queries.fetch_all(
            "customers",
            after=after,
            text=None if where.text is None else where.text.lower(),
            paused=where.paused,
            waiting=where.waiting,
            limit=limit + 1,
        )
        shown = tuple(self._customers(rows[:limit]))
        return Page(shown, shown[-1].name if len(rows) > limit else None)

    def _customers(self, rows: Sequence[Row]) -> list[Customer]:
        """With what belongs to them, asked for all at once: lists of all customers are read page by page."""
        owners = json.dumps([row[0] for row in rows])
        running: dict[int, int] = dict(self._queries.fetch_all("running_by_customer"))
        closed = {
            owner: parse_settings(text).rate for owner, text in self._queries.fetch_all("rate_closed", customers=owners)
        }
        waiting: dict[int, list[tuple[int, int]]] = {}
        for owner, level, n in self._queries.fetch_all("waiting_by_lane", customers=owners):
            waiting.setdefault(owner, []).append((level, n))
        result = []
        for owner, name, count, updated_at, text in rows:
            settings, runs = parse_settings(text), running.get(owner, 0)
            is_rated = owner in closed and closed[owner] == settings.rate
            is_open = not settings.paused and not is_rated and (settings.cap is None or runs < settings.cap)
            lanes = tuple(LaneStatus(level, n, is_open) for level, n in waiting.get(owner, ()))
            result.append(Customer(name, count, updated_at, settings, runs, lanes))
        return result

    def events(self, after: int, limit: int) -> tuple[Event, ...]:
        return tuple(event_from_row(row) for row in self._queries.fetch_all("events", after=after, limit=limit))

    def last_event(self) -> int:
        return int((self._queries.fetch_one("last_event") or (0,))[0])

    def operator_events(self, limit: int, before: int | None, customer: str | None) -> tuple[Event, ...]:
        below = NEVER if before is None else before
        if customer is None:
            rows = self._queries.fetch_all("operator_events", before=below, limit=limit)
        else:
            rows = self._queries.fetch_all("operator_events_of", customer=customer, before=below, limit=limit)
        return tuple(event_from_row(row) for row in rows)

    def stored_bytes(self, customer: str) -> int:
        return int((self._queries.fetch_one("stored_bytes", customer=customer) or (0,))[0])

    def paused(self) -> Operator | None:
        row = self._queries.fetch_one("paused")
        return None if row is None else Operator(*row)

    def policy(self) -> PolicyVersion:
        number = self._queries.fetch_one("policy_number")
        if number is None:
            raise AssertionError("the queue has no row")
        return self._queries.policy(number[0])

    def policies(self) -> tuple[PolicyVersion, ...]:
        return tuple(policy_from_row(row) for row in self._queries.fetch_all("policies"))

    def scheduler_snapshot(self) -> SchedulerSnapshot:
        """The open lanes with the lane log applied in memory: nothing is written, and no lock is waited for."""
        window = ClaimWindow.preview(self._queries)
        changed = {(lane.owner, lane.level): lane for lane in window.loaded_lanes()}
        lanes = [
            LaneSnapshot(self._queries.customer_name(owner), level, weight, turn, stamp, waiting, Head(*head))
            for owner, level, weight, turn, stamp, waiting, *head in (
                row[:9] for row in self._queries.fetch_all("open_lanes")
            )
            if (owner, level) not in changed
        ]
        lanes += [
            LaneSnapshot(
                self._queries.customer_name(owner), level, lane.weight, lane.turn, lane.stamp, lane.waiting, lane.head
            )
            for (owner, level), lane in changed.items()
            if lane.scheduled and lane.head is not None
        ]
        lanes.sort(key=attrgetter("level", "turn", "stamp"))
        scheduler = window.scheduler
        overdue_uses = tuple(level.overdue_uses for level in scheduler.levels)
        return SchedulerSnapshot(scheduler.policy, scheduler.dispatched, scheduler.rotation, overdue_uses, tuple(lanes))

    def ahead_in_lane(self, id_: str) -> int:
        self.document(id_)
        return int((self._queries.fetch_one("ahead", id=pack_id(id_)) or (0,))[0])

    def throughput(self, since: int) -> Throughput:
        return Throughput._make(self._queries.fetch_one("throughput", since=since) or (0, 0, 0))

    def next_due(self) -> int | None:
        _, *times = self._queries.fetch_one("deadlines") or (None,)
        return min((at for at in times if at is not None), default=None)

    def prunable(self, before: int, customer: str | None, up_to: int) -> int:
        if customer is None:
            counts = [
                self._queries.fetch_one("count_ended_before", state=state, before=before, up_to=up_to)
                for state in ENDED
            ]
        else:
            owner, *_ = self._queries.fetch_one("customer", name=customer) or (None,)
            if owner is None:
                raise NotFoundError(f"there is no customer {customer!r}")
            counts = [self._queries.fetch_one("count_ended_before_of", customer=owner, before=before, up_to=up_to)]
        return sum(count[0] for count in counts if count is not None)

    def may_be_claimed(self, now: int) -> bool:
        """Whether it is worth taking the write lock to claim."""
        (anything,) = self._queries.fetch_one("anything_to_claim") or (0,)
        return bool(anything) or any(at is not None and at <= now for at in self._queries.fetch_one("deadlines") or ())
