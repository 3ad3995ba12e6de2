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
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

from inturn.blobs import Blobs
from inturn.errors import InturnError, InvalidInputError, StoreError
from inturn.model import SECOND, Claimed, Progress, WorkerReport, seconds
from inturn.processing import sandbox
from inturn.processing.beats import Beats, Bell
from inturn.processing.desk import Bytes, Desk, Kept
from inturn.processing.fetch import Fetcher
from inturn.processing.fuse import Fuse
from inturn.processing.handler import Reject, Retry
from inturn.processing.hands import START_LIMIT, Crew, Hand, ProcessorError, Spec
from inturn.processing.ledger import Job, Ledger, Tally
from inturn.processing.options import WorkerOptions
from inturn.processing.perform import DEFAULT, Said, Where
from inturn.processing.upkeep import Upkeep, UpkeepThread
from inturn.processing.wire import Message
from inturn.queue import MAX_RESULT, Queue
from inturn.store import Hold, Operator

log: Final = logging.getLogger("inturn.worker")
AHEAD: Final = 0.02
"""Seconds of work that a child may have before it beyond what it does now: documents that take longer are claimed when
they can start, and no sooner."""
MOST_AHEAD: Final = 50
STUCK: Final = 5 * AHEAD
"""Seconds after which a child is seen to take longer than it used to: what stands behind its document goes back."""
CANCEL_GRACE: Final = 5.0
"""Seconds in which a processor may notice that its document was cancelled, before its process is ended."""
FAILED_STARTS: Final = 5
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
        self._desk = Desk(blobs, fetcher)
        self._upkeep = None if upkeep is None else UpkeepThread(upkeep)
        self._crew = Crew(Spec(path, options.slots, box))
        self._ledger = Ledger(queue, self.name, options.lease)
        self._fuse = Fuse()
        self._timeout = options.timeout / SECOND if box is None else box.wall
        self._recycle = options.documents_per_child if box is None else box.documents
        self._started_at = seconds(time.time())
        self._pending: deque[Job] = deque()
        """Claimed, and waiting for a child."""
        self._is_hungry = True
        """There may be something to claim."""
        self._is_armed = False
        self._next_try = 0.0
        self._failed_starts = 0
        self._pace: float | None = None
        """Seconds that a document takes, lately."""
        self._stops = 0
        self._stop_at: float | None = None

        self._inbox: queues.SimpleQueue[Callable[[], None]] = queues.SimpleQueue()
        self._selector = selectors.DefaultSelector()
        self._ear, self._mouth = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._ear, selectors.EVENT_READ, None)
        self._threads = ThreadPoolExecutor(max(2, min(options.slots, 8)), thread_name_prefix="inturn-bytes")
        self._bell = Bell(queue, partial(self._post, self._ring))
        self._beats = Beats(queue, options.lease, self._ledger.held, self.report, self._heard_lost)

    # -- from outside -----------------------------------------------------------------------------------------------

    def run(self) -> Tally:
        """Work until told to stop, or until nothing is left if that was asked for; what came of it."""
        try:
            with self._signals():
                self._begin()
                while not self._is_over():
                    self._listen()
                    self._enforce()
                    self._exchange()
                    self._hand_out()
        finally:
            self._end()
        return self._ledger.tally()

    def stop(self, *, at_once: bool = False) -> None:
        """Claim nothing more, finish what runs within the grace, hand the rest back; or hand all back at once."""
        self._stops += 2 if at_once else 1
        with suppress(OSError):
            os.write(self._mouth, b"!")

    def report(self) -> WorkerReport:
        """How it is."""
        running = [job for job in self._ledger.jobs() if job.begun_at is not None]
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
        )

    # -- the loop ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._crew.where is None:
            self._add(self._crew.start())  # loads the processor now: a mistake shows before anything is claimed
            while self._crew.where is None:
                self._listen()
                self._enforce()
        for thread in (self._beats, self._bell, self._upkeep):
            if thread is not None:
                thread.start()

    def _end(self) -> None:
        self._crew.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._hear_inbox()
        for job in self._ledger.unsettled():
            self._ledger.handed_back(job)
        with suppress(InturnError):
            self._ledger.exchange(0)
        for thread in (self._beats, self._bell, self._upkeep):
            if thread is not None and thread.is_alive():
                thread.stop()
        with suppress(InturnError):
            self._queue.store.forget_worker(self.name)
        self._selector.close()
        os.close(self._ear)
        os.close(self._mouth)

    def _is_over(self) -> bool:
        if self._stops:
            return not len(self._ledger) or self._stops > 1
        if not self._options.until_empty or len(self._ledger) or self._is_hungry:
            return False
        try:
            return self._queue.store.next_due() is None
        except StoreError:
            return False

    def _listen(self) -> None:
        """Hear what children and threads say, until there is something to do."""
        for key, mask in self._selector.select(self._patience()):
            if key.data is None:
                with suppress(BlockingIOError):
                    os.read(self._ear, 65_536)
            else:
                self._attend(key.data, mask)
        self._hear_inbox()

    def _attend(self, hand: Hand, mask: int) -> None:
        if mask & selectors.EVENT_WRITE and hand.wire.flush():
            self._selector.modify(hand.wire, selectors.EVENT_READ, hand)
        if mask & selectors.EVENT_READ:
            messages = hand.hear()
            for message in messages or ():
                try:
                    self._heard(hand, message)
                except (TypeError, ValueError, KeyError, IndexError):
                    log.error("a child talks nonsense and is ended")  # noqa: TRY400 - what it said is nobody's business
                    hand.kill()
            if messages is None:
                self._bury(hand)

    def _hear_inbox(self) -> None:
        with suppress(queues.Empty):
            while True:
                self._inbox.get_nowait()()

    def _patience(self) -> float:
        """Seconds until there is something to do even if nobody says anything."""
        times = [time.monotonic() + PATIENCE]
        for hand in self._crew.hands:
            for job in hand.jobs.values():
                if job.begun_at is not None:
                    times.append(job.begun_at + (self._timeout if len(hand.jobs) == 1 else min(STUCK, self._timeout)))
                if job.doomed_at is not None:
                    times.append(job.doomed_at)
        if self._ledger.outcomes or (self._is_hungry and not self._stops and self._room()):
            times.append(self._next_try)
        if self._stop_at is not None:
            times.append(self._stop_at)
        return max(0.0, min(times) - time.monotonic())

    def _enforce(self) -> None:
        """Timeouts, cancellations that nobody noticed, and the grace."""
        now = time.monotonic()
        for hand in list(self._crew.hands):
            if not hand.is_ready and now > hand.started_at + START_LIMIT:
                hand.kill()
            for job in list(hand.jobs.values()):
                self._enforce_on(hand, job, now)
        if self._stops and self._stop_at is None:
            self._stop_at = now + self._options.grace / SECOND
            while self._pending:
                self._ledger.handed_back(self._pending.popleft())
        if self._stop_at is not None and now >= self._stop_at:
            self._stops = max(self._stops, 2)

    def _enforce_on(self, hand: Hand, job: Job, now: float) -> None:
        if job.begun_at is None or job.is_finished:
            return
        if now >= job.begun_at + self._timeout:
            del hand.jobs[job.number]
            self._ledger.failed(job, f"it took longer than {self._timeout:g} s")
            hand.kill()
        elif job.doomed_at is not None and now >= job.doomed_at:
            del hand.jobs[job.number]
            self._ledger.drop(job)
            hand.kill()
        elif now >= job.begun_at + STUCK and self._crew.capacity() == 1:
            self._take_back(hand)

    def _take_back(self, hand: Hand) -> None:
        """Its document takes longer than those before it: what stands behind goes back to whoever is free."""
        for job in [job for job in hand.jobs.values() if job.begun_at is None]:
            del hand.jobs[job.number]
            hand.cancel(job)
            self._ledger.handed_back(job)
        self._pace = max(self._pace or 0.0, STUCK)

    # -- the store --------------------------------------------------------------------------------------------------

    def _room(self) -> int:
        """How many documents could be started now, or within a moment by documents that take less."""
        crew = self._crew
        ahead = 0 if self._pace is None else min(MOST_AHEAD, int(AHEAD / max(self._pace, 1e-6)))
        capacity = crew.most() * (crew.capacity() + ahead)
        return max(0, min(capacity - len(self._ledger) + len(self._ledger.outcomes), 1_000))

    def _exchange(self) -> None:
        """Record what came of documents, and claim the next ones."""
        outcomes, now = self._ledger.outcomes, time.monotonic()
        room = 0 if self._stops or not (self._is_hungry or outcomes) else self._room()
        if (room or outcomes) and now >= self._next_try:
            try:
                jobs = self._ledger.exchange(room)
            except StoreError as wrong:
                log.warning("the store cannot be used, trying again: %s", wrong)
                self._next_try = now + 1.0
                return
            self._is_hungry = room > 0 and len(jobs) == room
            self._pending.extend(jobs)
        if not (self._is_hungry or self._is_armed or self._stops) and self._room():
            self._listen_for_more()

    def _listen_for_more(self) -> None:
        """Nothing is there to be claimed: let the doorbell wake us."""
        timeout = PATIENCE
        with suppress(StoreError):
            due = self._queue.store.next_due()
            if due is not None:
                timeout = min(timeout, max(0.0, due / SECOND - time.time()))
        self._is_armed = True
        self._bell.arm(timeout)

    def _ring(self) -> None:
        self._is_armed = False
        self._is_hungry = True

    # -- documents go out -------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        while self._pending and not self._stops and (hand := self._free_hand()) is not None:
            job = self._pending.popleft()
            given = job.claimed.document.given
            if job.is_dropped:
                self._ledger.drop(job)
            elif job.bytes is not None or not self._desk.has_bytes(given):
                self._give(hand, job)
            elif self._desk.is_quick(given):
                self._prepared(job, *_tried(partial(self._desk.prepare, given)))
            else:
                self._in_thread(partial(self._desk.prepare, given), partial(self._prepared, job))

    def _prepared(self, job: Job, found: Bytes | None, wrong: Exception | None) -> None:
        job.bytes = found
        if wrong is not None:
            self._ledger.failed(job, wrong)
        elif self._stops:
            self._ledger.handed_back(job)
        else:
            self._pending.appendleft(job)

    def _give(self, hand: Hand, job: Job) -> None:
        document, found = job.claimed.document, job.bytes
        given = document.given
        facts: dict[str, object] = {
            "id": document.id,
            "customer": document.customer,
            "name": given.name,
            "media_type": given.media_type,
            "size": given.size,
            "uri": given.uri,
            "attempt": document.attempt,
            "metadata": dict(given.metadata),
            "path": None if found is None or self._crew.spec.limits is not None else str(found.path),
        }
        hand.give(job, facts, None if found is None else found.file)
        hand.served += 1
        hand.is_retiring = hand.is_retiring or hand.served >= self._recycle
        if not hand.wire.flush():
            self._selector.modify(hand.wire, selectors.EVENT_READ | selectors.EVENT_WRITE, hand)

    def _free_hand(self) -> Hand | None:
        """The child with the least to do; a new one if all have something and there may be more."""
        usable = [hand for hand in self._crew.hands if not hand.is_retiring and not hand.is_condemned]
        best = min(usable, key=lambda hand: len(hand.jobs), default=None)
        if (best is None or len(best.jobs) >= self._crew.capacity()) and len(usable) < self._crew.most():
            return self._add(self._crew.start())
        return best

    def _add(self, hand: Hand) -> Hand:
        self._selector.register(hand.wire, selectors.EVENT_READ, hand)
        return hand

    # -- what children say ------------------------------------------------------------------------------------------

    def _heard(self, hand: Hand, message: Message) -> None:
        word, *rest = message
        if word == "ready":
            hand.is_ready, self._failed_starts = True, 0
            self._crew.where = self._crew.where or Where(rest[0])
        elif word == "unready":
            raise ProcessorError(str(rest[0]))
        elif (job := hand.jobs.get(rest[0])) is None or job.is_finished:
            return  # it was given up meanwhile
        elif word == "begun":
            job.begun_at = time.monotonic()
        elif word == "progress":
            job.progress = Progress(float(rest[1]), None if rest[2] is None else float(rest[2]))
        else:
            _, took, value, reason, files = rest
            self._pace = float(took) if self._pace is None else 0.8 * self._pace + 0.2 * float(took)
            self._finished(hand, job, Said(word), (value, str(reason), files))

    def _finished(self, hand: Hand, job: Job, said: Said, told: tuple[Any, str, Any]) -> None:
        value, reason, files = told
        job.is_finished = True
        if said is Said.DONE and (files or _may_be_large(value)) and not job.is_dropped:
            self._in_thread(partial(self._desk.keep, value, files, hand.scratch), partial(self._kept, hand, job))
            return
        del hand.jobs[job.number]
        if said is Said.DONE:
            self._ledger.done(job, value)
        elif said is Said.ERROR:
            self._ledger.failed(job, reason)
        else:
            self._ledger.failed(job, Retry(reason, after=value) if said is Said.RETRY else Reject(reason))
        self._judge(job, reason if said is Said.ERROR else None)
        self._dismiss_if_due(hand)

    def _kept(self, hand: Hand, job: Job, kept: Kept | None, wrong: Exception | None) -> None:
        del hand.jobs[job.number]
        if kept is not None:
            self._ledger.kept(job, kept)
        else:
            self._ledger.failed(job, wrong or "")
        self._judge(job, None if wrong is None else str(wrong))
        self._dismiss_if_due(hand)

    def _judge(self, job: Job, error: str | None) -> None:
        """Too many errors in a row pause the queue."""
        if error is None:
            self._fuse.worked()
        elif not job.is_dropped and self._fuse.failed(job.claimed.document.customer):
            why = f"the last documents of several customers all failed, one after another; the last one: {error}"
            log.error("the queue is paused: %s", why)
            with suppress(StoreError):
                self._queue.pause(Operator("inturn", why[:1_000]))

    def _dismiss_if_due(self, hand: Hand) -> None:
        if hand not in self._crew.hands:
            return
        if hand.served % 16 == 0 and hand.memory() > self._options.memory_per_child:
            hand.is_retiring = True
        if hand.is_retiring and not hand.jobs:
            self._selector.unregister(hand.wire)
            self._crew.dismiss(hand)

    def _bury(self, hand: Hand) -> None:
        """A child is gone: what it had begun failed, what it had not goes to another."""
        self._selector.unregister(hand.wire)
        words = self._crew.remove(hand)
        for job in sorted(hand.jobs.values(), key=lambda job: -job.number):
            if job.is_finished:
                continue
            del hand.jobs[job.number]
            if job.begun_at is None:
                self._pending.appendleft(job)
            elif hand.is_condemned:
                self._ledger.handed_back(job)  # for what another of its documents did
            else:
                self._ledger.failed(job, f"the processor did not finish: {words}")
                self._judge(job, words)
        if not hand.is_ready:
            self._failed_starts += 1
            if self._failed_starts >= FAILED_STARTS:
                raise ProcessorError(f"the processor's process does not start: {words}")

    # -- what others say --------------------------------------------------------------------------------------------

    def _heard_lost(self, claimed: Claimed, hold: Hold) -> None:
        self._post(partial(self._lost, claimed, hold))

    def _lost(self, claimed: Claimed, hold: Hold) -> None:
        """A claim was cancelled or lost: its processor is told, and ended if it does not listen."""
        job = next((job for job in self._ledger.unsettled() if job.claimed is claimed), None)
        if job is None or job.is_dropped:
            return
        log.info("document %s: its claim is %s", claimed.document.id, hold)
        job.is_dropped = True
        for hand in self._crew.hands:
            if job.number in hand.jobs:
                hand.cancel(job)
                if self._crew.where is Where.PROCESSES:
                    job.doomed_at = time.monotonic() + CANCEL_GRACE

    # -- threads and signals ----------------------------------------------------------------------------------------

    def _post(self, what: Callable[[], None]) -> None:
        self._inbox.put(what)
        with suppress(OSError):
            os.write(self._mouth, b"!")

    def _in_thread(self, work: Callable[[], Any], then: Callable[[Any, Exception | None], None]) -> None:
        self._threads.submit(lambda: self._post(partial(then, *_tried(work))))

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


def _tried(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return work(), None
    except Exception as wrong:  # noqa: BLE001 - told to whoever asked
        return None, wrong


def _may_be_large(value: Any) -> bool:
    """A guess that errs on the safe side and costs next to nothing for small results."""
    return len(value if isinstance(value, str) else str(value)) * 4 > MAX_RESULT
