"""Value types of the store contract: requests, outcomes, filters, events. Answers are in `inturn.store_answers`.

Times and durations are integer microseconds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from inturn.errors import InturnError, InvalidInputError
from inturn.model import DEFAULT_QUEUE, NO_METADATA, Claim, DocumentState, NewDocument, Receipt, ResultFile
from inturn.policy import Policy
from inturn.policy.scheduler import LEVELS, MAX_QUEUES
from inturn.values import SECOND

Item = TypeVar("Item")
IDEMPOTENCY_KEY_RETENTION: Final = 7 * 86_400 * SECOND
WORKER_RETENTION: Final = 86_400 * SECOND
"""A worker without a report for this long is forgotten."""
WORKER_TIMEOUT: Final = 30 * SECOND
"""A worker reports every 10 seconds; without a report for this long it counts as gone."""
MAX_STORED_ATTEMPTS: Final = 50
"""Earlier attempts stored for one document; older ones are dropped."""
MAX_SEQ: Final = 2**63 - 1
MAX_ERROR_BEGINNING: Final = 500
"""Characters of an error that a list of failures has."""
MAX_FAILURES: Final = 5_000
"""Failed documents whose errors a search looks at: the newest."""
MAX_CANDIDATES: Final = 1_000
"""Documents with a term that a search looks at."""
PERSON_PREFIX: Final = "person:"
"""What the name of a worker begins with if it is a person who takes documents by hand."""
LEASE_LOST_ERROR: Final = "the lease was lost: the worker stopped answering in the last attempt"


class Operator(NamedTuple):
    """The person who acts on the queue, and the reason. Both are stored in the event."""

    name: str
    why: str


SYSTEM_OPERATOR: Final = Operator("inturn", "the defaults of a new queue")


class Submission(NamedTuple):
    """The documents of one customer in one call."""

    customer: str
    ids: Sequence[str]
    documents: Sequence[NewDocument]
    idempotency_key: str | None = None
    fingerprint: str = ""
    """Hash of the content. With an idempotency key it distinguishes a repeat from a conflict."""


SubmitResult = tuple[Receipt, ...] | InturnError
"""The receipts of a submission, or the error that refused it."""


class ClaimRequest(NamedTuple):
    """A worker's request for up to `limit` documents of its queues, each leased for `lease` microseconds."""

    worker: str
    limit: int
    lease: int
    queues: tuple[str, ...] = (DEFAULT_QUEUE,)


class OutcomeKind(StrEnum):
    """How a claim ended."""

    DONE = "done"
    FAILED = "failed"
    RELEASED = "handed_back"
    NEXT = "next"
    """A step is done, and the document goes to the queue of the next."""
    SPLIT = "split"
    """A step is done and has made parts. When all have ended, the document goes to the queue of the next step."""


class Work(NamedTuple):
    """When processing began and how long it took.

    Both are durations, relative to the claim, because the worker's clock may differ from the store's.
    """

    began_after: int
    worked: int


class Outcome(NamedTuple):
    """The outcome of one claim, identified by document id and fence."""

    id: str
    fence: int
    kind: OutcomeKind
    result: str | None = None
    """JSON text; only with DONE, NEXT and SPLIT."""
    error: str | None = None
    retry_in: int | None = None
    """With FAILED: retry after this delay, if attempts are left. None fails the document for good."""
    files: tuple[ResultFile, ...] = ()
    """Only with DONE, NEXT and SPLIT."""
    work: Work | None = None
    """None: processing lasted from the claim until now. A released claim was not processed."""
    queue: str | None = None
    """With NEXT and SPLIT: the queue of the next step."""
    ahead: tuple[str, ...] = ()
    """With NEXT and SPLIT: the queues that are planned after that one."""
    parts: tuple[tuple[str, NewDocument], ...] = ()
    """With SPLIT: id and description of each part."""
    max_attempts: int | None = None
    """With FAILED: the attempts that this step may have; None for those of the document."""


class AckStatus(StrEnum):
    """What the store did with an outcome (S7)."""

    RECORDED = "recorded"
    REPEATED = "repeated"
    STALE = "stale"


class AckAndClaim(NamedTuple):
    """A status for each outcome, in order, and the claimed documents."""

    statuses: tuple[AckStatus, ...]
    claimed: tuple[Claim, ...]


class LeaseStatus(StrEnum):
    """The state of a claim at a heartbeat (S14)."""

    HELD = "held"
    CANCELLED = "cancelled"
    LOST = "lost"


