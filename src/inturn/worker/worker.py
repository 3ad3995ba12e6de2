"""Claim documents, let child processes process them, and record the outcomes.

One loop owns all state. Heartbeat, waiter and maintenance are threads, and processors run in child processes, so that a
processor cannot block the loop. Threads post callbacks to the loop and wake it through a pipe.
"""

import logging
import os
import queue as queues
import secrets
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from inturn import __version__
from inturn.blobs import Blobs
from inturn.config import DEFAULT_PROCESSOR, current_processor_name
from inturn.errors import InvalidInputError, StoreError
from inturn.fetch import Fetcher
from inturn.model import DEFAULT_QUEUE, Claim
from inturn.queue import Queue
from inturn.sandbox import confinement
from inturn.store_types import LeaseStatus, Operator
from inturn.validation import clean_error
from inturn.values import SECOND, seconds
from inturn.worker.content import ContentIO
from inturn.worker.dispatcher import Dispatcher
from inturn.worker.heartbeat import Heartbeat
from inturn.worker.in_thread import Callback, try_call
from inturn.worker.inflight import InflightJobs, OutcomeCounts
from inturn.worker.maintenance import Maintenance, MaintenanceThread
from inturn.worker.options import WorkerOptions
from inturn.worker.pool import ChildSpec, ProcessorError, ProcessPool
from inturn.worker.reply_store import DocumentIO, ReplyStore
from inturn.worker.routing import processor_spec, require_one_sandbox
from inturn.worker.scratch import ScratchDir
from inturn.worker.step_reader import StepReader
from inturn.worker.store_errors import Backoff, log_store_error
from inturn.worker.waiter import Waiter
from inturn.worker_report import WorkerReport

__all__ = ["OutcomeCounts", "ProcessorError", "Worker", "WorkerOptions"]

log: Final = logging.getLogger("inturn.worker")
STEP_COUNTS: Final = frozenset({"moved_on", "split"})
"""Counts that are logged only where there are steps."""
POLL_INTERVAL_SECONDS: Final = 5.0
"""Seconds after which the loop runs even without an event."""


