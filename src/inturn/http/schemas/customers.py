"""Define the models of customers."""

from typing import Annotated

from pydantic import BaseModel, Field

from inturn.http.schemas.common import Counter, InputTime, Name, Rate, Share, StrictModel, Time, WaitPercentiles


class Lane(BaseModel):
    """A customer's waiting documents of one level; 0 holds what was expedited."""

    level: int
    waiting: int
    is_open: bool
    oldest_wait: int | None = Field(description="Of an open line.")


class Customer(BaseModel):
    """A customer."""

    customer: str
    display_name: str | None
    counter: Counter | None
    level: int = Field(description="Of the next document, if it came now.")
    waiting: int
    running: int
    lines: list[Lane]
    weight: float
    cap: int | None
    rate: Rate | None
    paused: bool
    keep: int | None
    share: Share | None = Field(description="Told to operators.")
    waits: WaitPercentiles | None = Field(
        description="Of the last ten minutes, as this server saw them; null if none started."
    )


class CustomerDetail(Customer):
    """A customer at one moment, by the server's clock."""

    at: Time


class CustomerPage(BaseModel):
    """One page; give `next` as `after` for the following one."""

    at: Time
    customers: list[Customer]
    next: str | None
    total: int | None = Field(description="How many fit in all; told with `sort`.")


class CustomerChange(StrictModel):
    """What to change: what is left out stays as it is; null takes a cap, a rate, a name or a time to keep away."""

    weight: Annotated[float, Field(ge=0.001, le=1_000)] = 1.0
    cap: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] | None = None
    rate: Rate | None = None
    paused: bool = False
    display_name: Name | None = None
    keep: InputTime | None = None


class Purge(StrictModel):
    """Deletes documents, results, blobs and keys of a customer; the counter stays."""

    confirm: Name = Field(description="The customer's name once more.", examples=["acme"])


class PurgeResult(BaseModel):
    """What was deleted."""

    documents: int
    blobs: int
