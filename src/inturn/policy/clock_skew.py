"""Judge leases and delays that a clock ahead of this one has set.

A lease or delay that began in the future was set by another clock. Which of the two clocks is right cannot be known. So
the term is doubted from the first look on, and over once it has been doubted for its own length: as if it had been
set at that look. A worker that lives renews its lease meanwhile, and a renewal ends the doubt. A clock that is behind
therefore takes no lease from a worker that lives, and one that was ahead holds nothing longer than its own length.
"""

from typing import NamedTuple


class Term(NamedTuple):
    """A lease or a delay: when it began and ends, and since when it has been doubted."""

    began_at: int
    ends_at: int
    doubted_at: int | None = None


def review_term(term: Term, now: int) -> Term:
    """The term after a look at `now`: unchanged, doubted from now on, or over."""
    if term.began_at <= now:
        return term
    if term.doubted_at is None or term.doubted_at > now:
        return term._replace(doubted_at=now)
    if now - term.doubted_at >= term.ends_at - term.began_at:
        return term._replace(ends_at=now)
    return term
