"""THE CONTRACT: what every store promises, numbered. Learn the queue here; `inturn.testing.contract` tests each number.

Everywhere:
- A0. A call happens entirely or not at all, survives a crash once it has returned (memory excepted), and is isolated
  from every other call.
- A1. `now` is microseconds; left out, the store's own clock rules. A clock that goes back loses nothing.
- A2. Arguments are clean: `inturn.queue` has validated them. Unknown ids and customers raise `NotFoundError`.
- A3. Each change of a document's state is one of `inturn.model.TRANSITIONS`, and is told by an event.
"""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from inturn.api_keys import ApiKey
from inturn.errors import InturnError, StaleFenceError
from inturn.model import (
    NO_METADATA,
    SECOND,
    Check,
    Claim,
    Customer,
    CustomerSettings,
    Document,
    DocumentState,
    NewDocument,
    Receipt,
    ResultFile,
    Worker,
    WorkerReport,
)
from inturn.policy import Policy, TurnPolicy
from inturn.policy.retention import Checkpoint
from inturn.policy.scheduler import Head

IDEMPOTENCY_KEY_RETENTION: Final = 7 * 86_400 * SECOND
"""How long an idempotency key is remembered."""
WORKER_RETENTION: Final = 86_400 * SECOND
"""How long a worker that fell silent is remembered."""

MAX_STORED_ATTEMPTS: Final = 50
"""How many earlier attempts of a document are remembered."""

MAX_SEQ: Final = 2**63 - 1
"""No document has a higher seq."""

LEASE_LOST_ERROR: Final = "the lease was lost: the worker stopped answering in the last attempt"

Item = TypeVar("Item")


class Operator(NamedTuple):
    """Who acts on the queue by hand, and why: both are kept with the event."""

    name: str
    why: str


SYSTEM_OPERATOR: Final = Operator("inturn", "the defaults of a new queue")


class Submission(NamedTuple):
    """One call's documents of one customer. With a `key`, `fingerprint` tells a repeat from other content."""

    customer: str
    ids: Sequence[str]
    documents: Sequence[NewDocument]
    idempotency_key: str | None = None
    fingerprint: str = ""


SubmitResult = tuple[Receipt, ...] | InturnError
"""The receipts of a submission, or why it was refused."""


class ClaimRequest(NamedTuple):
    """A worker asks for up to `limit` documents, each for `lease` microseconds at first."""

    worker: str
    limit: int
    lease: int


class OutcomeKind(StrEnum):
    """How a claim ended."""

    DONE = "done"
    FAILED = "failed"
    RELEASED = "handed_back"


class Work(NamedTuple):
    """How long after the claim work began, and how long it took: microseconds, as the worker's clock may be wrong."""

    began_after: int
    worked: int


class Outcome(NamedTuple):
    """What a worker says of a document it had claimed under this fence."""

    id: str
    fence: int
    kind: OutcomeKind
    result: str | None = None
    """JSON text, with DONE."""
    error: str | None = None
    retry_in: int | None = None
    """With FAILED: try again after so many microseconds, if attempts are left; None is a final failure."""
    files: tuple[ResultFile, ...] = ()
    """With DONE."""
    work: Work | None = None
    """None: it was worked on from the claim until now; a document handed back, not at all."""


class AckStatus(StrEnum):
    """What became of an outcome."""

    RECORDED = "recorded"
    REPEATED = "repeated"
    STALE = "stale"


class AckAndClaim(NamedTuple):
    """A verdict for each outcome, and the documents claimed."""

    statuses: tuple[AckStatus, ...]
    claimed: tuple[Claim, ...]


class LeaseStatus(StrEnum):
    """What a heartbeat learns of a claim."""

    HELD = "held"
    CANCELLED = "cancelled"
    LOST = "lost"


class DocumentFilter(NamedTuple):
    """Which documents: every condition given must hold. `text` is looked for in names, case-insensitively."""

    states: frozenset[DocumentState] | None = None
    customer: str | None = None
    level: int | None = None
    batch: str | None = None
    text: str | None = None


