"""What operators and upkeep do to whole customers, and how events get their numbers. Each inside one transaction."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from inturn.errors import NotFoundError, StoreReadOnlyError
from inturn.model import CustomerSettings, DocumentState, clean_settings, plain
from inturn.policy import Counter
from inturn.store import KEY_KEPT, EventKind, Operator, Removed
from inturn.stores.postgres.changes import LaterChanges
from inturn.stores.postgres.connection import Begin, Database
from inturn.stores.postgres.intake import Intake
from inturn.stores.postgres.known import Known
from inturn.stores.postgres.moves import Moves
from inturn.stores.postgres.rows import read_settings
from inturn.stores.postgres.tables import Row, Tables


class Upkeep:
    """One transaction's, at one instant: the server's own time, unless one is given."""

    def __init__(self, tables: Tables, known: Known, now: int | None) -> None:
        self._tables = tables
        self._known = known
        self._now = now

    def now(self) -> int:
        """The time."""
        return int((self._tables.one("now") or (0,))[0]) if self._now is None else self._now

    def note(
        self,
        kind: EventKind,
        customer: str | None,
        operator: Operator | None,
        detail: Mapping[str, Any] | None = None,
        later: LaterChanges | None = None,
    ) -> None:
        """One event that names no document, and what lines have to know of it."""
        moves = Moves(self._tables, later or LaterChanges(), self._known, self.now())
        moves.note(kind, customer, operator, detail)
        moves.write()

    def change_customer(self, name: str, changes: Mapping[str, Any], operator: Operator) -> CustomerSettings:
        """New settings. Nothing is claimed and no run ends meanwhile, so that the running documents can be counted."""
        tables = self._tables
        known = tables.one("customer", name=name)
        clean_settings(read_settings(None if known is None else known[3])._replace(**changes))
        owner, _ = Intake(tables, self._known, None).customer(name)
        tables.run("lock_claims")
        tables.run("lock_caps")
        (*_, before) = tables.one("customer", name=name) or (None,)
        settings = clean_settings(read_settings(before)._replace(**changes))
        later = LaterChanges()
        later.changed(owner, settings, sum(n for _, n in tables.all("running_of", ids=[owner])))
        tables.run(
            "set_settings",
            id=owner,
            settings=json.dumps(plain(settings._asdict())),
            paused=settings.paused,
            capped=settings.cap is not None,
            keeps=settings.keep is not None,
        )
        self.note(EventKind.CUSTOMER_CHANGED, name, operator, plain(changes), later)
        return settings

    def purge(self, customer: str, operator: Operator) -> Removed:
        """Delete all documents of a customer, whose row is locked: none of its submits is in flight."""
        tables = self._tables
        found = tables.one("lock_customer", name=customer)
        if found is None:
            raise NotFoundError(f"there is no customer {customer!r}")
        owner = found[0]
        is_capped = bool(tables.all("capped_of", ids=[owner]))
        blobs = tuple(blob for (blob,) in tables.all("blobs_of", customer=owner))
        tables.run("purge_files", customer=owner)
        later, documents = LaterChanges(), 0
        for state, line, n in sorted(tables.all("purge_documents", customer=owner)):
            documents += n
            if state == DocumentState.WAITING:
                later.emptied(owner, line, n)
            elif state == DocumentState.RUNNING and is_capped:
                for _ in range(n):
                    later.stopped(owner)
        tables.run("purge_attempts", customer=owner)
        (keys,) = tables.one("purge_keys", customer=owner) or (0,)
        self.note(EventKind.PURGED, customer, operator, {"documents": documents}, later)
        return Removed(documents, 0, keys, blobs)

    def prune(self, before: int, up_to: int, limit: int) -> Removed:
        """Delete what ended long ago: documents, events, keys."""
        removed = self._forget(self._tables.all("ended_before", before=before, up_to=up_to, limit=limit))
        (events,) = self._tables.one("forget_events", before=before, limit=limit) or (0,)
        (keys,) = self._tables.one("forget_keys", before=self.now() - KEY_KEPT) or (0,)
        return removed._replace(events=events, keys=keys)

    def prune_customer(self, customer: str, before: int, up_to: int, limit: int) -> Removed:
        """Delete what ended long ago of one customer's documents."""
        found = self._tables.one("customer", name=customer)
        if found is None:
            raise NotFoundError(f"there is no customer {customer!r}")
        where = {"customer": found[0], "before": before, "up_to": up_to, "limit": limit}
        return self._forget(self._tables.all("ended_before_of", **where))

    def _forget(self, old: list[Row]) -> Removed:
        """Delete these documents, given as seq and blob, with their attempts and the files of their results."""
        seqs = [seq for seq, _ in old]
        if not seqs:
            return Removed(0, 0, 0, ())
        files = sorted(self._tables.all("forget_files", seqs=seqs))
        self._tables.run("forget_attempts", seqs=seqs)
        self._tables.run("forget_documents", seqs=seqs)
        blobs = [blob for _, blob in old if blob is not None]
        return Removed(len(old), 0, 0, (*blobs, *(blob for _, blob in files)))


def lock_customers_of(tables: Tables, ids: Sequence[str]) -> dict[int, Counter | None]:
    """Lock the customers of these documents, in one order for everybody, before any document; their counters."""
    owners = [owner for (owner,) in tables.all("owners_of", ids=list(ids))]
    rows = tables.all("lock_customers", ids=owners) if owners else []
    return {owner: None if count is None else Counter(count, updated_at) for owner, _, count, updated_at in rows}


def number_events(database: Database) -> None:
    """Give numbers to events, in the order in which they were told; none is ever filled in later."""

    def work(tables: Tables) -> None:
        tables.one("lock_numbering")
        tables.run("number_news")

    with suppress(StoreReadOnlyError):
        database.run(Begin.WRITE, work)