class Worker:
    """Processes documents until it is stopped."""

    def __init__(
        self,
        queue: Queue,
        processor: str | Callable[..., Any] = DEFAULT_PROCESSOR,
        *,
        blobs: Blobs | None = None,
        fetcher: Fetcher | None = None,
        maintenance: Maintenance | None = None,
        options: WorkerOptions | None = None,
    ) -> None:
        self._options = options = options or WorkerOptions()
        own = current_processor_name(processor if isinstance(processor, str) else processor_path(processor))
        path = processor_spec(options.queues, own)
        if options.box is None:
            require_one_sandbox(path)
        limits = options.box or (confinement.SandboxLimits() if path == DEFAULT_PROCESSOR else None)
        self.name = options.name or f"{socket.gethostname()[:200]}-{os.getpid()}-{secrets.token_hex(3)}"
        self._queue = queue
        self._scratch_dir = ScratchDir()
        spec = ChildSpec(path, options.slots, limits, options.bounds, protected_paths(queue, blobs))
        self._pool = ProcessPool(spec, self._scratch_dir)
        self._queues = tuple(options.queues)
        self._inflight = InflightJobs(queue, self.name, options.lease, self._queues, options.max_attempts)
        content = ContentIO(blobs, fetcher, self._scratch_dir)
        replies = ReplyStore(content, queue, is_sandboxed=limits is not None)
        io = DocumentIO(content, replies, StepReader(queue, blobs, self._scratch_dir))
        self._dispatcher = Dispatcher(self._pool, self._inflight, io, options, self._run_in_thread)
        self._started_at = seconds(time.time())
        self._may_claim = True
        """Whether the store may have claimable documents."""
        self._waiting_for_notify = False
        self._next_try_at = 0.0
        self._backoff = Backoff()
        self._stop_requests = 0
        self._is_ended = False
        self._grace_ends_at: float | None = None

        self._callbacks: queues.SimpleQueue[Callable[[], None]] = queues.SimpleQueue()
        self._wakeup_r, self._wakeup_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._dispatcher.selector.register(self._wakeup_r, selectors.EVENT_READ, None)
        self._executor = ThreadPoolExecutor(max(2, min(options.slots, 8)), thread_name_prefix="inturn-content")
        self._waiter = Waiter(queue, partial(self._post, self._on_notify))
        self._heartbeat = Heartbeat(
            queue, options.lease, self._inflight.held_claims, self.report, self._post_lost_claim
        )
        self._maintenance = None if maintenance is None else MaintenanceThread(maintenance)

    # -- public interface -------------------------------------------------------------------------------------------

    def run(self) -> OutcomeCounts:
        """Process documents until stopped, or with `until_empty` until none is left; return the counts of outcomes."""
        with self._handle_signals():
            try:
                self._start_up()
                while not self._should_exit():
                    self._poll_events()
                    self._enforce_deadlines()
                    self._dispatcher.dispatch()  # prefetched documents need not wait for the commit
                    self._ack_and_claim()
                    self._dispatcher.dispatch()
            finally:
                self._shut_down()
        counts = self._inflight.outcome_counts()
        _log_info(
            f"worker {self.name} ended: "
            + ", ".join(
                f"{n} {outcome.replace('_', ' ')}"
                for outcome, n in counts._asdict().items()
                if n or outcome not in STEP_COUNTS
            ),
            **counts._asdict(),
        )
        return counts

    def stop(self, *, at_once: bool = False) -> None:
        """Claim no more, let running documents finish within the grace, release the rest; `at_once` releases all."""
        self._stop_requests += 2 if at_once else 1
        self._wake()

    def report(self) -> WorkerReport:
        """Return the state that the heartbeat reports to the store."""
        now = time.monotonic()
        running = [job for job in self._inflight.jobs() if job.begun_at is not None and not job.is_finished]
        return WorkerReport(
            self.name,
            socket.gethostname(),
            os.getpid(),
            self._options.slots,
            min(len(running), self._options.slots),
            self._pool.spec.processor,
            self._started_at,
            self._stop_requests > 0,
            {job.claim.document.id: job.progress for job in running if job.progress is not None},
            {job.claim.document.id: round((now - (job.begun_at or now)) * SECOND) for job in running},
            __version__,
            self._queues,
        )

    # -- the loop ---------------------------------------------------------------------------------------------------

    def _start_up(self) -> None:
        self._pool.require_isolation()
        if self._pool.mode is None:
            # Load the processor before anything is claimed: it may fail to load.
            while self._pool.mode is None and not self._stop_requests:
                if not self._pool.children:
                    self._dispatcher.start_child()
                self._poll_events()
                self._dispatcher.enforce_deadlines(time.monotonic())
        for thread in (self._heartbeat, self._waiter, self._maintenance):
            if thread is not None:
                thread.start()
        slots, processor = self._options.slots, self._pool.spec.processor
        served = "" if self._queues == (DEFAULT_QUEUE,) else f", queues {', '.join(self._queues)}"
        _log_info(
            f"worker {self.name} is ready: {slots} {'slot' if slots == 1 else 'slots'}, processor {processor}{served}",
            worker=self.name,
            slots=slots,
            processor=processor,
            queues=self._queues,
        )

    def _shut_down(self) -> None:
        self._dispatcher.close()
        self._scratch_dir.close()
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._run_callbacks()
        for job in self._inflight.unsettled():
            self._inflight.release(job)
        try:
            self._inflight.ack_and_claim(0)
        except Exception as error:  # noqa: BLE001 - the leases expire
            log_store_error("the last outcomes are not recorded", error)
        for thread in (self._heartbeat, self._waiter, self._maintenance):
            if thread is not None and thread.is_alive():
                thread.stop()
        with suppress(Exception):  # the store forgets it after a day
            self._queue.forget_worker(self.name)
        self._is_ended = True
        os.close(self._wakeup_r)
        os.close(self._wakeup_w)

    def _should_exit(self) -> bool:
        if self._stop_requests:
            return not len(self._inflight) or self._stop_requests > 1
        if not self._options.until_empty or len(self._inflight) or self._may_claim:
            return False
        try:
            return self._queue.next_due() is None
        except Exception as error:  # noqa: BLE001 - no error of the store ends a worker
            log_store_error("the store cannot be read", error)
            self._next_try_at = time.monotonic() + self._backoff.next_pause()
            self._may_claim = True
            return False

    def _poll_events(self) -> None:
        """Wait for children, threads or a deadline, and handle what has come."""
        for key, mask in self._dispatcher.selector.select(self._poll_timeout()):
            if key.data is None:
                with suppress(BlockingIOError):
                    os.read(self._wakeup_r, 65_536)
            else:
                self._dispatcher.on_io_event(key.data, mask)
        self._run_callbacks()

    def _run_callbacks(self) -> None:
        with suppress(queues.Empty):
            while True:
                self._callbacks.get_nowait()()

    def _poll_timeout(self) -> float:
        """Return the seconds until the next deadline."""
        now = time.monotonic()
        times = [now + POLL_INTERVAL_SECONDS, *self._dispatcher.deadlines()]
        if self._may_claim and not self._stop_requests and self._dispatcher.free_slots():
            times.append(self._next_try_at)
        elif self._inflight.outcomes:
            times.append(max(self._next_try_at, self._record_at(now)))
        elif self._may_claim and not self._stop_requests:
            times.extend(at for at in self._dispatcher.next_claim_times() if at > now)
        if self._grace_ends_at is not None:
            times.append(self._grace_ends_at)
        return max(0.0, min(times) - now)

    def _enforce_deadlines(self) -> None:
        """Enforce timeouts and the grace, and pause the queue if the breaker has tripped."""
        now = time.monotonic()
        self._dispatcher.enforce_deadlines(now)
        for name, error in list(self._dispatcher.breaker_errors.items()):
            self._dispatcher.release_all_unstarted()
            self._pause_queue(name, error)
        if self._stop_requests and self._grace_ends_at is None:
            self._grace_ends_at = now + self._options.grace / SECOND
            log.info("worker %s stops: running documents have %g s to finish", self.name, self._options.grace / SECOND)
            self._dispatcher.is_closing = True
            self._dispatcher.release_all_unstarted()
        if self._grace_ends_at is not None and now >= self._grace_ends_at:
            self._stop_requests = max(self._stop_requests, 2)

    def _pause_queue(self, name: str, error: str) -> None:
        """Pause a queue for all workers, with the last error as the reason; everything, if it serves only `default`."""
        reason = "the last documents of several customers all failed, one after another"
        last_error = clean_error(error).partition("\n")[0][:200]
        operator = Operator("inturn", f"{reason}; the last one: {last_error}")
        try:
            self._queue.pause(operator, queue=None if self._queues == (DEFAULT_QUEUE,) else name)
        except Exception as store_error:  # noqa: BLE001 - no error of the store ends a worker
            log_store_error("the queue should be paused, but the store refused", store_error)
        else:
            log.error("the queue is paused: %s; see inturn status, then inturn resume", reason)
            del self._dispatcher.breaker_errors[name]

    # -- the store --------------------------------------------------------------------------------------------------

    def _ack_and_claim(self) -> None:
        """Record outcomes and claim the next documents in the same commit, if either is due."""
        outcomes, now = self._inflight.outcomes, time.monotonic()
        limit = 0 if self._stop_requests or not (self._may_claim or outcomes) else self._dispatcher.free_slots()
        if (limit or (outcomes and now >= self._record_at(now))) and now >= self._next_try_at:
            try:
                jobs = self._inflight.ack_and_claim(limit)
            except Exception as error:  # noqa: BLE001 - no error of the store ends a worker
                log_store_error("the store cannot be used", error)
                if not isinstance(error, StoreError):
                    self._inflight.record_one_by_one()
                self._next_try_at = now + self._backoff.next_pause()
                return
            self._backoff.reset()
            if limit:
                self._may_claim = len(jobs) == limit
            self._dispatcher.pending.extend(jobs)
        if not (self._may_claim or self._waiting_for_notify or self._stop_requests) and self._dispatcher.free_slots():
            self._wait_for_notify()

    def _record_at(self, now: float) -> float:
        """Return when outcomes are recorded if no claim is due."""
        return self._dispatcher.record_at(now) if self._may_claim and not self._stop_requests else now

    def _wait_for_notify(self) -> None:
        """Start waiting for the store's notification, at most until the next document is due."""
        timeout = POLL_INTERVAL_SECONDS
        with suppress(Exception):  # the next claim logs the error
            due = self._queue.next_due()
            if due is not None:
                timeout = min(timeout, max(0.0, due / SECOND - time.time()))
        self._waiting_for_notify = True
        self._waiter.start_waiting(timeout)

    def _on_notify(self) -> None:
        self._waiting_for_notify = False
        self._may_claim = True

    # -- threads and signals ----------------------------------------------------------------------------------------

    def _post_lost_claim(self, claim: Claim, lease_status: LeaseStatus) -> None:
        self._post(partial(self._on_lost_claim, claim, lease_status))

    def _on_lost_claim(self, claim: Claim, lease_status: LeaseStatus) -> None:
        """Cancel the document of a claim that was cancelled or lost."""
        job = next((job for job in self._inflight.unsettled() if job.claim is claim), None)
        if job is not None and not job.is_dropped:
            reason = "its lease was lost" if lease_status is LeaseStatus.LOST else "it was cancelled"
            log.info("document %s: %s, so its processing stops", claim.document.id, reason)
            self._dispatcher.cancel(job)

    def _post(self, callback: Callable[[], None]) -> None:
        self._callbacks.put(callback)
        self._wake()

    def _wake(self) -> None:
        """Wake the loop. Signals and late threads call it too, when the pipe may be closed and its number reused."""
        if not self._is_ended:
            with suppress(OSError):
                os.write(self._wakeup_w, b"!")

    def _run_in_thread(self, function: Callable[[], Any], callback: Callback) -> None:
        self._executor.submit(lambda: self._post(partial(callback, *try_call(function))))

    @contextmanager
    def _handle_signals(self) -> Iterator[None]:
        """Stop on SIGTERM and Ctrl-C; a second signal stops at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {number: signal.signal(number, lambda *_: self.stop()) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def _log_info(message: str, **facts: object) -> None:
    """Log a line; the facts become fields of the JSON log."""
    log.info(message, extra={"facts": facts})


def processor_path(processor: Callable[..., Any]) -> str:
    """Return the name by which a child imports a function."""
    module, name = getattr(processor, "__module__", None), getattr(processor, "__qualname__", "<")
    if not module or "<" in name or module == "__main__":
        raise InvalidInputError(
            "a worker's children import the processor by its name: define it at the top level of a module"
        )
    return f"{module}:{name}"


def protected_paths(queue: Queue, blobs: Blobs | None) -> tuple[str, ...]:
    """Return the store's file and the blobs' folder, as far as they are on this machine."""
    paths = (queue.store_path, getattr(blobs, "folder", None))
    return tuple(str(path.absolute()) for path in paths if isinstance(path, Path))