class DocumentSort(StrEnum):
    """Which documents come first in a list."""

    NEWEST = "newest"
    OLDEST = "oldest"


class CustomerFilter(NamedTuple):
    """Which customers: every condition given must hold. `text` is looked for in names, case-insensitively."""

    text: str | None = None
    waiting: bool | None = None
    paused: bool | None = None


class Page(NamedTuple, Generic[Item]):
    """One page of a list; give `next` as `after` for the following one."""

    items: tuple[Item, ...]
    next: str | None


class Counts(NamedTuple):
    """Documents by state, and the waiting ones by the level of their line."""

    states: Mapping[DocumentState, int]
    waiting: Mapping[int, int]


class EventKind(StrEnum):
    """What happened."""

    SUBMITTED = "submitted"
    STARTED = "started"
    FINISHED = "finished"
    DELAYED = "delayed"
    FAILED = "failed"
    RELEASED = "handed_back"
    LEASE_LOST = "lease_lost"
    DUE = "due"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    RETRIED = "retried"
    EXPEDITED = "expedited"
    PURGED = "purged"
    CUSTOMER_CHANGED = "customer_changed"
    QUEUE_PAUSED = "queue_paused"
    QUEUE_RESUMED = "queue_resumed"
    POLICY_SET = "policy_set"
    REPAIRED = "repaired"
    KEY_MADE = "key_made"
    KEY_ENDED = "key_ended"


OUTCOME_EVENTS: Final = (EventKind.FINISHED, EventKind.DELAYED, EventKind.FAILED, EventKind.RELEASED)
"""The order in which one exchange tells what its outcomes did."""


class Event(NamedTuple):
    """One thing that one call did to one customer's documents, or that an operator did."""

    number: int
    at: int
    kind: EventKind
    customer: str | None
    documents: tuple[str, ...] = ()
    operator: Operator | None = None
    detail: Mapping[str, Any] = NO_METADATA


class Attempt(NamedTuple):
    """An earlier attempt at a document: one that ended, and the document did not end with it, or was tried again."""

    fence: int
    number: int
    """As the document counted it; a retry by hand begins with 1 again, and a hand-back is not counted."""
    started_at: int
    ended_at: int
    ended: EventKind
    """DELAYED, LEASE_LOST or HANDED_BACK; of a document that was tried again by hand also FAILED or CANCELLED."""
    error: str | None
    worker: str | None
    """Not known any more of one that ended its document."""
    began_at: int | None = None
    """When a worker's slot began it, claimed at `started_at`; None of one never begun, and of a lost lease."""
    worked: int | None = None
    """Microseconds that the slot worked; None with `began_at`."""


class PolicyVersion(NamedTuple):
    """A policy that was or is in force."""

    number: int
    policy: Policy
    at: int
    operator: Operator


class LaneSnapshot(NamedTuple):
    """Where an open line stands, and what is in it."""

    customer: str
    level: int
    weight: float
    turn: int
    stamp: int
    waiting: int
    head: Head


class SchedulerSnapshot(NamedTuple):
    """All open lines, by level, turn and stamp, and what the next claim starts from."""

    policy: TurnPolicy
    dispatched: int
    rotation: int
    overdue_uses: tuple[int, ...]
    """By level, from 0."""
    lanes: tuple[LaneSnapshot, ...]


class Throughput(NamedTuple):
    """How fast documents went since a time."""

    started: int
    finished: int
    running: int


class SweepResult(NamedTuple):
    """How many documents or customers upkeep moved on."""

    expired: int = 0
    leases_lost: int = 0
    due: int = 0
    customers_opened: int = 0


class AheadOfClock(NamedTuple):
    """How many leases, delays and rates were set by a clock ahead of this one."""

    leases: int = 0
    delays: int = 0
    rates: int = 0


