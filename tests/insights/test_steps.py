"""Why a document with steps is where it is: its present queue, the limits of that, its parts, people."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inturn.clock import ManualClock
from inturn.human_steps import HumanSteps
from inturn.i18n import LANGUAGES, Texts
from inturn.insights import (
    ClosedBy,
    Insights,
    NoPlace,
    NoStart,
    NoticeKind,
    customer_notices,
    live_overview,
    queue_notices,
)
from inturn.insights.explain import explain, explain_to_customer
from inturn.model import Claim, NewDocument, RateLimit
from inturn.stores import open_store
from inturn.testing.contract.harness import ANNA, START, StoreHarness
from inturn.values import seconds
from inturn.worker_report import WorkerReport

OCR, EXPORT, CHECK = "ocr", "export", "check"


@pytest.fixture(params=["memory", "sqlite"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreHarness]:
    clock = ManualClock(START)
    store = open_store("memory://" if request.param == "memory" else str(tmp_path / "queue.db"), clock)
    yield StoreHarness(store, clock)
    store.close()


@pytest.fixture
def insights(harness: StoreHarness) -> Insights:
    return Insights(harness.queue, harness.clock)


def claim(harness: StoreHarness, queue: str) -> Claim:
    (claimed,) = harness.queue.claim("w1", queues=[queue])
    return claimed


def split(harness: StoreHarness, n: int) -> str:
    """Split a document into parts that wait in the queue `ocr`; it goes on in `export`."""
    id_ = harness.submit_one("acme")
    parts = [NewDocument(f"page {number}", queue=OCR) for number in range(n)]
    harness.queue.ack([harness.queue.split(harness.claim_one(), parts, EXPORT)])
    return id_


def test_place_is_that_in_the_present_queue(harness: StoreHarness, insights: Insights) -> None:
    harness.submit("beta", 3, queue=OCR)
    id_ = harness.submit_one("acme", steps=[OCR, EXPORT])
    assert insights.why(id_).place == 1
    for _ in range(2):
        claimed = claim(harness, OCR)
    assert claimed.document.id == id_
    harness.queue.finish(claimed)
    assert insights.why(id_).place == 0


def test_cap_of_the_queue_holds_its_documents(harness: StoreHarness, insights: Insights) -> None:
    harness.queue.change_queue(OCR, ANNA, cap=1)
    harness.submit("beta", 1, queue=OCR)
    id_ = harness.submit_one("acme", queue=OCR)
    assert insights.why(id_).closed_by == ()
    claimed = claim(harness, OCR)
    why = insights.why(id_)
    assert (why.closed_by, why.no_place, why.no_start) == ((ClosedBy.OWN_QUEUE_CAP,), NoPlace.CLOSED, NoStart.CLOSED)
    for language in LANGUAGES:
        assert OCR in dict(explain(why, Texts(language)))[Texts(language).text("label_line")]
        assert OCR in " ".join(explain_to_customer(why, Texts(language), None))
    harness.queue.finish(claimed)
    assert insights.why(id_).closed_by == ()


def test_rate_of_the_queue_holds_its_documents(harness: StoreHarness, insights: Insights) -> None:
    """Starts of other queues, and those of documents that have gone on, are others."""
    harness.queue.change_queue(OCR, ANNA, rate=RateLimit(2, seconds(60)))
    harness.submit("beta", 1, steps=[OCR, EXPORT])
    harness.submit("beta", 3, queue=EXPORT)
    harness.submit("beta", 1, queue=OCR)
    id_ = harness.submit_one("acme", queue=OCR)
    for _ in range(3):
        claim(harness, EXPORT)
    harness.queue.finish(claim(harness, OCR))
    assert insights.why(id_).closed_by == ()
    claim(harness, OCR)
    left = harness.submit_one("gamma", queue=OCR)
    why = insights.why(left)
    assert (why.closed_by, why.no_place) == ((ClosedBy.OWN_QUEUE_RATE,), NoPlace.CLOSED)
    assert "has reached its rate limit" in dict(explain(why, Texts()))["Can start"]
    assert harness.queue.claim("w1", queues=[OCR]) == ()
    harness.advance(30)
    assert insights.why(left).closed_by == ()
    assert len(harness.queue.claim("w1", queues=[OCR])) == 1


def test_split_document_names_its_unended_parts(harness: StoreHarness, insights: Insights) -> None:
    id_ = split(harness, 3)
    harness.queue.finish(claim(harness, OCR))
    harness.queue.fail(claim(harness, OCR), "torn", final=True)
    why = insights.why(id_)
    assert (why.unended_parts, why.no_place, why.closed_by) == (1, NoPlace.SPLIT, ())
    assert dict(explain(why, Texts()))["Parts"] == "1 part has not finished. Then it moves to the queue export."
    for language in LANGUAGES:
        assert EXPORT in " ".join(explain_to_customer(why, Texts(language), None))
    harness.queue.finish(claim(harness, OCR))
    if harness.state(id_) == "split":
        assert insights.why(id_).unended_parts == 0
    harness.store.sweep()
    assert insights.why(id_).unended_parts is None


def test_queue_that_people_serve_is_never_unserved(harness: StoreHarness, insights: Insights) -> None:
    harness.queue.change_queue(CHECK, ANNA, manual=True)
    id_ = harness.submit_one("acme", queue=CHECK)
    why = insights.why(id_)
    assert (why.place, why.no_start) == (0, NoStart.BY_HAND)
    assert "by hand" in dict(explain(why, Texts()))["Start"]
    now = harness.clock.now()
    assert queue_notices(insights, live_overview(insights, now)) == ()
    assert customer_notices(insights, live_overview(insights, now), "acme") == ()
    harness.queue.record_worker(WorkerReport("w1", "host", 1, 1, 0, "p", 0))
    harness.submit("acme", 1, queue=OCR)
    harness.advance(2)
    for notices in (
        queue_notices(insights, live_overview(insights, harness.clock.now())),
        customer_notices(insights, live_overview(insights, harness.clock.now()), "acme"),
    ):
        assert [(notice.kind, notice.names, notice.n) for notice in notices] == [
            (NoticeKind.QUEUES_UNSERVED, (OCR,), 1)
        ]


def test_person_is_no_worker(harness: StoreHarness, insights: Insights) -> None:
    """What a person has taken hides neither that no worker is there nor that none serves a queue."""
    harness.queue.change_queue(CHECK, ANNA, manual=True)
    harness.submit("acme", 1, queue=CHECK)
    id_ = harness.submit_one("acme", queue=OCR)
    HumanSteps(harness.queue, "anna").take(CHECK)
    assert not insights.has_worker(harness.clock.now())
    assert insights.why(id_).no_start is NoStart.NO_WORKER


def test_batch_counts_documents_and_not_their_parts(harness: StoreHarness, insights: Insights) -> None:
    harness.submit_one("acme", batch="march")
    parts = [NewDocument("page", queue=OCR, batch="march")] * 3
    harness.queue.ack([harness.queue.split(harness.claim_one(), parts, EXPORT)])
    assert insights.batch("march").states == {"split": 1}
