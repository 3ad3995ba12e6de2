"""Compare the counters of lanes and limits with the documents. The lane log must have been applied."""

from collections import Counter
from collections.abc import Sequence

from inturn.model import DocumentState
from inturn.policy.scheduler import TRACKS
from inturn.store_answers import Discrepancy
from inturn.store_types import STUCK, describe_queue, describe_track
from inturn.stores.sql.claim_window import ClaimWindow
from inturn.stores.sql.lane_log import LaneChange, LaneLog, lane_track
from inturn.stores.sql.queries import Queries, QueueCache
from inturn.stores.sql.rows import NEVER


def discrepancies(queries: Queries, cache: QueueCache) -> tuple[Discrepancy, ...]:
    """Every count that does not agree, by customer and level."""
    queues = [name for _, name, *_ in queries.fetch_all("named_queues")]
    counted = {(owner, level): n for owner, level, n, _ in queries.fetch_all("waiting_counts")}
    reached = {(owner, level): n for owner, level, n in queries.fetch_all("reachable_counts")}
    stored = {(owner, level): n for owner, level, n in queries.fetch_all("lane_counts")}
    counts = [
        (
            owner,
            f"{what} in {_describe_lane(level, queues)}",
            seen.get((owner, level), 0),
            counted.get((owner, level), 0),
        )
        for what, seen in (("found", reached), ("waiting", stored))
        for owner, level in seen.keys() | counted.keys()
    ]
    counts += [(owner, str(DocumentState.RUNNING), *counts) for owner, *counts in queries.fetch_all("capped_counts")]
    counts += [
        (owner, f"in flight{describe_queue(queue, queues)}", *counts)
        for owner, queue, *counts in queries.fetch_all("in_flight_counts")
    ]
    stuck = Counter(owner for owner, _ in queries.fetch_all("stuck_documents"))
    counts += [(owner, STUCK, n, 0) for owner, n in stuck.items()]
    counts = [row for row in counts if row[2] != row[3]]
    names = cache.customer_names(queries, {owner for owner, *_ in counts})
    return tuple(sorted(Discrepancy(names[owner], *rest) for owner, *rest in counts))


def _describe_lane(lane: int, queues: Sequence[str]) -> str:
    group = lane // TRACKS
    return describe_track(lane_track(lane), queues) + (f", group {group}" if group else "")


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
    for owner, queue, _, real in queries.fetch_all("in_flight_counts"):
        lane_log.in_flight(owner, queue, real)
    for owner, seq in queries.fetch_all("stuck_documents"):
        lane_log.part_ended(owner, seq)
    return lane_log.take()