class MaintenanceRecord(NamedTuple):
    """The last maintenance round that might delete, and the last that was refused since."""

    at: int
    boot: str | None = None
    """Which start of which machine that round ran in, where that is known."""
    uptime: int | None = None
    """Microseconds from that start to the round."""
    refused_at: int | None = None
    """When a round was last refused since; None: none was."""
    drift: int | None = None
    """By how many microseconds that round's clock was from where it should have been."""
    old: int | None = None
    """How many documents it would have deleted."""
    ended: int | None = None
    """Of how many."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """Oldest first."""

    @classmethod
    def from_json(cls, text: str) -> "MaintenanceRecord":
        """Read a record back that `to_json` wrote."""
        fields = json.loads(text)
        return cls(**{**fields, "checkpoints": tuple(Checkpoint(*field) for field in fields.get("checkpoints", ()))})

    def to_json(self) -> str:
        """The record as stores keep it."""
        return json.dumps(self._asdict())


class PruneResult(NamedTuple):
    """What a purge or prune deleted, and the blobs that nothing refers to any more."""

    documents: int
    events: int
    keys: int
    blobs: tuple[str, ...]


class Discrepancy(NamedTuple):
    """A count that did not agree with the documents it counts."""

    customer: str
    what: str
    kept: int
    counted: int


def work_times(outcome: Outcome, started_at: int, now: int) -> tuple[int | None, int | None]:
    """When work began and how long it took, as S51 keeps it of an outcome recorded now."""
    if outcome.work is None and outcome.kind is OutcomeKind.RELEASED:
        return None, None
    held = max(0, now - started_at)
    began_after, worked = outcome.work or (0, held)
    began_after = min(began_after, held)
    return started_at + began_after, min(worked, held - began_after)


def check_fingerprint(n: int) -> str:
    """What an idempotency key of a check alone stands for."""
    return f"check {n}"


class ApiKeys(Protocol):
    """Who may use the servers of a queue: kept in its store, so that all servers know the same keys."""

    def add(self, key: ApiKey, operator: Operator, *, now: int | None = None) -> None:
        """Keep a new key. S38. When this returns every server knows it; told by an event, without the hash."""
        ...

    def find(self, id: str) -> ApiKey:
        """One key, live or not; NotFoundError for an unknown id."""
        ...

    def all(self) -> tuple[ApiKey, ...]:
        """Every key, the oldest first."""
        ...

    def revoke(self, id: str, at: int, operator: Operator, *, now: int | None = None) -> ApiKey:
        """Let a key open nothing from a time on. S39. An end is never put off; told by an event."""
        ...

    def record_use(self, last_used: Mapping[str, int]) -> None:
        """Keep when keys were last used. S40. No time goes back; unknown ids are passed over."""
        ...


@runtime_checkable
class Store(Protocol):
    """Keeps counters, documents, lines and turns, and changes them by the rules of `inturn.policy`."""

    api_keys: ApiKeys

    # -- documents come in ------------------------------------------------------------------------------------------

    def check(self, customer: str, n: int, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        """Look at a customer for n documents that wait elsewhere.

        S1. Exactly `PriorityPolicy.check`, n times at one instant, on the counter that submit uses too.
        S2. Makes no line and no document.
        S3. With a key, a repeat within 7 days returns the first answer and checks nothing; with another n: KeyConflict.
        """
        ...

    def submit(self, submission: Submission, *, now: int | None = None) -> tuple[Receipt, ...]:
        """Take documents in: one check each, at one instant, in the order given.

        S4. When this returns, the documents are kept, and counter, level and line changed with them.
        S5. Each waits in the line of its level, behind the customer's earlier ones (`delay`: from then on).
        S37. A document whose cost was not given costs what the policy's `costs` say of its pages and size.
        S6. With a key, a repeat within 7 days returns the first receipts and changes nothing; other content is refused
            with KeyConflict. A call refused for any reason leaves no trace.
        """
        ...

    def submit_all(self, submissions: Sequence[Submission], *, now: int | None = None) -> tuple[SubmitResult, ...]:
        """Several callers' submits: what each is answered, or the error that it would have been refused with.

        S44. The same as submitting them one by one in this order; a store may keep them by one commit.
        """
        return tuple([self._try_submit(submission, now) for submission in submissions])

    def _try_submit(self, submission: Submission, now: int | None) -> SubmitResult:
        try:
            return self.submit(submission, now=now)
        except InturnError as refused:
            return refused

    # -- workers ----------------------------------------------------------------------------------------------------

    def ack_and_claim(
        self,
        outcomes: Sequence[Outcome],
        request: ClaimRequest | None,
        *,
        now: int | None = None,
    ) -> AckAndClaim:
        """Record outcomes, then claim, in one commit.

        S7. An outcome counts once: RECORDED under the fence of the running claim, REPEATED when this very outcome was
            recorded under this fence before, STALE otherwise; a stale outcome changes nothing.
        S8. DONE keeps the result and its files. FAILED with `retry_in` and an attempt left delays; otherwise it fails
            for good. An automatic retry keeps level and place (its seq) and is no check. HANDED_BACK (a
            release) waits again as if it had not been claimed: no attempt, no charge to its line, the same `ready_at`.
        S51. Whatever is recorded keeps when work began and how long it took, as the outcome's `work` says: begun
            between the claim and now, and ended by now. A claim forgets both until then.
        S9. A claim first moves on everything that is due: `start_by` (never started documents only), lost leases,
            delays, rate limits. Each in the order of its time, then of seq or name.
        S10. It then takes documents in the order of `inturn.policy.scheduler`; k at once equal k claims of one.
        S11. A document is in one worker's hands at a time; fences are never given twice, and grow.
        S12. Nothing is claimed from a paused queue or customer, above a cap or above a rate.
        S13. With anything open and waiting, a claim with room never returns nothing (work conservation).
        """
        ...

    def claim(self, request: ClaimRequest, *, now: int | None = None) -> tuple[Claim, ...]:
        """Exchange without outcomes: S9 to S13."""
        return self.ack_and_claim((), request, now=now).claimed

    def finish(self, id: str, fence: int, result: str, *, now: int | None = None) -> None:
        """Record success: S7 and S8; StaleFenceError when stale."""
        self._record(Outcome(id, fence, OutcomeKind.DONE, result=result), now)

    def fail(self, id: str, fence: int, error: str, retry_in: int | None, *, now: int | None = None) -> None:
        """Record failure: S7 and S8; StaleFenceError when stale."""
        self._record(Outcome(id, fence, OutcomeKind.FAILED, error=error, retry_in=retry_in), now)

    def release(self, id: str, fence: int, *, now: int | None = None) -> None:
        """Give a document back unstarted: S7 and S8; StaleFenceError when stale."""
        self._record(Outcome(id, fence, OutcomeKind.RELEASED), now)

    def _record(self, outcome: Outcome, now: int | None) -> None:
        if self.ack_and_claim((outcome,), None, now=now).statuses[0] is AckStatus.STALE:
            raise StaleFenceError(
                f"fence {outcome.fence} no longer holds document {outcome.id}: its lease was lost, or it was"
                f" cancelled or purged; drop this outcome",
            )

    def heartbeat(
        self,
        claims: Sequence[tuple[str, int]],
        lease: int,
        *,
        now: int | None = None,
    ) -> tuple[LeaseStatus, ...]:
        """Renew the leases of running claims, given as (id, fence).

        S14. HELD claims last `lease` from now; nobody else can claim them before. The others are told apart:
             CANCELLED (stop working) and LOST.
        """
        ...

    def record_worker(self, report: WorkerReport, *, now: int | None = None) -> None:
        """A worker tells how it is.

        S35. The last report of each name is kept, until the worker takes leave or has not been heard of for a day.
        """
        ...

    def forget_worker(self, name: str) -> None:
        """A worker takes leave: S35."""
        ...

    def workers(self) -> tuple[Worker, ...]:
        """Workers by name, as last heard of: S35."""
        ...

    # -- operators --------------------------------------------------------------------------------------------------

    def cancel(self, ids: Sequence[str], operator: Operator, *, now: int | None = None) -> tuple[str, ...]:
        """Cancel waiting, delayed and running documents; returns those it cancelled.

        S15. Ids that have ended already or are unknown are passed over. The counter is not given back; a running
             document stays charged, and its fence is stale at once.
        """
        ...

    def retry(self, ids: Sequence[str], operator: Operator, *, now: int | None = None) -> tuple[Receipt, ...]:
        """Try ended documents again by hand; returns a receipt for each that waits again.

        S16. A retry by hand is a new check: new level, new place, attempts from zero. Done, running, waiting and
             unknown documents are passed over.
        """
        ...

    def expedite(self, id: str, operator: Operator, *, now: int | None = None) -> bool:
        """Move one waiting or delayed document before all levels; False when it is in no such state.

        S17. It keeps its level and counts; expedited documents of several customers take turns. A closed line stays
             closed. Told by an event with the operator.
        """
        ...

    def purge(self, customer: str, operator: Operator, *, now: int | None = None) -> PruneResult:
        """Delete a customer's documents, results and keys, in any state.

        S18. Counter and settings stay; running claims become stale; the event names operator and number. The
             customer's access keys are deleted too.
        """
        ...

    def change_customer(
        self,
        customer: str,
        changes: Mapping[str, Any],
        operator: Operator,
        *,
        now: int | None = None,
    ) -> CustomerSettings:
        """Change some of a customer's settings (fields of `CustomerSettings`), known or not yet seen.

        S19. Holds for what already waits. Closing (pause, cap, rate) keeps levels and places; opening joins at V: time
             closed earns no credit. A weight scales the distance from V and changes no level.
        """
        ...

    def pause(self, operator: Operator, *, now: int | None = None) -> None:
        """Start nothing more in the whole queue. S20. What runs may finish; submits go on."""
        ...

    def resume(self, operator: Operator, *, now: int | None = None) -> None:
        """Start again. S21. Lines stand where they stood."""
        ...

    def paused(self) -> Operator | None:
        """Who paused the queue and why; None when it runs."""
        ...

    def policy(self) -> PolicyVersion:
        """The policy in force."""
        ...

    def set_policy(
        self,
        policy: Policy,
        operator: Operator,
        *,
        expected: int | None = None,
        now: int | None = None,
    ) -> PolicyVersion:
        """Put a policy in force.

        S22. New levels are for new checks; a new order holds for what already waits. Versions count up from 1 and keep
             who, when and why. When `expected` is not the version in force: VersionConflict.
        """
        ...

    def policies(self) -> tuple[PolicyVersion, ...]:
        """All versions, newest first."""
        ...

    # -- what there is ----------------------------------------------------------------------------------------------

    def document(self, id: str) -> Document:
        """One document."""
        ...

    def result(self, id: str) -> str | None:
        """A done document's result as JSON text; None before."""
        ...

    def files(self, id: str) -> tuple[ResultFile, ...]:
        """The files of a done document's result, by name; none before."""
        ...

    def attempts(self, id: str) -> tuple[Attempt, ...]:
        """The earlier attempts at a document, oldest first, with their errors.

        S45. Every attempt that ended is told once: here, or by the document itself if it is its last and ended it. The
             newest 50 are kept for as long as their document.
        """
        ...

    def unreferenced_blobs(self, blobs: Sequence[str]) -> frozenset[str]:
        """Which of these blobs no document and no result refers to. S36. Exact for blobs that nobody is submitting."""
        ...

    def documents(
        self,
        where: DocumentFilter,
        *,
        limit: int,
        after: str | None = None,
        sort: DocumentSort = DocumentSort.NEWEST,
    ) -> Page[Document]:
        """Documents by when they came in, a retry by hand included.

        S23. Pages neither repeat nor skip what stays unchanged meanwhile. A cursor is good for both ways.
        """
        ...

    def customer(self, name: str) -> Customer:
        """One customer."""
        ...

    def customers(self, where: CustomerFilter, *, limit: int, after: str | None = None) -> Page[Customer]:
        """Customers by name. S23 holds."""
        ...

    def counts(self, where: DocumentFilter) -> Counts:
        """How many. S24. States and levels with none are left out; lines agree with documents."""
        ...

    def events(self, after: int, *, limit: int) -> tuple[Event, ...]:
        """What happened since event number `after`, oldest first.

        S25. Numbers grow and are never filled in later: who has read up to n misses nothing up to n.
        """
        ...

    def last_event(self) -> int:
        """The number of the newest event; 0 before the first. S41. `events` after it tells what happens from now on."""
        ...

    def audit(self, *, limit: int, before: int | None = None, customer: str | None = None) -> tuple[Event, ...]:
        """Events that somebody caused by hand, newest first, with numbers below `before`; of one customer, or of all.

        S42. None is ever pruned.
        """
        ...

    def stored_bytes(self, customer: str) -> int:
        """Bytes of all the documents of a customer that are kept, whatever their state. S43. 0 for an unknown one."""
        ...

    def scheduler_snapshot(self) -> SchedulerSnapshot:
        """Where every open line stands, for estimates. S31. What a claim at this instant would find."""
        ...

    def ahead_in_lane(self, id: str) -> int:
        """How many documents stand before this waiting one in its own line. S32. 0 for any that does not wait."""
        ...

    def throughput(self, since: int) -> Throughput:
        """How many documents were started and how many ended by their worker since a time, and how many run now.

        S33. Counts documents that are still kept: those that run or have ended by their last start, those that are
             done or failed by their end.
        """
        ...

    def wait(self, timeout: float) -> None:
        """Sleep until something may have become claimable, or `timeout` seconds have passed.

        S34. Whatever another thread or process commits while this sleeps wakes it; it may also wake for nothing.
        """
        ...

    def next_due(self) -> int | None:
        """When a delay, a lease or a rate limit is due next. S26. Until then, waiting alone makes nothing claimable."""
        ...

    # -- upkeep -----------------------------------------------------------------------------------------------------

    def sweep(self, *, now: int | None = None) -> SweepResult:
        """Move on what is due (S9) without claiming.

        S27. Any number may do it at once, as often as they like.
        S46. First it looks at leases and delays that began in the future, by `inturn.policy.clock_skew.review_term`,
        and
             brings rates back to `inturn.policy.rates.clamped_tat`: once the clock is right nothing is held longer
             than its
             own length. A heartbeat ends the doubt in a lease. Workers last heard of more than a day in the future
             are forgotten, like those that fell silent.
        """
        ...

    def now(self) -> int:
        """The time, where `now` is left out. S47. The database's own clock rules where there is one."""
        ...

    def ahead_of_clock(self, *, now: int | None = None) -> AheadOfClock:
        """Count what a clock ahead of this one has set. S48. Exactly what a sweep would doubt or bring back."""
        ...

    def maintenance(self) -> MaintenanceRecord | None:
        """The record of the last maintenance round; None before the first. S49. As it was last set."""
        ...

    def record_maintenance(self, record: MaintenanceRecord) -> None:
        """Set the record of the last maintenance round: S49."""
        ...

    def prunable(self, before: int, *, customer: str | None = None, up_to: int | None = None) -> int:
        """Count the ended documents that a prune would delete without its limit. S50. Nothing is deleted."""
        ...

    def prune(
        self,
        before: int,
        *,
        limit: int,
        customer: str | None = None,
        up_to: int | None = None,
        now: int | None = None,
    ) -> PruneResult:
        """Delete up to `limit` ended documents and as many events older than `before`, and outlived keys.

        S28. Nothing that waits or runs is touched; events with an operator are kept. With a customer: its documents
             alone, and nothing else; without: not those of customers with a `keep` of their own. With `up_to`: no
             document with a higher seq, whatever its times say.
        """
        ...

    def backup(self, path: Path) -> None:
        """Write a consistent copy that can be opened as a store of the same kind. S29. Work goes on meanwhile."""
        ...

    def recount(self, *, repair: bool, now: int | None = None) -> tuple[Discrepancy, ...]:
        """Compare every kept count with the documents, and set it right if told to. S30. None is found otherwise."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...
