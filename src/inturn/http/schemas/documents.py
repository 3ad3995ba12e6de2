"""Define the models of documents, batches and checks."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from inturn.http.schemas.common import Counter, Id, InputTime, Name, QueueName, Share, Span, State, StrictModel, Time
from inturn.model import DEFAULT_QUEUE
from inturn.values import MAX_METADATA_LENGTH


class DocumentSpec(StrictModel):
    """One document of a JSON submission: a reference to a file elsewhere (`uri`), a `text`, or neither."""

    name: Name = Field(examples=["invoice.pdf"])
    uri: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        None, examples=["https://example.com/a.pdf"]
    )
    text: Annotated[str, Field(max_length=10_000_000)] | None = None
    batch: Name | None = None
    group: Name | None = Field(None, description="A part of the customer. Groups of one customer take turns.")
    queue: QueueName = Field(
        DEFAULT_QUEUE,
        description="The queue that it waits in. Left out: `default`. An operator's document makes a new one.",
    )
    metadata: dict[str, Any] = Field(
        default_factory=dict, description=f"At most {MAX_METADATA_LENGTH} characters as JSON."
    )
    delay: InputTime = Field(0, description="Operators only: the delay before it joins its lane. Left out: 0.")
    start_by: InputTime | None = Field(None, description="Operators only: it expires if it has not started by then.")
    cost: float = Field(1.0, ge=0.001, le=10_000, description="Operators only. Left out: 1.")


class Submission(StrictModel):
    """Documents of one customer. A customer's own key may leave `customer` out."""

    customer: Name | None = Field(None, examples=["acme"])
    documents: Annotated[list[DocumentSpec], Field(min_length=1, max_length=1_000)]


class Receipt(BaseModel):
    """The id, level and count of a submitted document."""

    id: Id
    level: int = Field(examples=[1])
    count: int = Field(examples=[0])


class Accepted(BaseModel):
    """Receipts, in the order of the documents."""

    customer: str
    receipts: list[Receipt]


class Document(BaseModel):
    """A stored document."""

    id: Id
    customer: str
    name: str
    state: State
    level: int
    count: int
    expedited: bool
    submitted_at: Time
    ready_at: Time
    due_at: Time | None
    started_at: Time | None = Field(description="When a worker claimed it; work may begin later.")
    began_at: Time | None = Field(description="When work on its last attempt began; null until that has ended.")
    worked: int | None = Field(description="Microseconds of work in its last attempt; null until that has ended.")
    finished_at: Time | None
    attempt: int
    max_attempts: int
    error: str | None
    uri: str | None
    has_content: bool = Field(description="Whether its file is kept here, at `/content`.")
    size: int | None
    sha256: str | None
    media_type: str | None
    pages: int | None
    batch: str | None
    group: str | None
    queue: str
    cost: float
    start_by: Time | None
    metadata: dict[str, Any]
    worker: str | None = Field(description="For operators; otherwise null.")


class DocumentPage(BaseModel):
    """One page, newest first; give `next` as `after` for the following one."""

    documents: list[Document]
    next: str | None


class ResultFile(BaseModel):
    """A file that belongs to a result."""

    name: str
    size: int
    sha256: str
    media_type: str | None


class Result(BaseModel):
    """The result that a processor returned for a document."""

    id: Id
    result: Any
    files: list[ResultFile]


class Ahead(BaseModel):
    """Documents that would start before this one. For operators."""

    better_levels: int
    same_level: int
    own_line: int


class Bounds(BaseModel):
    """The counts of a level: less than `below` (null for level 1) and at least `not_below` (null for the last)."""

    below: int | None
    not_below: int | None


class SlotUse(BaseModel):
    """The running documents of a customer in the document's queue, and the live slots of workers that serve it."""

    running: int
    slots: int


