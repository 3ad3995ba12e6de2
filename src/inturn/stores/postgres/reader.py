"""What can be seen of a queue in PostgreSQL: each call one snapshot."""

import json
from collections.abc import Sequence
from typing import Any, Final

from inturn.errors import NotFoundError
from inturn.model import Customer, Document, DocumentState, LaneStatus, ResultFile, Worker, report_from_json
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
from inturn.stores.postgres.cache import QueueCache
from inturn.stores.postgres.deadlines import Deadlines
from inturn.stores.postgres.queries import Queries, Row
from inturn.stores.postgres.rows import (
    STATES,
    attempt_from_row,
    document_from_row,
    event_from_row,
    normalize_id,
    parse_settings,
    policy_from_row,
)

LIST_QUERIES: Final = {
    DocumentSort.NEWEST: ("newest_documents", "newest_documents_of", 2**63 - 1),
    DocumentSort.OLDEST: ("oldest_documents", "oldest_documents_of", 0),
}
"""The query of a list by its sort, that of one customer's, and the seq before which it begins."""


class QueueReader:
    """Reads, in one transaction."""

    def __init__(self, queries: Queries, cache: QueueCache) -> None:
        self._queries = queries
        self._cache = cache

    def document(self, id_: str) -> Document:
        row = self._queries.fetch_one("document_by_id", id=normalize_id(id_))
        if row is None:
            raise NotFoundError(f"there is no document {id_}")
        return document_from_row(row)

    def result(self, id_: str) -> str | None:
        row = self._queries.fetch_one("result", id=normalize_id(id_))
        if row is None:
            raise NotFoundError(f"there is no document {id_}")
        text: str | None = row[1]
        return text

    def files(self, id_: str) -> tuple[ResultFile, ...]:
        self.document(id_)
        return tuple(ResultFile._make(row) for row in self._queries.fetch_all("files", id=normalize_id(id_)))

    def attempts(self, id_: str) -> tuple[Attempt, ...]:
        self.document(id_)
        rows = self._queries.fetch_all("attempts", id=normalize_id(id_), kept=MAX_STORED_ATTEMPTS)
        return tuple(attempt_from_row(row) for row in reversed(rows))

    def unreferenced_blobs(self, blobs: Sequence[str]) -> frozenset[str]:
        return frozenset(blobs) - {blob for (blob,) in self._queries.fetch_all("known_blobs", blobs=list(blobs))}

    def workers(self) -> tuple[Worker, ...]:
        return tuple(
            Worker(report_from_json(*texts), seen_at) for *texts, seen_at in self._queries.fetch_all("workers")
        )

    def documents(self, where: DocumentFilter, limit: int, after: str | None, sort: DocumentSort) -> Page[Document]:
        query, query_of, begin = LIST_QUERIES[sort]
        values = {**self._filter_params(where), "after": begin if after is None else int(after), "limit": limit + 1}
        if where.customer is None:
            rows = self._queries.fetch_all(query, **values)
        else:
            rows = self._queries.fetch_all(query_of, **values, lanes=list(LEVELS))
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
            "states": None if where.states is None else sorted(where.states),
            "running": where.states == frozenset({DocumentState.RUNNING}),
            "owner": owner,
            "level": where.level,
            "batch": where.batch,
            "text": None if where.text is None else where.text.lower(),
        }

    def customer(self, name: str) -> Customer:
        customers = self._customers(CustomerFilter(), 1, None, name)
        if not customers:
            raise NotFoundError(f"there is no customer {name!r}")
        return customers[0]

    def customers(self, where: CustomerFilter, limit: int, after: str | None) -> Page[Customer]:
        customers = self._customers(where, limit + 1, after)
        return Page(tuple(customers[:limit]), customers[limit - 1].name if len(customers) > limit else None)

    def _customers(
        self, where: CustomerFilter, limit: int, after: str | None, name: str | None = None
    ) -> list[Customer]:
        rows = self._queries.fetch_all(
            "customers",
            name=name,
            after=after,
            text=None if where.text is None else where.text.lower(),
            paused=where.paused,
            waiting=where.waiting,
            limit=limit,
        )
        ids = [row[0] for row in rows]
        running: dict[int, int] = dict(self._queries.fetch_all("running_of", ids=ids)) if ids else {}
        limits = {owner: more for owner, *more in self._queries.fetch_all("limits_of", customers=ids)} if ids else {}
        waiting: dict[int, list[tuple[int, int]]] = {}
        for owner, level, n in self._queries.fetch_all("waiting_by_lane", ids=ids) if ids else ():
            waiting.setdefault(owner, []).append((level, n))
        return [
            _customer_from_row(row, running.get(row[0], 0), limits.get(row[0]), waiting.get(row[0], [])) for row in rows
        ]

    def has_unnumbered_events(self) -> bool:
        """Whether there are events without a number."""
        return bool((self._queries.fetch_one("has_unnumbered_events") or (False,))[0])

    def events(self, after: int, limit: int) -> tuple[Event, ...]:
        return tuple(event_from_row(row) for row in self._queries.fetch_all("events", after=after, limit=limit))

    def paused(self) -> Operator | None:
        row = self._queries.fetch_one("paused")
        return None if row is None else Operator(*row)

    def policy(self) -> PolicyVersion:
        number = self._queries.fetch_one("policy_number")
        if number is None:
            raise AssertionError("the queue has no row")
        return self._cache.policy(self._queries, number[0])

    def policies(self) -> tuple[PolicyVersion, ...]:
        return tuple(policy_from_row(row) for row in self._queries.fetch_all("policies"))

    def scheduler_snapshot(self) -> SchedulerSnapshot:
        """As the last claim or fold left them."""
        policy = self.policy().policy.turns
        (state,) = self._queries.fetch_one("scheduler_state") or ("",)
        _, dispatched, rotation, levels = json.loads(state)
        rows = self._queries.fetch_all("open_lanes")
        names = self._cache.customer_names(self._queries, dict.fromkeys(row[0] for row in rows))
        lanes = tuple(
            LaneSnapshot(names[owner], level, weight, turn, stamp, waiting, Head(*head))
            for owner, level, weight, turn, stamp, waiting, *head in rows
        )
        return SchedulerSnapshot(policy, dispatched, rotation, tuple(level[3] for level in levels), lanes)

    def ahead_in_lane(self, id_: str) -> int:
        self.document(id_)
        return int((self._queries.fetch_one("ahead", id=normalize_id(id_)) or (0,))[0])

    def throughput(self, since: int) -> Throughput:
        return Throughput._make(self._queries.fetch_one("throughput", since=since) or (0, 0, 0))

    def next_due(self) -> int | None:
        times = self._queries.fetch_one("deadlines") or ()
        return min((at for at in times if at is not None), default=None)

    def prunable(self, before: int, customer: str | None, up_to: int) -> int:
        if customer is None:
            return int((self._queries.fetch_one("count_ended_before", before=before, up_to=up_to) or (0,))[0])
        row = self._queries.fetch_one("customer", name=customer)
        if row is None:
            raise NotFoundError(f"there is no customer {customer!r}")
        return int(
            (self._queries.fetch_one("count_ended_before_of", customer=row[0], before=before, up_to=up_to) or (0,))[0]
        )

    def may_be_claimed(self, now: int | None) -> bool:
        """Whether it is worth waiting for the turn to claim."""
        runs, state, changes, deadlines, at = self._queries.fetch_one("anything_to_claim") or (True, "", True, "", 0)
        if changes or Deadlines.from_json(deadlines).any_due(at if now is None else now):
            return True
        *_, levels = json.loads(state)
        return bool(runs) and any(open_lanes for *_, open_lanes in levels)


def _customer_from_row(row: Row, running: int, limits: list[Any] | None, waiting: list[tuple[int, int]]) -> Customer:
    _, name, count, updated_at, text = row
    settings = parse_settings(text)
    rated = limits is not None and limits[3] is not None and parse_settings(limits[0]).rate == settings.rate
    is_open = not settings.paused and not rated and (settings.cap is None or running < settings.cap)
    lanes = tuple(LaneStatus(level, n, is_open) for level, n in waiting)
    return Customer(name, count, updated_at, settings, running, lanes)
