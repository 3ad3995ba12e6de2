"""The read model says what the store will do, and admits what nobody can know."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inturn.clock import ManualClock
from inturn.errors import InvalidInputError, NotFoundError
from inturn.i18n import LANGUAGES, Texts
from inturn.insights import Bounds, ClosedBy, Insights, NoPlace, NoStart, SlotUse, Why, observed_window
from inturn.insights.explain import explain, explain_to_customer
from inturn.model import DocumentState, RateLimit
from inturn.policy import Order, Policy, PriorityPolicy, TurnPolicy
from inturn.store_answers import SchedulerSnapshot
from inturn.stores import open_store
from inturn.testing.contract.harness import ANNA, START, StoreHarness
from inturn.values import SECOND, seconds
from inturn.worker_report import WorkerReport


@pytest.fixture(params=["memory", "sqlite"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreHarness]:
    clock = ManualClock(START)
    store = open_store("memory://" if request.param == "memory" else str(tmp_path / "queue.db"), clock)
    yield StoreHarness(store, clock)
    store.close()


@pytest.fixture
def insights(harness: StoreHarness) -> Insights:
    return Insights(harness.queue, harness.clock)


WORKER = WorkerReport("reporting", "host", 1, 1, 0, "p", 0)
"""One slot: no share is limited."""
TWO_SLOTS = WORKER._replace(slots=2)


def finish(harness: StoreHarness, n: int, customer: str = "worked") -> None:
    harness.submit(customer, n)
    harness.store.record_worker(WORKER)
    for claimed in harness.claim(n):
        harness.queue.finish(claimed)


# -- level and counter ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "level", "bounds"),
    [(0, 1, Bounds(None, -2)), (3, 2, Bounds(-2, -4)), (20, 8, Bounds(-14, -20)), (21, 9, Bounds(-20, None))],
)
def test_the_thresholds_around_the_counter_gave_the_level(
    harness: StoreHarness, insights: Insights, number: int, level: int, bounds: Bounds
) -> None:
    receipt = harness.submit("acme", 22)[number]
    why = insights.why(receipt.id)
    assert (why.document.level, why.bounds) == (level, bounds)


def test_the_thresholds_are_those_of_its_own_check(harness: StoreHarness, insights: Insights) -> None:
    old = harness.submit("acme", 4)[3].id
    harness.advance(1)
    harness.set_policy(Policy(PriorityPolicy(thresholds=(-1,))))
    new = harness.submit_one("acme")
    assert insights.why(old).bounds == Bounds(-2, -4)
    assert insights.why(new).bounds == Bounds(-1, None)


def test_the_counter_is_the_customers_now_and_tells_when_it_resets(harness: StoreHarness, insights: Insights) -> None:
    id_ = harness.submit_one("acme")
    harness.advance(10)
    harness.submit("acme", 2)
    counter = insights.why(id_).counter
    assert counter is not None
    assert (counter.count, counter.resets_after) == (-2, START + seconds(1510))
    harness.clock.set(counter.resets_after)
    assert harness.queue.check("acme")[0].count == -3
    harness.clock.set(harness.clock.now() + seconds(1500) + 1)
    assert harness.queue.check("acme")[0].count == 0


# -- place ----------------------------------------------------------------------------------------------------------


def test_what_goes_before_is_told_apart(harness: StoreHarness, insights: Insights) -> None:
    mine = harness.submit("acme", 5)[4].id
    harness.submit("bob", 4)
    before = insights.why(mine).ahead
    assert before is not None
    assert (before.better_levels, before.same_level, before.own_line) == (6, 1, 1)
    order = [claimed.document.id for claimed in harness.claim(100)]
    assert order.index(mine) == before.place


def test_an_expedited_document_is_next(harness: StoreHarness, insights: Insights) -> None:
    mine = harness.submit("acme", 30)[29].id
    assert insights.why(mine).place == 29
    harness.queue.expedite(mine, ANNA)
    why = insights.why(mine)
    assert (why.place, why.document.level) == (0, 9)


def test_first_come_first_served_has_a_place_too(harness: StoreHarness, insights: Insights) -> None:
    harness.set_policy(Policy(turns=TurnPolicy(Order.CLASSIC)))
    harness.submit("bob", 2)
    assert insights.why(harness.submit_one("acme")).place == 2


@pytest.mark.parametrize("ending", ["done", "failed", "cancelled"])
def test_an_ended_document_has_no_place(harness: StoreHarness, insights: Insights, ending: str) -> None:
    id_ = harness.submit_one("acme")
    if ending == "cancelled":
        harness.queue.cancel(id_, ANNA)
    else:
        claimed = harness.claim_one()
        assert insights.why(id_).no_place is NoPlace.RUNNING
        (harness.queue.finish(claimed) if ending == "done" else harness.queue.fail(claimed, "broken", final=True))
    why = insights.why(id_)
    assert (why.place, why.no_place, why.start, why.no_start) == (None, ending, None, NoStart.NOT_WAITING)


def test_a_delayed_document_has_no_place_yet(harness: StoreHarness, insights: Insights) -> None:
    assert insights.why(harness.submit_one("acme", delay=seconds(5))).no_place is NoPlace.DELAYED


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"paused": True}, ClosedBy.CUSTOMER_PAUSED),
        ({"cap": 1}, ClosedBy.CAP),
        ({"rate": RateLimit(1, 100 * SECOND)}, ClosedBy.RATE),
    ],
)
def test_a_closed_line_says_by_what(
    harness: StoreHarness, insights: Insights, changes: dict[str, object], reason: ClosedBy
) -> None:
    harness.queue.change_customer("acme", ANNA, **changes)
    ids = [receipt.id for receipt in harness.submit("acme", 2)]
    harness.claim()
    why = insights.why(ids[1])
    assert (why.closed_by, why.place, why.no_place, why.no_start) == (
        (reason,),
        None,
        NoPlace.CLOSED,
        NoStart.CLOSED,
    )


def hold_share(harness: StoreHarness, slots: int = 8) -> list[str]:
    """Let acme hold 7 of 8 slots while others come; return its waiting documents."""
    harness.store.record_worker(WorkerReport("reporting", "host", 1, slots, 0, "p", 0))
    harness.submit_one("quick")
    harness.queue.finish(harness.claim_one())
    ids = [receipt.id for receipt in harness.submit("acme", 10)]
    harness.claim(10)
    return [id_ for id_ in ids if harness.state(id_) is DocumentState.WAITING]


def test_a_customer_that_holds_its_share_closes_its_lines(harness: StoreHarness, insights: Insights) -> None:
    waiting = hold_share(harness)
    assert len(waiting) == 3
    why = insights.why(waiting[0])
    assert (why.closed_by, why.no_place, why.no_start) == ((ClosedBy.SHARE,), NoPlace.CLOSED, NoStart.CLOSED)
    assert why.slot_use == SlotUse(running=7, slots=8)
    other = insights.why(harness.submit_one("quick"))
    assert (other.closed_by, other.slot_use) == ((), None)


def test_a_share_is_no_reason_once_a_document_has_ended(harness: StoreHarness, insights: Insights) -> None:
    (first, *_) = hold_share(harness)
    running = next(document for document in harness.all_documents() if document.state is DocumentState.RUNNING)
    harness.queue.cancel(running.id, ANNA)
    why = insights.why(first)
    assert (why.closed_by, why.slot_use, why.no_place) == ((), None, NoPlace.MOVED)
    harness.claim()
    assert insights.why(harness.submit_one("acme")).closed_by == (ClosedBy.SHARE,)


def test_a_share_beside_a_pause_and_a_rate(harness: StoreHarness, insights: Insights) -> None:
    harness.queue.change_customer("acme", ANNA, rate=RateLimit(100, SECOND))
    waiting = hold_share(harness)
    assert insights.why(waiting[0]).closed_by == (ClosedBy.SHARE,)
    harness.queue.pause(ANNA, "acme")
    assert insights.why(waiting[0]).closed_by == (ClosedBy.CUSTOMER_PAUSED, ClosedBy.SHARE)


def test_slots_are_unknown_once_the_workers_are_gone(harness: StoreHarness, insights: Insights) -> None:
    waiting = hold_share(harness)
    harness.advance(31)
    why = insights.why(waiting[0])
    assert (why.closed_by, why.slot_use) == ((ClosedBy.SHARE,), None)
    assert explain_closed(why) == (
        "On hold: the customer already uses its share of the slots while others have documents too; its next one starts"
        " when one of its documents finishes. It keeps its level and place."
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_share_is_explained_in_numbers_to_operators_and_without_to_customers(
    harness: StoreHarness, insights: Insights, language: str
) -> None:
    why, texts = insights.why(hold_share(harness)[0]), Texts(language)
    operators = explain_closed(why, language)
    _, customers, _ = explain_to_customer(why, texts, None)
    assert all(part in operators for part in ("acme", "7", "8"))
    assert not set("78") & set(customers)
    if language == "en":
        assert "acme already uses 7 of 8 slots while others have documents too" in operators
        assert "its next one starts when one of its documents finishes" in operators


def explain_closed(why: Why, language: str = "en") -> str:
    texts = Texts(language)
    return dict(explain(why, texts))[texts.text("label_line")]


def test_all_that_closes_a_line_is_named(harness: StoreHarness, insights: Insights) -> None:
    id_ = harness.submit_one("acme")
    harness.queue.pause(ANNA)
    harness.queue.pause(ANNA, "acme")
    assert insights.why(id_).closed_by == (ClosedBy.QUEUE_PAUSED, ClosedBy.CUSTOMER_PAUSED)
    harness.queue.resume(ANNA)
    harness.queue.resume(ANNA, "acme")
    assert insights.why(id_).closed_by == ()


def test_closed_lines_of_others_go_before_nobody(harness: StoreHarness, insights: Insights) -> None:
    harness.submit("bob", 3)
    mine = harness.submit_one("acme")
    assert insights.why(mine).place == 1
    harness.queue.pause(ANNA, "bob")
    harness.advance(1)
    assert insights.why(mine).place == 0


def test_the_summary_is_read_once_a_second(
    harness: StoreHarness, insights: Insights, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    standings = harness.store.scheduler_snapshot

    def counted(queue: str) -> SchedulerSnapshot:
        read.append(harness.clock.now())
        return standings(queue)

    monkeypatch.setattr(harness.store, "scheduler_snapshot", counted)
    mine = harness.submit_one("acme")
    for _ in range(3):
        insights.why(mine)
    assert len(read) == 1
    harness.advance(1)
    insights.why(mine)
    assert len(read) == 2
    newer = harness.submit_one("bob")  # unknown to the summary: it is read again for this one
    assert insights.why(newer).place == 1
    assert len(read) == 3


def test_unknown_ids_are_refused(insights: Insights) -> None:
    with pytest.raises(NotFoundError):
        insights.why("018f3c5e-0000-7000-8000-000000000000")
    with pytest.raises(InvalidInputError, match="UUID"):
        insights.why("nonsense")


# -- expected start -------------------------------------------------------------------------------------------------


def test_without_a_worker_nobody_knows_the_start(harness: StoreHarness, insights: Insights) -> None:
    finish(harness, 25)
    id_ = harness.submit_one("acme")
    assert insights.why(id_).start is not None
    harness.advance(31)
    assert insights.why(id_).no_start is NoStart.NO_WORKER
    harness.store.record_worker(WORKER._replace(stopping=True))
    assert insights.why(id_).no_start is NoStart.NO_WORKER
    harness.store.record_worker(WORKER)
    assert insights.why(id_).start is not None


def test_a_worker_that_was_killed_holds_its_claims_and_promises_nothing(
    harness: StoreHarness, insights: Insights
) -> None:
    finish(harness, 25)
    harness.submit("acme", 3)
    harness.queue.claim(WORKER.name, lease=seconds(3600))
    assert insights.why(harness.submit_one("acme")).start is not None
    harness.advance(31)
    assert insights.why(harness.submit_one("acme")).no_start is NoStart.NO_WORKER


def test_one_that_has_taken_leave_promises_nothing(harness: StoreHarness, insights: Insights) -> None:
    finish(harness, 25)
    harness.store.forget_worker(WORKER.name)
    assert insights.why(harness.submit_one("acme")).no_start is NoStart.NO_WORKER


def test_who_never_reports_is_there_while_it_holds_a_claim(harness: StoreHarness, insights: Insights) -> None:
    """A loop of somebody's own, with nothing but the library."""
    finish(harness, 25)
    harness.store.forget_worker(WORKER.name)
    harness.submit("acme", 2)
    claimed = harness.claim_one()
    assert insights.why(harness.submit_one("acme")).start is not None
    harness.queue.finish(claimed)
    assert insights.why(harness.submit_one("acme")).no_start is NoStart.NO_WORKER
    harness.claim_one()
    harness.advance(61)
    assert insights.why(harness.submit_one("acme")).no_start is NoStart.NO_WORKER


