"""Define the models of scenarios and replays."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from inturn.http.schemas.common import InputTime, Name, StrictModel
from inturn.policy.turn_policy import MIN_MAX_SHARE

ChargeUnit = Literal["documents", "pages", "time"]
MaxShare = Annotated[float, Field(ge=MIN_MAX_SHARE, le=1)]
CHARGE_DESCRIPTION = "What customers of one level share in the fair order: documents, pages or processing time."
MAX_SHARE_DESCRIPTION = "The part of the slots that one customer may hold while others come; 1 is no limit."


class ScenarioGroup(BaseModel):
    """A group of customers with the same behaviour."""

    group: str
    customers: int


class Scenario(BaseModel):
    """A scenario that can be simulated."""

    scenario: str = Field(examples=["two-bulk"])
    title: str
    workers: int
    groups: list[ScenarioGroup]


class Scenarios(BaseModel):
    """The built-in scenarios, by name."""

    scenarios: list[Scenario]


class Simulation(StrictModel):
    """A scenario to simulate. Fields that are left out or null are those of the scenario."""

    scenario: Name = Field(examples=["two-bulk"])
    orders: Annotated[list[Literal["fair", "classic", "fifo"]], Field(min_length=1, max_length=3)] = Field(
        default=["fair", "classic", "fifo"], description="Each at most once. Left out: all three."
    )
    workers: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = None
    load: Annotated[float, Field(ge=0.1, le=10)] | None = Field(
        None, description="A factor for the number of its documents."
    )
    seed: Annotated[int, Field(ge=0, le=2**53 - 1, strict=True)] | None = Field(
        None, description="The seed of its random arrivals."
    )
    charge: ChargeUnit | None = Field(None, description=CHARGE_DESCRIPTION)
    max_share: MaxShare | None = Field(None, description=MAX_SHARE_DESCRIPTION)


class Replay(StrictModel):
    """Replay the documents since a time (left out: the last day) with changes. Fields that are null change nothing."""

    since: InputTime | None = None
    until: InputTime | None = None
    order: Literal["fair", "classic", "fifo"] | None = Field(
        None, description="With all other settings of the active policy."
    )
    charge: ChargeUnit | None = Field(None, description=CHARGE_DESCRIPTION)
    max_share: MaxShare | None = Field(None, description=MAX_SHARE_DESCRIPTION)
    workers: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = Field(
        None, description="The number of documents processed at a time."
    )
