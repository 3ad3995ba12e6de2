"""Estimate how long documents take, to decide how many a child prefetches and when to claim the next."""

from typing import Final, NamedTuple

PREFETCH_SECONDS: Final = 0.02
"""Seconds of work that a child may have prefetched, if one document takes less than that."""
CLAIM_LEAD_SECONDS: Final = 0.05
"""Longer documents are claimed at most this many seconds before a child should be free: time for the commit, and for an
error of the prediction. At most half a document's duration, so that a new document waits for 1.5 durations at most."""
MAX_PREFETCH: Final = 50
LATE_AFTER_SECONDS: Final = 5 * PREFETCH_SECONDS
"""Seconds that a document may be late before the documents behind it are released."""
MAX_PREDICTION_ERROR: Final = 0.25
"""Mean relative error of predictions above which none is made."""
MAX_DURATION_RATIO: Final = 4
"""No prediction for a document that by its pages would take more than this many average documents: the number of pages
comes from the customer."""


class PredictedEnd(NamedTuple):
    """When a running document should end."""

    at: float
    margin: float
    """Seconds before and after `at` in which the next document may be claimed."""

    @property
    def claim_at(self) -> float:
        """The earliest time to claim the next document."""
        return self.at - self.margin

    def is_claimable(self, now: float) -> bool:
        """Return whether the next document may be claimed now."""
        return abs(self.at - now) <= self.margin


class PrefetchEstimator:
    """Keeps moving averages of the durations of a worker's documents."""

    def __init__(self) -> None:
        self._document_seconds: float | None = None
        self._page_seconds: float | None = None
        """Of documents whose pages were counted."""
        self._prediction_error = 1.0

    def record_duration(self, seconds: float, pages: int | None) -> None:
        """Add the duration of a document."""
        estimate = self._estimate(pages)
        if estimate is not None:
            self._prediction_error = _smoothed(
                self._prediction_error, abs(seconds - estimate) / max(seconds, estimate, 1e-6)
            )
        self._document_seconds = _smoothed(self._document_seconds, seconds)
        if pages:
            self._page_seconds = _smoothed(self._page_seconds, seconds / pages)

    def record_late(self, pages: int | None) -> None:
        """Note that a document is late: stop predicting, and prefetch nothing."""
        if self.expected_seconds(pages) is not None:
            self._prediction_error = 1.0
        self._document_seconds = max(self._document_seconds or 0.0, LATE_AFTER_SECONDS)

    def late_after(self, pages: int | None) -> float:
        """Return the seconds after which a document is late."""
        expected = None if self.depth() else self.expected_seconds(pages)
        return LATE_AFTER_SECONDS + (expected or 0.0)

    def reset(self) -> None:
        """Forget all durations: after an error they mean nothing."""
        self._document_seconds = self._page_seconds = None
        self._prediction_error = 1.0

    def depth(self) -> int:
        """Return how many documents a child may have prefetched; 0 unless they are short."""
        return (
            0
            if self._document_seconds is None
            else min(MAX_PREFETCH, int(PREFETCH_SECONDS / max(self._document_seconds, 1e-6)))
        )

    def expected_seconds(self, pages: int | None) -> float | None:
        """Return the seconds that a document should take; None if the estimate is too uncertain."""
        estimate = self._estimate(pages)
        if (
            estimate is None
            or self._document_seconds is None
            or self._prediction_error > MAX_PREDICTION_ERROR
            or estimate > MAX_DURATION_RATIO * self._document_seconds
        ):
            return None
        return estimate

    def predict_end(self, begun_at: float, pages: int | None) -> PredictedEnd | None:
        """Return when a document that started then should end; None if the estimate is too uncertain."""
        expected = self.expected_seconds(pages)
        return None if expected is None else PredictedEnd(begun_at + expected, min(CLAIM_LEAD_SECONDS, expected / 2))

    def _estimate(self, pages: int | None) -> float | None:
        return self._page_seconds * pages if pages and self._page_seconds is not None else self._document_seconds


def _smoothed(average: float | None, value: float) -> float:
    """Add a value to an exponential moving average."""
    return value if average is None else 0.8 * average + 0.2 * value
