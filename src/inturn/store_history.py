"""The history of a queue, as stores keep it: the values, and the part of the contract.

A store folds its events into rows of a minute and of an hour. Each event counts for all queues together, for its own
queue, for the level of each of its documents, and for its customer. Times and durations are integer microseconds.
"""

from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from inturn.policy.history import Figures, HistorySpan
from inturn.store_types import Event, Operator
from inturn.values import SECOND

HISTORY_INTERVAL: Final = 10 * SECOND
"""The pause between two folds."""


class HistoryScope(StrEnum):
    """What a row is about, and what its `key` is."""

    QUEUE = "queue"
    """All queues together; the key is empty."""
    NAMED_QUEUE = "named_queue"
    """One queue by name: what was submitted to it, and what waited, ran and ended in it."""
    LEVEL = "level"
    """The lanes of one level; the key is its number, 0 for expedited documents."""
    CUSTOMER = "customer"
    """One customer by name; with an empty key the sum of those that are not named."""


class HistoryRow(NamedTuple):
    """The figures of one minute or hour."""

    at: int
    """When it began."""
    key: str
    figures: Figures


class HistoryCursor(NamedTuple):
    """How far the history reaches."""

    event: int = 0
    """The last event that is part of it."""
    began_at: int | None = None
    """Nothing before is known; None before the first fold."""
    until: int = 0
    """All that happened before is part of it."""
    next_at: int = 0
    """When the next fold is due."""


class FoldResult(NamedTuple):
    """What one fold did."""

    events: int
    """Events added; 0 also if another process added them first."""
    is_complete: bool
    """Whether no event was left."""


class History(Protocol):
    """Store what happened in each minute and hour, beside the documents and longer than the events."""

    def fold(self, *, limit: int, pause: int = 0, now: int | None = None) -> FoldResult:
        """Add up to `limit` events to the history, fewer if they have many documents.

        S58. Every event is added exactly once, with any number of processes and crashes: rows and cursor change
             together. Wait and processing time are those of the attempt, and left out if it is no longer stored. The
             level is that of the document at the fold, the queue that of the event.
        S59. Without events left it also records the documents that wait and run. The next fold is due after
             `HISTORY_INTERVAL`, with events left after `pause` alone, and never before `pause`. A SPLIT document does
             neither.
        S60. Of a span that is over, `MAX_NAMED_CUSTOMERS` customers with the most activity keep rows of their own. The
             others are summed: all rows of customers together equal the row of the queue.
        """

    def rows(
        self, span: HistorySpan, scope: HistoryScope, since: int, until: int, *, key: str | None = None
    ) -> tuple[HistoryRow, ...]:
        """Return the rows that begin at or after `since` and before `until`, by time and key."""

    def cursor(self) -> HistoryCursor:
        """Return how far the history reaches."""

    def acknowledge_failures(self, operator: Operator, *, now: int | None = None) -> None:
        """Record that an operator has seen the failures counted so far. S66. The event has the operator, and in its
        detail the failures of its minute that were counted by then (`counted`).
        """

    def acknowledged(self) -> Event | None:
        """Return the last event of `acknowledge_failures`: S66. None before the first."""

    def forget_old(self, *, now: int | None = None) -> int:
        """Delete the rows past their retention; return how many. S61. Minutes last 48 hours, hours 90 days."""
