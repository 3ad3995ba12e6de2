"""The read model says what the store will do, and admits what nobody can know."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inturn.clock import ManualClock
from inturn.errors import InvalidInputError, NotFoundError
from inturn.insights import Bounds, ClosedBy, Insights, NoPlace, NoStart, observed_window
from inturn.model import SECOND, DocumentState, RateLimit, WorkerReport, seconds
from inturn.policy import Order, Policy, PriorityPolicy, TurnPolicy
from inturn.store import SchedulerSnapshot
from inturn.stores import open_store
from inturn.testing.contract.harness import ANNA, START, StoreHarness


@pytest.fixture(params=["memory", "sqlite"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreHarness]:
    clock = ManualClock(START)
    store = open_store("memory://" if request.param == "memory" else str(tmp_path / "queue.db"), clock)
    yield StoreHarness(store, clock)
    store.close()


@pytest.fixture
def insights(rig: StoreHarness) -> Insights:
    return Insights(rig.store, rig.clock)


WORKER = WorkerReport("reporting", "host", 1, 2, 0, "p", 0)


def finish(rig: StoreHarness, n: int, customer: str = "worked") -> None:
    rig.submit(customer, n)
    rig.store.record_worker(WORKER)
    for claimed in rig.claim(n):
        rig.queue.finish(claimed)


# -- level and counter ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "level", "bounds"),
    [(0, 1, Bounds(None, -2)), (3, 2, Bounds(-2, -4)), (20, 8, Bounds(-14, -20)), (21, 9, Bounds(-20, None))],
)
def test_the_thresholds_around_the_counter_gave_the_level(
    rig: StoreHarness, insights: Insights, number: int, level: int, bounds: Bounds
) -> None:
    receipt = rig.submit("acme", 22)[number]
    why = insights.why(receipt.id)
    assert (why.document.level, why.bounds) == (level, bounds)


def test_the_thresholds_are_those_of_its_own_check(rig: StoreHarness, insights: Insights) -> None:
    old = rig.submit("acme", 4)[3].id
    rig.advance(1)
    rig.set_policy(Policy(PriorityPolicy(thresholds=(-1,))))
    new = rig.submit_one("acme")
    assert insights.why(old).bounds == Bounds(-2, -4)
    assert insights.why(new).bounds == Bounds(-1, None)


def test_the_counter_is_the_customers_now_and_tells_when_it_resets(rig: StoreHarness, insights: Insights) -> None:
    id_ = rig.submit_one("acme")
    rig.advance(10)
    rig.submit("acme", 2)
    counter = insights.why(id_).counter
    assert counter is not None
    assert (counter.count, counter.resets_after) == (-2, START + seconds(1510))
    rig.clock.set(counter.resets_after)
    assert rig.queue.check("acme")[0].count == -3
    rig.clock.set(rig.clock.now() + seconds(1500) + 1)
    assert rig.queue.check("acme")[0].count == 0


# -- place ----------------------------------------------------------------------------------------------------------


def test_what_goes_before_is_told_apart(rig: StoreHarness, insights: Insights) -> None:
    mine = rig.submit("acme", 5)[4].id
    rig.submit("bob", 4)
    before = insights.why(mine).ahead
    assert before is not None
    assert (before.better_levels, before.same_level, before.own_line) == (6, 1, 1)
    order = [claimed.document.id for claimed in rig.claim(100)]
    assert order.index(mine) == before.place


def test_an_expedited_document_is_next(rig: StoreHarness, insights: Insights) -> None:
    mine = rig.submit("acme", 30)[29].id
    assert insights.why(mine).place == 29
    rig.queue.expedite(mine, ANNA)
    why = insights.why(mine)
    assert (why.place, why.document.level) == (0, 9)


def test_first_come_first_served_has_a_place_too(rig: StoreHarness, insights: Insights) -> None:
    rig.set_policy(Policy(turns=TurnPolicy(Order.CLASSIC)))
    rig.submit("bob", 2)
    assert insights.why(rig.submit_one("acme")).place == 2


@pytest.mark.parametrize("ending", ["done", "failed", "cancelled"])
def test_an_ended_document_has_no_place(rig: StoreHarness, insights: Insights, ending: str) -> None:
    id_ = rig.submit_one("acme")
    if ending == "cancelled":
        rig.queue.cancel(id_, ANNA)
    else:
        claimed = rig.claim_one()
        assert insights.why(id_).no_place is NoPlace.RUNNING
        (rig.queue.finish(claimed) if ending == "done" else rig.queue.fail(claimed, "broken", final=True))
    why = insights.why(id_)
    assert (why.place, why.no_place, why.start, why.no_start) == (None, ending, None, NoStart.NOT_WAITING)


def test_a_delayed_document_has_no_place_yet(rig: StoreHarness, insights: Insights) -> None:
    assert insights.why(rig.submit_one("acme", delay=seconds(5))).no_place is NoPlace.DELAYED


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"paused": True}, ClosedBy.CUSTOMER_PAUSED),
        ({"cap": 1}, ClosedBy.CAP),
        ({"rate": RateLimit(1, 100 * SECOND)}, ClosedBy.RATE),
    ],
)
def test_a_closed_line_says_by_what(
    rig: StoreHarness, insights: Insights, changes: dict[str, object], reason: ClosedBy
) -> None:
    rig.queue.change_customer("acme", ANNA, **changes)
    ids = [receipt.id for receipt in rig.submit("acme", 2)]
    rig.claim()
    why = insights.why(ids[1])
    assert (why.closed_by, why.place, why.no_place, why.no_start) == (
        (reason,),
        None,
        NoPlace.CLOSED,
        NoStart.CLOSED,
    )


def test_all_that_closes_a_line_is_named(rig: StoreHarness, insights: Insights) -> None:
    id_ = rig.submit_one("acme")
    rig.queue.pause(ANNA)
    rig.queue.pause(ANNA, "acme")
    assert insights.why(id_).closed_by == (ClosedBy.QUEUE_PAUSED, ClosedBy.CUSTOMER_PAUSED)
    rig.queue.resume(ANNA)
    rig.queue.resume(ANNA, "acme")
    assert insights.why(id_).closed_by == ()


def test_closed_lines_of_others_go_before_nobody(rig: StoreHarness, insights: Insights) -> None:
    rig.submit("bob", 3)
    mine = rig.submit_one("acme")
    assert insights.why(mine).place == 1
    rig.queue.pause(ANNA, "bob")
    rig.advance(1)
    assert insights.why(mine).place == 0


def test_the_summary_is_read_once_a_second(
    rig: StoreHarness, insights: Insights, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    standings = rig.store.scheduler_snapshot

    def counted() -> SchedulerSnapshot:
        read.append(rig.clock.now())
        return standings()

    monkeypatch.setattr(rig.store, "scheduler_snapshot", counted)
    mine = rig.submit_one("acme")
    for _ in range(3):
        insights.why(mine)
    assert len(read) == 1
    rig.advance(1)
    insights.why(mine)
    assert len(read) == 2
    newer = rig.submit_one("bob")  # unknown to the summary: it is read again for this one
    assert insights.why(newer).place == 1
    assert len(read) == 3


def test_unknown_ids_are_refused(insights: Insights) -> None:
    with pytest.raises(NotFoundError):
        insights.why("018f3c5e-0000-7000-8000-000000000000")
    with pytest.raises(InvalidInputError, match="UUID"):
        insights.why("nonsense")


# -- expected start -------------------------------------------------------------------------------------------------


def test_without_a_worker_nobody_knows_the_start(rig: StoreHarness, insights: Insights) -> None:
    finish(rig, 25)
    id_ = rig.submit_one("acme")
    assert insights.why(id_).start is not None
    rig.advance(31)
    assert insights.why(id_).no_start is NoStart.NO_WORKER
    rig.store.record_worker(WORKER._replace(stopping=True))
    assert insights.why(id_).no_start is NoStart.NO_WORKER
    rig.store.record_worker(WORKER)
    assert insights.why(id_).start is not None


def test_a_worker_that_was_killed_holds_its_claims_and_promises_nothing(rig: StoreHarness, insights: Insights) -> None:
    finish(rig, 25)
    rig.submit("acme", 3)
    rig.queue.claim(WORKER.name, lease=seconds(3600))
    assert insights.why(rig.submit_one("acme")).start is not None
    rig.advance(31)
    assert insights.why(rig.submit_one("acme")).no_start is NoStart.NO_WORKER


def test_one_that_has_taken_leave_promises_nothing(rig: StoreHarness, insights: Insights) -> None:
    finish(rig, 25)
    rig.store.forget_worker(WORKER.name)
    assert insights.why(rig.submit_one("acme")).no_start is NoStart.NO_WORKER


def test_who_never_reports_is_there_while_it_holds_a_claim(rig: StoreHarness, insights: Insights) -> None:
    """A loop of somebody's own, with nothing but the library."""
    finish(rig, 25)
    rig.store.forget_worker(WORKER.name)
    rig.submit("acme", 2)
    claimed = rig.claim_one()
    assert insights.why(rig.submit_one("acme")).start is not None
    rig.queue.finish(claimed)
    assert insights.why(rig.submit_one("acme")).no_start is NoStart.NO_WORKER
    rig.claim_one()
    rig.advance(61)
    assert insights.why(rig.submit_one("acme")).no_start is NoStart.NO_WORKER


