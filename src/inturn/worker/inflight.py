"""Track the documents that a worker has claimed, until their outcomes are recorded."""

import logging
import math
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from inturn.errors import InvalidInputError, StoreError
from inturn.model import DEFAULT_QUEUE, Claim, Document
from inturn.processor_api import Reject, Retry
from inturn.queue import Queue
from inturn.store_types import AckStatus, Outcome, OutcomeKind, Work
from inturn.values import SECOND, seconds
from inturn.worker.content import DocumentContent, StoredResult
from inturn.worker.step_reader import Question
from inturn.worker_report import Progress

log: Final = logging.getLogger("inturn.worker")
MAX_RETRY_DELAY: Final = 30 * 86_400 * SECOND
MAX_RECORD_FAILURES: Final = 3
"""Attempts to record a single outcome before it is dropped."""
MAX_LOGGED_CHARS: Final = 200
"""Characters of a failure's reason in the log."""
NO_ATTEMPTS: Final[Mapping[str, int]] = MappingProxyType({})
"""By queue: the attempts of its steps. Those of other queues have the attempts of their documents."""
_FRAME: Final = re.compile(r'^  File "([^"\n]*)", line (\d+), in ([^\n]*)$', re.MULTILINE)
_CLASS: Final = re.compile(r"[A-Za-z_][\w.]{0,99}")


class OutcomeCounts(NamedTuple):
    """How many outcomes of each kind a worker has recorded."""

    done: int = 0
    retried: int = 0
    failed: int = 0
    handed_back: int = 0
    stale: int = 0
    moved_on: int = 0
    """Steps after which the document went to another queue."""
    split: int = 0


_COUNTED_AS: Final = {OutcomeKind.NEXT: "moved_on"}
"""Where another name is clearer than the kind's."""


@dataclass(eq=False, slots=True)
class Job:
    """A claimed document on its way through the worker."""

    claim: Claim
    number: int
    content: DocumentContent | None = None
    claimed_at: float = 0.0
    """All times here are those of `time.monotonic`."""
    sent_at: float = 0.0
    begun_at: float | None = None
    ended_at: float | None = None
    progress: Progress | None = None
    kill_at: float | None = None
    """When the child is killed if it has not reacted to a cancellation."""
    is_dropped: bool = False
    """It was cancelled or its claim was lost: its outcome is not recorded."""
    is_finished: bool = False
    """The processor has replied."""
    is_settled: bool = False
    """Its outcome is known; later replies are ignored."""
    questions: deque[tuple[int, Question]] = field(default_factory=deque)
    """What its child asks about earlier steps, with the number of each question."""
    record_failures: int = 0
    """How often the store refused its outcome with an unexpected error."""

    def record_duration(self, duration: float) -> float:
        """Set the end by the seconds that a child reports, at most until now; return the seconds."""
        now = time.monotonic()
        began = now if self.begun_at is None else self.begun_at
        self.begun_at, self.ended_at = began, min(now, began + max(0.0, duration))
        return self.ended_at - began

    def work_time(self, now: float, kind: OutcomeKind) -> Work | None:
        """Return the work times for an outcome that is recorded now; None if it was released unstarted."""
        if self.begun_at is None and kind is OutcomeKind.RELEASED:
            return None
        began = now if self.begun_at is None else self.begun_at
        ended = now if self.ended_at is None else self.ended_at
        return Work(max(0, round((began - self.claimed_at) * SECOND)), max(0, round((ended - began) * SECOND)))

    def close(self) -> None:
        """Close its content."""
        if self.content is not None:
            self.content.close()
            self.content = None


