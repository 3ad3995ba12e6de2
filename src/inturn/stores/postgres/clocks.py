"""Review what a clock ahead of this one has set: leases, delays, rates. The rules are in `inturn.policy`."""

from inturn.policy import rates
from inturn.policy.clocks import Term, reviewed
from inturn.store import AheadOfClock
from inturn.stores.postgres.book import Book
from inturn.stores.postgres.rows import read_settings
from inturn.stores.postgres.tables import Tables


def review(tables: Tables, book: Book, now: int) -> None:
    """Doubt or end leases and delays that began in the future, and bring rates back."""
    for kind, query, setter in (
        ("lease", "leases_ahead", "set_lease_term"),
        ("due", "delays_ahead", "set_delay_term"),
    ):
        for seq, *times in tables.all(query, now=now):
            term = Term(*times)
            after = reviewed(term, now)
            if after != term:
                tables.run(setter, seq=seq, ends_at=after.ends_at, doubted_at=after.doubted_at)
                book.falls_due(0, kind, after.ends_at)
    for owner in _rates_ahead(tables, now):
        book.bound_rate(owner, now)


def ahead_of_clock(tables: Tables, now: int) -> AheadOfClock:
    """Count what `review` would look at."""
    leases, delays = tables.all("leases_ahead", now=now), tables.all("delays_ahead", now=now)
    return AheadOfClock(len(leases), len(delays), len(_rates_ahead(tables, now)))


def _rates_ahead(tables: Tables, now: int) -> list[int]:
    """The customers whose rate was charged by a clock ahead of this one."""
    ahead = []
    for owner, settings, whole_at in tables.all("rates_ahead", now=now):
        rate = read_settings(settings).rate
        if rate is not None and rates.bounded(rate, whole_at, now) < whole_at:
            ahead.append(owner)
    return ahead
