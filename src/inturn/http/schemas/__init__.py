"""What goes in and out as JSON. Times and durations are whole microseconds, as everywhere in Inturn."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from inturn.model import MAX_METADATA_LENGTH, MAX_NAME_LENGTH, MAX_TIME

Id = Annotated[str, Field(examples=["018f3c5e-0000-7000-8000-000000000000"])]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH)]
Time = Annotated[int, Field(examples=[1_700_000_000_000_000])]
InputTime = Annotated[int, Field(ge=0, le=MAX_TIME, strict=True)]
State = Literal["waiting", "running", "delayed", "done", "failed", "cancelled", "expired"]


class StrictModel(BaseModel):
    """What is given: an unknown field is a mistake, and is told."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """An error (RFC 9457). `code` never changes: compare that."""

    type: str = Field(examples=["urn:inturn:error:not_found"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    code: str = Field(examples=["not_found"])
    detail: str = Field(examples=["there is no such document"])


class DocumentSpec(StrictModel):
    """One document of a JSON submission: a reference to a file elsewhere (`uri`), a `text`, or neither."""

    name: Name = Field(examples=["invoice.pdf"])
    uri: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        None, examples=["https://example.com/a.pdf"]
    )
    text: Annotated[str, Field(max_length=10_000_000)] | None = None
    batch: Name | None = None
    metadata: dict[str, Any] = Field(
        default_factory=dict, description=f"At most {MAX_METADATA_LENGTH} characters as JSON."
    )
    delay: InputTime = Field(0, description="Operators only: wait so long before it joins its line. Left out: 0.")
    start_by: InputTime | None = Field(None, description="Operators only: expires if not started by then.")
    cost: float = Field(1.0, ge=0.001, le=10_000, description="Operators only. Left out: 1.")


class Submission(StrictModel):
    """Documents of one customer. A customer's own key may leave the customer out."""

    customer: Name | None = Field(None, examples=["acme"])
    documents: Annotated[list[DocumentSpec], Field(min_length=1, max_length=1_000)]


class Receipt(BaseModel):
    """What a submitter gets for each document."""

    id: Id
    level: int = Field(examples=[1])
    count: int = Field(examples=[0])


class Accepted(BaseModel):
    """Receipts, in the order of the documents."""

    customer: str
    receipts: list[Receipt]


class Document(BaseModel):
    """A document as it is kept."""

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
    size: int | None
    sha256: str | None
    media_type: str | None
    pages: int | None
    batch: str | None
    cost: float
    start_by: Time | None
    metadata: dict[str, Any]
    worker: str | None = Field(description="Told to operators.")


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
    """What a processor made of a document."""

    id: Id
    result: Any
    files: list[ResultFile]


class Span(BaseModel):
    """From a time to a time."""

    earliest: Time
    latest: Time


class Counter(BaseModel):
    """A customer's counter, and the time after which the next check starts at 0 again."""

    count: int
    updated_at: Time
    resets_after: Time


class Ahead(BaseModel):
    """Documents that would start before one. Told to operators."""

    better_levels: int
    same_level: int
    own_line: int


class Bounds(BaseModel):
    """The thresholds around a level: counts `below` the one (null: level 1) and not below the other (null: last)."""

    below: int | None
    not_below: int | None


class Why(BaseModel):
    """Why a document is where it is, and when it should start."""

    id: Id
    at: Time
    state: State
    level: int
    count: int
    bounds: Bounds | None = Field(description="Null when no policy gives this level for this count.")
    counter: Counter | None
    closed_by: list[str]
    place: int | None = Field(description="Documents that would start before it; for a customer's key, rounded up.")
    ahead: Ahead | None
    no_place: str | None
    start: Span | None
    no_start: str | None
    sentence: str = Field(description="The same in the caller's language (Accept-Language: en, de, es, pl or pt).")


class TimelineEntry(BaseModel):
    """Something that happened to a document."""

    at: Time
    kind: str = Field(examples=["started"])
    attempt: int | None = Field(description="Which attempt began or ended; a retry by hand begins with 1 again.")
    error: str | None = Field(description="What that attempt ended with; for a customer's key, its first line.")
    worker: str | None = Field(description="Told to operators.")
    operator: str | None = Field(description="Who did it by hand. Told to operators.")
    why: str | None


