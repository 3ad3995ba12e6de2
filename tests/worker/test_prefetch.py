"""What a worker expects of documents, by those before them."""

import pytest

from inturn.worker.prefetch import (
    CLAIM_LEAD_SECONDS,
    LATE_AFTER_SECONDS,
    MAX_PREFETCH,
    PREFETCH_SECONDS,
    PredictedEnd,
    PrefetchEstimator,
)


def seen(*documents: tuple[float, int | None]) -> PrefetchEstimator:
    pace = PrefetchEstimator()
    for seconds, pages in documents:
        pace.record_duration(seconds, pages)
    return pace


def test_nothing_is_expected_before_anything_was_seen() -> None:
    assert (
        PrefetchEstimator().depth(),
        PrefetchEstimator().expected_seconds(3),
        PrefetchEstimator().late_after(3),
    ) == (0, None, LATE_AFTER_SECONDS)


def test_short_documents_may_stand_before_a_child_for_a_moment() -> None:
    assert seen((PREFETCH_SECONDS / 4.5, None)).depth() == 4
    assert seen((PREFETCH_SECONDS / 4.5, None), *[(PREFETCH_SECONDS * 2, None)] * 20).depth() == 0
    assert seen((0.0, None)).depth() == MAX_PREFETCH


def test_documents_that_take_as_long_as_those_before_are_expected_to() -> None:
    assert seen(*[(0.3, None)] * 3).expected_seconds(None) is None
    steady = seen(*[(0.3, None)] * 10)
    assert steady.expected_seconds(None) == pytest.approx(0.3)
    assert steady.late_after(None) == pytest.approx(0.3 + LATE_AFTER_SECONDS)


def test_the_next_one_is_claimed_a_moment_before_and_no_sooner_than_half_way() -> None:
    assert seen(*[(0.3, None)] * 3).predict_end(100.0, None) is None
    assert seen(*[(0.3, None)] * 10).predict_end(100.0, None) == pytest.approx(PredictedEnd(100.3, CLAIM_LEAD_SECONDS))
    assert seen(*[(0.04, None)] * 10).predict_end(100.0, None) == pytest.approx(PredictedEnd(100.04, 0.02))


def test_pages_tell_more_where_they_were_counted() -> None:
    by_pages = seen(*[(0.01 * pages, pages) for pages in (3, 70, 10, 44, 90, 8, 61, 25, 33, 5)])
    assert by_pages.expected_seconds(50) == pytest.approx(0.5)
    assert (
        seen(*[(0.01 * pages, None) for pages in (3, 70, 10, 44, 90, 8, 61, 25, 33, 5)]).expected_seconds(None) is None
    )


def test_one_that_is_late_leaves_nothing_to_be_expected() -> None:
    pace = seen(*[(0.3, None)] * 10)
    pace.record_late(None)
    assert pace.expected_seconds(None) is None
    short = seen(*[(0.001, None)] * 10)
    short.record_late(None)
    assert short.depth() == 0


def test_long_documents_that_nothing_was_expected_of_are_not_held_against_the_next() -> None:
    """Each looks late while nothing is known; they must still become known."""
    pace = PrefetchEstimator()
    for _ in range(30):
        if pace.late_after(None) < 0.3:
            pace.record_late(None)
        pace.record_duration(0.3, None)
    assert pace.expected_seconds(None) == pytest.approx(0.3, rel=0.2)


def test_a_failure_says_nothing_of_how_long_documents_take() -> None:
    pace = seen(*[(0.001, None)] * 10)
    pace.reset()
    assert (pace.depth(), pace.expected_seconds(None)) == (0, None)


def test_pages_that_nobody_can_have_are_not_waited_for() -> None:
    """What stands behind such a document must not wait until then."""
    by_pages = seen(*[(0.01 * pages, pages) for pages in (3, 70, 10, 44, 90, 8, 61, 25, 33, 5)])
    assert by_pages.expected_seconds(10**9) is None
    assert by_pages.late_after(10**9) == LATE_AFTER_SECONDS
