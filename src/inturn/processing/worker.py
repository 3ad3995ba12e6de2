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
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from inturn.blobs import Blobs
from inturn.errors import InturnError, InvalidInputError, StoreError
from inturn.model import SECOND, Claimed, Progress, WorkerReport, seconds
from inturn.processing import sandbox
from inturn.processing.beats import Beats, Bell
from inturn.processing.desk import Desk
from inturn.processing.fetch import Fetcher
from inturn.processing.fuse import Fuse
from inturn.processing.handler import Reject, Retry
from inturn.processing.hands import START_LIMIT, Crew, Hand, Job, ProcessorError, Spec
from inturn.processing.perform import DEFAULT, Said, Where
from inturn.processing.upkeep import Upkeep, UpkeepThread
from inturn.processing.wire import Message
from inturn.queue import DEFAULT_LEASE, MAX_RESULT, Queue
from inturn.store import Hold, Operator, Outcome, Verdict

log: Final = logging.getLogger("inturn.worker")
AHEAD: Final = 0.02
"""Seconds of work that a child may have before it beyond what it does now: documents that take longer are claimed when
they can start, and no sooner."""
MOST_AHEAD: Final = 50
CANCEL_GRACE: Final = 5.0
"""Seconds in which a processor may notice that its document was cancelled, before its process is ended."""
FAILED_STARTS: Final = 5
PATIENCE: Final = 5.0
"""Seconds after which the loop looks around even if nothing happened."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker works. Times are microseconds."""

    slots: int = 2
    lease: int = DEFAULT_LEASE
    timeout: int = 900 * SECOND
    """For one document; in the sandbox it is the box's own."""
    grace: int = 30 * SECOND
    """For what runs when the worker is told to stop."""
    documents_per_child: int = 1_000
    memory_per_child: int = 2 << 30
    """A child that holds more bytes after a document is replaced."""
    box: sandbox.Limits | None = None
    """The sandbox that children work in. The default processor always has one."""
    until_empty: bool = False
    """End when nothing is left that could be claimed."""
    name: str = ""

    def __post_init__(self) -> None:
        if type(self.slots) is not int or not 1 <= self.slots <= 1_000:
            raise InvalidInputError(f"a worker has 1 to 1000 slots, not {self.slots!r}")
        for name, least in (("lease", SECOND // 10), ("timeout", 1), ("grace", 0), ("documents_per_child", 1)):
            if type(getattr(self, name)) is not int or getattr(self, name) < least:
                raise InvalidInputError(f"{name} must be a whole number, {least} or more, not {getattr(self, name)!r}")


class Tally(NamedTuple):
    """What a worker's documents came to."""

    done: int = 0
    retried: int = 0
    failed: int = 0
    handed_back: int = 0
    stale: int = 0


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
        self._upkeep = upkeep
        self._crew = Crew(Spec(path, options.slots, box))
        self._timeout = options.timeout / SECOND if box is None else box.wall
        self._recycle = options.documents_per_child if box is None else box.documents
        self._fuse = Fuse()
        self._counts = dict.fromkeys(Tally._fields, 0)
        self._started_at = seconds(time.time())

        self._held: dict[int, Job] = {}
        """Every document claimed and not yet recorded, by number; read by the heartbeat's thread."""
        self._holding = threading.Lock()
        self._pending: deque[Job] = deque()
        self._outcomes: list[tuple[Job, Outcome]] = []
        self._last_number = 0
        self._is_hungry = True
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
        self._bell = Bell(queue, lambda: self._post(self._ring))
        self._beats = Beats(queue, options.lease, self._all_held, self.report, self._heard_lost)

    # -- from outside -----------------------------------------------------------------------------------------------

    def run(self) -> Tally:
        """Work until told to stop, or until nothing is left if that was asked for; what came of it."""
        upkeep = None if self._upkeep is None else UpkeepThread(self._upkeep)
        try:
            with self._signals():
                self._begin(upkeep)
                while not self._is_over():
                    self._listen()
                    self._enforce()
                    self._exchange()
                    self._hand_out()
        finally:
            self._end(upkeep)
        return self.tally()

    def stop(self, *, at_once: bool = False) -> None:
        """Claim nothing more, finish what runs within the grace, hand the rest back; or hand all back at once."""
        self._stops += 2 if at_once else 1
        with suppress(OSError):
            os.write(self._mouth, b"!")

    def tally(self) -> Tally:
        """What its documents came to so far."""
        return Tally(**self._counts)

    def report(self) -> WorkerReport:
        """How it is."""
        with self._holding:
            jobs = list(self._held.values())
        running = [job for job in jobs if job.begun_at is not None]
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

    def _begin(self, upkeep: UpkeepThread | None) -> None:
        if self._crew.where is None:
            self._add(self._crew.start())  # loads the processor now: a mistake shows before anything is claimed
        for thread in (self._beats, self._bell, upkeep):
            if thread is not None:
                thread.start()

    def _end(self, upkeep: UpkeepThread | None) -> None:
        for hand in list(self._crew.hands):
            hand.kill()
        self._crew.close()
        self._threads.shutdown()
        self._hear_inbox()
        for job in list(self._held.values()):
            if not any(job is other for other, _ in self._outcomes):
                self._outcomes.append((job, self._queue.handed_back(job.claimed)))
            job.close()
        with suppress(InturnError):
            self._record()
        for thread in (self._beats, self._bell, upkeep):
            if thread is not None and thread.is_alive():
                thread.stop()
        with suppress(InturnError):
            self._queue.store.forget_worker(self.name)
        self._selector.close()
        os.close(self._ear)
        os.close(self._mouth)

    def _is_over(self) -> bool:
        if self._stops:
            return not self._held or self._stops > 1
        if not self._options.until_empty or self._held or self._is_hungry:
            return False
        return self._queue.store.next_due() is None

    def _listen(self) -> None:
        for key, mask in self._selector.select(self._patience()):
            hand: Hand | None = key.data
            if hand is None:
                with suppress(BlockingIOError):
                    os.read(self._ear, 65_536)
                continue
            if mask & selectors.EVENT_WRITE and hand.wire.flush():
                self._selector.modify(hand.wire, selectors.EVENT_READ, hand)
            if mask & selectors.EVENT_READ:
                messages = hand.hear()
                for message in messages or ():
                    self._heard(hand, message)
                if messages is None:
                    self._bury(hand)
        self._hear_inbox()

    def _hear_inbox(self) -> None:
        while True:
            try:
                self._inbox.get_nowait()()
            except queues.Empty:
                return

    def _patience(self) -> float:
        """Seconds until there is something to do even if nobody says anything."""
        now = time.monotonic()
        times = [now + PATIENCE]
        for job in self._held.values():
            if job.begun_at is not None:
                times.append(job.begun_at + self._timeout)
            if job.doomed_at is not None:
                times.append(job.doomed_at)
        if self._outcomes or (self._is_hungry and not self._stops and self._room()):
            times.append(self._next_try)
        if self._stop_at is not None:
            times.append(self._stop_at)
        return max(0.0, min(times) - now)

    def _enforce(self) -> None:
        """Timeouts, cancellations that nobody noticed, and the grace."""
        now = time.monotonic()
        for hand in list(self._crew.hands):
            if not hand.is_ready and now > hand.started_at + START_LIMIT:
                hand.kill()
            for job in list(hand.jobs.values()):
                if job.begun_at is not None and now >= job.begun_at + self._timeout:
                    self._conclude(hand, job, self._failed(job, f"it took longer than {self._timeout:g} s"))
                    hand.kill()
                elif job.doomed_at is not None and now >= job.doomed_at:
                    self._drop(hand, job)
                    hand.kill()
        if self._stops and self._stop_at is None:
            self._stop_at = now + self._options.grace / SECOND
            self._hand_back_pending()
        if self._stop_at is not None and now >= self._stop_at:
            self._stops = max(self._stops, 2)

    # -- the store --------------------------------------------------------------------------------------------------

    def _room(self) -> int:
        """How many documents could be started now, or within a moment by documents that take less."""
        crew = self._crew
        ahead = 0 if self._pace is None else min(MOST_AHEAD, int(AHEAD / max(self._pace, 1e-6)))
        capacity = crew.most() * (crew.capacity() + ahead)
        return max(0, min(capacity - len(self._held) + len(self._outcomes), 1_000))

    def _exchange(self) -> None:
        """Record what came of documents, and claim the next ones in the same commit."""
        now = time.monotonic()
        if now < self._next_try:
            return
        room = 0 if self._stops or not (self._is_hungry or self._outcomes) else self._room()
        if not room and not self._outcomes:
            self._listen_for_more()
            return
        try:
            claimed = self._claim(room) if room else self._record()
        except StoreError as wrong:
            log.warning("the store cannot be used, trying again: %s", wrong)
            self._next_try = now + 1.0
            return
        self._is_hungry = room > 0 and len(claimed) == room
        for each in claimed:
            self._last_number += 1
            job = Job(each, self._last_number)
            with self._holding:
                self._held[job.number] = job
            self._pending.append(job)
        self._listen_for_more()

    def _claim(self, room: int) -> tuple[Claimed, ...]:
        outcomes, self._outcomes = self._outcomes, []
        try:
            verdicts, claimed = self._queue.exchange(
                [outcome for _, outcome in outcomes], self.name, room, lease=self._options.lease
            )
        except BaseException:
            self._outcomes = outcomes + self._outcomes
            raise
        self._recorded(outcomes, verdicts)
        return claimed

    def _record(self) -> tuple[Claimed, ...]:
        outcomes, self._outcomes = self._outcomes, []
        try:
            verdicts = self._queue.store.exchange([outcome for _, outcome in outcomes], None).verdicts
        except BaseException:
            self._outcomes = outcomes + self._outcomes
            raise
        self._recorded(outcomes, verdicts)
        return ()

    def _recorded(self, outcomes: list[tuple[Job, Outcome]], verdicts: tuple[Verdict, ...]) -> None:
        for (job, outcome), verdict in zip(outcomes, verdicts, strict=True):
            with self._holding:
                self._held.pop(job.number, None)
            if verdict is Verdict.STALE:
                self._counts["stale"] += 1
                if not job.is_dropped:
                    log.warning("document %s: the claim was lost, its outcome is dropped", outcome.id)
                continue
            kind = "done" if outcome.kind == "done" else "handed_back"
            if outcome.kind == "failed":
                document = job.claimed.document
                again = outcome.retry_in is not None and document.attempt < document.given.max_attempts
                kind = "retried" if again else "failed"
            self._counts[kind] += 1

    def _listen_for_more(self) -> None:
        """Nothing is there to be claimed: let the doorbell wake us."""
        if self._is_hungry or self._is_armed or self._stops or not self._room():
            return
        self._is_armed = True
        timeout = PATIENCE
        with suppress(StoreError):
            due = self._queue.store.next_due()
            if due is not None:
                timeout = min(timeout, max(0.0, due / SECOND - time.time()))
        self._bell.arm(timeout)

    def _ring(self) -> None:
        self._is_armed = False
        self._is_hungry = True

    # -- documents go out -------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        while self._pending and not self._stops and (hand := self._free_hand()) is not None:
            job = self._pending.popleft()
            given = job.claimed.document.given
            if job.bytes is not None or not self._desk.has_bytes(given):
                self._give(hand, job)
            elif self._desk.is_quick(given):
                self._prepared(job, *_tried(partial(self._desk.prepare, given)))
            else:
                self._in_thread(partial(self._desk.prepare, given), partial(self._prepared, job))

    def _prepared(self, job: Job, found: Any, wrong: Exception | None) -> None:
        if wrong is not None:
            self._conclude(None, job, self._outcome_of(job, wrong))
            return
        job.bytes = found
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
        usable = [hand for hand in self._crew.hands if not hand.is_retiring]
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
            return
        if word == "unready":
            raise ProcessorError(rest[0])
        job = hand.jobs.get(rest[0])
        if job is None:
            return
        if word == "begun":
            job.begun_at = time.monotonic()
        elif word == "progress":
            job.progress = Progress(rest[1], rest[2])
        else:
            _, took, value, reason, files = rest
            self._pace = took if self._pace is None else 0.8 * self._pace + 0.2 * took
            self._finished(hand, job, Said(word), value, reason, files)
            self._recycle_if_due(hand)

    def _finished(self, hand: Hand, job: Job, said: Said, value: Any, reason: str, files: list[list[str]]) -> None:
        customer = job.claimed.document.customer
        if said is Said.ERROR:
            self._conclude(hand, job, self._failed(job, reason))
            if not job.is_dropped and self._fuse.failed(customer):
                self._pause(reason)
            return
        self._fuse.worked()
        if said is Said.RETRY:
            self._conclude(hand, job, self._outcome_of(job, Retry(reason, after=value)))
        elif said is Said.REJECT:
            self._conclude(hand, job, self._outcome_of(job, Reject(reason)))
        elif files or (isinstance(value, (str, list, dict)) and _may_be_large(value)):
            del hand.jobs[job.number]
            self._in_thread(partial(self._desk.keep, value, files, hand.scratch), partial(self._kept, job))
        else:
            self._conclude(hand, job, self._queue.done(job.claimed, value))

    def _kept(self, job: Job, kept: Any, wrong: Exception | None) -> None:
        if wrong is not None:
            self._conclude(None, job, self._outcome_of(job, wrong))
            return
        outcome = self._queue.done(job.claimed)._replace(result=kept.text, files=kept.files)
        self._conclude(None, job, outcome)

    def _failed(self, job: Job, reason: str) -> Outcome:
        return self._queue.failed(job.claimed, reason)

    def _outcome_of(self, job: Job, wrong: Exception) -> Outcome:
        if isinstance(wrong, Reject):
            return self._queue.failed(job.claimed, str(wrong), final=True)
        if isinstance(wrong, Retry) and wrong.after is not None:
            return self._queue.failed(job.claimed, str(wrong), retry_in=max(0, seconds(float(wrong.after))))
        return self._failed(job, str(wrong))

    def _conclude(self, hand: Hand | None, job: Job, outcome: Outcome) -> None:
        """This is what came of it: to be recorded with the next exchange."""
        if hand is not None:
            hand.jobs.pop(job.number, None)
        job.begun_at = None
        job.close()
        self._outcomes.append((job, outcome))

    def _drop(self, hand: Hand, job: Job) -> None:
        """Nobody wants it any more, and there is nothing to record."""
        hand.jobs.pop(job.number, None)
        job.close()
        with self._holding:
            self._held.pop(job.number, None)

    def _recycle_if_due(self, hand: Hand) -> None:
        if hand.served % 16 == 0 and hand.memory() > self._options.memory_per_child:
            hand.is_retiring = True
        if hand.is_retiring and not hand.jobs:
            self._selector.unregister(hand.wire)
            self._crew.dismiss(hand)

    def _bury(self, hand: Hand) -> None:
        """A child is gone: what it had begun failed, what it had not goes to another."""
        self._selector.unregister(hand.wire)
        words = self._crew.remove(hand)
        jobs = sorted(hand.jobs.values(), key=lambda job: job.number)
        for job in reversed(jobs):
            if job.is_dropped:
                self._drop(hand, job)
            elif job.begun_at is None:
                hand.jobs.pop(job.number)
                self._pending.appendleft(job)
            elif self._stops > 1:
                self._conclude(hand, job, self._queue.handed_back(job.claimed))
            else:
                self._conclude(hand, job, self._failed(job, f"the processor did not finish: {words}"))
                if self._fuse.failed(job.claimed.document.customer):
                    self._pause(words)
        if not hand.is_ready:
            self._failed_starts += 1
            if self._failed_starts >= FAILED_STARTS:
                raise ProcessorError(f"the processor's process does not start: {words}")

    def _pause(self, reason: str) -> None:
        why = f"the last documents of several customers all failed, one after another; the last one: {reason}"
        log.error("the queue is paused: %s", why)
        with suppress(StoreError):
            self._queue.pause(Operator("inturn", why[:1_000]))

    # -- what others say --------------------------------------------------------------------------------------------

    def _all_held(self) -> list[Claimed]:
        with self._holding:
            return [job.claimed for job in self._held.values() if not job.is_dropped]

    def _heard_lost(self, claimed: Claimed, hold: Hold) -> None:
        self._post(lambda: self._lost(claimed, hold))

    def _lost(self, claimed: Claimed, hold: Hold) -> None:
        """A claim was cancelled or lost: its processor is told, and ended if it does not listen."""
        job = next((job for job in self._held.values() if job.claimed is claimed), None)
        if job is None or job.is_dropped or any(job is other for other, _ in self._outcomes):
            return
        log.info("document %s is %s", claimed.document.id, hold)
        job.is_dropped = True
        for hand in self._crew.hands:
            if job.number in hand.jobs:
                hand.cancel(job)
                if self._crew.where is Where.PROCESSES:
                    job.doomed_at = time.monotonic() + CANCEL_GRACE
                return
        if job in self._pending:
            self._pending.remove(job)
            job.close()
            with self._holding:
                self._held.pop(job.number, None)

    def _hand_back_pending(self) -> None:
        while self._pending:
            job = self._pending.popleft()
            self._conclude(None, job, self._queue.handed_back(job.claimed))

    # -- threads and signals ----------------------------------------------------------------------------------------

    def _post(self, what: Callable[[], None]) -> None:
        self._inbox.put(what)
        with suppress(OSError):
            os.write(self._mouth, b"!")

    def _in_thread(self, work: Callable[[], Any], then: Callable[[Any, Exception | None], None]) -> None:
        def run() -> None:
            found, wrong = _tried(work)
            self._post(lambda: then(found, wrong))

        self._threads.submit(run)

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
    """A guess that errs on the safe side and costs nothing for small results."""
    if isinstance(value, str):
        return len(value) * 4 > MAX_RESULT
    return len(str(value)) * 4 > MAX_RESULT
