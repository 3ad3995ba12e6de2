"""Operator and maintenance actions on whole customers, and the numbering of events. Each runs in one transaction."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from inturn.errors import NotFoundError, StoreReadOnlyError
from inturn.model import CustomerSettings, DocumentState, clean_settings, settings_to_dict
from inturn.policy import Counter
from inturn.store import IDEMPOTENCY_KEY_RETENTION, EventKind, Operator, PruneResult
from inturn.stores.postgres.cache import QueueCache
from inturn.stores.postgres.connection import Database, TransactionKind
from inturn.stores.postgres.lane_log import LaneLog
from inturn.stores.postgres.queries import Queries, Row
from inturn.stores.postgres.rows import parse_settings
from inturn.stores.postgres.submit import Submitter
from inturn.stores.postgres.transitions import Transitions


class Admin:
    """Actions of one transaction at one instant: the server's time unless one is given."""

    def __init__(self, queries: Queries, cache: QueueCache, now: int | None) -> None:
        self._queries = queries
        self._cache = cache
        self._now = now

    def now(self) -> int:
        """The time."""
        return int((self._queries.fetch_one("now") or (0,))[0]) if self._now is None else self._now

    def add_event(
        self,
        kind: EventKind,
        customer: str | None,
        operator: Operator | None,
        detail: Mapping[str, Any] | None = None,
        lane_log: LaneLog | None = None,
    ) -> None:
        """Add an event that names no document, and its lane log entries."""
        transitions = Transitions(self._queries, lane_log or LaneLog(), self._cache, self.now())
        transitions.add_event(kind, customer, operator, detail)
        transitions.flush()

    def change_customer(self, name: str, changes: Mapping[str, Any], operator: Operator) -> CustomerSettings:
        """Change settings under the claim and cap locks, so that running documents can be counted."""
        queries = self._queries
        known = queries.fetch_one("customer", name=name)
        clean_settings(parse_settings(None if known is None else known[3])._replace(**changes))
        owner, _ = Submitter(queries, self._cache, None).lock_or_add_customer(name)
        queries.execute("lock_claims")
        queries.execute("lock_caps")
        (*_, before) = queries.fetch_one("customer", name=name) or (None,)
        settings = clean_settings(parse_settings(before)._replace(**changes))
        lane_log = LaneLog()
        lane_log.settings_changed(owner, settings, sum(n for _, n in queries.fetch_all("running_of", ids=[owner])))
        queries.execute(
            "set_settings",
            id=owner,
            settings=json.dumps(settings_to_dict(settings._asdict())),
            paused=settings.paused,
            capped=settings.cap is not None,
            keeps=settings.keep is not None,
        )
        self.add_event(EventKind.CUSTOMER_CHANGED, name, operator, settings_to_dict(changes), lane_log)
        return settings

    def purge(self, customer: str, operator: Operator) -> PruneResult:
        """Delete all documents of a customer, whose row is locked: none of its submits is in flight."""
        queries = self._queries
        row = queries.fetch_one("lock_customer", name=customer)
        if row is None:
            raise NotFoundError(f"there is no customer {customer!r}")
        owner = row[0]
        is_capped = bool(queries.fetch_all("capped_of", ids=[owner]))
        blobs = tuple(blob for (blob,) in queries.fetch_all("blobs_of", customer=owner))
        queries.execute("purge_files", customer=owner)
        lane_log, documents = LaneLog(), 0
        for state, lane, n in sorted(queries.fetch_all("purge_documents", customer=owner)):
            documents += n
            if state == DocumentState.WAITING:
                lane_log.emptied(owner, lane, n)
            elif state == DocumentState.RUNNING and is_capped:
                for _ in range(n):
                    lane_log.stopped(owner)
        queries.execute("purge_attempts", customer=owner)
        (keys,) = queries.fetch_one("purge_idempotency_keys", customer=owner) or (0,)
        self.add_event(EventKind.PURGED, customer, operator, {"documents": documents}, lane_log)
        return PruneResult(documents, 0, keys, blobs)

    def prune(self, before: int, up_to: int, limit: int) -> PruneResult:
        """Delete what ended long ago: documents, events, keys."""
        removed = self._delete_documents(
            self._queries.fetch_all("ended_before", before=before, up_to=up_to, limit=limit)
        )
        (events,) = self._queries.fetch_one("forget_events", before=before, limit=limit) or (0,)
        (keys,) = self._queries.fetch_one("forget_idempotency_keys", before=self.now() - IDEMPOTENCY_KEY_RETENTION) or (
            0,
        )
        return removed._replace(events=events, keys=keys)

    def prune_customer(self, customer: str, before: int, up_to: int, limit: int) -> PruneResult:
        """Delete what ended long ago of one customer's documents."""
        row = self._queries.fetch_one("customer", name=customer)
        if row is None:
            raise NotFoundError(f"there is no customer {customer!r}")
        where = {"customer": row[0], "before": before, "up_to": up_to, "limit": limit}
        return self._delete_documents(self._queries.fetch_all("ended_before_of", **where))

    def _delete_documents(self, rows: list[Row]) -> PruneResult:
        """Delete these documents, given as seq and blob, with their attempts and the files of their results."""
        seqs = [seq for seq, _ in rows]
        if not seqs:
            return PruneResult(0, 0, 0, ())
        files = sorted(self._queries.fetch_all("forget_files", seqs=seqs))
        self._queries.execute("forget_attempts", seqs=seqs)
        self._queries.execute("forget_documents", seqs=seqs)
        blobs = [blob for _, blob in rows if blob is not None]
        return PruneResult(len(rows), 0, 0, (*blobs, *(blob for _, blob in files)))


def lock_owners(queries: Queries, ids: Sequence[str]) -> dict[int, Counter | None]:
    """Lock the customers of these documents by id, before any document; return their counters."""
    owners = [owner for (owner,) in queries.fetch_all("owners_of", ids=list(ids))]
    rows = queries.fetch_all("lock_customers", ids=owners) if owners else []
    return {owner: None if count is None else Counter(count, updated_at) for owner, _, count, updated_at in rows}


def number_events(database: Database) -> None:
    """Number the events of the outbox in order of insertion; gaps are never filled later."""

    def work(queries: Queries) -> None:
        queries.fetch_one("lock_event_sequence")
        queries.execute("number_events")

    with suppress(StoreReadOnlyError):
        database.run(TransactionKind.WRITE, work)
