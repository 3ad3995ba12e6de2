"""Where documents are processed: children get them, say what came of them, are replaced, and some have to be ended."""

import logging
import math
import selectors
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from inturn.model import SECOND, Progress
from inturn.processor import Reject, Retry
from inturn.queue import MAX_RESULT_BYTES
from inturn.worker.channel import JsonText, Message
from inturn.worker.circuit_breaker import TRIP_CUSTOMERS, TRIP_FAILURES, CircuitBreaker
from inturn.worker.content import ContentIO, DocumentContent, StoredResult
from inturn.worker.inflight import InflightJobs, Job
from inturn.worker.invoke import ExecutionMode, InvocationStatus
from inturn.worker.options import WorkerOptions
from inturn.worker.pool import (
    RECYCLE_MEMORY_SHARE,
    START_TIMEOUT_SECONDS,
    ChildProcess,
    ProcessorError,
    ProcessPool,
)
from inturn.worker.prefetch import CLAIM_LEAD_SECONDS, PredictedEnd, PrefetchEstimator
from inturn.worker.scratch import exceeds_size

log: Final = logging.getLogger("inturn.worker")
MAX_CLAIM_BATCH: Final = 1_000
CANCEL_GRACE_SECONDS: Final = 5.0
"""Seconds in which a processor may notice that its document was cancelled, before its process is ended."""
MAX_FAILED_STARTS: Final = 5
SCRATCH_CHECK_INTERVAL_SECONDS: Final = 1.0
"""Seconds between two looks at what a child in a box has written."""
MAX_SCRATCH_ENTRIES: Final = 10_000

Callback = Callable[[Any, Exception | None], None]
RunInThread = Callable[[Callable[[], Any], Callback], None]
"""Does work in another thread, then calls back in the loop's own."""


