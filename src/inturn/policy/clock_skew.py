"""Review leases and delays that a clock ahead of this one has set.

A lease or delay that begins in the future was set by another clock, and it is unknown which clock is right. The term is
doubted from the first review on, and ends once it has been doubted for its own length. A live worker renews its lease
meanwhile, and a renewal ends the doubt. So a clock that is behind takes no lease from a live worker, and a term that a
clock ahead has set lasts no longer than its own length.
"""

from typing import NamedTuple


class Term(NamedTuple):
    """A lease or a delay: its begin, its end, and since when it has been doubted."""

    began_at: int
    ends_at: int
    doubted_at: int | None = None


def review_term(term: Term, now: int) -> Term:
    """Return the term after a review at `now`: unchanged, doubted from now on, or ended."""
    if term.began_at <= now:
        return term
    if term.doubted_at is None or term.doubted_at > now:
        return term._replace(doubted_at=now)
    if now - term.doubted_at >= term.ends_at - term.began_at:
        return term._replace(ends_at=now)
    return term
