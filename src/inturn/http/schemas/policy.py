"""Define the models of the policy and its versions."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from inturn.http.schemas.common import InputTime, StrictModel, Time


class Policy(StrictModel):
    """A policy: thresholds, order, overdue slot, costs."""

    reset_interval: Annotated[int, Field(strict=True)] = Field(examples=[1_500_000_000])
    thresholds: list[Annotated[int, Field(strict=True)]] = Field(examples=[[-2, -4, -6, -8, -10, -12, -14, -20]])
    order: Literal["fair", "classic"]
    overdue_after: Annotated[int, Field(strict=True)] = Field(examples=[900_000_000])
    overdue_every: Annotated[int, Field(strict=True)] = Field(examples=[10])
    per_document: float = Field(examples=[1.0])
    per_page: float = Field(examples=[0.0])
    bytes_per_page: Annotated[int, Field(strict=True)] = Field(examples=[1_000_000])


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

    policy: Policy
    expected: Annotated[int, Field(ge=1, le=2**62, strict=True)] | None = None


class PolicyPreview(StrictModel):
    """A policy to try on the documents since a time (left out: the last day)."""

    policy: Policy
    since: InputTime | None = None


class Priority(BaseModel):
    """The rule for levels: level 1, plus one for each threshold that the count is less than."""

    reset_interval: int = Field(examples=[1_500_000_000])
    thresholds: list[int] = Field(examples=[[-2, -4, -6, -8, -10, -12, -14, -20]])
