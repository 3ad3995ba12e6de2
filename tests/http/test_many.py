"""Documents by ids, counts, and timelines."""

import time

from starlette.testclient import TestClient

from inturn.model import NewDocument
from inturn.worker_report import Progress, WorkerReport

from .conftest import ANNA, Harness

UNKNOWN = "018f3c5e-0000-7000-8000-000000000000"


def submit(harness: Harness, customer: str, n: int, batch: str | None = None) -> list[str]:
    return [receipt.id for receipt in harness.queue.submit(customer, [NewDocument(f"{customer}.txt", batch=batch)] * n)]


def test_documents_are_listed_by_their_ids_newest_first(harness: Harness, anna: TestClient, acme: TestClient) -> None:
    mine, others = submit(harness, "acme", 3), submit(harness, "beta", 1)
    asked = {"id": [mine[0], others[0], mine[2], UNKNOWN, "no id"]}
    result = anna.get("/v1/documents", params=asked).json()
    assert [item["id"] for item in result["documents"]] == [others[0], mine[2], mine[0]]
    assert result["next"] is None
    assert [item["id"] for item in acme.get("/v1/documents", params=asked).json()["documents"]] == [mine[2], mine[0]]
    assert anna.get("/v1/documents", params={"id": [UNKNOWN] * 101}).status_code == 422


def test_matching_documents_are_counted_by_state(harness: Harness, anna: TestClient, acme: TestClient) -> None:
    submit(harness, "acme", 3, batch="may")
    submit(harness, "beta", 2)
    harness.process_documents()
    result = anna.get("/v1/documents/counts").json()
    assert (result["documents"], result["states"]["waiting"], result["states"]["done"]) == (5, 4, 1)
    assert result["states"]["failed"] == 0
    assert anna.get("/v1/documents/counts", params={"batch": "may"}).json()["documents"] == 3
    assert acme.get("/v1/documents/counts").json()["documents"] == 3
    assert acme.get("/v1/documents/counts", params={"customer": "beta"}).status_code == 404


def test_bulk_cancel_and_retry_by_id_skip_documents_of_others(
    harness: Harness, anna: TestClient, acme: TestClient
) -> None:
    mine, (other,) = submit(harness, "acme", 3), submit(harness, "beta", 1)
    asked = {"ids": [mine[0], mine[2], other, UNKNOWN]}
    assert acme.post("/v1/documents/cancel", json={**asked, "dry_run": True}).json() == {"documents": 2, "done": False}
    assert harness.queue.document(mine[0]).state == "waiting"
    assert acme.post("/v1/documents/cancel", json=asked).json() == {"documents": 2, "done": True}
    assert [str(harness.queue.document(item).state) for item in (*mine, other)] == [
        "cancelled",
        "waiting",
        "cancelled",
        "waiting",
    ]
    assert anna.post("/v1/documents/cancel", json={"ids": mine, "dry_run": True}).json()["documents"] == 1
    assert anna.post("/v1/documents/cancel", json={"ids": [mine[0]]}).json()["documents"] == 0
    assert anna.post("/v1/documents/retry", json={"ids": [mine[2], mine[0], mine[1]]}).json()["documents"] == 2
    assert harness.queue.document(mine[0]).count > harness.queue.document(mine[2]).count  # the oldest is checked first
    refused: tuple[dict[str, object], ...] = ({"ids": mine, "customer": "acme"}, {"ids": []}, {})
    for body in refused:
        assert anna.post("/v1/documents/cancel", json=body).status_code == 422


def test_operators_expedite_documents_by_id(harness: Harness, anna: TestClient, acme: TestClient) -> None:
    ids = submit(harness, "acme", 3)
    harness.queue.cancel(ids[1], ANNA)
    assert acme.post("/v1/documents/expedite", json={"ids": ids}).status_code == 404
    assert anna.post("/v1/documents/expedite", json={"ids": ids}).json() == {"documents": 2, "done": True}
    assert [harness.queue.document(item).expedited for item in ids] == [True, False, True]


