"""Failed documents over HTTP, by kind of error, and the retry of a kind."""

from starlette.testclient import TestClient

from inturn.model import NewDocument
from inturn.store_types import DocumentFilter, EventKind

from .conftest import Harness


def fail(harness: Harness, customer: str, *errors: str) -> None:
    for error in errors:
        harness.queue.submit(customer, [NewDocument(f"{customer}.pdf")])
        (claim,) = harness.queue.claim("w")
        harness.queue.fail(claim, error, final=True)


def test_failures_are_grouped_and_a_group_is_retried(harness: Harness, anna: TestClient) -> None:
    fail(harness, "acme", "page 1 is broken", "page 2 is broken", "no disk")
    fail(harness, "bolt", "page 9 is broken")
    listed = anna.get("/v1/failures").json()
    assert (listed["documents"], listed["oldest_at"]) == (4, None)
    broken, disk = listed["groups"]
    assert (broken["error"], broken["documents"], broken["customers"]) == ("page <n> is broken", 3, 2)
    assert (broken["most"], broken["example"]["customer"]) == (["acme", "bolt"], "bolt")
    assert (disk["error"], disk["documents"]) == ("no disk", 1)
    path, span = f"/v1/failures/{broken['id']}/retry", {"since": listed["since"], "until": listed["until"]}
    assert anna.post(path, json={**span, "dry_run": True}).json() == {"documents": 3, "done": False}
    fail(harness, "late", "page 7 is broken")
    assert anna.post(path, json=span, params={"why": "mended"}).json() == {"documents": 3, "done": True}
    waiting = harness.queue.counts(DocumentFilter()).states
    assert waiting == {"waiting": 3, "failed": 2}
    retried = [event for event in harness.queue.audit(limit=5) if event.kind is EventKind.RETRIED]
    assert {event.customer for event in retried} == {"acme", "bolt"}
    assert {(event.operator.name, event.operator.why) for event in retried if event.operator} == {("anna", "mended")}
    assert anna.post(path, json=span).json() == {"documents": 0, "done": True}
    for part in ("broken", "n", disk["id"][:9]):  # a part of an error is no group: it could be in all of them
        assert anna.post(f"/v1/failures/{part}/retry", json=span).json() == {"documents": 0, "done": True}


def test_a_range_is_chosen_and_checked(harness: Harness, anna: TestClient) -> None:
    fail(harness, "acme", "no disk")
    failed_at = harness.queue.documents().items[0].finished_at
    assert anna.get("/v1/failures", params={"since": failed_at}).json()["documents"] == 1
    assert anna.get("/v1/failures", params={"until": failed_at}).json()["documents"] == 0
    assert anna.get("/v1/failures", params={"since": "yesterday"}).status_code == 422


def test_failures_are_for_operators(harness: Harness, acme: TestClient) -> None:
    fail(harness, "acme", "no disk")
    assert acme.get("/v1/failures").status_code == 404
    assert acme.post("/v1/failures/x/retry", json={}).status_code == 404
