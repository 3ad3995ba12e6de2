"""The worker: claims documents whose turn it is, has its children process them, and records what came of it.

One loop owns everything. Heartbeats, the doorbell and upkeep have threads of their own, children are processes:
whatever a processor does, the loop goes on. What another thread has to say comes in through `_inbox` and a pipe.
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

from inturn.blobs import Blobs
from inturn.errors import InvalidInputError, StoreError
from inturn.model import SECOND, Claimed, WorkerReport, seconds
from inturn.processing import sandbox
from inturn.processing.beats import Beats, Bell
from inturn.processing.desk import Desk
from inturn.processing.fetch import Fetcher
from inturn.processing.floor import Floor, Then, tried
from inturn.processing.hands import Crew, ProcessorError, Spec
from inturn.processing.ledger import Ledger, Tally
from inturn.processing.options import WorkerOptions
from inturn.processing.perform import DEFAULT
from inturn.processing.store_errors import Backoff, log_store_error
from inturn.processing.upkeep import Upkeep, UpkeepThread
from inturn.processing.workplace import Workplace
from inturn.queue import Queue, clean_error
from inturn.store import Hold, Operator

__all__ = ["ProcessorError", "Tally", "Worker", "WorkerOptions"]

log: Final = logging.getLogger("inturn.worker")
PATIENCE: Final = 5.0
"""Seconds after which the loop looks around even if nothing happened."""


class Worker:
    """Processes documents until it is told to stop."""

    def __init__(
        self,
        queue: Queue,
        processor: str | Callable[..., Any] = DEFAULT,
        *,
        blobs: Blobs | None = None,
        fetcher: Fetcher | None = None,
        upkeep: Upkeep | None = None,
        options: WorkerOptions | None = None,
    ) -> None:
        self._options = options = options or WorkerOptions()
        path = processor if isinstance(processor, str) else path_of(processor)
        box = options.box or (sandbox.Limits() if path == DEFAULT else None)
        self.name = options.name or f"{socket.gethostname()[:200]}-{os.getpid()}-{secrets.token_hex(3)}"
        self._queue = queue
        self._workplace = Workplace()
        spec = Spec(path, options.slots, box, options.bounds, protected_paths(queue, blobs))
        self._crew = Crew(spec, self._workplace)
        self._ledger = Ledger(queue, self.name, options.lease)
        self._floor = Floor(self._crew, self._ledger, Desk(blobs, fetcher, self._workplace), options, self._in_thread)
        self._started_at = seconds(time.time())
        self._is_hungry = True
        """There may be something to claim."""
        self._is_armed = False
        self._next_try = 0.0
        self._backoff = Backoff()
        self._stops = 0
        self._is_ended = False
        self._stop_at: float | None = None

        self._inbox: queues.SimpleQueue[Callable[[], None]] = queues.SimpleQueue()
        self._ear, self._mouth = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._floor.selector.register(self._ear, selectors.EVENT_READ, None)
        self._threads = ThreadPoolExecutor(max(2, min(options.slots, 8)), thread_name_prefix="inturn-bytes")
        self._bell = Bell(queue, partial(self._post, self._ring))
        self._beats = Beats(queue, options.lease, self._ledger.held, self.report, self._heard_lost)
        self._upkeep = None if upkeep is None else UpkeepThread(upkeep)

    # -- from outside -----------------------------------------------------------------------------------------------

    def run(self) -> Tally:
        """Work until told to stop, or until nothing is left if that was asked for; what came of it."""
        with self._signals():
            try:
                self._begin()
                while not self._is_over():
                    self._listen()
                    self._enforce()
                    self._floor.hand_out()  # what was claimed ahead need not wait for the commit
                    self._exchange()
                    self._floor.hand_out()
            finally:
                self._end()
        return self._ledger.tally()

    def stop(self, *, at_once: bool = False) -> None:
        """Claim nothing more, finish what runs within the grace, hand the rest back; or hand all back at once."""
        self._stops += 2 if at_once else 1
        self._wake()

    def report(self) -> WorkerReport:
        """How it is."""
        now = time.monotonic()
        running = [job for job in self._ledger.jobs() if job.begun_at is not None and not job.is_finished]
        return WorkerReport(
            self.name,
            socket.gethostname(),
            os.getpid(),
            self._options.slots,
            min(len(running), self._options.slots),
            self._crew.spec.processor,
            self._started_at,
            self._stops > 0,
            {job.claimed.document.id: job.progress for job in running if job.progress is not None},
            {job.claimed.document.id: round((now - (job.begun_at or now)) * SECOND) for job in running},
        )

    # -- the loop ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._crew.check()
        if self._crew.where is None:
            # Loads the processor now: a mistake shows before anything is claimed.
            while self._crew.where is None and not self._stops:
                if not self._crew.hands:
                    self._floor.start()
                self._listen()
                self._floor.enforce(time.monotonic())
        for thread in (self._beats, self._bell, self._upkeep):
            if thread is not None:
                thread.start()

    def _end(self) -> None:
        self._floor.close()
        self._workplace.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._hear_inbox()
        for job in self._ledger.unsettled():
            self._ledger.handed_back(job)
        try:
            self._ledger.exchange(0)
        except Exception as error:  # noqa: BLE001 - the leases of what is left end by themselves
            log_store_error("the last outcomes are not recorded", error)
        for thread in (self._beats, self._bell, self._upkeep):
            if thread is not None and thread.is_alive():
                thread.stop()
        with suppress(Exception):  # it is forgotten after a day
            self._queue.store.forget_worker(self.name)
        self._is_ended = True
        os.close(self._ear)
        os.close(self._mouth)

    def _is_over(self) -> bool:
        if self._stops:
            return not len(self._ledger) or self._stops > 1
        if not self._options.until_empty or len(self._ledger) or self._is_hungry:
            return False
        try:
            return self._queue.store.next_due() is None
        except Exception as error:  # noqa: BLE001 - no error of the store ends a worker
            log_store_error("the store cannot be read", error)
            self._next_try = time.monotonic() + self._backoff.next_pause()
            self._is_hungry = True
            return False

    def _listen(self) -> None:
        """Hear what children and threads say, until there is something to do."""
        for key, mask in self._floor.selector.select(self._patience()):
            if key.data is None:
                with suppress(BlockingIOError):
                    os.read(self._ear, 65_536)
            else:
                self._floor.attend(key.data, mask)
        self._hear_inbox()

    def _hear_inbox(self) -> None:
        with suppress(queues.Empty):
            while True:
                self._inbox.get_nowait()()

    def _patience(self) -> float:
        """Seconds until there is something to do even if nobody says anything."""
        now = time.monotonic()
        times = [now + PATIENCE, *self._floor.deadlines()]
        if self._is_hungry and not self._stops and self._floor.room():
            times.append(self._next_try)
        elif self._ledger.outcomes:
            times.append(max(self._next_try, self._recorded_at(now)))
        elif self._is_hungry and not self._stops:
            times.extend(at for at in self._floor.next_room() if at > now)
        if self._stop_at is not None:
            times.append(self._stop_at)
        return max(0.0, min(times) - now)

    def _enforce(self) -> None:
        """Timeouts, the fuse, and the grace."""
        now = time.monotonic()
        self._floor.enforce(now)
        if self._floor.blown is not None:
            self._floor.hand_back_unbegun()
            self._pause(self._floor.blown)
        if self._stops and self._stop_at is None:
            self._stop_at = now + self._options.grace / SECOND
            self._floor.is_closing = True
            self._floor.hand_back_unbegun()
        if self._stop_at is not None and now >= self._stop_at:
            self._stops = max(self._stops, 2)

    def _pause(self, error: str) -> None:
        """Everything fails: start nothing more, anywhere."""
        why = "the last documents of several customers all failed, one after another"
        last = clean_error(error).partition("\n")[0][:200]
        try:
            self._queue.pause(Operator("inturn", f"{why}; the last one: {last}"))
        except Exception as refused:  # noqa: BLE001 - no error of the store ends a worker
            log_store_error("the queue should be paused and cannot be", refused)
        else:
            log.error("the queue is paused: %s; inturn status tells more", why)
            self._floor.blown = None

    # -- the store --------------------------------------------------------------------------------------------------

    def _exchange(self) -> None:
        """Record what came of documents, and claim the next ones in the same commit."""
        outcomes, now = self._ledger.outcomes, time.monotonic()
        room = 0 if self._stops or not (self._is_hungry or outcomes) else self._floor.room()
        if (room or (outcomes and now >= self._recorded_at(now))) and now >= self._next_try:
            try:
                jobs = self._ledger.exchange(room)
            except Exception as error:  # noqa: BLE001 - no error of the store ends a worker
                log_store_error("the store cannot be used", error)
                if not isinstance(error, StoreError):
                    self._ledger.record_one_by_one()
                self._next_try = now + self._backoff.next_pause()
                return
            self._backoff.reset()
            if room:
                self._is_hungry = len(jobs) == room
            self._floor.pending.extend(jobs)
        if not (self._is_hungry or self._is_armed or self._stops) and self._floor.room():
            self._listen_for_more()

    def _recorded_at(self, now: float) -> float:
        """When what came of documents is recorded that no claim goes with yet."""
        return self._floor.recording_at(now) if self._is_hungry and not self._stops else now

    def _listen_for_more(self) -> None:
        """Nothing is there to be claimed: let the doorbell wake us."""
        timeout = PATIENCE
        with suppress(Exception):  # the next look tells what is wrong
            due = self._queue.store.next_due()
            if due is not None:
                timeout = min(timeout, max(0.0, due / SECOND - time.time()))
        self._is_armed = True
        self._bell.arm(timeout)

    def _ring(self) -> None:
        self._is_armed = False
        self._is_hungry = True

    # -- threads and signals ----------------------------------------------------------------------------------------

    def _heard_lost(self, claimed: Claimed, hold: Hold) -> None:
        self._post(partial(self._lost, claimed, hold))

    def _lost(self, claimed: Claimed, hold: Hold) -> None:
        """A claim was cancelled or lost."""
        job = next((job for job in self._ledger.unsettled() if job.claimed is claimed), None)
        if job is not None and not job.is_dropped:
            log.info("document %s: its claim is %s", claimed.document.id, hold)
            self._floor.cancel(job)

    def _post(self, what: Callable[[], None]) -> None:
        self._inbox.put(what)
        self._wake()

    def _wake(self) -> None:
        """Also called by signals and late threads: once the worker has ended, its descriptors are not its own."""
        if not self._is_ended:
            with suppress(OSError):
                os.write(self._mouth, b"!")

    def _in_thread(self, work: Callable[[], Any], then: Then) -> None:
        self._threads.submit(lambda: self._post(partial(then, *tried(work))))

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and Ctrl-C ask it to stop; a second one means at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, lambda *_: self.stop()) for each in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def path_of(processor: Callable[..., Any]) -> str:
    """How a child finds a function."""
    module, name = getattr(processor, "__module__", None), getattr(processor, "__qualname__", "<")
    if not module or "<" in name or module == "__main__":
        raise InvalidInputError(
            "a worker's children load the processor by its name: define it at the top of a module that can be imported"
        )
    return f"{module}:{name}"


def protected_paths(queue: Queue, blobs: Blobs | None) -> tuple[str, ...]:
    """What lies on this machine of a queue: the store's file and the folder of its blobs."""
    places = (getattr(queue.store, "path", None), getattr(blobs, "folder", None))
    return tuple(str(place.absolute()) for place in places if isinstance(place, Path))
