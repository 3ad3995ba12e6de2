"""What happened to one document: its own times, its attempts, and what was done to it by hand."""

from pathlib import Path

import pytest

import inturn
from inturn.clock import ManualClock
from inturn.insights import PartsSpan, StepSpan, TimelineEntry, document_timeline
from inturn.insights.timeline import MAX_PAGES, PAGE_SIZE
from inturn.model import Claim, NewDocument
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


def test_the_end_of_each_delay_is_told(queue: Queue, clock: ManualClock) -> None:
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
    assert kinds(queue, id_) == ["submitted", "due", "started", "delayed", "due", "started", "failed"]
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


# -- steps ----------------------------------------------------------------------------------------------------------


def spans(queue: Queue, id_: str) -> tuple[StepSpan, ...]:
    return document_timeline(queue, queue.document(id_)).steps


def take(queue: Queue, name: str) -> Claim:
    (claimed,) = queue.claim("worker", 1, queues=[name])
    return claimed


def test_each_step_has_its_waits_its_attempts_and_its_work(queue: Queue, clock: ManualClock) -> None:
    (receipt,) = queue.submit("acme", [NewDocument("a", queue="ocr", steps=("ocr", "export"), max_attempts=3)])
    clock.advance(2 * SECOND)
    claimed = take(queue, "ocr")
    clock.advance(3 * SECOND)
    queue.fail(claimed, "no", retry_in=10 * SECOND)
    clock.advance(10 * SECOND)
    queue.store.sweep()
    clock.advance(4 * SECOND)
    queue.release(take(queue, "ocr"))
    clock.advance(SECOND)
    claimed = take(queue, "ocr")
    clock.advance(6 * SECOND)
    queue.finish(claimed, "text")
    ocr, export = spans(queue, receipt.id)
    assert ocr == StepSpan(
        0, "ocr", HOUR, HOUR + 2 * SECOND, HOUR + 26 * SECOND, 2, 7 * SECOND, 9 * SECOND, has_result=True, parts=None
    )
    assert export == StepSpan(1, "export", HOUR + 26 * SECOND, None, None, 0, 0, 0, has_result=False, parts=None)
    clock.advance(SECOND)
    claimed = take(queue, "export")
    clock.advance(2 * SECOND)
    assert spans(queue, receipt.id)[1] == export._replace(started_at=HOUR + 27 * SECOND, attempts=1, waited=SECOND)
    queue.finish(claimed)
    last = spans(queue, receipt.id)[1]
    assert (last.ended_at, last.worked, last.has_result) == (HOUR + 29 * SECOND, 2 * SECOND, True)
    assert kinds(queue, receipt.id) == [
        "submitted", "started", "delayed", "due", "started", "handed_back", "started", "step_done", "started",
        "finished",
    ]  # fmt: skip


def test_split_document_shows_how_long_it_waits_for_its_parts(queue: Queue, clock: ManualClock) -> None:
    (receipt,) = queue.submit("acme", [NewDocument("a", queue="split")])
    outcome = queue.split(take(queue, "split"), [NewDocument(f"page {n}", queue="page") for n in range(3)], "merge")
    queue.ack([outcome])
    clock.advance(5 * SECOND)
    queue.fail(take(queue, "page"), "torn", final=True)
    split, merge = spans(queue, receipt.id)
    assert split.parts == PartsSpan(HOUR, None, 3, 1, 1)
    assert (merge.queue, merge.ready_at, merge.attempts) == ("merge", None, 0)
    queue.finish(take(queue, "page"), 1)
    clock.advance(2 * SECOND)
    queue.finish(take(queue, "page"), 2)
    queue.store.sweep()
    split, merge = spans(queue, receipt.id)
    assert split.parts == PartsSpan(HOUR, HOUR + 7 * SECOND, 3, 3, 1)
    assert merge.ready_at == HOUR + 7 * SECOND
    clock.advance(SECOND)
    queue.finish(take(queue, "merge"), "all")
    assert kinds(queue, receipt.id) == ["submitted", "started", "split", "parts_ended", "started", "finished"]
    assert spans(queue, receipt.id)[1].waited == SECOND


def test_only_the_last_split_has_numbers(queue: Queue, clock: ManualClock) -> None:
    (receipt,) = queue.submit("acme", [NewDocument("a", queue="split")])
    for n in (3, 2):
        queue.ack([queue.split(take(queue, "split"), [NewDocument("page", queue="page")] * n, "split")])
        clock.advance(SECOND)
        for _ in range(n):
            queue.finish(take(queue, "page"), n)
    first, second, last = spans(queue, receipt.id)
    assert first.parts == PartsSpan(HOUR, HOUR + SECOND, None, None, None)
    assert second.parts == PartsSpan(HOUR + SECOND, None, 2, 2, 0)
    assert (last.step, last.queue) == (2, "split")


def test_steps_that_are_repeated_from_the_start_stand_there_again(queue: Queue, clock: ManualClock) -> None:
    (receipt,) = queue.submit("acme", [NewDocument("a", queue="ocr", steps=("ocr", "export"))])
    queue.finish(take(queue, "ocr"), "text")
    clock.advance(SECOND)
    queue.fail(take(queue, "export"), "no", final=True)
    clock.advance(SECOND)
    queue.retry(receipt.id, ANNA)
    assert [(span.step, span.attempts, span.ended_at is None) for span in spans(queue, receipt.id)] == [
        (0, 1, False), (1, 1, True),
    ]  # fmt: skip
    queue.fail(take(queue, "export"), "again", final=True)
    queue.retry(receipt.id, ANNA, from_start=True)
    clock.advance(SECOND)
    queue.finish(take(queue, "ocr"), "text")
    steps = [(span.step, span.attempts, span.has_result) for span in spans(queue, receipt.id)]
    assert steps == [(0, 1, False), (1, 2, False), (0, 1, True), (1, 0, False)]
