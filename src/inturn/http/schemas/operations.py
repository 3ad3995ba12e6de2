"""Define the models of workers, the audit log, estimates and the server itself."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from inturn.http.schemas.common import Paused, Time


class UploadLimits(BaseModel):
    """The limits of one upload, in bytes and files."""

    file: int
    body: int
    files: int


class Worker(BaseModel):
    """A worker as it last reported."""

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


class Queue(BaseModel):
    """The state of the queue: paused or not."""

    paused: Paused | None


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