class Timeline(BaseModel):
    """What happened to a document, oldest first, and how far its processor is with it now."""

    id: Id
    moments: list[TimelineEntry]
    is_whole: bool = Field(description="False if attempts or what was done by hand are not all kept or found.")
    done: float | None = Field(description="How far it is, from 0 to 1, if its processor tells.")


Ids = Annotated[list[Id], Field(min_length=1, max_length=1_000)]


class DocumentIds(StrictModel):
    """Documents by their ids."""

    ids: Ids


class BulkFilter(StrictModel):
    """Which documents: `ids` alone, or conditions, of which every one given must hold and one must be given."""

    ids: Ids | None = None
    state: Annotated[list[State], Field(min_length=1)] | None = None
    customer: Name | None = None
    level: Annotated[int, Field(ge=1, le=9)] | None = None
    batch: Name | None = None
    text: Name | None = None
    dry_run: bool = Field(default=False, description="Only count. Left out: false.")


class BulkResult(BaseModel):
    """How many documents it was, or would be."""

    documents: int
    done: bool


class Counts(BaseModel):
    """How many documents match, by state."""

    documents: int
    states: dict[str, int]


class UploadLimits(BaseModel):
    """How much one upload may bring, in bytes and files."""

    file: int
    body: int
    files: int


class Batch(BaseModel):
    """How far a batch is."""

    batch: str
    documents: int
    ended: int
    states: dict[str, int]


class CheckRequest(StrictModel):
    """Documents that wait in a queue of your own. A customer's own key may leave the customer out."""

    customer: Name | None = Field(None, examples=["acme"])
    count: Annotated[int, Field(ge=1, le=10_000, strict=True)] = Field(1, description="Left out: 1.", examples=[3])


class Check(BaseModel):
    """The count that one check left, and its level."""

    level: int
    count: int


class Checks(BaseModel):
    """One for each document, in order."""

    customer: str
    checks: list[Check]


class Lane(BaseModel):
    """A customer's waiting documents of one level; 0 holds what was expedited."""

    level: int
    waiting: int
    is_open: bool
    oldest_wait: int | None = Field(description="Of an open line.")


class Rate(StrictModel):
    """So many documents started in any such stretch of time."""

    documents: Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
    per: Annotated[int, Field(ge=1_000, le=86_400_000_000, strict=True)]


class WaitPercentiles(BaseModel):
    """Of a sample of documents that started lately: half of them waited no longer than `p50`, and so on."""

    p50: int
    p95: int
    p99: int


class Share(BaseModel):
    """Part of all starts in the last ten minutes, and the part due by weight among those who wait now."""

    received: float | None
    due: float | None


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


class Policy(StrictModel):
    """Thresholds, order, overdue slot, costs."""

    reset_interval: Annotated[int, Field(strict=True)] = Field(examples=[1_500_000_000])
    thresholds: list[Annotated[int, Field(strict=True)]] = Field(examples=[[-2, -4, -6, -8, -10, -12, -14, -20]])
    order: Literal["fair", "classic"]
    overdue_after: Annotated[int, Field(strict=True)] = Field(examples=[900_000_000])
    overdue_every: Annotated[int, Field(strict=True)] = Field(examples=[10])
    per_document: float = Field(examples=[1.0])
    per_page: float = Field(examples=[0.0])
    bytes_per_page: Annotated[int, Field(strict=True)] = Field(examples=[1_000_000])


class PolicyVersion(BaseModel):
    """A policy that was or is in force."""

    version: int
    at: Time
    operator: str
    why: str
    policy: Policy


class PolicyVersions(BaseModel):
    """All versions, newest first."""

    versions: list[PolicyVersion]


class PolicyChange(StrictModel):
    """A policy to put in force, if the version in force is still the expected one."""

    policy: Policy
    expected: Annotated[int, Field(ge=1, le=2**62, strict=True)] | None = None


