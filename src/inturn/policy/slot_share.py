"""Limit the part of the live slots that one customer holds while documents of other customers are started.

Running documents are not taken away. A customer with long documents could therefore hold every slot, and the next
customer's document would wait until one of them ends, whatever the order is. With a limit of 7/8, one slot of eight is
left to others.

A customer at the limit is closed while the queue is *contended*: a document of another customer than the one before was
started less than `share_idle_after` ago. After that time without another customer it may hold all slots.
"""

from dataclasses import dataclass, field
from typing import Final

MIN_SHARED_SLOTS: Final = 2
"""A single slot cannot be shared: no limit applies to it."""


@dataclass(slots=True)
class SlotShares:
    """Who holds how much of the slots, as far as the limit depends on it."""

    live_slots: int = 0
    """The slots of workers that are alive, as the current claim counted them."""
    last_customer: str | None = None
    """The customer whose document was started last."""
    contended_at: int | None = None
    """When a document of another customer than the one before was last started."""
    at_limit: dict[str, bool] = field(default_factory=dict)
    """Customers that hold as many slots as the limit allows, or more; True while their lanes are closed for it."""

    def limit(self, max_share: float) -> int | None:
        """Return how many slots a customer may hold while the queue is contended; None for all."""
        if max_share >= 1 or self.live_slots < MIN_SHARED_SLOTS:
            return None
        return max(1, int(self.live_slots * max_share))

    def started(self, customer: str, now: int) -> None:
        """Note whose document was started."""
        if customer != self.last_customer:
            if self.last_customer is not None:
                self.contended_at = now
            self.last_customer = customer

    def is_contended(self, now: int, idle_after: int) -> bool:
        """Return whether the limit applies now. A time in the future comes from a wrong clock, and does not count."""
        return self.contended_at is not None and 0 <= now - self.contended_at < idle_after

    def opens_at(self, idle_after: int) -> int | None:
        """Return when closed customers open at the latest; None if there is none."""
        if self.contended_at is None or not any(self.at_limit.values()):
            return None
        return self.contended_at + idle_after
