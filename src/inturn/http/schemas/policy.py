"""Define the models of the policy and its versions."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from inturn.http.schemas.common import InputTime, StrictModel, Time

StrictInt = Annotated[int, Field(strict=True)]
Part = Annotated[float, Field(strict=True)]


class PolicySettings(StrictModel):
    """The settings of a policy that every request names."""

    reset_interval: StrictInt = Field(examples=[1_500_000_000])
    thresholds: list[StrictInt] = Field(examples=[[-2, -4, -6, -8, -10, -12, -14, -20]])
    order: Literal["fair", "classic"]
    overdue_after: StrictInt = Field(examples=[900_000_000])
    overdue_every: StrictInt = Field(examples=[10])
    per_document: float = Field(
        description="Cost of a document without its pages. With `charge` = `time`, costs are sizes relative to others.",
        examples=[0.0],
    )
    per_page: float = Field(description="Cost of each page; 0: every document costs 1.", examples=[1.0])
    bytes_per_page: StrictInt = Field(examples=[1_000_000])


CHARGE_DESCRIPTION: Final = (
    "What a start is charged: `time`, the processing time (expected at the start, measured at the end), or `cost`."
)
MAX_SHARE_DESCRIPTION: Final = (
    "The part of the live slots that one customer may hold while others come, 0.5 to 1; 1 for all."
)
SHARE_IDLE_AFTER_DESCRIPTION: Final = (
    "After this time without a start of another customer, one customer may hold all slots. Microseconds."
)


STEP_CHECKS_DESCRIPTION: Final = (
    "Whether each step of a document is a check of its own; otherwise a document keeps its level to the end."
)


class Policy(PolicySettings):
    """A policy: thresholds, order, overdue slot, what is charged, share of one customer, costs."""

    charge: Literal["time", "cost"] = Field(description=CHARGE_DESCRIPTION)
    max_share: float = Field(description=MAX_SHARE_DESCRIPTION, examples=[0.875])
    share_idle_after: int = Field(description=SHARE_IDLE_AFTER_DESCRIPTION, examples=[30_000_000])
    check_each_step: bool = Field(description=STEP_CHECKS_DESCRIPTION)


class PolicyInput(PolicySettings):
    """A policy in a request. Settings that are left out keep the value in force: older clients do not know them."""

    charge: Literal["time", "cost"] | None = Field(None, description=CHARGE_DESCRIPTION)
    max_share: Part | None = Field(None, description=MAX_SHARE_DESCRIPTION, examples=[0.875])
    share_idle_after: StrictInt | None = Field(None, description=SHARE_IDLE_AFTER_DESCRIPTION, examples=[30_000_000])
    check_each_step: Annotated[bool, Field(strict=True)] | None = Field(None, description=STEP_CHECKS_DESCRIPTION)


class PolicyVersion(BaseModel):
    """A policy that is or was in force."""

    version: int
    at: Time
    operator: str
    why: str
    policy: Policy


class PolicyVersions(BaseModel):
    """All versions, newest first."""

    versions: list[PolicyVersion]


class PolicyChange(StrictModel):
    """A policy to put in force; with `expected`, only if that version is still in force."""

    policy: PolicyInput
    expected: Annotated[int, Field(ge=1, le=2**62, strict=True)] | None = None


class PolicyPreview(StrictModel):
    """A policy to try on the documents since a time (left out: the last day)."""

    policy: PolicyInput
    since: InputTime | None = None


class Priority(BaseModel):
    """The rule for levels: level 1, plus one for each threshold that the count is less than."""

    reset_interval: int = Field(examples=[1_500_000_000])
    thresholds: list[int] = Field(examples=[[-2, -4, -6, -8, -10, -12, -14, -20]])
