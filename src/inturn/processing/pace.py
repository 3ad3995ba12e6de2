"""How long documents take, by those before them: how many may stand before a child, and when the next one should."""

from typing import Final, NamedTuple

AHEAD: Final = 0.02
"""Seconds of work that a child may have before it beyond what it does now, if documents take less than that."""
SOON: Final = 0.05
"""Documents that take longer are claimed when they can start, or so many seconds before a child should be free, and no
sooner: the commit takes some of that, and guesses are wrong by some. Half of what one takes, if that is less: whoever
comes meanwhile waits for no more than one and a half."""
MOST_AHEAD: Final = 50
LATE: Final = 5 * AHEAD
"""Seconds by which a document may be late before what stands behind it goes back."""
MOST_DOUBT: Final = 0.25
"""Share by which documents may miss what was expected of them, on average, for anything to be expected."""
MOST_TIMES: Final = 4
"""A document that by its pages should take longer than so many others is expected at no time: pages are what a customer
says."""


class End(NamedTuple):
    """When a document should be done."""

    at: float
    soon: float
    """Seconds before and after that in which the next one may be claimed."""

    @property
    def claim_at(self) -> float:
        """When the next one may be claimed."""
        return self.at - self.soon

    def is_soon(self, now: float) -> bool:
        """Whether it may be claimed now."""
        return abs(self.at - now) <= self.soon


class Pace:
    """What is remembered of the documents that a worker has seen."""

    def __init__(self) -> None:
        self._each: float | None = None
        """Seconds that a document takes, lately."""
        self._page: float | None = None
        """Seconds that a page takes, of documents whose pages were counted."""
        self._doubt = 1.0

    def took(self, seconds: float, pages: int | None) -> None:
        """A document took so long."""
        guess = self._guess(pages)
        if guess is not None:
            self._doubt = _smoothed(self._doubt, abs(seconds - guess) / max(seconds, guess, 1e-6))
        self._each = _smoothed(self._each, seconds)
        if pages:
            self._page = _smoothed(self._page, seconds / pages)

    def is_late(self, pages: int | None) -> None:
        """One takes longer than it should: nobody knows how long the next ones will."""
        if self.expected(pages) is not None:
            self._doubt = 1.0
        self._each = max(self._each or 0.0, LATE)

    def late_after(self, pages: int | None) -> float:
        """Seconds after which one takes longer than it should."""
        expected = None if self.ahead() else self.expected(pages)
        return LATE + (expected or 0.0)

    def forget(self) -> None:
        """What fails at once does not tell how long documents take."""
        self._each = self._page = None
        self._doubt = 1.0

    def ahead(self) -> int:
        """How many short documents a child may have before it beyond what it does now."""
        return 0 if self._each is None else min(MOST_AHEAD, int(AHEAD / max(self._each, 1e-6)))

    def expected(self, pages: int | None) -> float | None:
        """Seconds that a document should take; None if that cannot be told well enough."""
        guess = self._guess(pages)
        if guess is None or self._each is None or self._doubt > MOST_DOUBT or guess > MOST_TIMES * self._each:
            return None
        return guess

    def end(self, began: float, pages: int | None) -> End | None:
        """When one that began then should be done; None if that cannot be told well enough."""
        expected = self.expected(pages)
        return None if expected is None else End(began + expected, min(SOON, expected / 2))

    def _guess(self, pages: int | None) -> float | None:
        return self._page * pages if pages and self._page is not None else self._each


def _smoothed(before: float | None, now: float) -> float:
    """The last few count most."""
    return now if before is None else 0.8 * before + 0.2 * now
