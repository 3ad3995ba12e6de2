"""Define the models of workers, the audit log, estimates and the server itself."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from inturn.http.schemas.common import Id, InputTime, StrictModel, Time
from inturn.http.schemas.overview import RunningDocument


class UploadLimits(BaseModel):
    """The limits of one upload, in bytes and files."""

    file: int
    body: int
    files: int


class WorkerPause(BaseModel):
    """The operator who paused a worker."""

    operator: str
    why: str
    at: Time


class HeldDocument(RunningDocument):
    """A running document with its lease."""

    lease_until: Time | None = Field(description="The document is taken from the worker then, unless it reports.")
    attempt: int
    max_attempts: int


class Worker(BaseModel):
    """A worker as it last reported."""

    name: str
    host: str
    process: int
    slots: int
    busy: int
    processor: str
    queues: list[str] = Field(description="The queues that it serves.")
    version: str | None = Field(description="The version of Inturn that it runs, if it reports that.")
    started_at: Time
    seen_at: Time
    stopping: bool = Field(description="Its process is ending: it takes no more documents.")
    silent: bool = Field(description="It has not reported for so long that it counts as gone.")
    paused: WorkerPause | None = Field(description="It takes no more documents until it is resumed or restarted.")
    documents: list[HeldDocument]
    claimed_ahead: int = Field(description="The number of prefetched documents: no slot has begun them.")


class Workers(BaseModel):
    """All workers, by name."""

    at: Time
    workers: list[Worker]


class FailureExample(BaseModel):
    """A document that failed."""

    id: Id
    name: str
    customer: str
    error: str = Field(description="Its first 500 characters.")


class FailureGroup(BaseModel):
    """Failed documents with the same kind of error."""

    id: str
    error: str = Field(description="The first line; numbers, ids, quoted names, paths and addresses are masked.")
    documents: int
    customers: int
    most: list[str] = Field(description="The customers with the most of these documents, up to five.")
    first_at: Time
    last_at: Time
    example: FailureExample


class Failures(BaseModel):
    """Failed documents by kind of error, the largest group first."""

    since: Time
    until: Time
    documents: int
    oldest_at: Time | None = Field(description="Set if there are more than were read: only those from then on count.")
    groups: list[FailureGroup]


class FailureRange(StrictModel):
    """The range of time in which documents failed."""

    since: InputTime | None = Field(None, description="Only from this time on. Left out: the last 24 hours.")
    until: InputTime | None = Field(None, description="Only before this time.")
    from_start: bool = Field(default=False, description="Begin with the first step. Left out: false.")
    dry_run: bool = Field(default=False, description="Only count. Left out: false.")


class Notice(BaseModel):
    """Something that needs attention. What does not apply to its kind is null, empty or 0."""

    kind: str = Field(
        description="queue_paused (all queues), no_workers, queues_unserved, failing, queues_paused, customers_paused,"
        " workers_paused or overdue.",
    )
    operator: str | None
    why: str
    at: Time | None = Field(description="When the operator did it, if that is known.")
    names: list[str] = Field(description="Queues, customers or workers; four names mean that there may be more.")
    n: int = Field(description="Waiting documents without a worker, or failed documents of the last ten minutes.")
    of: int = Field(description="Documents that ended in the last ten minutes, of which `n` failed.")
    levels: list[int] = Field(description="Levels with overdue documents.")


class Status(BaseModel):
    """What needs attention, the most urgent first."""

    notices: list[Notice]


class AuditEvent(BaseModel):
    """An action of an operator or a customer."""

    number: int
    at: Time
    kind: str
    operator: str
    why: str
    customer: str | None
    documents: list[str]
    detail: dict[str, Any]


class AuditPage(BaseModel):
    """One page, newest first; give `next` as `before` for the following one."""

    events: list[AuditEvent]
    next: int | None


class Estimates(BaseModel):
    """The accuracy of this server's estimated starts."""

    open: int = Field(description="Estimates whose document has not started yet.")
    compared: int
    inside: int = Field(description="Documents that started within the estimated span.")
    early: int
    late: int
    median_error: int | None = Field(description="The distance from the span, of the newest comparisons.")


class Health(BaseModel):
    """The health of the server."""

    status: Literal["ok"]


class Limits(BaseModel):
    """The limits of a server, in bytes where they are sizes. A larger request gets 413, too many of them 429."""

    file: int
    body: int
    files: int = Field(description="Files of one upload.")
    per_second: float = Field(description="Requests a second of one key.")
    burst: int
    waiting: int = Field(description="Waiting documents of one customer.")
    stored: int = Field(description="Bytes of one customer's documents.")


class Server(BaseModel):
    """The version and the limits of a server."""

    version: str | None = Field(description="For operators; otherwise null.", examples=["0.1.0"])
    limits: Limits
