"""Review what a clock ahead of this one has set: leases, delays, rates. The rules are in `inturn.policy`."""

from inturn.policy import rates
from inturn.policy.clock_skew import Term, review_term
from inturn.store import AheadOfClock
from inturn.stores.sqlite.claim_window import ClaimWindow
from inturn.stores.sqlite.queries import Queries, parse_settings


def review(queries: Queries, window: ClaimWindow, now: int) -> None:
    """Doubt or end leases and delays that began in the future, and bring rates back."""
    changed = []
    for seq, *times in (*queries.fetch_all("leases_ahead", now=now), *queries.fetch_all("delays_ahead", now=now)):
        term = Term(*times)
        after = review_term(term, now)
        if after != term:
            changed.append((after.ends_at, after.doubted_at, seq))
    queries.execute_many("set_term", changed)
    if changed:
        window.next_due = 0  # look: one of them may be over
    for owner in _rates_ahead(queries, now):
        window.clamp_rate(owner, now)


def ahead_of_clock(queries: Queries, now: int) -> AheadOfClock:
    """Count what `review` would look at."""
    leases, delays = queries.fetch_all("leases_ahead", now=now), queries.fetch_all("delays_ahead", now=now)
    return AheadOfClock(len(leases), len(delays), len(_rates_ahead(queries, now)))


def _rates_ahead(queries: Queries, now: int) -> list[int]:
    """The customers whose rate was charged by a clock ahead of this one."""
    ahead = []
    for owner, settings, whole_at in queries.fetch_all("rates_ahead", now=now):
        rate = parse_settings(settings).rate
        if rate is not None and rates.clamped_tat(rate, whole_at, now) < whole_at:
            ahead.append(owner)
    return ahead