class PolicyPreview(StrictModel):
    """A policy to be tried on what came in since a time; left out: the last day."""

    policy: Policy
    since: InputTime | None = None


class Priority(BaseModel):
    """What gives documents their levels: level 1, and one more for each threshold that the count is less than."""

    reset_interval: int = Field(examples=[1_500_000_000])
    thresholds: list[int] = Field(examples=[[-2, -4, -6, -8, -10, -12, -14, -20]])


class ScenarioGroup(BaseModel):
    """Customers of a scenario that behave alike."""

    group: str
    customers: int


class Scenario(BaseModel):
    """What can be played."""

    scenario: str = Field(examples=["two-bulk"])
    title: str
    workers: int
    groups: list[ScenarioGroup]


class Scenarios(BaseModel):
    """All that come with Inturn, by name."""

    scenarios: list[Scenario]


class Simulation(StrictModel):
    """A scenario to be played; what is left out or null is as the scenario says."""

    scenario: Name = Field(examples=["two-bulk"])
    orders: Annotated[list[Literal["fair", "classic", "fifo"]], Field(min_length=1, max_length=3)] = Field(
        default=["fair", "classic", "fifo"], description="Each at most once. Left out: all three."
    )
    workers: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = None
    load: Annotated[float, Field(ge=0.1, le=10)] | None = Field(None, description="So many times its documents.")
    seed: Annotated[int, Field(ge=0, le=2**53 - 1, strict=True)] | None = Field(None, description="Another draw.")


class Replay(StrictModel):
    """What came in since a time (left out: the last day), to be played otherwise; what is null is as it was."""

    since: InputTime | None = None
    until: InputTime | None = None
    order: Literal["fair", "classic", "fifo"] | None = Field(
        None, description="With all other settings as they are in force now."
    )
    workers: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = Field(
        None, description="Documents at a time, from beginning to end."
    )


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


class Paused(BaseModel):
    """Who paused the whole queue, and why."""

    operator: str
    why: str


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


class ApiKeySpec(StrictModel):
    """What a new key is for: a customer's own, everything, or reading (everything, or one customer's own)."""

    name: Name = Field(description="What it is for; what is done with it is kept under this name.", examples=["portal"])
    scope: Literal["customer", "operator", "read-only"]
    customer: Name | None = Field(None, examples=["acme"])
    expires_at: InputTime | None = Field(None, description="Left out: it lives until it is revoked.")


class ApiKeyRotation(StrictModel):
    """How long the old key still opens, a year at most."""

    overlap: Annotated[int, Field(ge=0, le=365 * 86_400_000_000, strict=True, description="Left out: a day.")] = (
        86_400_000_000
    )


class ApiKey(BaseModel):
    """A key, without what opens."""

    id: str = Field(examples=["0f3c5e7a9b1d"])
    name: str
    scope: Literal["customer", "operator", "read-only"]
    customer: str | None
    made_at: Time
    used_at: Time | None = Field(description="Within a minute or so.")
    expires_at: Time | None = Field(description="From then on it opens nothing: it ran out, or was revoked.")
    replaces: str | None = Field(description="The key it was made to take the place of.")
    live: bool


class NewApiKey(ApiKey):
    """A new key with its text, which is told once."""

    key: str = Field(examples=["inturn_…"])


class ApiKeys(BaseModel):
    """All keys, the oldest first."""

    keys: list[ApiKey]


class SignIn(StrictModel):
    """A key, to be exchanged for a cookie."""

    key: Annotated[str, Field(min_length=1, max_length=200)]


class SessionCaller(BaseModel):
    """Whom the page speaks to."""

    name: str
    key: str | None = Field(description="Its id; null where no key is needed.")
    scope: Literal["customer", "operator", "read-only"]
    customer: str | None
    acts: bool = Field(description="Whether it may change anything.")
    sees_all: bool
    csrf: str | None = Field(description="To be sent as X-CSRF-Token with whatever changes anything.")


class Session(BaseModel):
    """What the page needs to know first."""

    who: SessionCaller | None
    needs_keys: bool
    version: str | None = Field(description="Told to operators.")
    build: str
    languages: list[str]
    queue: str | None