class TimeRange(NamedTuple):
    """Times at or after `since` and before `until`; None leaves that side open."""

    since: int | None = None
    until: int | None = None

    def contains(self, at: int) -> bool:
        """Return whether a time lies in the range."""
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


ALL_TIME: Final = TimeRange()


class DocumentTime(StrEnum):
    """The time of a document that a range is applied to."""

    SUBMITTED = "submitted"
    ENDED = "ended"


class PartsChoice(StrEnum):
    """Whether a list of documents has those that are parts of others."""

    EXCLUDE = "exclude"
    INCLUDE = "include"
    ONLY = "only"


class DocumentFilter(NamedTuple):
    """Conditions on documents, joined by AND; None matches all. `text` is a case-insensitive substring of the name."""

    states: frozenset[DocumentState] | None = None
    customer: str | None = None
    level: int | None = None
    batch: str | None = None
    text: str | None = None
    group: str | None = None
    submitted: TimeRange | None = None
    ended: TimeRange | None = None
    """A document that has not ended is in no such range."""
    queue: str | None = None
    parent: str | None = None
    """Only the parts of this document."""
    parts: bool | None = None
    """True: only parts of documents; False: only documents that are no parts."""

    def with_parts(self, choice: PartsChoice | None) -> "DocumentFilter":
        """Apply a choice about parts. None leaves them out, unless the filter names a parent or a queue.

        Who asks for a queue wants what is in it, and the numbers of a queue count parts.
        """
        if choice is None:
            named = self.parent is not None or self.queue is not None
            choice = PartsChoice.INCLUDE if named else PartsChoice.EXCLUDE
        return self._replace(parts={PartsChoice.EXCLUDE: False, PartsChoice.INCLUDE: None}.get(choice, True))

    def within(self, time: DocumentTime, since: int | None, until: int | None) -> "DocumentFilter":
        """Restrict the filter to documents that were submitted, or ended, in a range of time."""
        if since is None and until is None:
            return self
        if since is not None and until is not None and since >= until:
            raise InvalidInputError("since must be before until")
        times = TimeRange(since, until)
        return self._replace(submitted=times) if time is DocumentTime.SUBMITTED else self._replace(ended=times)


class DocumentSort(StrEnum):
    """The order of a document list, by submission."""

    NEWEST = "newest"
    OLDEST = "oldest"


class CustomerFilter(NamedTuple):
    """Conditions on customers, joined by AND; None matches all. `text` is a case-insensitive substring of the name."""

    text: str | None = None
    waiting: bool | None = None
    paused: bool | None = None


class EventKind(StrEnum):
    """What happened in an event."""

    SUBMITTED = "submitted"
    STARTED = "started"
    FINISHED = "finished"
    DELAYED = "delayed"
    FAILED = "failed"
    RELEASED = "handed_back"
    STEP_DONE = "step_done"
    SPLIT = "split"
    PART_ADDED = "part_added"
    PARTS_ENDED = "parts_ended"
    """All parts of a document have ended, and it waits for its next step."""
    LEASE_LOST = "lease_lost"
    DUE = "due"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    RETRIED = "retried"
    EXPEDITED = "expedited"
    EXPEDITE_UNDONE = "expedite_undone"
    PURGED = "purged"
    CUSTOMER_CHANGED = "customer_changed"
    QUEUE_CHANGED = "queue_changed"
    QUEUE_PAUSED = "queue_paused"
    QUEUE_RESUMED = "queue_resumed"
    POLICY_SET = "policy_set"
    REPAIRED = "repaired"
    KEY_MADE = "key_made"
    KEY_ENDED = "key_ended"
    WORKER_PAUSED = "worker_paused"
    WORKER_RESUMED = "worker_resumed"
    FAILURES_ACKNOWLEDGED = "failures_acknowledged"


OUTCOME_EVENTS: Final = (
    EventKind.FINISHED,
    EventKind.DELAYED,
    EventKind.FAILED,
    EventKind.RELEASED,
    EventKind.STEP_DONE,
    EventKind.SPLIT,
    EventKind.PART_ADDED,
)
"""The order in which one `ack_and_claim` writes the events of its outcomes."""


STEP_ENDS: Final = frozenset({EventKind.STEP_DONE, EventKind.SPLIT})
"""How attempts end that end a step and not their document."""
PART_RETRYABLE: Final = frozenset({DocumentState.SPLIT, DocumentState.FAILED, DocumentState.CANCELLED})
"""The states of a document whose parts may be retried by hand."""


