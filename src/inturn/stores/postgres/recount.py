"""Compare the counters of lanes and limits with the documents. The lane log must have been applied."""

from inturn.model import DocumentState
from inturn.policy.scheduler import Head
from inturn.store import Discrepancy
from inturn.stores.postgres.cache import QueueCache
from inturn.stores.postgres.claim_window import ClaimWindow
from inturn.stores.postgres.deadlines import NEVER
from inturn.stores.postgres.queries import Queries


def discrepancies(queries: Queries, cache: QueueCache) -> tuple[Discrepancy, ...]:
    """Every count that does not agree, by customer and level."""
    counted = {(owner, level): n for owner, level, n, _ in queries.fetch_all("waiting_counts")}
    reached = {(owner, level): n for owner, level, n in queries.fetch_all("reachable_counts")}
    stored = {(owner, level): n for owner, level, n in queries.fetch_all("lane_counts")}
    capped = [row for row in queries.fetch_all("capped_counts") if row[1] != row[2]]
    error = [item for item in stored.keys() | counted.keys() if stored.get(item, 0) != counted.get(item, 0)]
    missed = [item for item in reached.keys() | counted.keys() if reached.get(item, 0) != counted.get(item, 0)]
    names = cache.customer_names(queries, {owner for owner, *_ in (*error, *missed, *capped)})
    discrepancies = [
        Discrepancy(
            names[owner], f"found in level {level}", reached.get((owner, level), 0), counted.get((owner, level), 0)
        )
        for owner, level in missed
    ]
    discrepancies += [
        Discrepancy(
            names[owner], f"waiting in level {level}", stored.get((owner, level), 0), counted.get((owner, level), 0)
        )
        for owner, level in error
    ]
    discrepancies += [
        Discrepancy(names[owner], str(DocumentState.RUNNING), running, real) for owner, running, real in capped
    ]
    return tuple(sorted(discrepancies))


def repair(queries: Queries, window: ClaimWindow) -> None:
    """Set each lane to the documents that wait in it, and each capped customer to those that run."""
    queries.execute("file_documents")
    counted = {(owner, level): (n, first) for owner, level, n, first in queries.fetch_all("waiting_counts")}
    stored = {(owner, level) for owner, level, _ in queries.fetch_all("lane_counts")}
    for owner, level in sorted(stored | counted.keys()):
        window.emptied(owner, level)
        if (owner, level) in counted:
            n, seq = counted[owner, level]
            where = {"customer": [owner], "level": [level], "after": [seq - 1], "scan_from": [NEVER]}
            ((_, _, *head, _),) = queries.fetch_all("waiting_in_lanes", **where, limit=1)
            window.requeued(owner, level, n, Head(*head))
    for owner, running, real in queries.fetch_all("capped_counts"):
        if running != real:
            window.settings_changed(owner, window.customer(owner).settings, real)
