"""Several queues: a document's place, forecast and reasons are those of its own queue; figures count all queues."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inturn.clock import ManualClock
from inturn.i18n import LANGUAGES, Texts
from inturn.insights import (
    ClosedBy,
    Insights,
    NoPlace,
    NoStart,
    Notice,
    NoticeKind,
    SlotUse,
    customer_notices,
    live_overview,
    queue_notices,
)
from inturn.insights.explain import explain, explain_to_customer
from inturn.insights.flow import FlowReader
from inturn.insights.snapshots import Snapshots
from inturn.model import Claim, DocumentState, NewDocument
from inturn.policy import Policy, TurnPolicy
from inturn.store_answers import LaneSnapshot
from inturn.stores import open_store
from inturn.testing.contract.harness import ANNA, SINGLE_LEVEL_POLICY, START, StoreHarness
from inturn.values import seconds
from inturn.worker_report import WorkerReport

OCR = "ocr"
WORKER = WorkerReport("w1", "host", 1, 1, 0, "p", 0)
OCR_WORKER = WORKER._replace(name="w2", queues=(OCR,))


@pytest.fixture(params=["memory", "sqlite"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreHarness]:
    clock = ManualClock(START)
    store = open_store("memory://" if request.param == "memory" else str(tmp_path / "queue.db"), clock)
    yield StoreHarness(store, clock)
    store.close()


@pytest.fixture
def insights(harness: StoreHarness) -> Insights:
    return Insights(harness.queue, harness.clock)


def claim(harness: StoreHarness, limit: int, *queues: str) -> tuple[Claim, ...]:
    return harness.queue.claim("worker", limit, queues=queues or ("default",))


def notices_by_kind(harness: StoreHarness, insights: Insights) -> dict[NoticeKind, Notice]:
    overview = live_overview(insights, harness.clock.now())
    return {notice.kind: notice for notice in queue_notices(insights, overview)}


# -- place ----------------------------------------------------------------------------------------------------------


def test_place_counts_documents_of_its_own_queue_alone(harness: StoreHarness, insights: Insights) -> None:
    harness.submit("flood", 30)
    harness.submit("beta", 2, queue=OCR)
    mine = harness.submit("acme", 3, queue=OCR)[2].id
    harness.submit("acme", 20)
    place = insights.why(mine).place
    assert place == 4
    assert [claimed.document.id for claimed in claim(harness, 30, OCR)].index(mine) == place


def test_a_new_queue_has_a_place_at_once(harness: StoreHarness, insights: Insights) -> None:
    assert insights.why(harness.submit_one("acme")).place == 0
    assert insights.why(harness.submit_one("beta", queue=OCR)).place == 0
    assert insights.why(harness.submit_one("beta", queue=OCR)).place == 1


def test_snapshot_of_each_queue_is_read_once_a_second(
    harness: StoreHarness, insights: Insights, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = [harness.submit_one("acme", queue=queue) for queue in ("default", OCR)]
    read: list[str] = []
    snapshot = harness.store.scheduler_snapshot
    monkeypatch.setattr(harness.store, "scheduler_snapshot", lambda queue: (read.append(queue), snapshot(queue))[1])
    for id_ in mine * 3:
        insights.why(id_)
    assert sorted(read) == ["default", OCR]
    harness.advance(1)
    insights.why(mine[1])
    assert sorted(read) == ["default", OCR, OCR]


# -- what closes a lane ---------------------------------------------------------------------------------------------


def test_pause_of_its_queue_is_apart_from_the_pause_of_all(harness: StoreHarness, insights: Insights) -> None:
    mine, other = harness.submit_one("acme", queue=OCR), harness.submit_one("acme")
    harness.queue.pause(ANNA, queue=OCR)
    why = insights.why(mine)
    assert (why.closed_by, why.no_place, why.no_start) == (
        (ClosedBy.OWN_QUEUE_PAUSED,),
        NoPlace.CLOSED,
        NoStart.CLOSED,
    )
    assert insights.why(other).closed_by == ()
    harness.queue.pause(ANNA)
    assert insights.why(mine).closed_by == (ClosedBy.QUEUE_PAUSED, ClosedBy.OWN_QUEUE_PAUSED)
    assert insights.why(other).closed_by == (ClosedBy.QUEUE_PAUSED,)
    harness.queue.resume(ANNA, queue=OCR)
    assert insights.why(mine).closed_by == (ClosedBy.QUEUE_PAUSED,)


@pytest.mark.parametrize("language", LANGUAGES)
def test_paused_queue_is_named_in_every_language(harness: StoreHarness, insights: Insights, language: str) -> None:
    mine = harness.submit_one("acme", queue=OCR)
    harness.queue.pause(ANNA, queue=OCR)
    texts, why = Texts(language), insights.why(mine)
    assert OCR in dict(explain(why, texts))[texts.text("label_line")]
    assert any(OCR in sentence for sentence in explain_to_customer(why, texts, None))
    if language == "en":
        assert dict(explain(why, texts))[texts.text("label_line")].startswith("On hold: the queue ocr is paused.")


def test_share_of_the_slots_is_that_of_its_queue(harness: StoreHarness, insights: Insights) -> None:
    turns = TurnPolicy(max_share=0.5, share_idle_after=seconds(60))
    harness.set_policy(Policy(SINGLE_LEVEL_POLICY.priority, turns))
    for name, slots, queues in (("w1", 2, ("default",)), ("w2", 8, (OCR,))):
        harness.store.record_worker(WORKER._replace(name=name, slots=slots, queues=queues))
    harness.submit("flood", 2)
    claim(harness, 2)
    harness.submit("light", queue=OCR)
    ids = [receipt.id for receipt in harness.submit("flood", 9, queue=OCR)]
    claim(harness, 9, OCR)
    waiting = next(id_ for id_ in ids if harness.state(id_) is DocumentState.WAITING)
    why = insights.why(waiting)
    assert (why.closed_by, why.slot_use) == ((ClosedBy.SHARE,), SlotUse(running=4, slots=8))
    open_elsewhere = insights.why(harness.submit_one("flood", queue="export"))
    assert (open_elsewhere.closed_by, open_elsewhere.slot_use, open_elsewhere.place) == ((), None, 0)


# -- workers and forecasts ------------------------------------------------------------------------------------------


def test_queue_that_no_worker_serves_is_named(harness: StoreHarness, insights: Insights) -> None:
    mine = harness.submit_one("acme", queue=OCR)
    assert insights.why(mine).no_start is NoStart.NO_WORKER
    harness.store.record_worker(WORKER)
    why = insights.why(mine)
    assert (why.place, why.no_start) == (0, NoStart.QUEUE_UNSERVED)
    assert dict(explain(why, Texts("en")))["Start"] == "No estimate: no worker serves the queue ocr."
    assert list(explain_to_customer(why, Texts("de"), 0))[-1] == (
        "Keine Schätzung: Kein Worker bedient die Warteschlange ocr."
    )
    harness.store.record_worker(OCR_WORKER)
    assert insights.why(mine).no_start is NoStart.TOO_FEW_FINISHES
    harness.advance(31)
    assert insights.why(mine).no_start is NoStart.NO_WORKER


def test_program_without_reports_serves_the_queue_that_it_claims_from(
    harness: StoreHarness, insights: Insights
) -> None:
    harness.submit("acme", 2, queue=OCR)
    claim(harness, 1, OCR)
    assert insights.has_worker(harness.clock.now(), OCR)
    assert not insights.has_worker(harness.clock.now(), "default")


@pytest.mark.parametrize("ahead", [0, 3_600])
def test_start_is_forecast_by_the_pace_of_its_own_queue(harness: StoreHarness, insights: Insights, ahead: int) -> None:
    """One document a second starts in `default`, one in ten seconds in `ocr`: the same place means another wait.

    It holds where another clock, ahead of this one, made the store.
    """
    harness.clock.set(START - seconds(ahead))
    harness.set_policy(SINGLE_LEVEL_POLICY)
    for report in (WORKER, OCR_WORKER):
        harness.store.record_worker(report)
    fast = [receipt.id for receipt in harness.submit("acme", 300)]
    slow = [receipt.id for receipt in harness.submit("acme", 60, queue=OCR)]
    for second in range(250):
        for claimed in claim(harness, 1) + (claim(harness, 1, OCR) if second % 10 == 0 else ()):
            harness.queue.finish(claimed)
        harness.advance(1)
    for report in (WORKER, OCR_WORKER):
        harness.store.record_worker(report)
    waits = []
    for id_ in (fast[-1], slow[-1]):
        why = insights.why(id_)
        assert why.forecast is not None, why.no_start
        assert why.place is not None
        waits.append(why.forecast.wait / (why.place + 1) / seconds(1))
    assert waits == pytest.approx([1, 10], rel=0.05)


# -- all queues -----------------------------------------------------------------------------------------------------


def test_overview_counts_the_lanes_of_all_queues(harness: StoreHarness, insights: Insights) -> None:
    harness.submit("acme", 2)
    harness.advance(5)
    harness.submit("acme", 2, queue=OCR)
    harness.submit("beta", 3, queue=OCR)
    harness.queue.pause(ANNA, "beta")
    harness.claim(1)
    harness.advance(1)
    overview, live = insights.overview(), live_overview(insights, harness.clock.now())
    assert (overview.customers, overview.waiting_closed, sum(overview.waiting.values())) == (1, 3, 6)
    assert (live.customers, live.held_customers, live.held, live.quiet.waiting) == (2, 1, 3, 6)
    assert live.oldest_wait == seconds(6)
    assert insights.lane_waits("acme", harness.clock.now()) == {
        ("default", 1): seconds(6), (OCR, 1): seconds(1), (OCR, 2): seconds(1),
    }  # fmt: skip


def test_lanes_that_nothing_serves_want_no_worker_time(harness: StoreHarness, insights: Insights) -> None:
    def served() -> set[tuple[str, int]]:
        harness.advance(1)
        lanes: tuple[LaneSnapshot, ...] = insights.served_lanes(harness.clock.now())
        return {(lane.customer, lane.waiting) for lane in lanes}

    harness.store.record_worker(WORKER)
    harness.submit("acme", 1)
    harness.submit("beta", 2, queue=OCR)
    assert served() == {("acme", 1)}
    harness.store.record_worker(OCR_WORKER)
    assert served() == {("acme", 1), ("beta", 2)}
    harness.queue.pause(ANNA, queue=OCR)
    assert served() == {("acme", 1)}


def test_notices_name_queues_that_are_paused_or_unserved(harness: StoreHarness, insights: Insights) -> None:
    harness.submit("acme", 1)
    harness.submit("beta", 2, queue=OCR)
    assert notices_by_kind(harness, insights)[NoticeKind.NO_WORKERS].n == 3
    harness.store.record_worker(WORKER)
    harness.advance(1)
    unserved = Notice(NoticeKind.QUEUES_UNSERVED, names=(OCR,), n=2)
    assert notices_by_kind(harness, insights) == {NoticeKind.QUEUES_UNSERVED: unserved}
    overview = live_overview(insights, harness.clock.now())
    assert customer_notices(insights, overview, "acme") == ()
    assert customer_notices(insights, overview, "beta") == (unserved,)
    harness.queue.pause(ANNA, queue=OCR)
    paused_at = harness.clock.now()
    harness.advance(1)
    paused = Notice(NoticeKind.QUEUES_PAUSED, ANNA, paused_at, (OCR,))
    assert notices_by_kind(harness, insights) == {NoticeKind.QUEUES_PAUSED: paused}
    overview = live_overview(insights, harness.clock.now())
    assert customer_notices(insights, overview, "beta") == (Notice(NoticeKind.QUEUES_PAUSED, names=(OCR,)),)
    harness.queue.pause(ANNA)
    harness.advance(1)
    assert notices_by_kind(harness, insights)[NoticeKind.QUEUE_PAUSED].at == paused_at + seconds(1)


# -- steps ----------------------------------------------------------------------------------------------------------


def move_on(harness: StoreHarness, source: str, target: str) -> None:
    (claimed,) = claim(harness, 1, source)
    harness.queue.ack([harness.queue.next_step(claimed, target, 1)])


def flow_of(harness: StoreHarness) -> FlowReader:
    return FlowReader(harness.queue, Snapshots(harness.queue))


def test_documents_that_come_from_another_queue_are_arrivals(harness: StoreHarness) -> None:
    """Each is taken as it comes: nothing says how fast the queue could be."""
    for n in range(40):
        harness.submit(f"c{n % 2}", queue=OCR)
        move_on(harness, OCR, "export")
        harness.queue.finish(claim(harness, 1, "export")[0])
        harness.advance(2)
    now = harness.clock.now()
    recent = flow_of(harness).recent("export", now)
    assert recent.starts.speed(now) is None
    assert recent.arrived.documents == {"c0": 20, "c1": 20}


def test_queue_that_only_moves_documents_on_has_a_pace(harness: StoreHarness) -> None:
    for _ in range(40):
        harness.submit("acme", queue=OCR)
        move_on(harness, OCR, "export")
        harness.advance(1)
    speed = flow_of(harness).finish_speed(OCR, harness.clock.now())
    assert speed is not None
    assert speed.fast == seconds(1)
    assert flow_of(harness).finish_speed("export", harness.clock.now()) is None


# -- parts ----------------------------------------------------------------------------------------------------------


def split(harness: StoreHarness, customer: str, n: int, **fields: object) -> str:
    id_ = harness.submit_one(customer, queue="split", **fields)
    (claimed,) = claim(harness, 1, "split")
    parts = [NewDocument("page", queue="page", **fields)] * n  # type: ignore[arg-type]
    harness.queue.ack([harness.queue.split(claimed, parts, "merge")])
    return id_


def test_overview_counts_parts_and_names_what_waits_for_them(harness: StoreHarness, insights: Insights) -> None:
    split(harness, "acme", 3)
    claim(harness, 1, "page")
    overview = insights.overview()
    assert overview.states == {DocumentState.SPLIT: 1, DocumentState.WAITING: 2, DocumentState.RUNNING: 1}
    (customer,) = harness.store.customer_summaries()
    assert (customer.waiting, customer.running) == (2, 1)


def test_steps_and_parts_are_worker_time_of_their_customer(harness: StoreHarness, insights: Insights) -> None:
    harness.submit("beta", queue="page")
    id_ = harness.submit_one("acme", queue="split")
    (claimed,) = claim(harness, 1, "split")
    harness.advance(10)
    harness.queue.ack([harness.queue.split(claimed, [NewDocument("page", queue="page")] * 3, "merge")])
    for claimed in claim(harness, 4, "page"):
        harness.advance(10)
        harness.queue.finish(claimed)
    assert harness.state(id_) is DocumentState.SPLIT
    harness.advance(0.001)
    shares = insights.shares()
    acme, beta = shares.customers["acme"], shares.customers["beta"]
    assert acme.worked + beta.worked == seconds(10 + 10 + 20 + 30 + 40)
    assert (acme.documents, beta.documents) == (3, 1)


def test_batch_counts_the_documents_that_were_submitted(harness: StoreHarness, insights: Insights) -> None:
    split(harness, "acme", 3, batch="march")
    assert insights.batch("march").states == {DocumentState.SPLIT: 1}