class Dispatcher:
    """The children at work, and the documents among them. Used by the worker's loop alone."""

    def __init__(
        self,
        pool: ProcessPool,
        inflight: InflightJobs,
        content: ContentIO,
        options: WorkerOptions,
        run_in_thread: RunInThread,
    ) -> None:
        self.pool = pool
        self.selector = selectors.DefaultSelector()
        self.pending: deque[Job] = deque()
        """Claimed, and waiting for a child."""
        self.is_closing = False
        self._inflight = inflight
        self._content = content
        self._run_in_thread = run_in_thread
        self._breaker = CircuitBreaker()
        box = pool.spec.limits
        self._timeout = options.timeout / SECOND if box is None else box.wall_seconds
        self._max_documents_per_child = options.documents_per_child if box is None else box.documents_per_child
        self._max_child_memory = (
            options.memory_per_child if box is None else int(box.memory_bytes * RECYCLE_MEMORY_SHARE)
        )
        self._failed_starts = 0
        self._prefetch = PrefetchEstimator()
        self.breaker_error: str | None = None
        """Why nothing more should be started, once the fuse has blown."""
        self._last_job_at_trip = 0

    def free_slots(self) -> int:
        """How many documents could be started now, or within a moment."""
        if self.breaker_error is not None:
            return 0
        now = time.monotonic()
        soon = sum(end.is_claimable(now) for end in self._predicted_ends())
        capacity = self.pool.max_children() * (self.pool.jobs_per_child() + self._prefetch.depth()) + soon
        return max(0, min(capacity - len(self._inflight) + len(self._inflight.outcomes), MAX_CLAIM_BATCH))

    def next_claim_times(self) -> Iterator[float]:
        """When each child should be given what comes after its document."""
        return (end.claim_at for end in self._predicted_ends())

    def record_at(self, now: float) -> float:
        """When outcomes are recorded: with the next claim if that comes a moment after the first, otherwise now.

        Among short documents at once: a claim that takes more with it is a claim that hears of newcomers later.
        """
        claims = (
            end.claim_at
            for end in self._predicted_ends()
            if end.claim_at > now and end.margin >= CLAIM_LEAD_SECONDS / 2
        )
        claim = min(claims, default=now)
        return claim if claim <= self._inflight.oldest_outcome_at + CLAIM_LEAD_SECONDS else now

    def _predicted_ends(self) -> Iterator[PredictedEnd]:
        """When children should be done with documents that take longer than a moment, if that can be told."""
        if self.pool.jobs_per_child() == 1 and not self._prefetch.depth():
            for hand in self.pool.children:
                if (end := self._predicted_end(hand)) is not None:
                    yield end

    def _predicted_end(self, child: ChildProcess) -> PredictedEnd | None:
        at_work = next((job for job in child.jobs.values() if job.begun_at is not None and not job.is_finished), None)
        if at_work is None or at_work.begun_at is None:
            return None
        return self._prefetch.predict_end(at_work.begun_at, at_work.claim.document.spec.pages)

    def start_child(self) -> ChildProcess:
        """One child more."""
        hand = self.pool.start_child()
        self.selector.register(hand.channel, selectors.EVENT_READ, hand)
        return hand

    def close(self) -> None:
        """End all children."""
        self.is_closing = True
        self.pool.close()
        self.selector.close()

    # -- documents go out -------------------------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Give children what they can start."""
        while self.pending and not self.is_closing and (hand := self._free_child()) is not None:
            job = self.pending.popleft()
            given = job.claim.document.spec
            if job.is_dropped:
                self._inflight.drop(job)
            elif job.content is not None or not self._content.has_content(given):
                self._send_job(hand, job)
            elif self._content.can_prepare_inline(given):
                self._on_prepared(job, *try_call(partial(self._content.prepare, given)))
            else:
                self._run_in_thread(partial(self._content.prepare, given), partial(self._on_prepared, job))

    def release_all_unstarted(self) -> None:
        """What no child has begun goes back."""
        self.pending.clear()
        for hand in self.pool.children:
            self._release_unstarted(hand)
        given = {number for hand in self.pool.children for number in hand.jobs}
        for job in self._inflight.unsettled():
            if job.number not in given:
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
        document, document_content = job.claim.document, job.content
        given = document.spec
        facts: dict[str, object] = {
            "id": document.id,
            "customer": document.customer,
            "name": given.name,
            "media_type": given.media_type,
            "size": given.size,
            "uri": given.uri,
            "attempt": document.attempt,
            "metadata": dict(given.metadata),
            "path": None
            if document_content is None or self.pool.spec.limits is not None
            else str(document_content.path),
        }
        child.send_job(job, facts, None if document_content is None else document_content.fd)
        child.jobs_sent += 1
        if not child.channel.flush():
            self.selector.modify(child.channel, selectors.EVENT_READ | selectors.EVENT_WRITE, child)
        if child.jobs_sent >= self._max_documents_per_child and not child.is_retiring:
            child.is_retiring = True
            self.start_child()  # while the other is still at its last document

    def _free_child(self) -> ChildProcess | None:
        """The child with the least to do; a new one if all have something and there may be more."""
        usable = [hand for hand in self.pool.children if not hand.is_retiring and not hand.is_killed]
        busy = [hand for hand in self.pool.children if hand.is_busy()]
        if len(busy) >= self.pool.max_children():  # one that retires still has its slot
            if self.pool.jobs_per_child() == 1 and not self._prefetch.depth():
                return self._soon_free_child(busy, usable)
            return min((hand for hand in busy if hand in usable), key=lambda hand: len(hand.jobs), default=None)
        best = min(usable, key=lambda hand: len(hand.jobs), default=None)
        if (best is None or len(best.jobs) >= self.pool.jobs_per_child()) and len(usable) < self.pool.max_children():
            return self.start_child()
        return best

    def _soon_free_child(self, busy: Sequence[ChildProcess], usable: Sequence[ChildProcess]) -> ChildProcess | None:
        """The child that should be free within a moment, if it goes on after that and has nothing before it yet."""
        ends = [(end, hand.pid, hand) for hand in busy if (end := self._predicted_end(hand)) is not None]
        alone = [end for end in ends if len(end[-1].jobs) == 1]
        end, _, hand = min(alone, default=(PredictedEnd(math.inf, 0), 0, None))
        return hand if hand in usable and end.is_claimable(time.monotonic()) else None

    # -- what children say ------------------------------------------------------------------------------------------

    def on_io_event(self, child: ChildProcess, mask: int) -> None:
        """A child has something to say, or takes more."""
        if mask & selectors.EVENT_WRITE and child.channel.flush():
            self.selector.modify(child.channel, selectors.EVENT_READ, child)
        if mask & selectors.EVENT_READ:
            messages = child.receive()
            for message in messages or ():
                try:
                    self._on_message(child, message)
                except (TypeError, ValueError, LookupError, ArithmeticError, RecursionError):
                    log.error("a child talks nonsense and is ended")  # noqa: TRY400 - what it said is nobody's business
                    child.kill("it said what nobody can understand")
                    break
            if messages is None:
                self._reap(child)

    def _on_message(self, child: ChildProcess, message: Message) -> None:
        word, *rest = message
        if not child.is_ready:  # only its first word is about itself: no document has been near it
            if word != "ready":
                raise ProcessorError(str(rest[0]))
            child.is_ready, child.free_since, self._failed_starts = True, time.monotonic(), 0
            self.pool.mode = self.pool.mode or ExecutionMode(rest[0])
        elif (job := child.jobs.get(rest[0])) is None or job.is_finished:
            return  # it was given up meanwhile
        elif word == "begun":
            if job.begun_at is None:  # a child cannot begin again to gain time
                job.begun_at = min(max(job.sent_at, _finite_number(rest[1])), time.monotonic())
                log.debug("document %s: started in child %d", job.claim.document.id, child.pid)
        elif word == "progress":
            job.progress = Progress(_finite_number(rest[1]), None if rest[2] is None else _finite_number(rest[2]))
        else:
            (_, took, reason, files, value), said = rest, InvocationStatus(word)
            took = job.record_duration(_finite_number(took))
            if said is InvocationStatus.DONE and not isinstance(value, JsonText):
                raise TypeError("a result that was not looked through")
            if said is InvocationStatus.ERROR:
                self._prefetch.reset()
            else:
                self._prefetch.record_duration(took, job.claim.document.spec.pages)
            self._on_reply(child, job, said, (value, str(reason), files))

    def _on_reply(self, child: ChildProcess, job: Job, status: InvocationStatus, reply: tuple[Any, str, Any]) -> None:
        value, reason, files = reply
        job.is_finished, child.free_since = True, time.monotonic()
        if status is InvocationStatus.DONE:
            if (files or value.size > MAX_RESULT_BYTES) and not job.is_dropped:
                keep = partial(self._content.store_result, value.json, files, child.scratch)
                self._run_in_thread(keep, partial(self._on_result_stored, child, job))
                return
            self._inflight.finish(job, StoredResult(value.json))
        del child.jobs[job.number]
        if status is InvocationStatus.ERROR:
            self._inflight.fail(job, reason)
        elif status is not InvocationStatus.DONE:
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
        """Too many errors in a row blow the fuse; what was claimed before it blew says nothing new."""
        if error is None:
            self._breaker.record_success()
        elif job.number <= self._last_job_at_trip or job.is_dropped:
            return
        elif self._breaker.record_failure(job.claim.document.id, job.claim.document.customer):
            self.breaker_error, self._last_job_at_trip = error, self._inflight.last_number
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
        """A child is gone: what it had begun failed, what it had not goes to another."""
        self.selector.unregister(child.channel)
        words = self.pool.remove(child)
        for job in sorted(child.jobs.values(), key=lambda job: -job.number):
            if job.is_finished:
                continue
            del child.jobs[job.number]
            if job.begun_at is None:
                self.pending.appendleft(job)
            elif child.killed_by_worker:
                self._inflight.release(job)  # for what another of its documents did
            elif (reason := self.pool.exceeded_limit(child)) is not None:
                self._inflight.fail(job, Reject(reason))
                self._update_breaker(job, None)
            else:
                self._inflight.fail(job, f"the processor did not finish: {words}")
                self._update_breaker(job, words)
        if not child.is_ready:
            self._failed_starts += 1
            if self._failed_starts >= MAX_FAILED_STARTS:
                raise ProcessorError(f"the processor's process does not start: {words}")

    # -- what has to be enforced ------------------------------------------------------------------------------------

    def deadlines(self) -> Iterator[float]:
        """When something may have to be enforced."""
        for hand in self.pool.children:
            if not hand.is_ready:
                yield hand.started_at + START_TIMEOUT_SECONDS
            if self.pool.spec.limits is not None and hand.is_busy():
                yield hand.scratch_checked_at + SCRATCH_CHECK_INTERVAL_SECONDS
            if (since := hand.stalled_since()) is not None:
                yield since + self._timeout
            is_ahead = self.pool.jobs_per_child() == 1 and any(job.begun_at is None for job in hand.jobs.values())
            for job in hand.jobs.values():
                if job.begun_at is not None and not job.is_finished:
                    late = self._prefetch.late_after(job.claim.document.spec.pages)
                    yield job.begun_at + (min(late, self._timeout) if is_ahead else self._timeout)
                    if job.kill_at is not None:
                        yield job.kill_at

    def enforce_deadlines(self, now: float) -> None:
        """End children that take too long to start, to finish, or to notice that a document was cancelled."""
        self.pool.reap_retired()
        for hand in list(self.pool.children):
            if not hand.is_ready and now > hand.started_at + START_TIMEOUT_SECONDS:
                hand.kill(f"it did not start within {START_TIMEOUT_SECONDS:g} s")
            box = self.pool.spec.limits
            if box is not None and hand.is_busy() and now >= hand.scratch_checked_at + SCRATCH_CHECK_INTERVAL_SECONDS:
                hand.scratch_checked_at = now
                if exceeds_size(hand.scratch, box.scratch_bytes, MAX_SCRATCH_ENTRIES):
                    hand.kill(
                        f"it left more than {box.scratch_bytes >> 20} MB or {MAX_SCRATCH_ENTRIES:,} files on the disk"
                    )
            if (since := hand.stalled_since()) is not None and now > since + self._timeout:
                hand.kill(f"it did not begin a document within {self._timeout:g} s")
            for job in list(hand.jobs.values()):
                if job.number in hand.jobs and job.begun_at is not None and not job.is_finished:
                    self._enforce_job_deadlines(hand, job, job.begun_at, now)

    def _enforce_job_deadlines(self, child: ChildProcess, job: Job, begun_at: float, now: float) -> None:
        pages = job.claim.document.spec.pages
        if now >= begun_at + self._timeout:
            del child.jobs[job.number]
            reason = f"it took longer than {self._timeout:g} s"
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
            # It takes longer than those before it: what stands behind goes back to whoever is free.
            self._release_unstarted(child)
            self._prefetch.record_late(pages)

    def _release_unstarted(self, child: ChildProcess) -> None:
        """What it has not begun is nobody's again."""
        for job in [job for job in child.jobs.values() if job.begun_at is None]:
            del child.jobs[job.number]
            child.cancel(job)
            self._inflight.release(job)

    def cancel(self, job: Job) -> None:
        """Nobody wants it any more: its processor is told, and ended if it does not listen."""
        job.is_dropped = True
        for hand in self.pool.children:
            if job.number in hand.jobs:
                hand.cancel(job)
                if job.begun_at is None:  # the child passes over it without a word
                    del hand.jobs[job.number]
                    self._inflight.drop(job)
                elif self.pool.mode is ExecutionMode.PROCESSES:
                    job.kill_at = time.monotonic() + CANCEL_GRACE_SECONDS


def try_call(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What came of it, or what went wrong."""
    try:
        return function(), None
    except Exception as error:  # noqa: BLE001 - told to whoever asked
        return None, error


def _finite_number(value: Any) -> float:
    """A finite number; whatever else a child says is nonsense."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("no finite number")
    return number
