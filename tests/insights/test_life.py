"""What happened to one document: its own times, its attempts, and what was done to it by hand."""

from pathlib import Path

import pytest

import inturn
from inturn.clock import ManualClock
from inturn.insights import TimelineEntry, document_timeline
from inturn.insights.timeline import MAX_PAGES, PAGE_SIZE
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store_types import MAX_STORED_ATTEMPTS, EventKind, Operator
from inturn.values import SECOND
from sqlite_file import direct

HOUR = 3_600 * SECOND
ANNA = Operator("anna", "a call")
STARTED = EventKind.STARTED


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(HOUR)


@pytest.fixture
def queue(clock: ManualClock) -> Queue:
    return inturn.open("memory://", clock=clock)


def submit(queue: Queue, delay: int = 0, max_attempts: int = 3) -> str:
    return queue.submit("acme", [NewDocument("a", delay=delay, max_attempts=max_attempts)])[0].id


def moments(queue: Queue, id_: str) -> tuple[TimelineEntry, ...]:
    timeline = document_timeline(queue, queue.document(id_))
    assert timeline.is_complete
    return timeline.entries


def kinds(queue: Queue, id_: str) -> list[str]:
    return [str(moment.kind) for moment in moments(queue, id_)]


def test_each_attempt_is_told_with_its_error(queue: Queue, clock: ManualClock) -> None:
    """However many events came since, and though they are gone."""
    id_ = submit(queue)
    clock.advance(SECOND)
    queue.fail(queue.claim("first", 1)[0], "page 3\nis torn", retry_in=SECOND)
    clock.advance(HOUR)
    (claimed,) = queue.claim("second", 1)
    clock.advance(SECOND)
    queue.release(claimed)
    (claimed,) = queue.claim("third", 1)
    for _ in range(100):
        queue.submit("beta", [NewDocument("b", delay=24 * HOUR)])
    clock.advance(SECOND)
    while queue.store.prune(clock.now(), limit=1_000).events:
        pass
    at = 2 * HOUR + SECOND
    place = {"queue": "default", "step": 0}
    assert moments(queue, id_) == (
        TimelineEntry(HOUR, EventKind.SUBMITTED),
        TimelineEntry(HOUR + SECOND, STARTED, 1, None, "first", **place),
        TimelineEntry(HOUR + SECOND, EventKind.DELAYED, 1, "page 3\nis torn", "first", **place),
        TimelineEntry(at, STARTED, 2, None, "second", **place),
        TimelineEntry(at + SECOND, EventKind.RELEASED, 2, None, "second", **place),
        TimelineEntry(at + SECOND, STARTED, 2, None, "third", **place),
    )
    queue.finish(claimed)
    assert moments(queue, id_)[-1] == TimelineEntry(at + 2 * SECOND, EventKind.FINISHED, 2, **place)


def test_the_end_of_the_last_delay_is_told(queue: Queue, clock: ManualClock) -> None:
    id_ = submit(queue, delay=SECOND)
    assert kinds(queue, id_) == ["submitted"]
    clock.advance(SECOND)
    queue.store.sweep()
    assert kinds(queue, id_) == ["submitted", "due"]
    clock.advance(SECOND)
    queue.fail(queue.claim("worker", 1)[0], "no", retry_in=SECOND)
    assert kinds(queue, id_) == ["submitted", "due", "started", "delayed"]
    clock.advance(SECOND)
    queue.store.sweep()
    clock.advance(SECOND)
    queue.fail(queue.claim("worker", 1)[0], "never", final=True)
    assert kinds(queue, id_) == ["submitted", "started", "delayed", "due", "started", "failed"]
    assert [moment.error for moment in moments(queue, id_) if moment.error] == ["no", "never"]


def test_what_was_done_by_hand_is_told_once_and_with_who_did_it(queue: Queue, clock: ManualClock) -> None:
    id_ = submit(queue, max_attempts=1)
    other = submit(queue)
    clock.advance(SECOND)
    queue.expedite(id_, ANNA)
    clock.advance(SECOND)
    queue.fail(queue.claim("worker", 1)[0], "first")
    clock.advance(SECOND)
    queue.retry(id_, ANNA)
    queue.expedite(id_, ANNA)
    clock.advance(SECOND)
    queue.claim("worker", 1)
    clock.advance(SECOND)
    queue.cancel(id_, ANNA)
    once = ["submitted", "expedited", "started", "failed", "retried", "expedited", "started", "cancelled"]
    assert kinds(queue, id_) == once
    clock.advance(SECOND)
    queue.retry(id_, ANNA)
    assert kinds(queue, id_) == [*once, "retried"]
    by_hand = [str(moment.kind) for moment in moments(queue, id_) if moment.operator == ANNA]
    assert by_hand == ["expedited", "retried", "expedited", "cancelled", "retried"]
    assert kinds(queue, other) == ["submitted"]


def test_an_expired_one_ends_without_an_attempt(queue: Queue, clock: ManualClock) -> None:
    (receipt,) = queue.submit("acme", [NewDocument("a", start_by=HOUR + SECOND)])
    clock.advance(2 * SECOND)
    queue.store.sweep()
    assert moments(queue, receipt.id)[1:] == (TimelineEntry(HOUR + 2 * SECOND, EventKind.EXPIRED),)


def test_attempts_that_nobody_kept_are_missed(clock: ManualClock, tmp_path: Path) -> None:
    """Of a queue that was begun before they were: the third of three is known, and that is said."""
    with inturn.open(str(tmp_path / "queue.db"), clock=clock) as queue:
        id_ = submit(queue)
        for _ in range(2):
            queue.fail(queue.claim("worker", 1)[0], "no", retry_in=0)
        queue.claim("worker", 1)
        assert kinds(queue, id_)[-1] == "started"
        with direct(tmp_path / "queue.db") as tables:
            tables.execute("DELETE FROM attempt")
        timeline = document_timeline(queue, queue.document(id_))
    assert ([str(entry.kind) for entry in timeline.entries], timeline.is_complete) == (["submitted", "started"], False)


def test_more_attempts_than_are_kept_are_not_all(queue: Queue) -> None:
    id_ = submit(queue)
    for _ in range(MAX_STORED_ATTEMPTS):
        queue.release(queue.claim("worker", 1)[0])
    assert not document_timeline(queue, queue.document(id_)).is_complete


def test_a_deed_too_deep_in_the_audit_log_is_not_looked_for(queue: Queue, clock: ManualClock) -> None:
    """And one is found if it is no deeper; other customers' deeds do not count, nor do those before it came."""
    for _ in range(PAGE_SIZE * MAX_PAGES):
        queue.pause(ANNA, "acme")
    clock.advance(2 * SECOND)
    id_ = submit(queue)
    queue.expedite(id_, ANNA)
    for _ in range(PAGE_SIZE):
        queue.pause(ANNA, "beta")
        queue.pause(ANNA, "acme")
    assert kinds(queue, id_) == ["submitted", "expedited"]
    for _ in range(PAGE_SIZE * MAX_PAGES - PAGE_SIZE):
        queue.pause(ANNA, "acme")
    timeline = document_timeline(queue, queue.document(id_))
    assert ([str(entry.kind) for entry in timeline.entries], timeline.is_complete) == (["submitted"], False)