class InflightJobs:
    """Holds jobs by number, and outcomes that wait for the next commit. The heartbeat's thread reads the jobs too."""

    def __init__(
        self,
        queue: Queue,
        worker: str,
        lease: int,
        queues: Sequence[str] = (DEFAULT_QUEUE,),
        max_attempts: Mapping[str, int] = NO_ATTEMPTS,
    ) -> None:
        self._queue = queue
        self._max_attempts = max_attempts
        self._worker = worker
        self._lease = lease
        self._queues = queues
        self._jobs: dict[int, Job] = {}
        self._lock = threading.Lock()
        self.last_number = 0
        """The number of the latest job."""
        self._counts: Counter[str] = Counter()
        self.outcomes: list[tuple[Job, Outcome]] = []
        self.oldest_outcome_at = 0.0
        """When the first of the waiting outcomes was added."""
        self._clock_offset = -math.inf
        """Seconds that the store's clock is ahead of `time.monotonic`, by the quickest claim so far."""

    def __len__(self) -> int:
        return len(self._jobs)

    def jobs(self) -> list[Job]:
        """Return all jobs, in the order of their claims."""
        with self._lock:
            return list(self._jobs.values())

    def held_claims(self) -> list[Claim]:
        """Return the claims whose leases must be renewed."""
        return [job.claim for job in self.jobs() if not job.is_dropped]

    def unsettled(self) -> list[Job]:
        """Return the jobs without an outcome."""
        return [job for job in self.jobs() if not job.is_settled]

    def outcome_counts(self) -> OutcomeCounts:
        """Return the counts of recorded outcomes."""
        return OutcomeCounts(**self._counts)

    # -- the store --------------------------------------------------------------------------------------------------

    def ack_and_claim(self, limit: int) -> list[Job]:
        """Record the waiting outcomes, and claim up to `limit` documents in the same commit."""
        outcomes, self.outcomes = self.outcomes, []
        try:
            return self._send(outcomes, limit)
        except BaseException:
            self.outcomes = outcomes + self.outcomes
            raise

    def record_one_by_one(self) -> None:
        """Record each outcome alone, after the store refused them together with an unexpected error.

        An outcome that is refused three times is dropped. Its lease then expires, which costs the document an attempt.
        """
        outcomes, self.outcomes = self.outcomes, []
        for job, outcome in outcomes:
            try:
                self._send([(job, outcome)], 0)
            except StoreError:
                self.outcomes.append((job, outcome))
            except Exception as error:
                if isinstance(error, InvalidInputError) and outcome.kind is not OutcomeKind.FAILED:
                    # One queue too many, for example: the store would refuse it again.
                    self.outcomes.append((job, self._queue.failed(job.claim, str(error), final=True)))
                    continue
                job.record_failures += 1
                if job.record_failures < MAX_RECORD_FAILURES:
                    self.outcomes.append((job, outcome))
                else:
                    log.exception("document %s: its outcome cannot be recorded and is dropped", outcome.id)
                    self.drop(job)

    def _send(self, outcomes: Sequence[tuple[Job, Outcome]], limit: int) -> list[Job]:
        now = time.monotonic()
        timed = [outcome._replace(work=job.work_time(now, outcome.kind)) for job, outcome in outcomes]
        if limit:
            acks, claims = self._queue.ack_and_claim(timed, self._worker, limit, queues=self._queues, lease=self._lease)
        else:
            acks, claims = self._queue.ack(timed), ()
        for (job, outcome), ack_status in zip(outcomes, acks, strict=True):
            self._on_recorded(job, outcome, ack_status)
        return self._add_claims(claims, now, time.monotonic()) if claims else []

    def _add_claims(self, claims: Sequence[Claim], called_at: float, returned_at: float) -> list[Job]:
        """Add jobs, with claim times on this machine's clock: a claim happened between call and return."""
        at = (claims[0].document.started_at or 0) / SECOND
        self._clock_offset = min(max(self._clock_offset, at - returned_at), at - called_at)
        return [self._add_claim(claim, at - self._clock_offset) for claim in claims]

    def _add_claim(self, claim: Claim, claimed_at: float) -> Job:
        self.last_number += 1
        job = Job(claim, self.last_number, claimed_at=claimed_at)
        with self._lock:
            self._jobs[job.number] = job
        log.debug("document %s: claimed, attempt %d", claim.document.id, claim.document.attempt)
        return job

    def _on_recorded(self, job: Job, outcome: Outcome, ack_status: AckStatus) -> None:
        with self._lock:
            self._jobs.pop(job.number, None)
        if ack_status is AckStatus.STALE:
            self._counts["stale"] += 1
            log.warning("document %s: its claim was lost, so its outcome is dropped", outcome.id)
        elif outcome.kind is OutcomeKind.FAILED:
            document = job.claim.document
            max_attempts = outcome.max_attempts or document.spec.max_attempts
            again = outcome.retry_in is not None and document.attempt < max_attempts
            self._counts["retried" if again else "failed"] += 1
            _log_failure(document, outcome.error or "", max_attempts, again=again)
        else:
            self._counts[_COUNTED_AS.get(outcome.kind, outcome.kind)] += 1
            log.debug("document %s: %s", outcome.id, _describe_end(outcome))

    # -- outcomes ---------------------------------------------------------------------------------------------------

    def finish(self, job: Job, result: StoredResult) -> None:
        """Record a result with the next commit; fail the document if it cannot go where its processor sent it."""
        try:
            outcome = self._outcome(job.claim, result)
        except InvalidInputError as error:
            self.fail(job, Reject(str(error)))
            return
        self._settle(job, outcome._replace(result=result.text, files=result.files))

    def _outcome(self, claim: Claim, result: StoredResult) -> Outcome:
        if result.queue is None:
            return self._queue.done(claim)
        if result.parts is None:
            return self._queue.next_step(claim, result.queue)
        return self._queue.split(claim, result.parts, result.queue)

    def fail(self, job: Job, reason: Exception | str) -> None:
        """Record a failure with the next commit: a `Reject` is final, other reasons allow another attempt."""
        after = _retry_delay(reason.after) if isinstance(reason, Retry) else None
        final, max_attempts = isinstance(reason, Reject), self._max_attempts.get(job.claim.document.queue)
        outcome = self._queue.failed(job.claim, str(reason), final=final, retry_in=after, max_attempts=max_attempts)
        self._settle(job, outcome)

    def release(self, job: Job) -> None:
        """Give the claim back with the next commit; that costs no attempt."""
        self._settle(job, self._queue.released(job.claim))

    def drop(self, job: Job) -> None:
        """Forget a job without recording an outcome."""
        job.close()
        job.is_settled = True
        with self._lock:
            self._jobs.pop(job.number, None)
        log.debug("document %s: dropped", job.claim.document.id)

    def _settle(self, job: Job, outcome: Outcome) -> None:
        job.close()
        job.is_settled = True
        if job.begun_at is not None and job.ended_at is None:
            job.ended_at = time.monotonic()
        if job.is_dropped:
            self.drop(job)
        else:
            if not self.outcomes:
                self.oldest_outcome_at = time.monotonic()
            self.outcomes.append((job, outcome))


