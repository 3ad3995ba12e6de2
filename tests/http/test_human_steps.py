"""Queues that people serve, over HTTP: what waits, and documents that operators take, finish and hand back."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from http_server import create_api_key
from inturn.api_keys import ApiKeyScope
from inturn.model import NewDocument
from inturn.values import seconds

from .conftest import ANNA, Harness

CHECK = "check"
FORM = [{"name": "total", "kind": "number", "required": True}]


@pytest.fixture
def queue(harness: Harness) -> str:
    """A queue that people serve."""
    harness.queue.change_queue(CHECK, ANNA, manual=True)
    return CHECK


def submit(harness: Harness, n: int = 1, customer: str = "acme", **fields: Any) -> list[str]:
    """Submit to that queue."""
    document = NewDocument("a", **{"queue": CHECK, **fields})
    return [receipt.id for receipt in harness.queue.submit(customer, [document] * n)]


def take(client: TestClient) -> dict[str, Any]:
    """Take the next document."""
    answer = client.post(f"/v1/queues/{CHECK}/take")
    assert answer.status_code == 200, answer.text
    taken: dict[str, Any] = answer.json()["taken"]
    return taken


def test_operators_take_finish_and_see_what_is_left(harness: Harness, anna: TestClient, queue: str) -> None:
    harness.queue.change_queue(queue, ANNA, form=FORM)
    first, second = submit(harness, 2, steps=[CHECK, "export"])
    (third,) = submit(harness, 1, "beta")
    taken = anna.post(f"/v1/queues/{queue}/take").json()
    document = taken["taken"]["document"]
    assert (document["id"], document["state"], taken["waiting"]) == (first, "running", 2)
    assert (taken["taken"]["worker"], taken["form"][0]["name"]) == ("person:anna", "total")
    assert taken["taken"]["lease_until"] - document["started_at"] == seconds(1_800)
    listed = anna.get(f"/v1/queues/{queue}/documents").json()
    assert [(item["document"]["id"], item["place"]) for item in listed["waiting"]] == [(third, 0), (second, 1)]
    assert [item["document"]["id"] for item in listed["taken"]] == [first]
    assert (listed["queue"]["name"], listed["queue"]["manual"], listed["queue"]["waiting"]) == (queue, True, 2)
    fence = taken["taken"]["fence"]
    refused = anna.post(f"/v1/documents/{first}/finish", json={"fence": fence, "result": {"total": "x"}})
    assert (refused.status_code, "total: it must be a number" in refused.json()["detail"]) == (422, True)
    done = anna.post(f"/v1/documents/{first}/finish", json={"fence": fence, "result": {"total": 7}}).json()
    assert (done["queue"], done["state"], done["step"]) == ("export", "waiting", 1)
    results = anna.get(f"/v1/documents/{first}/results").json()["results"]
    assert [(result["queue"], result["result"]) for result in results] == [(queue, {"total": 7})]


def test_person_sees_content_metadata_and_earlier_results(harness: Harness, anna: TestClient, queue: str) -> None:
    harness.queue.change_queue("ocr", ANNA)
    spec = {"name": "a.txt", "text": "Hello", "metadata": {"order": 7}, "steps": ["ocr", queue]}
    anna.post("/v1/documents", json={"customer": "acme", "documents": [spec]})
    (claimed,) = harness.queue.claim("w1", queues=["ocr"])
    harness.queue.finish(claimed, {"text": "HELLO"})
    document = take(anna)["document"]
    assert (document["metadata"], document["step"]) == ({"order": 7}, 1)
    assert anna.get(f"/v1/documents/{document['id']}/content").text == "Hello"
    results = anna.get(f"/v1/documents/{document['id']}/results").json()["results"]
    assert results[0]["result"] == {"text": "HELLO"}


def test_nothing_to_take_is_no_error(harness: Harness, anna: TestClient, queue: str) -> None:
    assert anna.post(f"/v1/queues/{queue}/take").json() == {"taken": None, "waiting": 0, "form": None}
    submit(harness, 3)
    harness.queue.pause(ANNA, queue=queue)
    assert anna.post(f"/v1/queues/{queue}/take").json() == {"taken": None, "waiting": 3, "form": None}


def test_queues_of_workers_are_not_served_by_hand(harness: Harness, anna: TestClient) -> None:
    submit(harness, 1, queue="ocr")
    refused = anna.post("/v1/queues/ocr/take")
    assert (refused.status_code, refused.json()["code"]) == (409, "illegal_move")
    assert "people do not serve the queue ocr" in refused.json()["detail"]
    assert anna.post("/v1/queues/nowhere/take").status_code == 404
    assert anna.get("/v1/queues/nowhere/documents").status_code == 404
    assert [item["place"] for item in anna.get("/v1/queues/ocr/documents").json()["waiting"]] == [0]
    (claimed,) = harness.queue.claim("w1", queues=["ocr"])
    finished = anna.post(f"/v1/documents/{claimed.document.id}/finish", json={"fence": claimed.fence})
    assert (finished.status_code, "the worker w1" in finished.json()["detail"]) == (409, True)


@pytest.mark.usefixtures("queue")
def test_lease_is_extended_and_a_stale_fence_is_refused_in_words(harness: Harness, anna: TestClient) -> None:
    (id_,) = submit(harness)
    fence = take(anna)["fence"]
    hour = {"lease": seconds(3_600)}
    extended = anna.post(f"/v1/documents/{id_}/extend", json={"fence": fence}, params=hour).json()
    assert extended["lease_until"] - extended["document"]["started_at"] >= seconds(3_600)
    assert anna.post(f"/v1/documents/{id_}/extend", json={"fence": fence}, params={"lease": 1}).status_code == 422
    assert anna.post(f"/v1/documents/{id_}/release", json={"fence": fence}).json()["state"] == "waiting"
    for verb, body in (
        ("extend", {"fence": fence}),
        ("finish", {"fence": fence, "result": 1}),
        ("reject", {"fence": fence, "reason": "no"}),
        ("finish", {"fence": fence + 1_000, "result": 1}),
    ):
        stale = anna.post(f"/v1/documents/{id_}/{verb}", json=body)
        assert (stale.status_code, stale.json()["code"]) == (409, "stale_fence"), verb
        assert "no longer holds document" in stale.json()["detail"]
    assert anna.post(f"/v1/documents/{id_}/finish", json={"result": 1}).status_code == 422


def test_fence_is_shown_to_the_person_who_has_the_document(harness: Harness, anna: TestClient, queue: str) -> None:
    """Who loads the page again goes on with the document; a colleague sees only who has it."""
    submit(harness)
    fence = take(anna)["fence"]
    reader = harness.client_as(harness.create_api_key(None, ApiKeyScope.READ_ONLY))
    assert anna.get(f"/v1/queues/{queue}/documents").json()["taken"][0]["fence"] == fence
    bert = harness.client_as(create_api_key(harness.queue.store, "bert", None))
    (seen,) = bert.get(f"/v1/queues/{queue}/documents").json()["taken"]
    assert (seen["worker"], seen["fence"]) == ("person:anna", None)
    assert reader.get(f"/v1/queues/{queue}/documents").status_code == 200


@pytest.mark.usefixtures("queue")
def test_rejected_document_fails_with_the_reason(harness: Harness, anna: TestClient, acme: TestClient) -> None:
    (id_,) = submit(harness)
    fence = take(anna)["fence"]
    assert anna.post(f"/v1/documents/{id_}/reject", json={"fence": fence, "reason": " "}).status_code == 422
    rejected = anna.post(f"/v1/documents/{id_}/reject", json={"fence": fence, "reason": "no invoice"}).json()
    assert (rejected["state"], rejected["error"]) == ("failed", "no invoice")
    assert acme.get(f"/v1/documents/{id_}").json()["error"] == "no invoice"
    assert acme.get(f"/v1/documents/{id_}").json()["worker"] is None


@pytest.mark.usefixtures("queue")
def test_timeline_names_the_person(harness: Harness, anna: TestClient) -> None:
    (id_,) = submit(harness, steps=[CHECK, "export"])
    for verb in ("release", "finish"):
        anna.post(f"/v1/documents/{id_}/{verb}", json={"fence": take(anna)["fence"]})
    moments = anna.get(f"/v1/documents/{id_}/timeline").json()["moments"]
    by_person = [moment["kind"] for moment in moments if moment["worker"] == "person:anna"]
    assert by_person == ["started", "handed_back", "started", "step_done"]
    assert {(moment["queue"], moment["step"]) for moment in moments if moment["worker"]} == {(CHECK, 0)}


def test_customers_and_readers_take_nothing(harness: Harness, anna: TestClient, acme: TestClient, queue: str) -> None:
    (id_,) = submit(harness)
    fence = take(anna)["fence"]
    reader = harness.client_as(harness.create_api_key(None, ApiKeyScope.READ_ONLY))
    body = {"fence": fence}
    for client, status in ((acme, 404), (reader, 403)):
        assert client.post(f"/v1/queues/{queue}/take").status_code == status
        for verb in ("extend", "finish", "release"):
            assert client.post(f"/v1/documents/{id_}/{verb}", json=body).status_code == status
        rejected = client.post(f"/v1/documents/{id_}/reject", json={**body, "reason": "no"})
        assert rejected.status_code == status
    assert anna.get(f"/v1/documents/{id_}").json()["state"] == "running"


@pytest.mark.usefixtures("queue")
def test_queues_of_people_need_no_worker(harness: Harness, anna: TestClient) -> None:
    (id_,) = submit(harness)
    assert anna.get("/v1/status").json()["notices"] == []
    why = anna.get(f"/v1/documents/{id_}/why").json()
    assert (why["no_start"], why["place"]) == ("by_hand", 0)
    assert "by hand" in why["sentence"]
    assert take(anna)["document"]["id"] == id_
    submit(harness, 1, queue="ocr")
    harness.clock.advance(seconds(60))  # notices are read anew
    assert [notice["kind"] for notice in anna.get("/v1/status").json()["notices"]] == ["no_workers"]
