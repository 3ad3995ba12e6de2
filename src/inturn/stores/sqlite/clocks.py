"""Review what a clock ahead of this one has set: leases, delays, rates. The rules are in `inturn.policy`."""

from inturn.policy import rates
from inturn.policy.clocks import Term, reviewed
from inturn.store import AheadOfClock
from inturn.stores.sqlite.book import Book
from inturn.stores.sqlite.tables import Tables, read_settings


def review(tables: Tables, book: Book, now: int) -> None:
    """Doubt or end leases and delays that began in the future, and bring rates back."""
    changed = []
    for seq, *times in (*tables.all("leases_ahead", now=now), *tables.all("delays_ahead", now=now)):
        term = Term(*times)
        after = reviewed(term, now)
        if after != term:
            changed.append((after.ends_at, after.doubted_at, seq))
    tables.many("set_term", changed)
    if changed:
        book.next_due = 0  # look: one of them may be over
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
