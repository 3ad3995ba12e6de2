"""How long documents take, by those before them: how many may stand before a child, and when the next one should."""

from typing import Final, NamedTuple

PREFETCH_SECONDS: Final = 0.02
"""Seconds of work that a child may have before it beyond what it does now, if documents take less than that."""
CLAIM_LEAD_SECONDS: Final = 0.05
"""Documents that take longer are claimed when they can start, or so many seconds before a child should be free, and no
sooner: the commit takes some of that, and guesses are wrong by some. Half of what one takes, if that is less: whoever
comes meanwhile waits for no more than one and a half."""
MAX_PREFETCH: Final = 50
LATE_AFTER_SECONDS: Final = 5 * PREFETCH_SECONDS
"""Seconds by which a document may be late before what stands behind it goes back."""
MAX_PREDICTION_ERROR: Final = 0.25
"""Share by which documents may miss what was expected of them, on average, for anything to be expected."""
MAX_DURATION_RATIO: Final = 4
"""A document that by its pages should take longer than so many others is expected at no time: pages are what a customer
says."""


class PredictedEnd(NamedTuple):
    """When a document should be done."""

    at: float
    margin: float
    """Seconds before and after that in which the next one may be claimed."""

    @property
    def claim_at(self) -> float:
        """When the next one may be claimed."""
        return self.at - self.margin

    def is_claimable(self, now: float) -> bool:
        """Whether it may be claimed now."""
        return abs(self.at - now) <= self.margin


class PrefetchEstimator:
    """What is remembered of the documents that a worker has seen."""

    def __init__(self) -> None:
        self._document_seconds: float | None = None
        """Seconds that a document takes, lately."""
        self._page_seconds: float | None = None
        """Seconds that a page takes, of documents whose pages were counted."""
        self._prediction_error = 1.0

    def record_duration(self, seconds: float, pages: int | None) -> None:
        """A document took so long."""
        guess = self._estimate(pages)
        if guess is not None:
            self._prediction_error = _smoothed(self._prediction_error, abs(seconds - guess) / max(seconds, guess, 1e-6))
        self._document_seconds = _smoothed(self._document_seconds, seconds)
        if pages:
            self._page_seconds = _smoothed(self._page_seconds, seconds / pages)

    def record_late(self, pages: int | None) -> None:
        """One takes longer than it should: nobody knows how long the next ones will."""
        if self.expected_seconds(pages) is not None:
            self._prediction_error = 1.0
        self._document_seconds = max(self._document_seconds or 0.0, LATE_AFTER_SECONDS)

    def late_after(self, pages: int | None) -> float:
        """Seconds after which one takes longer than it should."""
        expected = None if self.depth() else self.expected_seconds(pages)
        return LATE_AFTER_SECONDS + (expected or 0.0)

    def reset(self) -> None:
        """What fails at once does not tell how long documents take."""
        self._document_seconds = self._page_seconds = None
        self._prediction_error = 1.0

    def depth(self) -> int:
        """How many short documents a child may have before it beyond what it does now."""
        return (
            0
            if self._document_seconds is None
            else min(MAX_PREFETCH, int(PREFETCH_SECONDS / max(self._document_seconds, 1e-6)))
        )

    def expected_seconds(self, pages: int | None) -> float | None:
        """Seconds that a document should take; None if that cannot be told well enough."""
        guess = self._estimate(pages)
        if (
            guess is None
            or self._document_seconds is None
            or self._prediction_error > MAX_PREDICTION_ERROR
            or guess > MAX_DURATION_RATIO * self._document_seconds
        ):
            return None
        return guess

    def predict_end(self, begun_at: float, pages: int | None) -> PredictedEnd | None:
        """When one that began then should be done; None if that cannot be told well enough."""
        expected = self.expected_seconds(pages)
        return None if expected is None else PredictedEnd(begun_at + expected, min(CLAIM_LEAD_SECONDS, expected / 2))

    def _estimate(self, pages: int | None) -> float | None:
        return self._page_seconds * pages if pages and self._page_seconds is not None else self._document_seconds


def _smoothed(average: float | None, value: float) -> float:
    """The last few count most."""
    return value if average is None else 0.8 * average + 0.2 * value