def _describe_end(outcome: Outcome) -> str:
    match outcome.kind:
        case OutcomeKind.RELEASED:
            return "released"
        case OutcomeKind.NEXT:
            return f"moved on to the queue {outcome.queue}"
        case OutcomeKind.SPLIT:
            return f"split into {len(outcome.parts)} parts"
        case _:
            return "finished"


def _log_failure(document: Document, error: str, max_attempts: int, *, again: bool) -> None:
    attempt, reason = document.attempt, describe_failure(error)
    log.warning(
        "document %s of customer %s: attempt %d of %d failed, %s: %s",
        *(document.id, document.customer, attempt, max_attempts, "to be tried again" if again else "for good", reason),
        extra={
            "facts": {
                "document": document.id,
                "customer": document.customer,
                "attempt": attempt,
                "max_attempts": max_attempts,
                "again": again,
                "reason": reason,
            }
        },
    )


def describe_failure(error: str) -> str:
    """Shorten a failure's reason for a log: its first line, or an exception's class and place.

    The message of an exception is left out: it may quote the document.
    """
    first = error.partition("\n")[0]
    frames = _FRAME.findall(error)
    if not frames:
        return first[:MAX_LOGGED_CHARS]
    path, line, function = frames[-1]
    kind = _CLASS.match(first)
    return f"{kind[0] if kind else 'an exception'} at {Path(path).name}:{line} in {function}"[:MAX_LOGGED_CHARS]


def _retry_delay(after: Any) -> int | None:
    """Convert the delay that a processor asked for, at most 30 days; None for the usual backoff."""
    try:
        return min(MAX_RETRY_DELAY, max(0, seconds(float(after))))
    except (TypeError, ValueError, OverflowError):
        return None
