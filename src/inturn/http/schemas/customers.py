"""Define the models of customers."""

from typing import Annotated

from pydantic import BaseModel, Field

from inturn.http.schemas.common import Counter, InputTime, Name, Rate, Share, StrictModel, Time, WaitPercentiles


class Lane(BaseModel):
    """A customer's waiting documents of one level of one queue; level 0 holds expedited documents."""

    queue: str
    level: int
    waiting: int
    is_open: bool
    oldest_wait: int | None = Field(description="The longest wait, also of a closed lane; null in lists.")


class Customer(BaseModel):
    """A customer, with its counter, lanes and settings."""

    customer: str
    display_name: str | None
    counter: Counter | None
    level: int = Field(description="The level that its next document would get now.")
    waiting: int
    running: int
    lines: list[Lane]
    weight: float
    cap: int | None
    rate: Rate | None
    paused: bool
    at_slot_limit: bool = Field(description="Closed: it holds its share of the slots while other customers come.")
    keep: int | None
    share: Share | None = Field(description="For operators; otherwise null.")
    waits: WaitPercentiles | None = Field(
        description="Of the last ten minutes, as this server saw them; null without starts."
    )


class CustomerDetail(Customer):
    """A customer at one time of the server's clock."""

    at: Time


class CustomerPage(BaseModel):
    """One page; give `next` as `after` for the following one."""

    at: Time
    customers: list[Customer]
    next: str | None
    total: int | None = Field(description="The number of matching customers; null without `sort`.")


class CustomerSettings(StrictModel):
    """Some settings of a customer. Fields left out do not matter; null is no cap, rate, name or retention."""

    weight: Annotated[float, Field(ge=0.001, le=1_000)] = 1.0
    cap: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] | None = None
    rate: Rate | None = None
    paused: bool = False
    display_name: Name | None = None
    keep: InputTime | None = None


class CustomerChange(CustomerSettings):
    """The settings to change. Fields left out stay as they are; null removes a cap, a rate, a name or a retention."""

    expected: CustomerSettings = Field(
        default_factory=CustomerSettings,
        description="The settings as they must still be. If one is another, nothing is changed and the answer is 409.",
    )


class Purge(StrictModel):
    """Confirm the deletion of a customer's documents, results, blobs and keys; the counter stays."""

    confirm: Name = Field(description="The customer's name, repeated.", examples=["acme"])


class PurgeResult(BaseModel):
    """The numbers of deleted documents and blobs."""

    documents: int
    blobs: int
