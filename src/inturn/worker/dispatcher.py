"""Send documents to children, handle their replies, and replace or kill children."""

import logging
import math
import os
import selectors
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from inturn.config import DEFAULT_PROCESSOR
from inturn.processor_api import Reject, Retry
from inturn.values import SECOND
from inturn.worker.answers import Answers
from inturn.worker.channel import Message
from inturn.worker.circuit_breaker import TRIP_CUSTOMERS, TRIP_FAILURES, CircuitBreaker
from inturn.worker.content import DocumentContent, StoredResult
from inturn.worker.in_thread import RunInThread, try_call
from inturn.worker.inflight import InflightJobs, Job
from inturn.worker.invoke import SUCCESSES, ExecutionMode, InvocationStatus
from inturn.worker.options import WorkerOptions
from inturn.worker.pool import (
    RECYCLE_MEMORY_SHARE,
    START_TIMEOUT_SECONDS,
    ChildProcess,
    ProcessorError,
    ProcessPool,
)
from inturn.worker.prefetch import CLAIM_LEAD_SECONDS, PredictedEnd, PrefetchEstimator
from inturn.worker.reply_store import DocumentIO, Reply
from inturn.worker.routing import processor_paths
from inturn.worker.scratch import exceeds_size
from inturn.worker_report import Progress

log: Final = logging.getLogger("inturn.worker")
MAX_CLAIM_BATCH: Final = 1_000
CANCEL_GRACE_SECONDS: Final = 5.0
"""Seconds that a processor has to notice that its document was cancelled, before its process is killed."""
MAX_FAILED_STARTS: Final = 5
SCRATCH_CHECK_INTERVAL_SECONDS: Final = 1.0
"""Seconds between two checks of the disk space that a sandboxed child uses."""
MAX_SCRATCH_ENTRIES: Final = 10_000


