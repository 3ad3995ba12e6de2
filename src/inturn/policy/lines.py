"""What happens to a customer's lines: documents join and leave them, limits close them, settings change them.

Every store tells this book the same things in the same order, so that every line stands alike in all of them. The book
knows no documents: `first` tells it a line's head when the one it knew is gone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic

from inturn.model import CustomerSettings
from inturn.policy import rates
from inturn.policy.turns import Head, LineT, Turns

DEFAULTS = CustomerSettings()


@dataclass(slots=True, eq=False)
class LinesOf(Generic[LineT]):
    """One customer's lines by level, and what opens and closes them."""

    name: str
    settings: CustomerSettings = DEFAULTS
    running: int = 0
    """How many of its documents run: exact while it has a cap."""
    whole_at: int = 0
    """When its rate allowance is whole again."""
    rate_closed_until: int | None = None
    lines: dict[int, LineT] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether its documents may be started now."""
        settings = self.settings
        if settings is DEFAULTS:
            return True
        if settings.paused or self.rate_closed_until is not None:
            return False
        return settings.cap is None or self.running < settings.cap


class LineBook(Generic[LineT]):
    """Keeps lines and turns in step with what is told."""

    __slots__ = ("_first", "turns")

    def __init__(self, turns: Turns[LineT], first: Callable[[LineT], Head | None]) -> None:
        self.turns = turns
        self._first = first

    def joined(self, customer: LinesOf[LineT], line: LineT, head: Head, n: int = 1) -> None:
        """`n` documents came into the line; `head` is the first of them."""
        line.waiting += n
        if line.head is None:
            line.head = head
            if customer.is_open:
                self.turns.enter(line)
        elif head.seq < line.head.seq:
            self.turns.change_head(line, head)

    def released(self, customer: LinesOf[LineT], line: LineT, head: Head) -> None:
        """A claim was given back unstarted: its document waits again, and its line is not charged for it."""
        self.turns.refund(line, head.cost)
        self.joined(customer, line, head)

    def left(self, line: LineT, seq: int) -> None:
        """A document left the line otherwise than by a claim."""
        line.waiting -= 1
        if line.waiting == 0 or (line.head is not None and line.head.seq == seq):
            self.turns.change_head(line, self._first(line))

    def emptied(self, line: LineT) -> None:
        """All documents of the line are gone."""
        line.waiting = 0
        self.turns.change_head(line, None)

    def started(self, customer: LinesOf[LineT], line: LineT, now: int) -> None:
        """The head of a line that was taken runs: the next one is its head, and the customer's limits are charged."""
        line.waiting -= 1
        self.turns.put_back(line, self._first(line))
        customer.running += 1
        settings = customer.settings
        if settings.rate is not None:
            customer.whole_at = rates.charged(settings.rate, customer.whole_at, now)
            opens_at = rates.opens_at(settings.rate, customer.whole_at)
            if opens_at > now:
                customer.rate_closed_until = opens_at
        if settings is not DEFAULTS:
            self.open_or_close(customer)

    def stopped(self, customer: LinesOf[LineT]) -> None:
        """A document of the customer runs no more."""
        was_open = customer.is_open
        customer.running -= 1
        if not was_open:
            self.open_or_close(customer)

    def rate_allows(self, customer: LinesOf[LineT]) -> None:
        """The time that a rate closed the customer for is over."""
        customer.rate_closed_until = None
        self.open_or_close(customer)

    def bound_rate(self, customer: LinesOf[LineT], now: int) -> bool:
        """Bring a closing by rate that a clock ahead of this one has set back to what the rate allows at `now`."""
        rate = customer.settings.rate
        if rate is None or customer.rate_closed_until is None:
            return False
        whole_at = rates.bounded(rate, customer.whole_at, now)
        if whole_at == customer.whole_at:
            return False
        customer.whole_at, customer.rate_closed_until = whole_at, rates.opens_at(rate, whole_at)
        return True

    def change(self, customer: LinesOf[LineT], settings: CustomerSettings) -> None:
        """New settings hold for what already waits."""
        before, customer.settings = customer.settings, settings
        if settings.rate != before.rate:
            customer.whole_at, customer.rate_closed_until = 0, None
        if settings.weight != before.weight:
            for _, line in sorted(customer.lines.items()):
                self.turns.reweigh(line, settings.weight)
        self.open_or_close(customer)

    def open_or_close(self, customer: LinesOf[LineT]) -> None:
        """Let the customer's lines be taken, or not."""
        is_open = customer.is_open
        for _, line in sorted(customer.lines.items()):
            if not is_open:
                self.turns.leave(line)
            elif line.head is not None and not line.filed:
                self.turns.enter(line)
