"""Claims that combine: the session that has the turn claims for all sessions that wait.

Claims of a queue run one by one, so with many claimers most of them wait. A claimer that cannot have its turn at once
leaves a row in `claim_request` and waits. The next one that gets the turn claims for itself and for all that
wait, in the order in which they asked, in one transaction; those find their documents when they wake up (flat
combining: Hendler, Incze, Shavit and Tzafrir, 2010). The documents are exactly those that claims one after another
would have taken.

The turn is an advisory lock of the session, held from `take_claim_turn` to the commit. It only makes claimers wait in
line: what keeps lanes correct is the lock on `claim_lock`, which every transaction that writes lanes takes. A process
that finds itself alone therefore goes without the turn, which saves a trip.

A claim's commit does not wait for the disk: one that is lost in a crash leaves its documents waiting.
"""

import itertools
from collections.abc import Sequence
from typing import Final

from inturn.model import Claim
from inturn.store_types import ClaimRequest
from inturn.stores.postgres.claim_queries import PostgresClaimQueries
from inturn.stores.postgres.connection import Database, SingleWrite
from inturn.stores.sql.claims import ClaimRun
from inturn.stores.sql.queries import QueueCache
from inturn.stores.sql.rows import Row, document_from_row

MAX_DOCUMENTS_PER_RUN: Final = 2_000
"""Documents claimed in one transaction; claims beyond it wait for the next."""
FENCE_COLUMN: Final = 12


class Claims:
    """The claims of one process."""

    def __init__(self, database: Database, cache: QueueCache) -> None:
        self._database = database
        self._cache = cache
        self._tickets = itertools.count(1)
        self._last_version = -1
        self._is_alone = False
        """Whether no other process has claimed since the last claim of this one: then there is no line to wait in."""

    def claim(self, request: ClaimRequest, now: int | None, before: SingleWrite | None = None) -> tuple[Claim, ...]:
        """Claim documents, for all that wait, or have them claimed by another session. `before` is committed first."""

        def serve(queries: PostgresClaimQueries) -> tuple[Claim, ...] | None:
            return self._serve(queries, request, now)

        while True:
            if self._is_alone or self._database.is_behind_pooler:
                claimed = self._database.run_claim(serve, limit=request.limit, queues=request.queues, before=before)
            else:
                more = {"queues": list(request.queues), "now": now, "ticket": next(self._tickets)}
                asked = {**request._asdict(), **more}
                claimed = self._database.run_in_turn(asked, serve, _claims_of_another_session, before)
            if claimed is not None:  # otherwise more was due than one transaction processes
                return claimed

    def _serve(self, queries: PostgresClaimQueries, request: ClaimRequest, now: int | None) -> tuple[Claim, ...] | None:
        """Serve the claims that wait, and this one, which asked last."""
        waiting = queries.waiting_claims
        run = ClaimRun(queries, self._cache, request.limit + sum(claim.limit for claim in waiting))
        self._is_alone = not waiting and queries.version == self._last_version
        left = MAX_DOCUMENTS_PER_RUN
        for claim in waiting:
            left -= claim.limit
            claimed = None if left < 0 else run.serve(claim.request, run.queue.now if claim.now is None else claim.now)
            if claimed is None:
                break
            queries.answer(claim.pid, claimed)
        own = run.serve(request, run.queue.now if now is None else now)
        rows = run.save()
        self._last_version = queries.version
        return None if own is None else run.to_claims(own, rows)


def _claims_of_another_session(rows: Sequence[Row]) -> tuple[Claim, ...]:
    """The documents that another session has claimed for this one."""
    return tuple([Claim(document_from_row(row), row[FENCE_COLUMN]) for row in rows])