def test_nineteen_finishes_are_too_few(harness: StoreHarness, insights: Insights) -> None:
    finish(harness, 19)
    id_ = harness.submit_one("acme")
    assert insights.why(id_).no_start is NoStart.TOO_FEW_FINISHES
    harness.queue.finish(harness.claim_one())
    assert insights.why(harness.submit_one("acme")).start is not None


def test_finishes_of_the_last_ten_minutes_count(harness: StoreHarness, insights: Insights) -> None:
    finish(harness, 30)
    harness.advance(601)
    harness.submit("worked", 2)
    harness.claim()
    assert insights.why(harness.submit_one("acme")).no_start is NoStart.TOO_FEW_FINISHES


def test_the_span_holds_what_a_steady_worker_does(harness: StoreHarness, insights: Insights) -> None:
    for _ in range(60):
        finish(harness, 1)
        harness.advance(1)
    harness.submit("bob", 30)
    why = insights.why(harness.submit_one("bob"))
    assert why.place is not None
    assert why.start is not None
    assert why.start.earliest < harness.clock.now() + seconds(why.place) < why.start.latest


@pytest.mark.parametrize("age", [10, 70])
def test_a_young_queue_is_measured_by_the_time_it_has_been_there(
    harness: StoreHarness, insights: Insights, age: int
) -> None:
    for _ in range(age // 5):
        finish(harness, 10)
        harness.advance(5)
    harness.submit("bob", 40)
    why = insights.why(harness.submit_one("bob"))
    assert why.place is not None
    assert why.start is not None
    assert why.start.earliest < harness.clock.now() + seconds(why.place / 2) < why.start.latest
    assert insights.live().per_second == pytest.approx(2.0, rel=0.1)


def test_an_idle_hour_does_not_put_a_start_off(harness: StoreHarness, insights: Insights) -> None:
    """Ten a second while there is something to do, then nothing for minutes, then again: the pace is ten a second."""
    for idle in (400, 0):
        harness.submit("flood", 300)
        for _ in range(10 if idle else 2):
            finished = harness.claim(10)
            harness.advance(1)
            for claimed in finished:
                harness.queue.finish(claimed)
        harness.store.cancel(
            [document.id for document in harness.all_documents() if document.state == "waiting" and idle], ANNA
        )
        harness.advance(idle)
    harness.store.record_worker(WORKER)
    why = insights.why(harness.submit_one("flood"))
    assert why.place is not None
    assert why.start is not None
    alone = why.place // 10
    assert (
        alone / 4
        < (why.start.earliest - harness.clock.now()) / SECOND
        < alone
        < (why.start.latest - harness.clock.now()) / SECOND
    )


def test_a_queue_that_began_later_than_now_says_nothing_of_its_age() -> None:
    assert observed_window(60 * SECOND, 100 * SECOND, 90 * SECOND) == 60 * SECOND
    assert observed_window(60 * SECOND, 100 * SECOND, 100 * SECOND) == SECOND
    assert observed_window(60 * SECOND, 100 * SECOND, 159 * SECOND) == 59 * SECOND
    assert observed_window(60 * SECOND, 100 * SECOND, 161 * SECOND) == 60 * SECOND


# -- what workers are at ------------------------------------------------------------------------------------------


def test_what_a_worker_claimed_ahead_is_not_shown_as_its_work(harness: StoreHarness, insights: Insights) -> None:
    ids = [receipt.id for receipt in harness.submit("acme", 10)]
    harness.queue.claim(WORKER.name, 10, lease=seconds(3600))
    harness.advance(10)
    harness.store.record_worker(WORKER._replace(at_work={ids[4]: seconds(3), ids[5]: seconds(20)}))
    (shown,) = insights.live().at_work
    assert {document.id: document.work_began_at for document in shown.documents} == {
        ids[4]: harness.clock.now() - seconds(3),
        ids[5]: harness.clock.now() - seconds(10),
    }
    assert shown.claimed_ahead == 8


def test_what_was_claimed_since_the_last_report_fills_the_slots(harness: StoreHarness, insights: Insights) -> None:
    harness.store.record_worker(TWO_SLOTS._replace(at_work={}))
    harness.advance(1)
    ids = [receipt.id for receipt in harness.submit("acme", 5)]
    harness.queue.claim(TWO_SLOTS.name, 5)
    (shown,) = insights.live().at_work
    assert [document.id for document in shown.documents] == ids[:2]
    assert shown.claimed_ahead == 3
    harness.store.record_worker(TWO_SLOTS)
    (shown,) = insights.live().at_work
    assert len(shown.documents) == 2
    harness.advance(10)
    harness.store.record_worker(TWO_SLOTS._replace(at_work={}))
    (shown,) = insights.live().at_work
    assert (shown.documents, shown.claimed_ahead) == ((), 5)


# -- overview -------------------------------------------------------------------------------------------------------


def test_the_overview_counts_and_tells_what_is_closed(harness: StoreHarness, insights: Insights) -> None:
    harness.submit("acme", 4)
    harness.submit("bob", 2)
    harness.submit("shut", 3)
    harness.queue.pause(ANNA, "shut")
    harness.claim()
    harness.advance(5)
    overview = insights.overview()
    assert overview.states == {DocumentState.WAITING: 8, DocumentState.RUNNING: 1}
    assert overview.waiting == {1: 7, 2: 1}
    assert (overview.waiting_closed, overview.customers, overview.oldest_wait) == (3, 2, seconds(5))
    assert (overview.throughput.started, overview.paused, overview.policy.number) == (1, None, 1)


def test_the_overview_of_an_empty_queue(insights: Insights) -> None:
    overview = insights.overview()
    assert (overview.states, overview.waiting, overview.customers, overview.oldest_wait) == ({}, {}, 0, None)
