"""The scheduling rules: levels, order, costs, retries, retention. Pure functions and values, without clock or I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inturn.policy.costs import CostPolicy
from inturn.policy.priority import CheckResult, Counter, PriorityPolicy
from inturn.policy.retry import RetryPolicy
from inturn.policy.turn_policy import Charge, Order, TurnPolicy

__all__ = [
    "Charge",
    "CheckResult",
    "CostPolicy",
    "Counter",
    "Order",
    "Policy",
    "PriorityPolicy",
    "RetryPolicy",
    "TurnPolicy",
]


DEFAULT_SHARE_IDLE_AFTER = TurnPolicy().share_idle_after


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings that an operator may change at run time: levels, order and costs."""

    priority: PriorityPolicy = field(default_factory=PriorityPolicy)
    turns: TurnPolicy = field(default_factory=TurnPolicy)
    costs: CostPolicy = field(default_factory=CostPolicy)
    check_each_step: bool = False
    """Whether each step of a document is a check of its own; otherwise a document keeps the level of its submission."""

    def to_dict(self) -> dict[str, Any]:
        """Convert the policy to JSON values, durations in microseconds."""
        return {
            "reset_interval": self.priority.reset_interval,
            "thresholds": list(self.priority.thresholds),
            "order": str(self.turns.order),
            "overdue_after": self.turns.overdue_after,
            "overdue_every": self.turns.overdue_every,
            "charge": str(self.turns.charge),
            "max_share": self.turns.max_share,
            "share_idle_after": self.turns.share_idle_after,
            "per_document": self.costs.per_document,
            "per_page": self.costs.per_page,
            "bytes_per_page": self.costs.bytes_per_page,
            "check_each_step": self.check_each_step,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Policy":
        """Parse the output of `to_dict`. A policy of an older version charges costs and limits no share."""
        return cls(
            PriorityPolicy(data["reset_interval"], tuple(data["thresholds"])),
            TurnPolicy(
                Order(data["order"]),
                data["overdue_after"],
                data["overdue_every"],
                Charge(data.get("charge", Charge.COST)),
                data.get("max_share", 1.0),
                data.get("share_idle_after", DEFAULT_SHARE_IDLE_AFTER),
            ),
            CostPolicy(data["per_document"], data["per_page"], data["bytes_per_page"]),
            bool(data.get("check_each_step", False)),
        )
