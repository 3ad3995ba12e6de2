"""For whom a worker claims: children that are free, and those that should be within a moment."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from inturn.model import NewDocument
from inturn.worker.dispatcher import Dispatcher
from inturn.worker.options import WorkerOptions
from inturn.worker.prefetch import CLAIM_LEAD_SECONDS

TOOK = 0.3


class Held(list[Any]):
    """A ledger with these jobs."""

    outcomes: tuple[()] = ()
    waits_since = 0.0


def job(begun_at: float | None) -> Any:
    document = SimpleNamespace(given=NewDocument("x"))
    claimed = SimpleNamespace(document=document)
    return SimpleNamespace(begun_at=begun_at, is_finished=False, claimed=claimed, number=begun_at, doomed_at=None)


def floor_of(*begun: float, took: float = TOOK) -> Dispatcher:
    """Two children, each at a document that it began at such a time; ten before took as long as each other."""
    jobs = [job(at) for at in begun]
    hands = [
        SimpleNamespace(jobs={at: item}, is_retiring=False, is_killed=False, is_busy=lambda: True, process=at)
        for at, item in enumerate(jobs)
    ]
    spec = SimpleNamespace(limits=None)
    crew: Any = SimpleNamespace(spec=spec, hands=hands, most=lambda: 2, capacity=lambda: 1)
    ledger: Any = Held(jobs)
    floor = Dispatcher(crew, ledger, SimpleNamespace(), WorkerOptions(), lambda *_: None)  # type: ignore[arg-type]
    for _ in range(10):
        floor._prefetch.record_duration(took, None)
    return floor


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_to(now: float) -> None:
        monkeypatch.setattr(time, "monotonic", lambda: now)

    return set_to


def test_nothing_is_claimed_for_a_child_that_is_in_the_middle_of_a_document(at: Any) -> None:
    floor = floor_of(100.0, 100.1)
    at(100.0 + TOOK - 2 * CLAIM_LEAD_SECONDS)
    assert (floor.free_slots(), floor._free_child()) == (0, None)
    assert list(floor.next_claim_times()) == pytest.approx(
        [100.0 + TOOK - CLAIM_LEAD_SECONDS, 100.1 + TOOK - CLAIM_LEAD_SECONDS]
    )


def test_a_child_that_should_be_done_within_a_moment_gets_the_next_document(at: Any) -> None:
    floor = floor_of(100.1, 100.0)
    at(100.0 + TOOK - CLAIM_LEAD_SECONDS / 2)
    assert floor.free_slots() == 1
    hand = floor._free_child()
    assert hand is floor.pool.children[1]
    hand.jobs[7] = job(None)
    assert floor._free_child() is None


def test_nothing_is_claimed_for_a_child_that_is_late(at: Any) -> None:
    floor = floor_of(100.0, 100.2)
    at(100.0 + TOOK + 2 * CLAIM_LEAD_SECONDS)
    assert (floor.free_slots(), floor._free_child()) == (0, None)


def test_what_comes_after_one_that_retires_waits_for_its_slot(at: Any) -> None:
    floor = floor_of(100.0, 100.2)
    floor.pool.children[0].is_retiring = True
    at(100.0 + TOOK)
    assert (floor.free_slots(), floor._free_child()) == (1, None)


def test_what_came_of_a_document_is_recorded_with_the_claim_that_comes_within_a_moment(at: Any) -> None:
    floor = floor_of(100.0, 100.2)
    claim, now = 100.0 + TOOK - CLAIM_LEAD_SECONDS, 100.0 + TOOK - 1.5 * CLAIM_LEAD_SECONDS
    at(now)
    floor._inflight.oldest_outcome_at = now
    assert floor.record_at(now) == pytest.approx(claim)


def test_what_came_of_a_document_waits_for_no_more_than_a_moment(at: Any) -> None:
    floor = floor_of(100.0, 100.2)
    at(now := 100.0 + TOOK - 1.5 * CLAIM_LEAD_SECONDS)
    floor._inflight.oldest_outcome_at = now - CLAIM_LEAD_SECONDS
    assert floor.record_at(now) == now
    at(now := 100.0)
    floor._inflight.oldest_outcome_at = now
    assert floor.record_at(now) == now


def test_what_came_of_a_document_waits_for_no_claim_that_nobody_expects(at: Any) -> None:
    floor = floor_of(100.0, 100.2)
    floor._prefetch.reset()
    at(now := 100.0 + TOOK - 1.5 * CLAIM_LEAD_SECONDS)
    floor._inflight.oldest_outcome_at = now
    assert floor.record_at(now) == now


@pytest.mark.parametrize(("took", "waits"), [(0.8 * CLAIM_LEAD_SECONDS, False), (1.2 * CLAIM_LEAD_SECONDS, True)])
def test_what_came_of_a_short_document_waits_for_nothing(at: Any, took: float, waits: bool) -> None:  # noqa: FBT001
    floor = floor_of(100.0, 100.0, took=took)
    at(now := 100.0 + 0.4 * took)
    floor._inflight.oldest_outcome_at = now
    assert (floor.record_at(now) > now) is waits