class Why(BaseModel):
    """Why a document is where it is, and when it should start."""

    id: Id
    queue: str
    at: Time
    state: State
    level: int
    count: int
    bounds: Bounds | None = Field(description="Null when no policy gives this level for this count.")
    counter: Counter | None
    closed_by: list[Literal["queue_paused", "own_queue_paused", "customer_paused", "cap", "rate", "share"]] = Field(
        description="What closes its lane; `queue_paused`: all queues are paused, `own_queue_paused`: its queue is;"
        " `share`: its customer holds its share of the slots while others come."
    )
    place: int | None = Field(description="Documents that would start before it; for a customer's key, rounded up.")
    ahead: Ahead | None
    no_place: str | None
    start: Span | None
    start_held: int | None = Field(
        description="Of ten starts of the last day, how many were within their span; null if too few are known."
    )
    no_start: str | None = Field(
        description="closed, not_waiting, no_worker, queue_unserved (no worker serves its queue) or too_few_finishes."
    )
    slot_use: SlotUse | None = Field(description="For operators, while the lane is closed by `share`; otherwise null.")
    share: Share | None = Field(description="Its customer's share of worker seconds, for operators; otherwise null.")
    sentence: str = Field(description="The same in the caller's language (Accept-Language: en, de, es, pl or pt).")


class TimelineEntry(BaseModel):
    """An event of a document."""

    at: Time
    kind: str = Field(examples=["started"])
    attempt: int | None = Field(description="The attempt that began or ended; a retry by hand begins with 1 again.")
    error: str | None = Field(description="The error that ended the attempt; for a customer's key, its first line.")
    worker: str | None = Field(description="For operators; otherwise null.")
    operator: str | None = Field(description="The operator who did it by hand. For operators; otherwise null.")
    why: str | None


class WaitForParts(BaseModel):
    """The time that a document waits for its parts."""

    since: Time
    until: Time | None = Field(description="Null while some have not ended.")
    parts: int | None = Field(description="Null if the document was split again later; so are the two below.")
    ended: int | None
    failed: int | None = Field(description="Those that failed, expired or were cancelled.")


class TimelineStep(BaseModel):
    """What became of a document in one queue. Durations are microseconds."""

    step: int
    queue: str
    ready_at: Time | None = Field(description="When it came into the queue; null while it waits for its parts.")
    started_at: Time | None = Field(description="The start of the first attempt.")
    ended_at: Time | None
    attempts: int
    waited: int = Field(description="The time before its starts, without delays and without a wait that still lasts.")
    worked: int = Field(description="The processing time of attempts that are over.")
    has_result: bool
    parts: WaitForParts | None = Field(description="After the step, if it split the document.")


class Timeline(BaseModel):
    """The events of a document, oldest first, its steps, and the progress of its processor."""

    id: Id
    moments: list[TimelineEntry]
    steps: list[TimelineStep] = Field(
        description="A span for each step, oldest first; steps that were repeated from the start stand there again."
    )
    is_whole: bool = Field(description="False if some attempts or manual actions are no longer stored.")
    done: float | None = Field(description="Progress from 0 to 1, if its processor reports it.")


Ids = Annotated[list[Id], Field(min_length=1, max_length=1_000)]


class BulkExpedite(StrictModel):
    """The documents to move to the front, or back to their places with `undo`."""

    ids: Ids
    undo: bool = False


class BulkFilter(StrictModel):
    """The documents to act on: either `ids`, or at least one condition. All conditions given must hold."""

    ids: Ids | None = None
    state: Annotated[list[State], Field(min_length=1)] | None = None
    customer: Name | None = None
    level: Annotated[int, Field(ge=1, le=9)] | None = None
    batch: Name | None = None
    group: Name | None = None
    queue: QueueName | None = None
    text: Name | None = None
    since: InputTime | None = Field(None, description="Only from this time on.")
    until: InputTime | None = Field(None, description="Only before this time.")
    time: Literal["submitted", "ended"] | None = Field(
        None,
        description="The time that `since` and `until` are about. Left out: `submitted` to cancel, `ended` to retry.",
    )
    dry_run: bool = Field(default=False, description="Only count. Left out: false.")


class BulkResult(BaseModel):
    """The number of documents changed, or with `dry_run` the number that would be."""

    documents: int
    done: bool


class Counts(BaseModel):
    """The number of matching documents, by state."""

    documents: int
    states: dict[str, int]


class Batch(BaseModel):
    """The progress of a batch."""

    batch: str
    documents: int
    ended: int
    states: dict[str, int]


class CheckRequest(StrictModel):
    """A number of documents in a queue of your own. A customer's own key may leave `customer` out."""

    customer: Name | None = Field(None, examples=["acme"])
    count: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(1, description="Left out: 1.", examples=[3])


class Check(BaseModel):
    """The level that one check gave, and the count after it."""

    level: int
    count: int


class Checks(BaseModel):
    """One check for each document, in order."""

    customer: str
    checks: list[Check]
