"""`/v1/status`: what needs attention, for operators and for customers."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from inturn.http import notices
from inturn.insights import notices as read_model
from inturn.model import NewDocument
from inturn.store_types import Operator
from inturn.values import SECOND
from inturn.worker_report import WorkerReport

from .conftest import Harness

BEN = Operator("ben", "the disk is full")


@pytest.fixture(autouse=True)
def _read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The overview that a server keeps may be a second old; here it is read for each request."""
    monkeypatch.setattr(notices, "MAX_AGE", 0)
    monkeypatch.setattr("inturn.http.stats.VIEWED_REFRESH", (0, 0))
    monkeypatch.setattr("inturn.insights.snapshots.SNAPSHOT_MAX_AGE", 0)
    monkeypatch.setattr("inturn.insights.snapshots.SNAPSHOT_AGE_FACTOR", 0)


def notices_of(client: TestClient) -> dict[str, Any]:
    return {notice["kind"]: notice for notice in client.get("/v1/status").json()["notices"]}


def report(harness: Harness, name: str = "w1") -> None:
    harness.queue.record_worker(WorkerReport(name, "host", 7, 4, 0, "x:y", 5))


def test_nothing_needs_attention_in_a_quiet_queue(harness: Harness, anna: TestClient) -> None:
    assert notices_of(anna) == {}
    harness.queue.submit("acme", [NewDocument("a")])
    report(harness)
    assert notices_of(anna) == {}


def test_a_paused_queue_says_by_whom_since_when_and_why(harness: Harness, anna: TestClient) -> None:
    harness.queue.pause(BEN)
    paused_at = harness.queue.audit(limit=1)[0].at
    notice = notices_of(anna)["queue_paused"]
    assert (notice["operator"], notice["why"], notice["at"]) == ("ben", "the disk is full", paused_at)
    harness.queue.resume(BEN)
    assert notices_of(anna) == {}


def test_paused_customers_are_named_if_documents_wait(harness: Harness, anna: TestClient) -> None:
    report(harness)
    harness.queue.pause(BEN, "acme")
    assert notices_of(anna) == {}
    harness.queue.submit("acme", [NewDocument("a")])
    harness.queue.claim("w1")
    notice = notices_of(anna)["customers_paused"]
    assert (notice["names"], notice["operator"], notice["why"]) == (["acme"], "ben", "the disk is full")
    harness.queue.pause(BEN, "bolt")
    harness.queue.submit("bolt", [NewDocument("a")])
    harness.queue.claim("w1")
    notice = notices_of(anna)["customers_paused"]
    assert (sorted(notice["names"]), notice["operator"]) == (["acme", "bolt"], None)


def test_documents_without_a_worker_and_paused_workers_are_told(harness: Harness, anna: TestClient) -> None:
    harness.queue.submit("acme", [NewDocument("a")] * 2)
    assert notices_of(anna)["no_workers"]["n"] == 2
    report(harness)
    assert notices_of(anna) == {}
    harness.queue.pause_worker("w1", BEN)
    assert {kind: (notice["n"], notice["names"]) for kind, notice in notices_of(anna).items()} == {
        "no_workers": (2, []),
        "workers_paused": (0, ["w1"]),
    }


def test_overdue_levels_are_told(harness: Harness, anna: TestClient) -> None:
    report(harness)
    harness.queue.submit("acme", [NewDocument("a")] * 5, now=harness.queue.now() - 901 * SECOND)
    harness.queue.claim("w1")
    assert notices_of(anna)["overdue"]["levels"] == [1, 2]


def test_a_share_of_the_slots_neither_holds_nor_hides_overdue_documents(harness: Harness, anna: TestClient) -> None:
    """It closes and opens a customer with each of its documents: figures and notices would come and go with it."""
    report(harness)
    harness.queue.submit("other", [NewDocument("a")])
    harness.queue.submit("flood", [NewDocument("a")] * 40, now=harness.queue.now() - 901 * SECOND)
    assert [claim.document.customer for claim in harness.queue.claim("w1", 8)].count("flood") == 3
    assert harness.queue.customer("flood").at_slot_limit
    assert notices_of(anna)["overdue"]["levels"] == [2, 3, 4, 5, 6, 7, 8, 9]
    overview = anna.get("/v1/overview").json()
    assert (overview["customers"], overview["held_customers"], overview["held"]) == (1, 0, 0)


def test_many_failures_are_told(harness: Harness, anna: TestClient) -> None:
    report(harness)
    harness.queue.submit("acme", [NewDocument("a", max_attempts=1)] * 20)
    for number, claim in enumerate(harness.queue.claim("w1", read_model.MIN_FAILED)):
        assert "failing" not in notices_of(anna), number
        harness.queue.fail(claim, "broken", final=True)
    notice = notices_of(anna)["failing"]
    assert (notice["n"], notice["of"]) == (10, 10)


def test_a_customer_sees_what_concerns_it_without_operators(
    harness: Harness, anna: TestClient, acme: TestClient
) -> None:
    harness.queue.pause(BEN, "bolt")
    harness.queue.submit("bolt", [NewDocument("a")])
    assert acme.get("/v1/status").json() == {"notices": []}
    harness.queue.submit("acme", [NewDocument("a")])
    assert list(notices_of(acme)) == ["no_workers"]
    report(harness)
    harness.queue.pause_worker("w1", BEN)
    assert list(notices_of(acme)) == ["no_workers"]
    harness.queue.resume_worker("w1", BEN)
    harness.queue.pause(BEN, "acme")
    assert list(notices_of(acme)) == ["customers_paused"]
    harness.queue.pause(BEN)
    (notice,) = acme.get("/v1/status").json()["notices"]
    assert (notice["kind"], notice["operator"], notice["why"], notice["names"]) == ("queue_paused", None, "", [])
    assert "queue_paused" in notices_of(anna)