def test_nineteen_finishes_are_too_few(rig: StoreHarness, insights: Insights) -> None:
    finish(rig, 19)
    id_ = rig.submit_one("acme")
    assert insights.why(id_).no_start is NoStart.TOO_FEW_FINISHES
    rig.queue.finish(rig.claim_one())
    assert insights.why(rig.submit_one("acme")).start is not None


def test_finishes_of_the_last_ten_minutes_count(rig: StoreHarness, insights: Insights) -> None:
    finish(rig, 30)
    rig.advance(601)
    rig.submit("worked", 2)
    rig.claim()
    assert insights.why(rig.submit_one("acme")).no_start is NoStart.TOO_FEW_FINISHES


def test_the_span_holds_what_a_steady_worker_does(rig: StoreHarness, insights: Insights) -> None:
    for _ in range(60):
        finish(rig, 1)
        rig.advance(1)
    rig.submit("bob", 30)
    why = insights.why(rig.submit_one("bob"))
    assert why.place is not None
    assert why.start is not None
    assert why.start.earliest < rig.clock.now() + seconds(why.place) < why.start.latest


@pytest.mark.parametrize("age", [10, 70])
def test_a_young_queue_is_measured_by_the_time_it_has_been_there(
    rig: StoreHarness, insights: Insights, age: int
) -> None:
    for _ in range(age // 5):
        finish(rig, 10)
        rig.advance(5)
    rig.submit("bob", 40)
    why = insights.why(rig.submit_one("bob"))
    assert why.place is not None
    assert why.start is not None
    assert why.start.earliest < rig.clock.now() + seconds(why.place / 2) < why.start.latest
    assert insights.live().per_second == pytest.approx(2.0, rel=0.1)


def test_an_idle_hour_does_not_put_a_start_off(rig: StoreHarness, insights: Insights) -> None:
    """Ten a second while there is something to do, then nothing for minutes, then again: the pace is ten a second."""
    for idle in (400, 0):
        rig.submit("flood", 300)
        for _ in range(10 if idle else 2):
            finished = rig.claim(10)
            rig.advance(1)
            for claimed in finished:
                rig.queue.finish(claimed)
        rig.store.cancel(
            [document.id for document in rig.all_documents() if document.state == "waiting" and idle], ANNA
        )
        rig.advance(idle)
    rig.store.record_worker(WORKER)
    why = insights.why(rig.submit_one("flood"))
    assert why.place is not None
    assert why.start is not None
    alone = why.place // 10
    assert (
        alone / 3
        < (why.start.earliest - rig.clock.now()) / SECOND
        < alone
        < (why.start.latest - rig.clock.now()) / SECOND
    )


def test_a_queue_that_began_later_than_now_says_nothing_of_its_age() -> None:
    assert observed_window(60 * SECOND, 100 * SECOND, 90 * SECOND) == 60 * SECOND
    assert observed_window(60 * SECOND, 100 * SECOND, 100 * SECOND) == SECOND
    assert observed_window(60 * SECOND, 100 * SECOND, 159 * SECOND) == 59 * SECOND
    assert observed_window(60 * SECOND, 100 * SECOND, 161 * SECOND) == 60 * SECOND


# -- what workers are at ------------------------------------------------------------------------------------------


def test_what_a_worker_claimed_ahead_is_not_shown_as_its_work(rig: StoreHarness, insights: Insights) -> None:
    ids = [receipt.id for receipt in rig.submit("acme", 10)]
    rig.queue.claim(WORKER.name, 10, lease=seconds(3600))
    rig.advance(10)
    rig.store.record_worker(WORKER._replace(at_work={ids[4]: seconds(3), ids[5]: seconds(20)}))
    (shown,) = insights.live().at_work
    assert {document.id: document.work_began_at for document in shown.documents} == {
        ids[4]: rig.clock.now() - seconds(3),
        ids[5]: rig.clock.now() - seconds(10),
    }
    assert shown.claimed_ahead == 8


def test_what_was_claimed_since_the_last_report_fills_the_slots(rig: StoreHarness, insights: Insights) -> None:
    rig.store.record_worker(WORKER._replace(at_work={}))
    rig.advance(1)
    ids = [receipt.id for receipt in rig.submit("acme", 5)]
    rig.queue.claim(WORKER.name, 5)
    (shown,) = insights.live().at_work
    assert [document.id for document in shown.documents] == ids[:2]
    assert shown.claimed_ahead == 3
    rig.store.record_worker(WORKER)
    (shown,) = insights.live().at_work
    assert len(shown.documents) == 2
    rig.advance(10)
    rig.store.record_worker(WORKER._replace(at_work={}))
    (shown,) = insights.live().at_work
    assert (shown.documents, shown.claimed_ahead) == ((), 5)


# -- overview -------------------------------------------------------------------------------------------------------


def test_the_overview_counts_and_tells_what_is_closed(rig: StoreHarness, insights: Insights) -> None:
    rig.submit("acme", 4)
    rig.submit("bob", 2)
    rig.submit("shut", 3)
    rig.queue.pause(ANNA, "shut")
    rig.claim()
    rig.advance(5)
    overview = insights.overview()
    assert overview.states == {DocumentState.WAITING: 8, DocumentState.RUNNING: 1}
    assert overview.waiting == {1: 7, 2: 1}
    assert (overview.waiting_closed, overview.customers, overview.oldest_wait) == (3, 2, seconds(5))
    assert (overview.throughput.started, overview.paused, overview.policy.number) == (1, None, 1)


def test_the_overview_of_an_empty_queue(insights: Insights) -> None:
    overview = insights.overview()
    assert (overview.states, overview.waiting, overview.customers, overview.oldest_wait) == ({}, {}, 0, None)
