"""Define the models of scenarios and replays."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from inturn.http.schemas.common import InputTime, Name, StrictModel


class ScenarioGroup(BaseModel):
    """Customers of a scenario that behave alike."""

    group: str
    customers: int


class Scenario(BaseModel):
    """What can be played."""

    scenario: str = Field(examples=["two-bulk"])
    title: str
    workers: int
    groups: list[ScenarioGroup]


class Scenarios(BaseModel):
    """All that come with Inturn, by name."""

    scenarios: list[Scenario]


class Simulation(StrictModel):
    """A scenario to be played; what is left out or null is as the scenario says."""

    scenario: Name = Field(examples=["two-bulk"])
    orders: Annotated[list[Literal["fair", "classic", "fifo"]], Field(min_length=1, max_length=3)] = Field(
        default=["fair", "classic", "fifo"], description="Each at most once. Left out: all three."
    )
    workers: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = None
    load: Annotated[float, Field(ge=0.1, le=10)] | None = Field(None, description="So many times its documents.")
    seed: Annotated[int, Field(ge=0, le=2**53 - 1, strict=True)] | None = Field(None, description="Another draw.")


class Replay(StrictModel):
    """What came in since a time (left out: the last day), to be played otherwise; what is null is as it was."""

    since: InputTime | None = None
    until: InputTime | None = None
    order: Literal["fair", "classic", "fifo"] | None = Field(
        None, description="With all other settings as they are in force now."
    )
    workers: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = Field(
        None, description="Documents at a time, from beginning to end."
    )