class Event(NamedTuple):
    """The effect of one call on the documents of one customer in one queue, or an operator's action."""

    number: int
    at: int
    kind: EventKind
    customer: str | None
    documents: tuple[str, ...] = ()
    operator: Operator | None = None
    detail: Mapping[str, Any] = NO_METADATA
    queue: str | None = None
    """The queue in which it happened; None without documents."""


class Attempt(NamedTuple):
    """An earlier attempt at a document. The attempt that ended the document is stored in the document itself."""

    fence: int
    number: int
    """The document's attempt counter. A retry by hand restarts it at 1; a release does not count."""
    started_at: int
    """When it was claimed."""
    ended_at: int
    ended: EventKind
    """DELAYED, LEASE_LOST, RELEASED, STEP_DONE or SPLIT; after a retry by hand also FAILED or CANCELLED."""
    error: str | None
    worker: str | None
    """None for an attempt that ended its document."""
    began_at: int | None = None
    """When a worker slot began processing. None if it never began, or if the lease was lost."""
    worked: int | None = None
    """Processing time in microseconds; None together with `began_at`."""
    queue: str = DEFAULT_QUEUE
    step: int = 0
    """How many steps the document had behind it."""
    ready_at: int | None = None
    """When the document came into the queue, or back into it; None for attempts of older versions."""


class StepResult(NamedTuple):
    """The result of a step that is done."""

    step: int
    queue: str
    result: str | None
    """JSON text."""
    files: tuple[ResultFile, ...] = ()


class PartResult(NamedTuple):
    """A part of a document, and what became of it."""

    id: str
    part: int
    """Its number, from 1."""
    name: str
    state: DocumentState
    result: str | None
    """JSON text; only of a part that is done."""
    error: str | None
    files: tuple[ResultFile, ...] = ()


class PolicyVersion(NamedTuple):
    """One version of the policy, with the operator who set it."""

    number: int
    policy: Policy
    at: int
    operator: Operator


def is_person(worker: str | None) -> bool:
    """Return whether a claim is that of a person, not of a worker."""
    return worker is not None and worker.startswith(PERSON_PREFIX)


def work_times(outcome: Outcome, started_at: int, now: int) -> tuple[int | None, int | None]:
    """Compute `began_at` and `worked` of an outcome recorded now, clamped to the time since the claim (S51)."""
    if outcome.work is None and outcome.kind is OutcomeKind.RELEASED:
        return None, None
    held = max(0, now - started_at)
    began_after, worked = outcome.work or (0, held)
    began_after = min(began_after, held)
    return started_at + began_after, min(worked, held - began_after)


def held_time(started_at: int | None, lease_until: int | None, now: int) -> int:
    """Return how long a claim was held that ends now without an outcome: no longer than its lease."""
    return max(0, min(now, now if lease_until is None else lease_until) - (started_at or 0))


def live_slots(worker_slots: Iterable[tuple[int, int]], now: int) -> int:
    """Count the slots of workers that reported lately, given as the time of the report and the slots."""
    return sum(slots for seen_at, slots in worker_slots if abs(now - seen_at) <= WORKER_TIMEOUT)


def deepest_first(items: Sequence[Item], parents: Mapping[str, str | None], id_of: Callable[[Item], str]) -> list[Item]:
    """Sort documents so that parts stand before the documents that they are parts of; others keep their order.

    `parents` has the id of each one's document, if it is a part.
    """

    def depth(id_: str | None) -> int:
        return 0 if id_ is None or id_ not in parents else 1 + depth(parents[id_])

    return sorted(items, key=lambda item: -depth(id_of(item)))


def too_many_queues_error() -> InvalidInputError:
    """Return the error of a call that would make one queue too many."""
    return InvalidInputError(f"a store has at most {MAX_QUEUES} queues; use one that exists")


STUCK: Final = "split documents without unended parts"
"""What a recount calls documents that would wait for ever."""


def describe_queue(number: int, queues: Sequence[str]) -> str:
    """Return what names a queue behind a counter's name; nothing for the first one."""
    return f" of queue {queues[number]}" if number else ""


def describe_track(track: int, queues: Sequence[str]) -> str:
    """Return the name of a level of a queue."""
    queue, level = divmod(track, len(LEVELS))
    return f"level {level}{describe_queue(queue, queues)}"


def check_fingerprint(n: int) -> str:
    """Return the fingerprint that an idempotency key of `check` is stored with."""
    return f"check {n}"
