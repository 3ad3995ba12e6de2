"""Queues over HTTP: documents in them, their settings and pauses, and who may do what."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from inturn.api_keys import ApiKeyScope
from inturn.model import NewDocument
from inturn.store_types import EventKind
from inturn.worker_report import WorkerReport

from .conftest import ANNA, Harness


def submit(client: TestClient, n: int = 1, queue: str | None = "ocr", customer: str | None = None) -> list[str]:
    spec = {"name": "a.txt", "text": "x"} | ({} if queue is None else {"queue": queue})
    body = {"documents": [spec] * n} | ({} if customer is None else {"customer": customer})
    answer = client.post("/v1/documents", json=body)
    assert answer.status_code == 202, answer.text
    return [receipt["id"] for receipt in answer.json()["receipts"]]


def queues(client: TestClient) -> dict[str, dict[str, Any]]:
    return {queue.pop("name"): queue for queue in client.get("/v1/queues").json()["queues"]}


def test_documents_name_their_queue_and_are_filtered_by_it(anna: TestClient) -> None:
    submit(anna, 2, customer="acme")
    form = anna.post("/v1/documents", files={"file": ("b.txt", b"x")}, data={"customer": "acme", "queue": "ocr"})
    assert form.status_code == 202
    submit(anna, 1, None, customer="acme")
    ids = submit(anna, 1, customer="beta")
    assert anna.get(f"/v1/documents/{ids[0]}").json()["queue"] == "ocr"
    assert anna.get(f"/v1/documents/{ids[0]}/why").json()["queue"] == "ocr"
    listed = anna.get("/v1/documents", params={"queue": "ocr", "customer": "acme"}).json()["documents"]
    assert [document["queue"] for document in listed] == ["ocr"] * 3
    assert [document["queue"] for document in anna.get("/v1/documents?queue=default").json()["documents"]] == [
        "default"
    ]
    assert anna.get("/v1/documents?queue=unknown").json()["documents"] == []
    assert anna.get("/v1/documents/counts", params={"queue": "ocr"}).json()["documents"] == 4
    for verb, n in (("cancel", 4), ("retry", 4)):
        counted = anna.post(f"/v1/documents/{verb}", json={"queue": "ocr", "dry_run": True}).json()
        assert counted["documents"] == (n if verb == "cancel" else 0)
    assert anna.post("/v1/documents/cancel", json={"queue": "ocr"}).json() == {"documents": 4, "done": True}
    assert anna.get("/v1/documents/counts", params={"queue": "default"}).json()["states"]["waiting"] == 1


@pytest.mark.parametrize("name", ["", "a/b", "a b", "-a", "x" * 64, "é"])
def test_wrong_names_are_refused(anna: TestClient, name: str) -> None:
    body = {"customer": "acme", "documents": [{"name": "a", "queue": name}]}
    assert anna.post("/v1/documents", json=body).status_code == 422
    form = anna.post("/v1/documents", files={"file": ("b.txt", b"x")}, data={"customer": "acme", "queue": name})
    assert form.status_code == 422
    assert anna.get("/v1/documents", params={"queue": name}).status_code == 422
    assert list(queues(anna)) == ["default"]


def test_customer_submits_to_queues_that_exist_and_makes_none(anna: TestClient, acme: TestClient) -> None:
    refused = acme.post("/v1/documents", json={"documents": [{"name": "a", "queue": "ocr"}]})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
    assert "no queue 'ocr'" in refused.json()["detail"]
    assert list(queues(anna)) == ["default"]
    anna.patch("/v1/queues/ocr", json={})
    (id_,) = submit(acme)  # known at once: unknown names are looked up again
    assert acme.get(f"/v1/documents/{id_}").json()["queue"] == "ocr"


PLAIN = {
    "description": None,
    "weight": 1.0,
    "cap": None,
    "rate": None,
    "manual": False,
    "form": None,
    "paused": None,
    "waiting": 0,
    "running": 0,
}


def test_queues_are_listed_and_changed_with_a_reason(harness: Harness, anna: TestClient) -> None:
    assert queues(anna) == {"default": PLAIN}
    made = anna.patch("/v1/queues/ocr", json={"description": "reads scans", "weight": 3}, params={"why": "more scans"})
    changed = {"name": "ocr", "description": "reads scans", "weight": 3.0}
    assert (made.status_code, made.json()) == (200, PLAIN | changed)
    submit(anna, 3, customer="acme")
    harness.queue.claim("w1", 1, queues=("ocr",))
    changed = anna.patch("/v1/queues/ocr", json={"description": None}).json()
    assert (changed["description"], changed["weight"], changed["waiting"], changed["running"]) == (None, 3.0, 2, 1)
    event = anna.get("/v1/audit", params={"kind": "queue_changed"}).json()["events"][-1]
    assert (event["operator"], event["why"]) == ("anna", "more scans")
    assert event["detail"] == {"queue": "ocr", "description": "reads scans", "weight": 3.0}


def test_limits_and_forms_of_queues_are_set_and_removed(harness: Harness, anna: TestClient) -> None:
    rate = {"documents": 100, "per": 60_000_000}
    form = [{"name": "total", "kind": "number", "required": True}, {"name": "kind", "kind": "choice", "options": ["a"]}]
    made = anna.patch("/v1/queues/ocr", json={"cap": 20, "rate": rate, "manual": True, "form": form}).json()
    assert (made["cap"], made["rate"], made["manual"]) == (20, rate, True)
    assert [(field["name"], field["label"], field["kind"], field["required"]) for field in made["form"]] == [
        ("total", "total", "number", True), ("kind", "kind", "choice", False),
    ]  # fmt: skip
    assert queues(anna)["ocr"] == {name: value for name, value in made.items() if name != "name"}
    assert harness.queue.queue_status("ocr").settings.rate == (100, 60_000_000)
    cleared = anna.patch("/v1/queues/ocr", json={"cap": None, "rate": None, "form": None}).json()
    assert (cleared["cap"], cleared["rate"], cleared["manual"], cleared["form"]) == (None, None, True, None)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("ocr", {"cap": 0}),
        ("ocr", {"cap": 1.5}),
        ("ocr", {"rate": {"documents": 1}}),
        ("ocr", {"rate": {"documents": 1, "per": 1}}),
        ("ocr", {"manual": 1}),
        ("ocr", {"form": []}),
        ("ocr", {"form": [{"name": "a", "kind": "choice"}]}),
        ("ocr", {"form": [{"name": "a"}, {"name": "a"}]}),
        ("ocr", {"form": [{"name": "a b"}]}),
    ],
)
def test_wrong_limits_and_forms_are_refused(anna: TestClient, name: str, body: dict[str, Any]) -> None:
    refused = anna.patch(f"/v1/queues/{name}", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
    assert list(queues(anna)) == ["default"]


@pytest.mark.parametrize(
    ("name", "body"),
    [("ocr", {"weight": 0}), ("ocr", {"weight": None}), ("ocr", {"colour": "blue"}), ("a b", {"weight": 2})],
)
def test_wrong_settings_are_refused(anna: TestClient, name: str, body: dict[str, Any]) -> None:
    assert anna.patch(f"/v1/queues/{name}", json=body).status_code == 422
    assert list(queues(anna)) == ["default"]


def test_queue_is_paused_and_resumed_apart_from_all(harness: Harness, anna: TestClient) -> None:
    (id_,) = submit(anna, customer="acme")
    paused = anna.post("/v1/queues/ocr/pause", params={"why": "new scanner"}).json()
    assert paused["paused"] == {"operator": "anna", "why": "new scanner"}
    assert anna.get("/v1/queue").json() == {"paused": None}
    assert harness.queue.claim("w1", queues=("ocr",)) == ()
    why = anna.get(f"/v1/documents/{id_}/why").json()
    assert (why["closed_by"], why["no_place"]) == (["own_queue_paused"], "closed")
    assert "the queue ocr is paused" in why["sentence"]
    anna.post("/v1/queue/pause")
    assert anna.post("/v1/queues/ocr/resume").json()["paused"] is None
    assert harness.queue.claim("w1", queues=("ocr",)) == ()
    anna.post("/v1/queue/resume")
    assert len(harness.queue.claim("w1", queues=("ocr",))) == 1
    kinds = [(event.kind, event.detail.get("queue")) for event in harness.queue.audit(limit=4)]
    assert kinds == [
        (EventKind.QUEUE_RESUMED, None),
        (EventKind.QUEUE_RESUMED, "ocr"),
        (EventKind.QUEUE_PAUSED, None),
        (EventKind.QUEUE_PAUSED, "ocr"),
    ]


def test_unknown_queue_cannot_be_paused(anna: TestClient) -> None:
    for verb in ("pause", "resume"):
        answer = anna.post(f"/v1/queues/nowhere/{verb}")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "nowhere" in answer.json()["detail"]


def test_operators_write_read_only_keys_read_and_customers_see_nothing(harness: Harness, acme: TestClient) -> None:
    harness.queue.change_queue("ocr", ANNA, weight=2.0)
    reader = harness.client_as(harness.create_api_key(None, ApiKeyScope.READ_ONLY))
    assert list(queues(reader)) == ["default", "ocr"]
    for client, status in ((reader, 403), (acme, 404)):
        changes = [
            client.patch("/v1/queues/ocr", json={"weight": 3}),
            *(client.post(f"/v1/queues/ocr/{verb}") for verb in ("pause", "resume")),
        ]
        assert {answer.status_code for answer in changes} == {status}
    assert acme.get("/v1/queues").content == acme.get("/v1/nowhere").content
    (_, status_of_ocr) = harness.queue.queues()
    assert (status_of_ocr.settings.weight, status_of_ocr.paused) == (2.0, False)


def test_workers_and_lanes_name_queues(harness: Harness, anna: TestClient) -> None:
    harness.queue.submit("acme", [NewDocument("a"), NewDocument("b", queue="ocr"), NewDocument("c", queue="ocr")])
    lines = anna.get("/v1/customers/acme").json()["lines"]
    assert [(lane["queue"], lane["level"], lane["waiting"]) for lane in lines] == [("default", 1, 1), ("ocr", 1, 2)]
    assert all(lane["oldest_wait"] is not None for lane in lines)
    harness.queue.record_worker(WorkerReport("w1", "host", 7, 2, 0, "x:y", 5, queues=("ocr", "default")))
    for path in ("/v1/workers", "/v1/overview"):
        assert anna.get(path).json()["workers"][0]["queues"] == ["ocr", "default"]


def test_overview_sums_the_levels_of_all_queues(harness: Harness, anna: TestClient) -> None:
    harness.queue.submit("acme", [NewDocument("a"), NewDocument("b", queue="ocr"), NewDocument("c", queue="ocr")])
    overview = anna.get("/v1/overview").json()
    assert (overview["customers"], overview["waiting"]["1"], overview["quiet"]["waiting"]) == (1, 3, 3)
    assert overview["busiest"][0]["lines"] == {"1": 3}


def test_metrics_have_documents_by_queue(harness: Harness, anna: TestClient) -> None:
    submit(anna, 3, customer="acme")
    harness.queue.claim("w1", 1, queues=("ocr",))
    harness.queue.pause(ANNA, queue="ocr")
    page = anna.get("/metrics").text
    for line in (
        'inturn_queue_waiting{queue="default"} 0.0',
        'inturn_queue_waiting{queue="ocr"} 2.0',
        'inturn_queue_running{queue="ocr"} 1.0',
        'inturn_queue_paused{queue="ocr"} 1.0',
    ):
        assert f"\n{line}\n" in page
    assert page.count("inturn_queue_waiting{") == 2
