"""Name what lanes are charged: documents, pages or worker time."""

from dataclasses import replace
from enum import StrEnum

from inturn.errors import InvalidInputError
from inturn.policy import Charge, CostPolicy, Policy


class ChargeUnit(StrEnum):
    """What a customer's turn is charged for each document."""

    DOCUMENTS = "documents"
    PAGES = "pages"
    TIME = "time"

    @classmethod
    def parse(cls, where: str, text: str) -> "ChargeUnit":
        """Parse a unit; an error names those that there are."""
        try:
            return cls(text)
        except ValueError:
            raise InvalidInputError(f"{where} must be one of {', '.join(cls)}, not {text!r}") from None

    @classmethod
    def of(cls, policy: Policy) -> "ChargeUnit":
        """Return the unit that a policy charges."""
        if policy.turns.charge is Charge.TIME:
            return cls.TIME
        return cls.PAGES if policy.costs.per_page else cls.DOCUMENTS

    def apply_to(self, policy: Policy) -> Policy:
        """Return the policy with this unit; a cost by pages that it has already is kept."""
        costs = policy.costs
        if self is ChargeUnit.DOCUMENTS:
            costs = CostPolicy(1.0, 0.0, costs.bytes_per_page)
        elif not costs.per_page:
            costs = CostPolicy(bytes_per_page=costs.bytes_per_page)
        charge = Charge.TIME if self is ChargeUnit.TIME else Charge.COST
        return replace(policy, turns=replace(policy.turns, charge=charge), costs=costs)


def with_sharing(policy: Policy, charge: str | None, max_share: float | None) -> Policy:
    """Return the policy with another charge unit and another share cap; None leaves them as they are."""
    if charge is not None:
        policy = ChargeUnit.parse("charge", charge).apply_to(policy)
    if max_share is not None:
        policy = replace(policy, turns=replace(policy.turns, max_share=max_share))
    return policy
