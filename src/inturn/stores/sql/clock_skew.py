"""Review what a clock ahead of this one has set: leases, delays, rates. The rules are in `inturn.policy`."""

from collections.abc import Iterable

from inturn.policy import rates
from inturn.policy.clock_skew import Term, review_term
from inturn.store_answers import AheadOfClock
from inturn.stores.sql.claim_types import LaneQueries, QueueRow
from inturn.stores.sql.claim_window import ClaimWindow
from inturn.stores.sql.queries import Queries
from inturn.stores.sql.rows import parse_settings


def review(queries: Queries, window: ClaimWindow, now: int) -> None:
    """Doubt or end leases and delays that began in the future, and bring rates back."""
    for kind, query, setter in (
        ("lease", "leases_ahead", "set_lease_term"),
        ("due", "delays_ahead", "set_delay_term"),
    ):
        for seq, *times in queries.fetch_all(query, now=now):
            term = Term(*times)
            after = review_term(term, now)
            if after != term:
                queries.execute(setter, seq=seq, ends_at=after.ends_at, doubted_at=after.doubted_at)
                window.deadlines.add_deadline(kind, after.ends_at)
    for owner in _rates_ahead(queries, now):
        window.clamp_rate(owner, now)
    queries.execute_many("save_tat", ("queue", "tat"), _queue_rates_ahead(window.queues, now))


def ahead_of_clock(queries: LaneQueries, now: int) -> AheadOfClock:
    """Count what `review` would look at."""
    leases, delays = queries.fetch_all("leases_ahead", now=now), queries.fetch_all("delays_ahead", now=now)
    queue_rates = _queue_rates_ahead(queries.read_queue().queues, now)
    return AheadOfClock(len(leases), len(delays), len(_rates_ahead(queries, now)) + len(queue_rates))


def _queue_rates_ahead(queues: Iterable[QueueRow], now: int) -> list[tuple[int, int]]:
    """The numbers of queues whose rate was charged by a clock ahead of this one, and what they are clamped to."""
    clamped = [(row.number, row.tat, rates.clamped_tat(row.rate, row.tat, now)) for row in queues if row.rate]
    return [(number, tat) for number, stored, tat in clamped if tat < stored]


def _rates_ahead(queries: Queries, now: int) -> list[int]:
    """The customers whose rate was charged by a clock ahead of this one."""
    ahead = []
    for owner, settings, tat in queries.fetch_all("rates_ahead", now=now):
        rate = parse_settings(settings).rate
        if rate is not None and rates.clamped_tat(rate, tat, now) < tat:
            ahead.append(owner)
    return ahead
