"""Define the scheduling settings: fair or classic order, the charge of lanes, the overdue slot, shares of slots."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from inturn.errors import InvalidInputError
from inturn.values import MAX_TIME, SECOND, clean_number

MAX_OVERDUE_EVERY: Final = 1_000
MIN_MAX_SHARE: Final = 0.5
"""With less, a customer that is alone with one other would leave slots idle that neither may use."""
OUT_OF_TURN_DIVISOR: Final = 10
"""A lane is started out of turn at most once in this fraction of `overdue_after`."""


class Order(StrEnum):
    """The order inside a level."""

    FAIR = "fair"
    CLASSIC = "classic"
    """The literal spec: first come first served, no overdue slot, no charges."""


class Charge(StrEnum):
    """What a lane is charged for a document."""

    TIME = "time"
    """Worker time: expected at the start, corrected at the end."""
    COST = "cost"
    """The document's cost: 1, or by its pages (`inturn.policy.costs`)."""


@dataclass(frozen=True, slots=True)
class TurnPolicy:
    """The order inside a level, the overdue slot, the charge, and the limit of shares. Times are microseconds."""

    order: Order = Order.FAIR
    overdue_after: int = 900 * SECOND
    overdue_every: int = 10
    charge: Charge = Charge.TIME
    max_share: float = 7 / 8
    """The part of the live slots that one customer may hold while others come; 1 for all."""
    share_idle_after: int = 0
    """Microseconds without a start of another customer after which one customer may hold all slots. If its next
    document is expected to take longer, that time counts."""

    def __post_init__(self) -> None:
        if not isinstance(self.order, Order):
            raise InvalidInputError(f"order must be one of {', '.join(Order)}, not {self.order!r}")
        if type(self.overdue_after) is not int or not 0 < self.overdue_after <= MAX_TIME:
            raise InvalidInputError(
                f"overdue_after must be a whole number of microseconds, more than 0, not {self.overdue_after!r};"
                f" for 900 seconds write seconds(900)",
            )
        if type(self.overdue_every) is not int or not 2 <= self.overdue_every <= MAX_OVERDUE_EVERY:
            raise InvalidInputError(
                f"overdue_every must be a whole number from 2 to {MAX_OVERDUE_EVERY}, not {self.overdue_every!r}",
            )
        if not isinstance(self.charge, Charge):
            raise InvalidInputError(f"charge must be one of {', '.join(Charge)}, not {self.charge!r}")
        clean_number("max_share", self.max_share, MIN_MAX_SHARE, 1)
        if type(self.share_idle_after) is not int or not 0 <= self.share_idle_after <= MAX_TIME:
            raise InvalidInputError(
                f"share_idle_after must be a whole number of microseconds, 0 or more, not {self.share_idle_after!r};"
                f" for 30 seconds write seconds(30)",
            )

    @property
    def charges_time(self) -> bool:
        """Whether lanes are charged worker time."""
        return self.order is Order.FAIR and self.charge is Charge.TIME

    @property
    def tracks_runs(self) -> bool:
        """Whether starts and ends of documents are counted for each customer: for charges by time, or for shares."""
        return self.order is Order.FAIR and (self.charge is Charge.TIME or self.max_share < 1)

    @property
    def out_of_turn_interval(self) -> int:
        """Microseconds before a lane that was started out of turn may be started so again.

        Without it, the first lane of a long backlog gets 3 shares among 300 equal lanes, and 8 among 1,000.
        """
        return self.overdue_after // OUT_OF_TURN_DIVISOR
