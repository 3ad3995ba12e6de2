"""Limit the part of the live slots that one customer holds while documents of other customers are started.

Running documents are not taken away. A customer with long documents could therefore hold every slot, and the next
customer's document would wait until one of them ends, whatever the order is. With a limit of 7/8, one slot of eight is
left to others.

A customer at the limit is closed while others *come*: a document of another customer was started less than the hold
time ago. The hold time is what its own next document is expected to take, or `share_idle_after` if that is longer: for
so long the slot would be missing to the next that comes. Short documents therefore hardly ever leave a slot idle.
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
    last_at: int | None = None
    """When that was."""
    other_at: int | None = None
    """When a document of any other customer was last started."""
    at_limit: dict[str, int | None] = field(default_factory=dict)
    """Customers that hold as many slots as the limit allows, or more, with the time at which they open at the latest if
    their lanes are closed for it."""

    def limit(self, max_share: float) -> int | None:
        """Return how many slots a customer may hold while others come; None for all."""
        if max_share >= 1 or self.live_slots < MIN_SHARED_SLOTS:
            return None
        return max(1, int(self.live_slots * max_share))

    def started(self, customer: str, now: int) -> None:
        """Note whose document was started."""
        if customer != self.last_customer:
            self.other_at = self.last_at
            self.last_customer = customer
        self.last_at = now

    def closed_until(self, customer: str, hold: int, now: int) -> int | None:
        """Return until when a customer at the limit is closed; None if it is not.

        A start in the future comes from a wrong clock, and does not count.
        """
        came_at = self.other_at if customer == self.last_customer else self.last_at
        return came_at + hold if came_at is not None and 0 <= now - came_at < hold else None

    def opens_at(self) -> int | None:
        """Return when the first closed customer opens at the latest; None if there is none."""
        return min((at for at in self.at_limit.values() if at is not None), default=None)
