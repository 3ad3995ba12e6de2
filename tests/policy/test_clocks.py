"""Terms that another clock has set, and rates that one has charged."""

from hypothesis import given
from hypothesis import strategies as st

from inturn.model import RateLimit
from inturn.policy import rates
from inturn.policy.clock_skew import Term, review_term
from inturn.values import SECOND

TIMES = st.integers(0, 10**12)
LENGTHS = st.integers(1, 10**9)
LIMITS = st.builds(RateLimit, st.integers(1, 1_000), st.integers(1_000, 86_400 * SECOND))


@given(TIMES, LENGTHS, st.integers(0, 10**12), st.none() | TIMES)
def test_a_term_that_began_is_left_alone(began: int, length: int, later: int, doubted: int | None) -> None:
    term = Term(began, began + length, doubted)
    assert review_term(term, began + later) == term


@given(TIMES, st.integers(1, 10**15), LENGTHS, st.integers(0, 10**9))
def test_a_term_of_the_future_is_over_after_its_own_length(now: int, ahead: int, length: int, later: int) -> None:
    term = Term(now + ahead, now + ahead + length)
    doubted = review_term(term, now)
    assert doubted == term._replace(doubted_at=now)
    again = review_term(doubted, now + later)
    if later >= ahead:
        assert again == doubted
    else:
        assert again.ends_at == (now + later if later >= length else term.ends_at)


def test_a_doubt_of_a_clock_further_ahead_begins_anew() -> None:
    assert review_term(Term(1_000, 1_010, doubted_at=500), 100) == Term(1_000, 1_010, doubted_at=100)


@given(LIMITS, TIMES, st.lists(st.integers(0, 10**9), max_size=50))
def test_no_allowance_lies_further_ahead_than_the_rate_implies(limit: RateLimit, now: int, steps: list[int]) -> None:
    whole_at, longest = 0, limit.per // limit.documents * limit.documents
    for step in steps:
        now += step
        if rates.opens_at(limit, whole_at) <= now:
            before = max(whole_at, now) + limit.per // limit.documents
            whole_at = rates.charged_tat(limit, whole_at, now)
            assert whole_at == before  # with one clock the bound never binds
        assert whole_at <= now + longest
        assert rates.clamped_tat(limit, whole_at, now) == whole_at


@given(LIMITS, TIMES, st.integers(0, 10**15))
def test_a_charge_by_a_clock_ahead_is_forgotten(limit: RateLimit, now: int, ahead: int) -> None:
    whole_at = rates.charged_tat(limit, 0, now + ahead)
    spacing = limit.per // limit.documents
    for later in (rates.clamped_tat(limit, whole_at, now), rates.charged_tat(limit, whole_at, now)):
        assert later <= now + limit.documents * spacing
        assert rates.opens_at(limit, later) <= now + spacing
