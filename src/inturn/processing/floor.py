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
from inturn.processing.desk import Bytes, Desk, Kept
from inturn.processing.fuse import Fuse
from inturn.processing.handler import Reject, Retry
from inturn.processing.hands import SPENT, START_LIMIT, Crew, Hand, ProcessorError
from inturn.processing.ledger import Job, Ledger
from inturn.processing.options import WorkerOptions
from inturn.processing.pace import SOON, End, Pace
from inturn.processing.perform import Said, Where
from inturn.processing.wire import Message, Text
from inturn.processing.workplace import holds_more
from inturn.queue import MAX_RESULT

log: Final = logging.getLogger("inturn.worker")
MOST_ROOM: Final = 1_000
CANCEL_GRACE: Final = 5.0
"""Seconds in which a processor may notice that its document was cancelled, before its process is ended."""
FAILED_STARTS: Final = 5
LOOK_EVERY: Final = 1.0
"""Seconds between two looks at what a child in a box has written."""
MOST_ENTRIES: Final = 10_000

Then = Callable[[Any, Exception | None], None]
InThread = Callable[[Callable[[], Any], Then], None]
"""Does work in another thread, then calls back in the loop's own."""


class Floor:
    """The children at work, and the documents among them. Used by the worker's loop alone."""

    def __init__(self, crew: Crew, ledger: Ledger, desk: Desk, options: WorkerOptions, in_thread: InThread) -> None:
        self.crew = crew
        self.selector = selectors.DefaultSelector()
        self.pending: deque[Job] = deque()
        """Claimed, and waiting for a child."""
        self.is_closing = False
        self._ledger = ledger
        self._desk = desk
        self._in_thread = in_thread
        self._fuse = Fuse()
        box = crew.spec.limits
        self._timeout = options.timeout / SECOND if box is None else box.wall
        self._recycle = options.documents_per_child if box is None else box.documents
        self._memory = options.memory_per_child if box is None else int(box.memory * SPENT)
        self._failed_starts = 0
        self._pace = Pace()
        self.blown: str | None = None
        """Why nothing more should be started, once the fuse has blown."""
        self._blown_at = 0

    def room(self) -> int:
        """How many documents could be started now, or within a moment."""
        if self.blown is not None:
            return 0
        now = time.monotonic()
        soon = sum(end.is_soon(now) for end in self._ends())
        capacity = self.crew.most() * (self.crew.capacity() + self._pace.ahead()) + soon
        return max(0, min(capacity - len(self._ledger) + len(self._ledger.outcomes), MOST_ROOM))

    def next_room(self) -> Iterator[float]:
        """When each child should be given what comes after its document."""
        return (end.claim_at for end in self._ends())

    def recording_at(self, now: float) -> float:
        """When outcomes are recorded: with the next claim if that comes a moment after the first, otherwise now.

        Among short documents at once: a claim that takes more with it is a claim that hears of newcomers later.
        """
        claims = (end.claim_at for end in self._ends() if end.claim_at > now and end.soon >= SOON / 2)
        claim = min(claims, default=now)
        return claim if claim <= self._ledger.waits_since + SOON else now

    def _ends(self) -> Iterator[End]:
        """When children should be done with documents that take longer than a moment, if that can be told."""
        if self.crew.capacity() == 1 and not self._pace.ahead():
            for hand in self.crew.hands:
                if (end := self._end_of(hand)) is not None:
                    yield end

    def _end_of(self, hand: Hand) -> End | None:
        at_work = next((job for job in hand.jobs.values() if job.begun_at is not None and not job.is_finished), None)
        if at_work is None or at_work.begun_at is None:
            return None
        return self._pace.end(at_work.begun_at, at_work.claimed.document.given.pages)

    def start(self) -> Hand:
        """One child more."""
        hand = self.crew.start()
        self.selector.register(hand.wire, selectors.EVENT_READ, hand)
        return hand

    def close(self) -> None:
        """End all children."""
        self.is_closing = True
        self.crew.close()
        self.selector.close()

    # -- documents go out -------------------------------------------------------------------------------------------

    def hand_out(self) -> None:
        """Give children what they can start."""
        while self.pending and not self.is_closing and (hand := self._free_hand()) is not None:
            job = self.pending.popleft()
            given = job.claimed.document.given
            if job.is_dropped:
                self._ledger.drop(job)
            elif job.bytes is not None or not self._desk.has_bytes(given):
                self._give(hand, job)
            elif self._desk.is_quick(given):
                self._prepared(job, *tried(partial(self._desk.prepare, given)))
            else:
                self._in_thread(partial(self._desk.prepare, given), partial(self._prepared, job))

    def hand_back_unbegun(self) -> None:
        """What no child has begun goes back."""
        self.pending.clear()
        for hand in self.crew.hands:
            self._take_back(hand)
        given = {number for hand in self.crew.hands for number in hand.jobs}
        for job in self._ledger.unsettled():
            if job.number not in given:
                self._ledger.handed_back(job)

    def _prepared(self, job: Job, found: Bytes | None, wrong: Exception | None) -> None:
        job.bytes = found
        if job.is_settled:
            job.close()
        elif wrong is not None:
            self._ledger.failed(job, wrong)
            self._judge(job, str(wrong))
        elif self.is_closing:
            self._ledger.handed_back(job)
        else:
            self.pending.appendleft(job)

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
            "path": None if found is None or self.crew.spec.limits is not None else str(found.path),
        }
        hand.give(job, facts, None if found is None else found.file)
        hand.served += 1
        if not hand.wire.flush():
            self.selector.modify(hand.wire, selectors.EVENT_READ | selectors.EVENT_WRITE, hand)
        if hand.served >= self._recycle and not hand.is_retiring:
            hand.is_retiring = True
            self.start()  # while the other is still at its last document

    def _free_hand(self) -> Hand | None:
        """The child with the least to do; a new one if all have something and there may be more."""
        usable = [hand for hand in self.crew.hands if not hand.is_retiring and not hand.is_killed]
        busy = [hand for hand in self.crew.hands if hand.is_busy()]
        if len(busy) >= self.crew.most():  # one that retires still has its slot
            if self.crew.capacity() == 1 and not self._pace.ahead():
                return self._soonest(busy, usable)
            return min((hand for hand in busy if hand in usable), key=lambda hand: len(hand.jobs), default=None)
        best = min(usable, key=lambda hand: len(hand.jobs), default=None)
        if (best is None or len(best.jobs) >= self.crew.capacity()) and len(usable) < self.crew.most():
            return self.start()
        return best

    def _soonest(self, busy: Sequence[Hand], usable: Sequence[Hand]) -> Hand | None:
        """The child that should be free within a moment, if it goes on after that and has nothing before it yet."""
        ends = [(end, hand.process, hand) for hand in busy if (end := self._end_of(hand)) is not None]
        alone = [each for each in ends if len(each[-1].jobs) == 1]
        end, _, hand = min(alone, default=(End(math.inf, 0), 0, None))
        return hand if hand in usable and end.is_soon(time.monotonic()) else None

    # -- what children say ------------------------------------------------------------------------------------------

    def attend(self, hand: Hand, mask: int) -> None:
        """A child has something to say, or takes more."""
        if mask & selectors.EVENT_WRITE and hand.wire.flush():
            self.selector.modify(hand.wire, selectors.EVENT_READ, hand)
        if mask & selectors.EVENT_READ:
            messages = hand.hear()
            for message in messages or ():
                try:
                    self._heard(hand, message)
                except (TypeError, ValueError, LookupError, ArithmeticError, RecursionError):
                    log.error("a child talks nonsense and is ended")  # noqa: TRY400 - what it said is nobody's business
                    hand.kill("it said what nobody can understand")
                    break
            if messages is None:
                self._bury(hand)

    def _heard(self, hand: Hand, message: Message) -> None:
        word, *rest = message
        if not hand.is_ready:  # only its first word is about itself: no document has been near it
            if word != "ready":
                raise ProcessorError(str(rest[0]))
            hand.is_ready, hand.free_since, self._failed_starts = True, time.monotonic(), 0
            self.crew.where = self.crew.where or Where(rest[0])
        elif (job := hand.jobs.get(rest[0])) is None or job.is_finished:
            return  # it was given up meanwhile
        elif word == "begun":
            if job.begun_at is None:  # a child cannot begin again to gain time
                job.begun_at = min(max(job.given_at, _number(rest[1])), time.monotonic())
        elif word == "progress":
            job.progress = Progress(_number(rest[1]), None if rest[2] is None else _number(rest[2]))
        else:
            (_, took, reason, files, value), said = rest, Said(word)
            took = job.has_taken(_number(took))
            if said is Said.DONE and not isinstance(value, Text):
                raise TypeError("a result that was not looked through")
            if said is Said.ERROR:
                self._pace.forget()
            else:
                self._pace.took(took, job.claimed.document.given.pages)
            self._finished(hand, job, said, (value, str(reason), files))

    def _finished(self, hand: Hand, job: Job, said: Said, told: tuple[Any, str, Any]) -> None:
        value, reason, files = told
        job.is_finished, hand.free_since = True, time.monotonic()
        if said is Said.DONE:
            if (files or value.size > MAX_RESULT) and not job.is_dropped:
                keep = partial(self._desk.keep, value.json, files, hand.scratch)
                self._in_thread(keep, partial(self._kept, hand, job))
                return
            self._ledger.done(job, Kept(value.json))
        del hand.jobs[job.number]
        if said is Said.ERROR:
            self._ledger.failed(job, reason)
        elif said is not Said.DONE:
            self._ledger.failed(job, Retry(reason, after=value) if said is Said.RETRY else Reject(reason))
        self._judge(job, reason if said is Said.ERROR else None)
        self._dismiss_if_due(hand)

    def _kept(self, hand: Hand, job: Job, kept: Kept | None, wrong: Exception | None) -> None:
        del hand.jobs[job.number]
        if job.is_settled:
            return
        if kept is not None:
            self._ledger.done(job, kept)
        elif self.is_closing:
            self._ledger.handed_back(job)
            return
        else:
            self._ledger.failed(job, wrong or "")
        self._judge(job, None if wrong is None else str(wrong))
        self._dismiss_if_due(hand)

    def _judge(self, job: Job, error: str | None) -> None:
        """Too many errors in a row blow the fuse; what was claimed before it blew says nothing new."""
        if error is None:
            self._fuse.worked()
        elif job.number <= self._blown_at or job.is_dropped:
            return
        elif self._fuse.failed(job.claimed.document.id, job.claimed.document.customer):
            self.blown, self._blown_at = error, self._ledger.last

    def _dismiss_if_due(self, hand: Hand) -> None:
        if hand not in self.crew.hands:
            return
        hand.held = hand.memory()
        if hand.held > self._memory:
            hand.is_retiring = True
        if hand.is_retiring and not hand.jobs:
            self.selector.unregister(hand.wire)
            self.crew.dismiss(hand)

    def _bury(self, hand: Hand) -> None:
        """A child is gone: what it had begun failed, what it had not goes to another."""
        self.selector.unregister(hand.wire)
        words = self.crew.remove(hand)
        for job in sorted(hand.jobs.values(), key=lambda job: -job.number):
            if job.is_finished:
                continue
            del hand.jobs[job.number]
            if job.begun_at is None:
                self.pending.appendleft(job)
            elif hand.is_condemned:
                self._ledger.handed_back(job)  # for what another of its documents did
            elif (reason := self.crew.exceeded(hand)) is not None:
                self._ledger.failed(job, Reject(reason))
                self._judge(job, None)
            else:
                self._ledger.failed(job, f"the processor did not finish: {words}")
                self._judge(job, words)
        if not hand.is_ready:
            self._failed_starts += 1
            if self._failed_starts >= FAILED_STARTS:
                raise ProcessorError(f"the processor's process does not start: {words}")

    # -- what has to be enforced ------------------------------------------------------------------------------------

    def deadlines(self) -> Iterator[float]:
        """When something may have to be enforced."""
        for hand in self.crew.hands:
            if not hand.is_ready:
                yield hand.started_at + START_LIMIT
            if self.crew.spec.limits is not None and hand.is_busy():
                yield hand.looked_at + LOOK_EVERY
            if (since := hand.waits_since()) is not None:
                yield since + self._timeout
            is_ahead = self.crew.capacity() == 1 and any(job.begun_at is None for job in hand.jobs.values())
            for job in hand.jobs.values():
                if job.begun_at is not None and not job.is_finished:
                    late = self._pace.late_after(job.claimed.document.given.pages)
                    yield job.begun_at + (min(late, self._timeout) if is_ahead else self._timeout)
                    if job.doomed_at is not None:
                        yield job.doomed_at

    def enforce(self, now: float) -> None:
        """End children that take too long to start, to finish, or to notice that a document was cancelled."""
        self.crew.tidy()
        for hand in list(self.crew.hands):
            if not hand.is_ready and now > hand.started_at + START_LIMIT:
                hand.kill(f"it did not start within {START_LIMIT:g} s")
            box = self.crew.spec.limits
            if box is not None and hand.is_busy() and now >= hand.looked_at + LOOK_EVERY:
                hand.looked_at = now
                if holds_more(hand.scratch, box.scratch, MOST_ENTRIES):
                    hand.kill(f"it left more than {box.scratch >> 20} MB or {MOST_ENTRIES:,} files on the disk")
            if (since := hand.waits_since()) is not None and now > since + self._timeout:
                hand.kill(f"it did not begin a document within {self._timeout:g} s")
            for job in list(hand.jobs.values()):
                if job.number in hand.jobs and job.begun_at is not None and not job.is_finished:
                    self._enforce_on(hand, job, job.begun_at, now)

    def _enforce_on(self, hand: Hand, job: Job, begun_at: float, now: float) -> None:
        pages = job.claimed.document.given.pages
        if now >= begun_at + self._timeout:
            del hand.jobs[job.number]
            reason = f"it took longer than {self._timeout:g} s"
            self._ledger.failed(job, reason)
            self._judge(job, reason)
            hand.is_condemned = True
            hand.kill(reason)
        elif job.doomed_at is not None and now >= job.doomed_at:
            del hand.jobs[job.number]
            self._ledger.drop(job)
            hand.is_condemned = True
            hand.kill("its document was cancelled")
        elif now >= begun_at + self._pace.late_after(pages) and self.crew.capacity() == 1:
            # It takes longer than those before it: what stands behind goes back to whoever is free.
            self._take_back(hand)
            self._pace.is_late(pages)

    def _take_back(self, hand: Hand) -> None:
        """What it has not begun is nobody's again."""
        for job in [job for job in hand.jobs.values() if job.begun_at is None]:
            del hand.jobs[job.number]
            hand.cancel(job)
            self._ledger.handed_back(job)

    def cancel(self, job: Job) -> None:
        """Nobody wants it any more: its processor is told, and ended if it does not listen."""
        job.is_dropped = True
        for hand in self.crew.hands:
            if job.number in hand.jobs:
                hand.cancel(job)
                if job.begun_at is None:  # the child passes over it without a word
                    del hand.jobs[job.number]
                    self._ledger.drop(job)
                elif self.crew.where is Where.PROCESSES:
                    job.doomed_at = time.monotonic() + CANCEL_GRACE


def tried(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What came of it, or what went wrong."""
    try:
        return work(), None
    except Exception as wrong:  # noqa: BLE001 - told to whoever asked
        return None, wrong


def _number(value: Any) -> float:
    """A finite number; whatever else a child says is nonsense."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("no finite number")
    return number
