"""Define the models of documents, batches and checks."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from inturn.http.schemas.common import Counter, Id, InputTime, Name, QueueName, Share, Span, State, StrictModel, Time
from inturn.model import DEFAULT_QUEUE, MAX_STEPS
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
    steps: Annotated[list[QueueName], Field(max_length=MAX_STEPS)] = Field(
        default_factory=list,
        description="The queues that it passes through, in order. The first is its `queue`, which may be left out.",
        examples=[["ocr", "classify"]],
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
    queue: str = Field(description="Where it waits or runs, or ended; while it is split, where it goes afterwards.")
    step: int = Field(description="How many steps it has behind it.")
    steps: list[str] = Field(description="The queues that it was to pass through when it was submitted.")
    ahead: list[str] = Field(description="The queues that are planned after this one.")
    parent: str | None = Field(description="The document that it is a part of.")
    part: int | None = Field(description="Its number among the parts, from 1.")
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


class StepResult(BaseModel):
    """The result of one step, with files at `/v1/documents/{id}/results/{step}/files/{name}`."""

    step: int = Field(description="Its number, from 0.")
    queue: str
    result: Any = Field(description="Null if it is in `result_file`.")
    result_file: ResultFile | None = Field(
        description="The file of a result of more than 256 KiB, at the address of the step's files."
    )
    files: list[ResultFile]


class StepResults(BaseModel):
    """The results of all steps that are done. The last is the document's own once that is done."""

    id: Id
    results: list[StepResult]


class PartResult(BaseModel):
    """A part of a document, and what became of it. It is a document too, with its files at its own address."""

    id: Id
    part: int = Field(description="Its number, from 1.")
    name: str
    state: State
    result: Any = Field(description="Null if it is in `result_file`.")
    result_file: ResultFile | None = Field(
        description="The file of a result of more than 256 KiB: `GET /v1/documents/{id}/result` of the part has it."
    )
    error: str | None = Field(description="For a customer's key, its first line.")
    files: list[ResultFile]


class Parts(BaseModel):
    """One page of the parts of a document; give `next` as `after` for the following one.

    A page has up to `limit` parts, at least one, and about 16 MB of results.
    """

    id: Id
    documents: int = Field(description="All parts of its last split.")
    states: dict[str, int] = Field(description="All parts by state.")
    parts: list[PartResult]
    next: int | None


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
    closed_by: list[
        Literal[
            "queue_paused",
            "own_queue_paused",
            "customer_paused",
            "cap",
            "rate",
            "share",
            "own_queue_cap",
            "own_queue_rate",
        ]
    ] = Field(
        description="What closes its lane; `queue_paused`: all queues are paused, `own_queue_paused`: its queue is;"
        " `cap`, `rate`: a limit of its customer; `own_queue_cap`, `own_queue_rate`: a limit of its queue;"
        " `share`: its customer holds its share of the slots while others come."
    )
    unended_parts: int | None = Field(description="While it is split: how many of its parts have not ended.")
    place: int | None = Field(description="Documents that would start before it; for a customer's key, rounded up.")
    ahead: Ahead | None
    no_place: str | None
    start: Span | None
    start_held: int | None = Field(
        description="Of ten starts of the last day, how many were within their span; null if too few are known."
    )
    no_start: str | None = Field(
        description="closed, not_waiting, no_worker, queue_unserved (no worker serves its queue), by_hand (people do)"
        " or too_few_finishes."
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
    queue: str | None = Field(description="The queue of the attempt.")
    step: int | None = Field(description="How many steps the document had behind it in this attempt.")
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


class Counts(BaseModel):
    """The number of matching documents, by state."""

    documents: int = Field(description="Parts of split documents count only where the filter has them.")
    states: dict[str, int]


class Batch(BaseModel):
    """The progress of a batch."""

    batch: str
    documents: int = Field(description="Without the parts that documents are split into.")
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
