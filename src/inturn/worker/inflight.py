"""What a worker holds: every document claimed and not yet recorded, and what came of it."""

import logging
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from inturn.errors import StoreError
from inturn.model import SECOND, Claim, Document, Progress, seconds
from inturn.processor import Reject, Retry
from inturn.queue import Queue
from inturn.store import AckStatus, Outcome, OutcomeKind, Work
from inturn.worker.content import DocumentContent, StoredResult

log: Final = logging.getLogger("inturn.worker")
MAX_RETRY_DELAY: Final = 30 * 86_400 * SECOND
MAX_RECORD_FAILURES: Final = 3
"""Tries to record one outcome alone before it is dropped."""
MAX_LOGGED_CHARS: Final = 200
"""Characters of a reason that are logged."""
_FRAME: Final = re.compile(r'^  File "([^"\n]*)", line (\d+), in ([^\n]*)$', re.MULTILINE)
_CLASS: Final = re.compile(r"[A-Za-z_][\w.]{0,99}")


class OutcomeCounts(NamedTuple):
    """What a worker's documents came to."""

    done: int = 0
    retried: int = 0
    failed: int = 0
    handed_back: int = 0
    stale: int = 0


@dataclass(eq=False, slots=True)
class Job:
    """A claimed document on its way through the worker."""

    claim: Claim
    number: int
    content: DocumentContent | None = None
    claimed_at: float = 0.0
    """The instant of the claim; times here are those of `time.monotonic`."""
    sent_at: float = 0.0
    """When a child was given it."""
    begun_at: float | None = None
    ended_at: float | None = None
    progress: Progress | None = None
    kill_at: float | None = None
    """When a child that does not hear of a cancellation is ended."""
    is_dropped: bool = False
    """It was cancelled or its claim was lost: nobody wants its outcome any more."""
    is_finished: bool = False
    """Its processor is done with it."""
    is_settled: bool = False
    """What came of it is known: nothing that comes later counts."""
    record_failures: int = 0
    """How often the store refused its outcome with an error that is not the store's state."""

    def record_duration(self, duration: float) -> float:
        """Note its end by the seconds that a child says it took, as far as they can be true."""
        now = time.monotonic()
        began = now if self.begun_at is None else self.begun_at
        self.begun_at, self.ended_at = began, min(now, began + max(0.0, duration))
        return self.ended_at - began

    def work_time(self, now: float, kind: OutcomeKind) -> Work | None:
        """What an outcome that is sent now says of the work on it."""
        if self.begun_at is None and kind is OutcomeKind.RELEASED:
            return None
        began = now if self.begun_at is None else self.begun_at
        ended = now if self.ended_at is None else self.ended_at
        return Work(max(0, round((began - self.claimed_at) * SECOND)), max(0, round((ended - began) * SECOND)))

    def close(self) -> None:
        """Let go of its bytes."""
        if self.content is not None:
            self.content.close()
            self.content = None


class InflightJobs:
    """Jobs by number, and the outcomes that wait for the next exchange. Its jobs are read by the heartbeat as well."""

    def __init__(self, queue: Queue, worker: str, lease: int) -> None:
        self._queue = queue
        self._worker = worker
        self._lease = lease
        self._jobs: dict[int, Job] = {}
        self._lock = threading.Lock()
        self.last_number = 0
        """The number of the job that was claimed last."""
        self._counts: Counter[str] = Counter()
        self.outcomes: list[tuple[Job, Outcome]] = []
        self.oldest_outcome_at = 0.0
        """When the first of them came."""
        self._clock_offset = -math.inf
        """Seconds that the store's clock is ahead of `time.monotonic`, as the quickest claim showed."""

    def __len__(self) -> int:
        return len(self._jobs)

    def jobs(self) -> list[Job]:
        """All of them, in the order of their claims."""
        with self._lock:
            return list(self._jobs.values())

    def held_claims(self) -> list[Claim]:
        """Claims whose leases must be renewed."""
        return [job.claim for job in self.jobs() if not job.is_dropped]

    def unsettled(self) -> list[Job]:
        """Those of which nothing has been said yet."""
        return [job for job in self.jobs() if not job.is_settled]

    def outcome_counts(self) -> OutcomeCounts:
        """What became of the rest."""
        return OutcomeCounts(**self._counts)

    # -- the store --------------------------------------------------------------------------------------------------

    def ack_and_claim(self, limit: int) -> list[Job]:
        """Record what came of documents, and claim up to `room` others in the same commit."""
        outcomes, self.outcomes = self.outcomes, []
        try:
            return self._send(outcomes, limit)
        except BaseException:
            self.outcomes = outcomes + self.outcomes
            raise

    def record_one_by_one(self) -> None:
        """Record each outcome alone, after the store refused them together with an error of an unexpected class.

        An outcome that is refused again and again is dropped: its lease ends as an attempt, and the worker goes on.
        """
        outcomes, self.outcomes = self.outcomes, []
        for job, outcome in outcomes:
            try:
                self._send([(job, outcome)], 0)
            except StoreError:
                self.outcomes.append((job, outcome))
            except Exception:
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
            verdicts, claimed = self._queue.ack_and_claim(timed, self._worker, limit, lease=self._lease)
        else:
            verdicts, claimed = self._queue.store.ack_and_claim(timed, None)
        for (job, outcome), verdict in zip(outcomes, verdicts, strict=True):
            self._on_recorded(job, outcome, verdict)
        return self._add_claims(claimed, now, time.monotonic()) if claimed else []

    def _add_claims(self, claims: Sequence[Claim], called_at: float, returned_at: float) -> list[Job]:
        """The instant of a claim lies between call and return: the longer of the two a commit takes tells nothing."""
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
            again = outcome.retry_in is not None and document.attempt < document.spec.max_attempts
            self._counts["retried" if again else "failed"] += 1
            _log_failure(document, outcome.error or "", again=again)
        else:
            self._counts[outcome.kind] += 1
            log.debug("document %s: %s", outcome.id, "released" if outcome.kind is OutcomeKind.RELEASED else "finished")

    # -- what came of it --------------------------------------------------------------------------------------------

    def finish(self, job: Job, result: StoredResult) -> None:
        """It has a result."""
        self._settle(job, self._queue.done(job.claim)._replace(result=result.text, files=result.files))

    def fail(self, job: Job, reason: Exception | str) -> None:
        """It failed: for good if it was rejected, otherwise to be tried again."""
        after = _retry_delay(reason.after) if isinstance(reason, Retry) else None
        final = isinstance(reason, Reject)
        self._settle(job, self._queue.failed(job.claim, str(reason), final=final, retry_in=after))

    def release(self, job: Job) -> None:
        """It was not begun, or its worker has to go."""
        self._settle(job, self._queue.released(job.claim))

    def drop(self, job: Job) -> None:
        """Nobody wants it any more, and there is nothing to record."""
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


def _log_failure(document: Document, error: str, *, again: bool) -> None:
    attempt, most, reason = document.attempt, document.spec.max_attempts, describe_failure(error)
    log.warning(
        "document %s of customer %s: attempt %d of %d failed, %s: %s",
        *(document.id, document.customer, attempt, most, "to be tried again" if again else "for good", reason),
        extra={
            "facts": {
                "document": document.id,
                "customer": document.customer,
                "attempt": attempt,
                "max_attempts": most,
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
    """A delay that a processor asked for, as far as it makes sense; None is the usual one."""
    try:
        return min(MAX_RETRY_DELAY, max(0, seconds(float(after))))
    except (TypeError, ValueError, OverflowError):
        return None