class Dispatcher:
    """Distributes claimed documents among the children. Used by the worker's loop alone."""

    def __init__(
        self,
        pool: ProcessPool,
        inflight: InflightJobs,
        io: DocumentIO,
        options: WorkerOptions,
        run_in_thread: RunInThread,
    ) -> None:
        self.pool = pool
        self.selector = selectors.DefaultSelector()
        self.pending: deque[Job] = deque()
        """Claimed documents that wait for a child."""
        self.is_closing = False
        self._inflight = inflight
        self._io = io
        self._answers = Answers(io.steps, run_in_thread, self._send)
        self._run_in_thread = run_in_thread
        self._breakers: defaultdict[str, CircuitBreaker] = defaultdict(CircuitBreaker)
        limits = pool.spec.limits
        self._timeout = options.timeout / SECOND if limits is None else limits.wall_seconds
        self._timeouts = {
            queue: own.timeout / SECOND for queue, own in options.per_queue.items() if own.timeout is not None
        }
        """By queue; those of other queues have `_timeout`."""
        self._max_documents_per_child = options.documents_per_child if limits is None else limits.documents_per_child
        self._max_child_memory = (
            options.memory_per_child if limits is None else int(limits.memory_bytes * RECYCLE_MEMORY_SHARE)
        )
        self._processor_paths = processor_paths(pool.spec.processor)
        self._failed_starts = 0
        self._prefetch = PrefetchEstimator()
        self.breaker_errors: dict[str, str] = {}
        """By queue the last error, once its breaker has tripped: nothing more is claimed until the queue is paused."""
        self._last_job_at_trip: dict[str, int] = {}

    def free_slots(self) -> int:
        """Return how many documents could be started now, or within `CLAIM_LEAD_SECONDS`."""
        if self.breaker_errors:
            return 0
        now = time.monotonic()
        soon = sum(end.is_claimable(now) for end in self._predicted_ends())
        capacity = self.pool.max_children() * (self.pool.jobs_per_child() + self._prefetch.depth()) + soon
        return max(0, min(capacity - len(self._inflight) + len(self._inflight.outcomes), MAX_CLAIM_BATCH))

    def next_claim_times(self) -> Iterator[float]:
        """Return the time at which the next document may be claimed, for each child with a predicted end."""
        return (end.claim_at for end in self._predicted_ends())

    def record_at(self, now: float) -> float:
        """Return when to record outcomes: with the next claim if that is due soon, otherwise now.

        Outcomes of short documents are recorded at once: a delay would let later submissions wait longer for a claim.
        """
        claims = (
            end.claim_at
            for end in self._predicted_ends()
            if end.claim_at > now and end.margin >= CLAIM_LEAD_SECONDS / 2
        )
        claim = min(claims, default=now)
        return claim if claim <= self._inflight.oldest_outcome_at + CLAIM_LEAD_SECONDS else now

    def _predicted_ends(self) -> Iterator[PredictedEnd]:
        """Yield the ends of running documents that can be predicted; none while documents are prefetched."""
        if self.pool.jobs_per_child() == 1 and not self._prefetch.depth():
            for child in self.pool.children:
                if (end := self._predicted_end(child)) is not None:
                    yield end

    def _predicted_end(self, child: ChildProcess) -> PredictedEnd | None:
        running = next((job for job in child.jobs.values() if job.begun_at is not None and not job.is_finished), None)
        if running is None or running.begun_at is None:
            return None
        return self._prefetch.predict_end(running.begun_at, running.claim.document.spec.pages)

    def start_child(self) -> ChildProcess:
        """Start a child and listen to its channel."""
        child = self.pool.start_child()
        self.selector.register(child.channel, selectors.EVENT_READ, child)
        return child

    def close(self) -> None:
        """Kill all children."""
        self.is_closing = True
        self.pool.close()
        self.selector.close()

    # -- sending documents ------------------------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Send pending documents to children that can take them."""
        while self.pending and not self.is_closing and (child := self._free_child()) is not None:
            job = self.pending.popleft()
            spec = job.claim.document.spec
            if job.is_dropped:
                self._inflight.drop(job)
            elif job.content is not None or not self._io.content.has_content(spec):
                self._send_job(child, job)
            elif self._io.content.can_prepare_inline(spec):
                self._on_prepared(job, *try_call(partial(self._io.content.prepare, spec)))
            else:
                self._run_in_thread(partial(self._io.content.prepare, spec), partial(self._on_prepared, job))

    def release_all_unstarted(self) -> None:
        """Release the documents that no child has started."""
        self.pending.clear()
        for child in self.pool.children:
            self._release_unstarted(child)
        sent = {number for child in self.pool.children for number in child.jobs}
        for job in self._inflight.unsettled():
            if job.number not in sent:
                self._inflight.release(job)

    def _on_prepared(self, job: Job, content: DocumentContent | None, error: Exception | None) -> None:
        job.content = content
        if job.is_settled:
            job.close()
        elif error is not None:
            self._inflight.fail(job, error)
            self._update_breaker(job, str(error))
        elif self.is_closing:
            self._inflight.release(job)
        else:
            self.pending.appendleft(job)

    def _send_job(self, child: ChildProcess, job: Job) -> None:
        document, content = job.claim.document, job.content
        spec = document.spec
        fields: dict[str, object] = {
            "id": document.id,
            "customer": document.customer,
            "name": spec.name,
            "queue": document.queue,
            "media_type": spec.media_type,
            "size": spec.size if spec.size is not None or content is None else os.fstat(content.fd).st_size,
            "uri": spec.uri,
            "attempt": document.attempt,
            "step": document.step,
            "metadata": dict(spec.metadata),
            "path": None if content is None or self.pool.spec.limits is not None else str(content.path),
        }
        child.send_job(job, fields, None if content is None else content.fd)
        child.jobs_sent += 1
        self._flush(child)
        if child.jobs_sent >= self._max_documents_per_child and not child.is_retiring:
            child.is_retiring = True
            self.start_child()  # while the other processes its last document

    def _send(self, child: ChildProcess, message: Sequence[Any], fds: Sequence[int]) -> None:
        child.channel.send_nowait(*message, fds=fds)
        self._flush(child)

    def _flush(self, child: ChildProcess) -> None:
        if not child.channel.flush():
            self.selector.modify(child.channel, selectors.EVENT_READ | selectors.EVENT_WRITE, child)

    def _free_child(self) -> ChildProcess | None:
        """Return the child with the fewest documents, or a new one if all are busy and the pool may grow."""
        usable = [child for child in self.pool.children if not child.is_retiring and not child.is_killed]
        busy = [child for child in self.pool.children if child.is_busy()]
        if len(busy) >= self.pool.max_children():  # a retiring child occupies its slot
            if self.pool.jobs_per_child() == 1 and not self._prefetch.depth():
                return self._soon_free_child(busy, usable)
            return min((child for child in busy if child in usable), key=lambda child: len(child.jobs), default=None)
        best = min(usable, key=lambda child: len(child.jobs), default=None)
        if (best is None or len(best.jobs) >= self.pool.jobs_per_child()) and len(usable) < self.pool.max_children():
            return self.start_child()
        return best

    def _soon_free_child(self, busy: Sequence[ChildProcess], usable: Sequence[ChildProcess]) -> ChildProcess | None:
        """Return the child that should be free first, if that is near and it has no next document yet."""
        ends = [(end, child.pid, child) for child in busy if (end := self._predicted_end(child)) is not None]
        alone = [end for end in ends if len(end[-1].jobs) == 1]
        end, _, child = min(alone, default=(PredictedEnd(math.inf, 0), 0, None))
        return child if child in usable and end.is_claimable(time.monotonic()) else None

    # -- messages of children ---------------------------------------------------------------------------------------

    def on_io_event(self, child: ChildProcess, mask: int) -> None:
        """Read a child's messages, and send it what its socket did not take before."""
        if mask & selectors.EVENT_WRITE and child.channel.flush():
            self.selector.modify(child.channel, selectors.EVENT_READ, child)
        if mask & selectors.EVENT_READ:
            messages = child.receive()
            for message in messages or ():
                if child.is_distrusted:
                    break
                try:
                    self._on_message(child, message)
                except (TypeError, ValueError, LookupError, ArithmeticError, RecursionError):
                    # The error is not logged: it may quote the document.
                    log.error("child %d sent a malformed message and is killed", child.pid)  # noqa: TRY400
                    child.is_distrusted = True
                    child.kill("it sent a malformed message")
            if messages is None:
                self._reap(child)

    def _on_message(self, child: ChildProcess, message: Message) -> None:
        kind, *rest = message
        if not child.is_ready:  # its first message is about the child: it has no document yet
            if kind != "ready":
                raise ProcessorError(str(rest[0]))
            child.is_ready, child.free_since, self._failed_starts = True, time.monotonic(), 0
            self.pool.mode = self.pool.mode or ExecutionMode(rest[0])
        elif (job := child.jobs.get(rest[0])) is None or job.is_finished:  # the worker has given it up meanwhile
            self._answers.on_late_message(child, kind, rest)
        elif kind == "begun":
            if job.begun_at is None:  # a second start would gain time
                job.begun_at = min(max(job.sent_at, _finite_number(rest[1])), time.monotonic())
                log.debug("document %s: started in child %d", job.claim.document.id, child.pid)
        elif kind == "ask":
            _, number, question = rest
            self._answers.on_question(child, job, number, question)
        elif kind == "progress":
            job.progress = Progress(_finite_number(rest[1]), None if rest[2] is None else _finite_number(rest[2]))
        else:
            _, duration, reason, files, *step = rest
            reply = Reply.parse(InvocationStatus(kind), reason, files, step)
            if reply.queue is not None and self._is_built_in(job):
                raise ValueError("the built-in processor names no queues")
            duration = job.record_duration(_finite_number(duration))
            if reply.status is InvocationStatus.ERROR:
                self._prefetch.reset()
            else:
                self._prefetch.record_duration(duration, job.claim.document.spec.pages)
            self._on_reply(child, job, reply)

    def _is_built_in(self, job: Job) -> bool:
        paths = self._processor_paths
        return paths.get(job.claim.document.queue, paths.get(None)) == DEFAULT_PROCESSOR

    def _on_reply(self, child: ChildProcess, job: Job, reply: Reply) -> None:
        status, value, reason = reply.status, reply.value, reply.reason
        job.is_finished, child.free_since = True, time.monotonic()
        if status in SUCCESSES:
            if not (job.is_dropped or self._io.replies.can_store_inline(reply)):
                store = partial(self._io.replies.store, reply, job.claim.document, child.scratch)
                self._run_in_thread(store, partial(self._on_result_stored, child, job))
                return
            self._inflight.finish(job, StoredResult(value.json, queue=reply.queue))
        del child.jobs[job.number]
        if status is InvocationStatus.ERROR:
            self._inflight.fail(job, reason)
        elif status not in SUCCESSES:
            self._inflight.fail(job, Retry(reason, after=value) if status is InvocationStatus.RETRY else Reject(reason))
        self._update_breaker(job, reason if status is InvocationStatus.ERROR else None)
        self._retire_if_due(child)

    def _on_result_stored(
        self, child: ChildProcess, job: Job, result: StoredResult | None, error: Exception | None
    ) -> None:
        del child.jobs[job.number]
        if job.is_settled:
            return
        if result is not None:
            self._inflight.finish(job, result)
        elif self.is_closing:
            self._inflight.release(job)
            return
        else:
            self._inflight.fail(job, error or "")
        self._update_breaker(job, None if error is None else str(error))
        self._retire_if_due(child)

    def _update_breaker(self, job: Job, error: str | None) -> None:
        """Count an error or a success in its queue; documents claimed before the breaker last tripped do not count."""
        document = job.claim.document
        breaker = self._breakers[document.queue]
        if error is None:
            breaker.record_success()
        elif job.number <= self._last_job_at_trip.get(document.queue, 0) or job.is_dropped:
            return
        elif breaker.record_failure(document.id, document.customer):
            self.breaker_errors[document.queue] = error
            self._last_job_at_trip[document.queue] = self._inflight.last_number
            log.info(
                "circuit breaker tripped: %d documents of %d customers failed in a row", TRIP_FAILURES, TRIP_CUSTOMERS
            )

    def _retire_if_due(self, child: ChildProcess) -> None:
        if child not in self.pool.children:
            return
        child.last_memory_bytes = child.memory_bytes()
        if child.last_memory_bytes > self._max_child_memory:
            child.is_retiring = True
        if child.is_retiring and not child.jobs:
            self.selector.unregister(child.channel)
            self.pool.retire(child)

    def _reap(self, child: ChildProcess) -> None:
        """Clean up after a child that has ended: fail the document it had started, give the others to another child."""
        self.selector.unregister(child.channel)
        exit_reason = self.pool.remove(child)
        for job in sorted(child.jobs.values(), key=lambda job: -job.number):
            if job.is_finished:
                continue
            del child.jobs[job.number]
            if job.begun_at is None:
                self.pending.appendleft(job)
            elif child.killed_by_worker:
                self._inflight.release(job)  # another of its documents was at fault
            elif (reason := self.pool.exceeded_limit(child)) is not None:
                self._inflight.fail(job, Reject(reason))
                self._update_breaker(job, None)
            else:
                self._inflight.fail(job, f"the processor did not finish: {exit_reason}")
                self._update_breaker(job, exit_reason)
        if not child.is_ready:
            self._failed_starts += 1
            if self._failed_starts >= MAX_FAILED_STARTS:
                raise ProcessorError(f"the processor's process does not start: {exit_reason}")

    def _timeout_of(self, *jobs: Job) -> float:
        """Return the seconds that the one that may take longest has."""
        return max(self._timeouts.get(job.claim.document.queue, self._timeout) for job in jobs)

    # -- deadlines -------------------------------------------------------------------------------------------------

    def deadlines(self) -> Iterator[float]:
        """Yield the times at which `enforce_deadlines` may have something to do."""
        for child in self.pool.children:
            if not child.is_ready:
                yield child.started_at + START_TIMEOUT_SECONDS
            if self.pool.spec.limits is not None and child.is_busy():
                yield child.scratch_checked_at + SCRATCH_CHECK_INTERVAL_SECONDS
            if (since := child.stalled_since()) is not None:
                yield since + self._timeout_of(*child.jobs.values())
            has_next = self.pool.jobs_per_child() == 1 and any(job.begun_at is None for job in child.jobs.values())
            for job in child.jobs.values():
                if job.begun_at is not None and not job.is_finished:
                    late = self._prefetch.late_after(job.claim.document.spec.pages)
                    timeout = self._timeout_of(job)
                    yield job.begun_at + (min(late, timeout) if has_next else timeout)
                    if job.kill_at is not None:
                        yield job.kill_at

    def enforce_deadlines(self, now: float) -> None:
        """Kill children that take too long to start, to finish a document, or to notice that it was cancelled."""
        self.pool.reap_retired()
        for child in list(self.pool.children):
            if not child.is_ready and now > child.started_at + START_TIMEOUT_SECONDS:
                child.kill(f"it did not start within {START_TIMEOUT_SECONDS:g} s")
            limits = self.pool.spec.limits
            if (
                limits is not None
                and child.is_busy()
                and now >= child.scratch_checked_at + SCRATCH_CHECK_INTERVAL_SECONDS
            ):
                child.scratch_checked_at = now
                if exceeds_size(child.scratch, limits.scratch_bytes, MAX_SCRATCH_ENTRIES):
                    child.kill(
                        f"it wrote more than {limits.scratch_bytes >> 20} MB or {MAX_SCRATCH_ENTRIES:,} files to disk"
                    )
            if (since := child.stalled_since()) is not None:
                timeout = self._timeout_of(*child.jobs.values())
                if now > since + timeout:
                    child.kill(f"it did not begin a document within {timeout:g} s")
            for job in list(child.jobs.values()):
                if job.number in child.jobs and job.begun_at is not None and not job.is_finished:
                    self._enforce_job_deadlines(child, job, job.begun_at, now)

    def _enforce_job_deadlines(self, child: ChildProcess, job: Job, begun_at: float, now: float) -> None:
        pages, timeout = job.claim.document.spec.pages, self._timeout_of(job)
        if now >= begun_at + timeout:
            del child.jobs[job.number]
            reason = f"it took longer than {timeout:g} s"
            self._inflight.fail(job, reason)
            self._update_breaker(job, reason)
            child.killed_by_worker = True
            child.kill(reason)
        elif job.kill_at is not None and now >= job.kill_at:
            del child.jobs[job.number]
            self._inflight.drop(job)
            child.killed_by_worker = True
            child.kill("its document was cancelled")
        elif now >= begun_at + self._prefetch.late_after(pages) and self.pool.jobs_per_child() == 1:
            # It takes longer than expected: the documents behind it may run elsewhere.
            self._release_unstarted(child)
            self._prefetch.record_late(pages)

    def _release_unstarted(self, child: ChildProcess) -> None:
        """Release the documents that a child has not started."""
        for job in [job for job in child.jobs.values() if job.begun_at is None]:
            del child.jobs[job.number]
            child.cancel(job)
            self._inflight.release(job)

    def cancel(self, job: Job) -> None:
        """Cancel a document whose claim is gone: notify its processor, and kill a child that does not react."""
        job.is_dropped = True
        for child in self.pool.children:
            if job.number in child.jobs:
                child.cancel(job)
                if job.begun_at is None:  # the child skips it without a reply
                    del child.jobs[job.number]
                    self._inflight.drop(job)
                elif self.pool.mode is ExecutionMode.PROCESSES:
                    job.kill_at = time.monotonic() + CANCEL_GRACE_SECONDS


def _finite_number(value: Any) -> float:
    """Convert a number in a child's message; raise ValueError or TypeError unless it is finite."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("not a finite number")
    return number
