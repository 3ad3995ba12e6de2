"""Define the models of the overview."""

from pydantic import BaseModel, Field

from inturn.http.schemas.common import Id, Paused, Share, Time, WaitPercentiles


class Overdue(BaseModel):
    """The overdue slot: every so many starts go to levels in which a document has waited for so long."""

    after: int
    every: int
    levels: list[int] = Field(description="Levels it serves now.")
    uses: int = Field(description="Starts it has given since the queue began.")


class CustomerGroup(BaseModel):
    """Customers with open lines of some levels, their documents there, and the waits of the last ten minutes."""

    customers: int
    waiting: int
    waits: WaitPercentiles | None


class BusyCustomer(BaseModel):
    """A customer with much waiting, and the level that its next document would get."""

    customer: str
    display_name: str | None
    level: int
    waiting: int
    running: int
    paused: bool
    lines: dict[int, int] = Field(description="Waiting documents by level.")
    share: Share


class TopCustomer(BaseModel):
    """A customer, its part of all starts in the last ten minutes, and the part due if it waits now."""

    customer: str
    received: float
    due: float | None


class RunningDocument(BaseModel):
    """A document in a worker's hands."""

    id: Id
    name: str
    customer: str
    level: int
    started_at: Time | None = Field(description="When work on it began, or when it was claimed.")
    done: float | None = Field(description="How far it is, from 0 to 1, if its processor tells.")


class WorkerActivity(BaseModel):
    """A worker and what it does."""

    name: str
    host: str
    slots: int
    busy: int
    processor: str
    started_at: Time
    seen_at: Time
    stopping: bool
    documents: list[RunningDocument]
    claimed_ahead: int = Field(description="Documents that it holds besides: its slots have not begun them.")


class History(BaseModel):
    """The last ten minutes, a column for each figure; points are five seconds apart or more."""

    at: list[Time]
    waiting: list[int]
    running: list[int]
    per_second: list[float]
    customers: list[int]
    failed: list[int]
    overdue_uses: list[int]
    p50: list[int | None]
    p95: list[int | None]
    p99: list[int | None]


class Overview(BaseModel):
    """The queue at a glance."""

    at: Time
    paused: Paused | None
    states: dict[str, int]
    waiting: dict[int, int] = Field(description="By level; 0 holds what operators expedited.")
    oldest_wait: int | None
    customers: int = Field(description="With an open line.")
    per_second: float = Field(description="Documents finished.")
    waits: WaitPercentiles | None = Field(description="Of the last minute.")
    overdue: Overdue
    quiet: CustomerGroup = Field(description="Before the last level.")
    busy: CustomerGroup = Field(description="In the last level.")
    last_level: int
    busiest: list[BusyCustomer]
    top_customers: list[TopCustomer] = Field(description="Those with the most starts.")
    workers: list[WorkerActivity]
    history: History
