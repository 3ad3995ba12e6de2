"""Compare the counters of lanes and limits with the documents. The lane log must have been applied."""

from inturn.model import DocumentState
from inturn.policy.scheduler import LEVELS
from inturn.store import Discrepancy
from inturn.stores.sql.claim_window import ClaimWindow
from inturn.stores.sql.lane_log import LaneChange, LaneLog, level_of
from inturn.stores.sql.queries import Queries, QueueCache
from inturn.stores.sql.rows import NEVER


def discrepancies(queries: Queries, cache: QueueCache) -> tuple[Discrepancy, ...]:
    """Every count that does not agree, by customer and level."""
    counted = {(owner, level): n for owner, level, n, _ in queries.fetch_all("waiting_counts")}
    reached = {(owner, level): n for owner, level, n in queries.fetch_all("reachable_counts")}
    stored = {(owner, level): n for owner, level, n in queries.fetch_all("lane_counts")}
    counts = [
        (owner, f"{what} in {_describe_lane(level)}", seen.get((owner, level), 0), counted.get((owner, level), 0))
        for what, seen in (("found", reached), ("waiting", stored))
        for owner, level in seen.keys() | counted.keys()
    ]
    counts += [(owner, str(DocumentState.RUNNING), *counts) for owner, *counts in queries.fetch_all("capped_counts")]
    counts += [(owner, "in flight", *counts) for owner, *counts in queries.fetch_all("in_flight_counts")]
    counts = [row for row in counts if row[2] != row[3]]
    names = cache.customer_names(queries, {owner for owner, *_ in counts})
    return tuple(sorted(Discrepancy(names[owner], *rest) for owner, *rest in counts))


def _describe_lane(lane: int) -> str:
    group = lane // len(LEVELS)
    return f"level {level_of(lane)}" + (f", group {group}" if group else "")


def corrections(queries: Queries, window: ClaimWindow) -> list[LaneChange]:
    """Changes that set each lane to the documents that wait in it, and each capped customer to those that run."""
    counted = {(owner, level): (n, first) for owner, level, n, first in queries.fetch_all("waiting_counts")}
    stored = {(owner, level) for owner, level, _ in queries.fetch_all("lane_counts")}
    lane_log = LaneLog()
    for owner, lane in sorted(stored | counted.keys()):
        lane_log.emptied(owner, lane, 0)
    for (owner, lane), (n, first) in sorted(counted.items()):
        columns, wanted = ("customer", "level", "after", "scan_from"), [(owner, lane, first - 1, NEVER)]
        ((*_, seq, ready_at, cost, _),) = queries.fetch_many("waiting_in_lanes", columns, wanted, limit=1)
        lane_log.changes.append(LaneChange(owner, "requeued", lane, n, seq, ready_at, cost))
    for owner, running, real in queries.fetch_all("capped_counts"):
        if running != real:
            lane_log.settings_changed(owner, window.customer(owner).settings, real)
    for owner, _, real in queries.fetch_all("in_flight_counts"):
        lane_log.in_flight(owner, real)
    return lane_log.take()