def test_timeline_names_operators_and_workers_only_to_operators(
    harness: Harness, anna: TestClient, acme: TestClient
) -> None:
    (id_,) = submit(harness, "acme", 1)
    submit(harness, "beta", 1)
    anna.post(f"/v1/documents/{id_}/expedite", params={"why": "a call"})
    (claimed,) = harness.queue.claim("worker", 1)
    now = time.time_ns() // 1_000
    held = {id_: Progress(3, 4)}
    harness.queue.store.record_worker(WorkerReport("worker", "host", 1, 1, 1, "extract", now, progress=held))
    result = anna.get(f"/v1/documents/{id_}/timeline").json()
    assert [item["kind"] for item in result["moments"]] == ["submitted", "expedited", "started"]
    assert (result["is_whole"], result["done"]) == (True, 0.75)
    assert (result["moments"][1]["operator"], result["moments"][1]["why"]) == ("anna", "a call")
    own = acme.get(f"/v1/documents/{id_}/timeline").json()
    assert [item["kind"] for item in own["moments"]] == ["submitted", "expedited", "started"]
    assert (own["moments"][1]["operator"], own["moments"][1]["why"]) == (None, None)
    harness.queue.finish(claimed)
    result = anna.get(f"/v1/documents/{id_}/timeline").json()
    assert (result["moments"][-1]["kind"], result["done"], result["is_whole"]) == ("finished", None, True)
    assert harness.client_as(harness.create_api_key("beta")).get(f"/v1/documents/{id_}/timeline").status_code == 404


def test_timeline_has_each_attempt_with_its_error(harness: Harness, anna: TestClient, acme: TestClient) -> None:
    """The trace below an error, and who worked at it, is for operators."""
    (id_,) = submit(harness, "acme", 1)
    for worker in ("one", "two"):
        (claimed,) = harness.queue.claim(worker, 1)
        harness.queue.fail(claimed, f"torn in {worker}\nline 7 of secret.py", retry_in=0)
    harness.queue.fail(harness.queue.claim("three", 1)[0], "torn for good\nline 9")
    shown = [
        [(item["kind"], item["attempt"], item["error"], item["worker"]) for item in client["moments"]]
        for client in (who.get(f"/v1/documents/{id_}/timeline").json() for who in (anna, acme))
    ]
    assert shown[0] == [
        ("submitted", None, None, None),
        ("started", 1, None, "one"),
        ("delayed", 1, "torn in one\nline 7 of secret.py", "one"),
        ("started", 2, None, "two"),
        ("delayed", 2, "torn in two\nline 7 of secret.py", "two"),
        ("started", 3, None, None),
        ("failed", 3, "torn for good\nline 9", None),
    ]
    assert shown[1] == [
        (kind, attempt, error and error.partition("\n")[0], None) for kind, attempt, error, _ in shown[0]
    ]


def test_timeline_has_a_span_for_each_step(harness: Harness, acme: TestClient) -> None:
    queue = harness.queue
    (receipt,) = queue.submit("acme", [NewDocument("a", queue="split")])
    (claimed,) = queue.claim("worker", 1, queues=["split"])
    queue.ack([queue.split(claimed, [NewDocument("page", queue="page")] * 2, "merge", {"pages": 2})])
    split, merge = acme.get(f"/v1/documents/{receipt.id}/timeline").json()["steps"]
    assert (split["step"], split["queue"], split["attempts"], split["has_result"]) == (0, "split", 1, True)
    assert split["parts"] == {"since": split["ended_at"], "until": None, "parts": 2, "ended": 0, "failed": 0}
    assert (merge["queue"], merge["ready_at"], merge["started_at"], merge["parts"]) == ("merge", None, None, None)


def test_timeline_survives_the_deletion_of_events(harness: Harness, anna: TestClient) -> None:
    (id_,) = submit(harness, "acme", 1)
    harness.queue.store.prune(time.time_ns() // 1_000, limit=1_000)
    anna.post(f"/v1/documents/{id_}/expedite")
    result = anna.get(f"/v1/documents/{id_}/timeline").json()
    assert [item["kind"] for item in result["moments"]] == ["submitted", "expedited"]
    assert result["is_whole"]


def test_limits_route_returns_upload_limits(anna: TestClient, acme: TestClient) -> None:
    reported = {"file": 50 << 20, "body": 100 << 20, "files": 10}
    assert anna.get("/v1/limits").json() == acme.get("/v1/limits").json() == reported
