"""A dispatcher's free slots: children that are free, and those that should be free soon."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from inturn.model import NewDocument
from inturn.worker.dispatcher import Dispatcher
from inturn.worker.options import WorkerOptions
from inturn.worker.prefetch import CLAIM_LEAD_SECONDS, PrefetchEstimator

TOOK = 0.3


class FakeInflight(list[Any]):
    """Stands in for `InflightJobs` with these jobs."""

    outcomes: tuple[()] = ()
    oldest_outcome_at = 0.0


def job(begun_at: float | None) -> Any:
    document = SimpleNamespace(spec=NewDocument("x"))
    claim = SimpleNamespace(document=document)
    return SimpleNamespace(begun_at=begun_at, is_finished=False, claim=claim, number=begun_at, kill_at=None)


def make_dispatcher(*begun_at: float, took: float = TOOK) -> Dispatcher:
    """Two children, each with a document that it started then; the ten documents before took equally long."""
    jobs = [job(at) for at in begun_at]
    children = [
        SimpleNamespace(jobs={pid: job}, is_retiring=False, is_killed=False, is_busy=lambda: True, pid=pid)
        for pid, job in enumerate(jobs)
    ]
    spec = SimpleNamespace(limits=None, processor="processors:act")
    pool: Any = SimpleNamespace(spec=spec, children=children, max_children=lambda: 2, jobs_per_child=lambda: 1)
    inflight: Any = FakeInflight(jobs)
    dispatcher = Dispatcher(pool, inflight, SimpleNamespace(steps=None), WorkerOptions(), lambda *_: None)  # type: ignore[arg-type]
    for _ in range(10):
        estimator_of(dispatcher).record_duration(took, None)
    return dispatcher


def estimator_of(dispatcher: Dispatcher) -> PrefetchEstimator:
    return dispatcher._prefetch  # noqa: SLF001 - real documents would take real time


def free_child(dispatcher: Dispatcher) -> Any:
    """Who would get the next document."""
    return dispatcher._free_child()  # noqa: SLF001 - `dispatch` would send one, to children that stand in for real ones


def set_oldest_outcome(dispatcher: Dispatcher, at: float) -> None:
    dispatcher._inflight.oldest_outcome_at = at  # noqa: SLF001 - the stand-in from above


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_to(now: float) -> None:
        monkeypatch.setattr(time, "monotonic", lambda: now)

    return set_to


def test_nothing_is_claimed_for_a_child_that_is_in_the_middle_of_a_document(at: Any) -> None:
    dispatcher = make_dispatcher(100.0, 100.1)
    at(100.0 + TOOK - 2 * CLAIM_LEAD_SECONDS)
    assert (dispatcher.free_slots(), free_child(dispatcher)) == (0, None)
    assert list(dispatcher.next_claim_times()) == pytest.approx(
        [100.0 + TOOK - CLAIM_LEAD_SECONDS, 100.1 + TOOK - CLAIM_LEAD_SECONDS]
    )


def test_a_child_that_should_be_done_within_a_moment_gets_the_next_document(at: Any) -> None:
    dispatcher = make_dispatcher(100.1, 100.0)
    at(100.0 + TOOK - CLAIM_LEAD_SECONDS / 2)
    assert dispatcher.free_slots() == 1
    child = free_child(dispatcher)
    assert child is dispatcher.pool.children[1]
    child.jobs[7] = job(None)
    assert free_child(dispatcher) is None


def test_nothing_is_claimed_for_a_child_that_is_late(at: Any) -> None:
    dispatcher = make_dispatcher(100.0, 100.2)
    at(100.0 + TOOK + 2 * CLAIM_LEAD_SECONDS)
    assert (dispatcher.free_slots(), free_child(dispatcher)) == (0, None)


def test_document_after_a_retiring_child_waits_for_its_slot(at: Any) -> None:
    dispatcher = make_dispatcher(100.0, 100.2)
    dispatcher.pool.children[0].is_retiring = True
    at(100.0 + TOOK)
    assert (dispatcher.free_slots(), free_child(dispatcher)) == (1, None)


def test_outcome_is_recorded_with_a_claim_that_is_due_soon(at: Any) -> None:
    dispatcher = make_dispatcher(100.0, 100.2)
    claim, now = 100.0 + TOOK - CLAIM_LEAD_SECONDS, 100.0 + TOOK - 1.5 * CLAIM_LEAD_SECONDS
    at(now)
    set_oldest_outcome(dispatcher, now)
    assert dispatcher.record_at(now) == pytest.approx(claim)


def test_outcome_waits_for_a_claim_only_briefly(at: Any) -> None:
    dispatcher = make_dispatcher(100.0, 100.2)
    at(now := 100.0 + TOOK - 1.5 * CLAIM_LEAD_SECONDS)
    set_oldest_outcome(dispatcher, now - CLAIM_LEAD_SECONDS)
    assert dispatcher.record_at(now) == now
    at(now := 100.0)
    set_oldest_outcome(dispatcher, now)
    assert dispatcher.record_at(now) == now


def test_outcome_waits_for_no_claim_that_is_not_predicted(at: Any) -> None:
    dispatcher = make_dispatcher(100.0, 100.2)
    estimator_of(dispatcher).reset()
    at(now := 100.0 + TOOK - 1.5 * CLAIM_LEAD_SECONDS)
    set_oldest_outcome(dispatcher, now)
    assert dispatcher.record_at(now) == now


@pytest.mark.parametrize(("took", "waits"), [(0.8 * CLAIM_LEAD_SECONDS, False), (1.2 * CLAIM_LEAD_SECONDS, True)])
def test_outcome_of_a_short_document_is_recorded_at_once(at: Any, took: float, waits: bool) -> None:  # noqa: FBT001
    dispatcher = make_dispatcher(100.0, 100.0, took=took)
    at(now := 100.0 + 0.4 * took)
    set_oldest_outcome(dispatcher, now)
    assert (dispatcher.record_at(now) > now) is waits
