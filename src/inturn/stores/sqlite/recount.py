"""Compare the counters of lanes and limits with the documents. The lane log must have been applied."""

from inturn.model import DocumentState
from inturn.policy.scheduler import Head
from inturn.store import Discrepancy
from inturn.stores.sqlite.claim_window import ClaimWindow
from inturn.stores.sqlite.queries import Queries


def discrepancies(queries: Queries) -> tuple[Discrepancy, ...]:
    """Every count that does not agree, by customer and level."""
    counted = {(owner, level): n for owner, level, n, _ in queries.fetch_all("waiting_counts")}
    reached = {(owner, level): n for owner, level, n in queries.fetch_all("reachable_counts")}
    stored = {(owner, level): n for owner, level, n in queries.fetch_all("lane_counts")}
    discrepancies = [
        Discrepancy(
            queries.customer_name(owner),
            f"found in level {level}",
            reached.get((owner, level), 0),
            counted.get((owner, level), 0),
        )
        for owner, level in reached.keys() | counted.keys()
        if reached.get((owner, level), 0) != counted.get((owner, level), 0)
    ]
    discrepancies += [
        Discrepancy(
            queries.customer_name(owner),
            f"waiting in level {level}",
            stored.get((owner, level), 0),
            counted.get((owner, level), 0),
        )
        for owner, level in stored.keys() | counted.keys()
        if stored.get((owner, level), 0) != counted.get((owner, level), 0)
    ]
    discrepancies += [
        Discrepancy(queries.customer_name(owner), str(DocumentState.RUNNING), running, real)
        for owner, running, real in queries.fetch_all("capped_counts")
        if running != real
    ]
    return tuple(sorted(discrepancies))


def repair(queries: Queries) -> None:
    """Set each lane to the documents that wait in it, and each capped customer to those that run."""
    queries.execute("forget_all_requeued")
    queries.execute("requeue_all")
    counted = {(owner, level): n for owner, level, n, _ in queries.fetch_all("waiting_counts")}
    stored = {(owner, level) for owner, level, _ in queries.fetch_all("lane_counts")}
    queries.clear_cache()  # what this process remembers may be what is wrong
    window = ClaimWindow.load(queries)
    for owner, level in sorted(stored | counted.keys()):
        window.emptied(owner, level)
        if (owner, level) in counted:
            n = counted[owner, level]
            (first,) = queries.fetch_all("requeued_in_lane", customer=owner, level=level, first=0, limit=1)
            window.requeued(owner, level, n, Head(*first))
    for owner, running, real in queries.fetch_all("capped_counts"):
        if running != real:
            customer = window.customer(owner)
            window.settings_changed(owner, customer.settings, real)
    window.save()
