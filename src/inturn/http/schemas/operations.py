"""Define the models of workers, the audit log, estimates and the server itself."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from inturn.http.schemas.common import Paused, Time


class UploadLimits(BaseModel):
    """How much one upload may bring, in bytes and files."""

    file: int
    body: int
    files: int


class Worker(BaseModel):
    """A worker as it was last heard of."""

    name: str
    host: str
    process: int
    slots: int
    busy: int
    processor: str
    started_at: Time
    seen_at: Time
    stopping: bool


class Workers(BaseModel):
    """All workers, by name."""

    workers: list[Worker]


class AuditEvent(BaseModel):
    """Something that somebody did by hand."""

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
    """How good the starts that this server told were."""

    open: int = Field(description="Told, and not started yet.")
    compared: int
    inside: int = Field(description="Started within the span they were told.")
    early: int
    late: int
    median_error: int | None = Field(description="Distance from the span, of the last ones compared.")


class Health(BaseModel):
    """Whether it is well."""

    status: Literal["ok"]


class Queue(BaseModel):
    """The queue as a whole."""

    paused: Paused | None


class Limits(BaseModel):
    """How much a server takes; sizes are bytes. Above it: 413 for one request, 429 for too much."""

    file: int
    body: int
    files: int = Field(description="Of one upload.")
    per_second: float = Field(description="Requests of one key.")
    burst: int
    waiting: int = Field(description="Documents of one customer.")
    stored: int = Field(description="Bytes of one customer's documents.")


class Server(BaseModel):
    """Who answers."""

    version: str | None = Field(description="Told to operators.", examples=["0.1.0"])
    limits: Limits
