"""Define the types and models that several topics share. Times and durations are whole microseconds."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from inturn.values import MAX_NAME_LENGTH, MAX_TIME

Id = Annotated[str, Field(examples=["018f3c5e-0000-7000-8000-000000000000"])]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]
QueueName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", examples=["ocr"])]
Time = Annotated[int, Field(examples=[1_700_000_000_000_000])]
InputTime = Annotated[int, Field(ge=0, le=MAX_TIME, strict=True)]
State = Literal["waiting", "running", "delayed", "split", "done", "failed", "cancelled", "expired"]


class StrictModel(BaseModel):
    """Refuse unknown fields in a request."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """An error (RFC 9457). `code` never changes: compare that."""

    type: str = Field(examples=["urn:inturn:error:not_found"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    code: str = Field(examples=["not_found"])
    detail: str = Field(examples=["there is no such document"])


class Span(BaseModel):
    """A span of time."""

    earliest: Time
    latest: Time


class Counter(BaseModel):
    """A customer's counter, and the time after which the next check starts at 0 again."""

    count: int
    updated_at: Time
    resets_after: Time


class Rate(StrictModel):
    """At most `documents` starts in any period of `per` microseconds."""

    documents: Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
    per: Annotated[int, Field(ge=1_000, le=86_400_000_000, strict=True)]


class WaitPercentiles(BaseModel):
    """Waits of a sample of recent starts: half of them waited no longer than `p50`, and so on."""

    p50: int
    p95: int
    p99: int


class Share(BaseModel):
    """A customer's share of worker seconds against its fair share, both of the same window: at most ten minutes."""

    received: float | None = Field(
        description="Its actual share: the part of all worker seconds that went to its documents, ended or running."
        " Null if workers did nothing."
    )
    due: float | None = Field(
        description="Its fair share. Minute by minute, the worker seconds are divided by weight among the customers"
        " that wanted some; a customer gets at most what it wanted, and the rest is divided among the others."
    )
    worker_seconds: float = Field(description="The worker seconds behind `received`.")
    documents: int = Field(description="Its documents that were done or failed.")
    is_over: bool = Field(
        description="Whether it used more than 1.1 times its fair share, and by at least a second and 1 % of all"
        " worker seconds more, while others got less than theirs."
    )


class Paused(BaseModel):
    """The operator who paused all queues, or one of them, and the reason."""

    operator: str
    why: str
