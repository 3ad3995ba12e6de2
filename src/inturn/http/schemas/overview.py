"""Define the models of the overview."""

from pydantic import BaseModel, Field

from inturn.http.schemas.common import Id, Paused, Share, Time, WaitPercentiles


class Overdue(BaseModel):
    """The overdue slot: one of `every` starts goes to a level in which a document has waited longer than `after`."""

    after: int
    every: int
    levels: list[int] = Field(description="The levels that are overdue now.")
    uses: int = Field(description="The number of starts from the overdue slot so far.")


class CustomerGroup(BaseModel):
    """Customers with documents waiting in some levels, these documents, and the waits of the last ten minutes."""

    customers: int
    waiting: int
    held_customers: int = Field(description="Those of them that are paused, capped or limited.")
    held: int = Field(description="The waiting documents of these.")
    waits: WaitPercentiles | None


class BusyCustomer(BaseModel):
    """A customer with many waiting documents, and the level that its next document would get."""

    customer: str
    display_name: str | None
    level: int
    waiting: int
    running: int
    paused: bool
    at_slot_limit: bool = Field(description="Closed: it holds its share of the slots while other customers come.")
    lines: dict[int, int] = Field(description="Waiting documents by level.")
    share: Share


class TopCustomer(Share):
    """A customer and its share of worker seconds."""

    customer: str


class ShareWindow(BaseModel):
    """The time that shares are measured over: the last ten minutes, or less after this server's start."""

    since: Time
    until: Time
    worker_seconds: float = Field(description="Of all customers.")
    documents: int = Field(description="Documents of all customers that were done or failed.")


class RunningDocument(BaseModel):
    """A running document."""

    id: Id
    name: str
    customer: str
    level: int
    started_at: Time | None = Field(description="The time when work on it began, or when it was claimed.")
    done: float | None = Field(description="Progress from 0 to 1, if its processor reports it.")


class WorkerActivity(BaseModel):
    """A worker and the documents that it runs."""

    name: str
    host: str
    slots: int
    busy: int
    processor: str
    queues: list[str] = Field(description="The queues that it serves.")
    started_at: Time
    seen_at: Time
    stopping: bool
    documents: list[RunningDocument]
    claimed_ahead: int = Field(description="The number of prefetched documents: no slot has begun them.")


class History(BaseModel):
    """The last ten minutes, one column for each figure. Points are at least five seconds apart."""

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


class Acknowledgement(BaseModel):
    """The operator who acknowledged failures last."""

    at: Time
    operator: str
    why: str


class FailingCustomer(BaseModel):
    """A customer whose documents failed."""

    customer: str
    failed: int


class RecentFailures(BaseModel):
    """Documents that failed in the last hour, after the last acknowledgement."""

    since: Time = Field(description="An hour ago, or the last acknowledgement if that was later.")
    failed: int
    customers: list[FailingCustomer] = Field(description="The customers with the most of them.")
    acknowledged: Acknowledgement | None


class Overview(BaseModel):
    """The state of all queues."""

    at: Time
    paused: Paused | None
    states: dict[str, int] = Field(
        description="Parts count as documents; a document that waits for its parts is `split`."
    )
    waiting: dict[int, int] = Field(description="By level; level 0 holds expedited documents.")
    oldest_wait: int | None = Field(description="The longest wait, held documents included.")
    customers: int = Field(description="The number of customers with waiting documents.")
    held_customers: int = Field(description="Those of them that are paused, capped or limited: nothing is started.")
    held: int = Field(description="The waiting documents of these.")
    per_second: float = Field(description="Finished documents a second.")
    waits: WaitPercentiles | None = Field(description="Of the last minute.")
    overdue: Overdue
    quiet: CustomerGroup = Field(description="Customers in levels before the last one.")
    busy: CustomerGroup = Field(description="Customers in the last level.")
    last_level: int
    busiest: list[BusyCustomer]
    top_customers: list[TopCustomer] = Field(description="The customers with the largest shares, actual or fair.")
    share_window: ShareWindow | None = Field(description="Null until this server has measured shares.")
    workers: list[WorkerActivity]
    failures: RecentFailures
    history: History
