"""API keys, pausing the queue, and filters of the audit log over HTTP."""

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

import inturn
from inturn.api_keys import ApiKeyScope
from inturn.http.routes import audit
from inturn.http.settings import Limits
from inturn.model import NewDocument
from inturn.store_types import EventKind, Operator
from inturn.values import SECOND

from .conftest import ANNA, Harness

HOUR = 3_600 * SECOND
UNKNOWN = "0123456789ab"


def ids(client: TestClient) -> list[str]:
    return [item["id"] for item in client.get("/v1/keys").json()["keys"]]


def opens(harness: Harness, text: str) -> bool:
    harness.clock.advance(SECOND)  # keys are cached for as long
    return harness.client_as(text).get("/v1/documents").status_code == 200


def test_created_key_is_returned_once_and_works(harness: Harness, anna: TestClient) -> None:
    answer = anna.post(
        "/v1/keys", json={"name": "portal", "scope": "customer", "customer": "acme"}, params={"why": "a new contract"}
    )
    made = answer.json()
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    assert (made["name"], made["scope"], made["customer"], made["live"]) == ("portal", "customer", "acme", True)
    assert harness.client_as(made["key"]).get("/v1/customers/acme").status_code == 404  # nothing of it yet
    assert harness.client_as(made["key"]).post("/v1/checks", json={}).json()["customer"] == "acme"
    listed = anna.get("/v1/keys")
    assert made["id"] in ids(anna)
    secret, (api_key,) = (
        made["key"].split("_")[2],
        [api_key for api_key in harness.queue.store.api_keys.all() if api_key.id == made["id"]],
    )
    assert secret not in listed.text + anna.get("/v1/audit").text
    assert api_key.sha256 not in answer.text + listed.text
    newest = anna.get("/v1/audit").json()["events"][0]
    assert (newest["kind"], newest["operator"], newest["why"]) == ("key_made", "anna", "a new contract")


def test_revoked_key_is_refused_and_stays_listed(harness: Harness, anna: TestClient) -> None:
    made = anna.post("/v1/keys", json={"name": "maria", "scope": "read-only"}).json()
    assert opens(harness, made["key"])
    ended = anna.delete(f"/v1/keys/{made['id']}", params={"why": "left"})
    assert (ended.status_code, ended.json()["live"]) == (200, False)
    assert "key" not in ended.json()
    assert not opens(harness, made["key"])
    assert made["id"] in ids(anna)
    newest = anna.get("/v1/audit").json()["events"][0]
    assert (newest["kind"], newest["why"], newest["detail"]["key"]) == ("key_ended", "left", made["id"])


def test_revoking_server_refuses_the_key_at_once(harness: Harness, anna: TestClient) -> None:
    made = anna.post("/v1/keys", json={"name": "maria", "scope": "read-only"}).json()
    maria = harness.client_as(made["key"])
    assert maria.get("/v1/documents").status_code == 200
    asked = harness.queue.store.api_keys.find

    def slow(id: str) -> Any:
        """A look at the store that began before the key was revoked, and is answered behind it."""
        api_key = asked(id)
        if id == made["id"] and api_key.expires_at is None:
            assert anna.delete(f"/v1/keys/{id}").status_code == 200
        return api_key

    harness.clock.advance(SECOND)  # keys are cached for as long
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(harness.queue.store.api_keys, "find", slow)
        maria.get("/v1/documents")
        assert maria.get("/v1/documents").status_code == 401
    assert maria.get("/v1/documents").status_code == 401


def test_rotated_key_is_valid_for_the_overlap_and_its_predecessor_revoked(harness: Harness, anna: TestClient) -> None:
    first = anna.post("/v1/keys", json={"name": "portal", "scope": "customer", "customer": "acme"}).json()
    answer = anna.post(f"/v1/keys/{first['id']}/rotate", json={"overlap": HOUR})
    second = answer.json()
    assert answer.status_code == 201
    assert (second["replaces"], second["name"], second["customer"]) == (first["id"], "portal", "acme")
    assert opens(harness, first["key"])
    assert opens(harness, second["key"])
    again = anna.post(f"/v1/keys/{first['id']}/rotate")
    assert (again.status_code, again.json()["code"]) == (409, "illegal_move")
    third = anna.post(f"/v1/keys/{second['id']}/rotate").json()
    assert [opens(harness, item["key"]) for item in (first, second, third)] == [False, True, True]
    until = {item["id"]: item["expires_at"] for item in anna.get("/v1/keys").json()["keys"]}[second["id"]]
    assert abs(until - time.time_ns() // 1_000 - 24 * HOUR) < HOUR


@pytest.mark.parametrize(
    "invalid",
    [
        {},
        {"name": "a"},
        {"name": "", "scope": "operator"},
        {"name": "a", "scope": "customer"},
        {"name": "a", "scope": "operator", "customer": "acme"},
        {"name": "a", "scope": "everything"},
        {"name": "a", "scope": "operator", "expires_at": 1},
        {"name": "a\nb", "scope": "operator"},
        {"name": "a", "scope": "operator", "key": "inturn_mine"},
    ],
)
def test_invalid_key_spec_is_refused(harness: Harness, anna: TestClient, invalid: dict[str, object]) -> None:
    assert anna.post("/v1/keys", json=invalid).status_code == 422
    assert len(harness.queue.store.api_keys.all()) == 1


@pytest.mark.parametrize("id_", [UNKNOWN, "x", "%00", "a" * 300, "ÄÖÜ"])
def test_an_unknown_key_is_not_found(anna: TestClient, id_: str) -> None:
    for answer in (anna.delete(f"/v1/keys/{id_}"), anna.post(f"/v1/keys/{id_}/rotate")):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_only_operators_touch_keys(harness: Harness, anna: TestClient) -> None:
    before, known = harness.queue.store.api_keys.all(), ids(anna)[0]
    wanted = {"name": "mine", "scope": "operator"}
    calls = [("POST", "/v1/keys"), ("DELETE", f"/v1/keys/{known}"), ("POST", f"/v1/keys/{known}/rotate")]
    acme, eyes = (
        harness.client_as(harness.create_api_key("acme")),
        harness.client_as(harness.create_api_key(None, ApiKeyScope.READ_ONLY)),
    )
    theirs = harness.client_as(harness.create_api_key("acme", ApiKeyScope.READ_ONLY))
    nowhere = acme.get("/v1/nowhere").content
    for method, path in calls:
        body = wanted if path == "/v1/keys" else None
        refused = acme.request(method, path, json=body)
        assert (refused.status_code, refused.content) == (404, nowhere)
        for test_client in (eyes, theirs):
            assert test_client.request(method, path, json=body).json()["code"] == "read_only_key"
        assert harness.client_as(None).request(method, path, json=body).status_code == 401
    assert acme.get("/v1/keys").content == theirs.get("/v1/keys").content == nowhere
    assert eyes.get("/v1/keys").status_code == 200
    assert {api_key.id for api_key in harness.queue.store.api_keys.all() if api_key.is_live(2**62)} >= {
        api_key.id for api_key in before
    }


def test_a_keys_text_gets_into_no_log(harness: Harness, anna: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    text = anna.post("/v1/keys", json={"name": "maria", "scope": "operator"}).json()["key"]
    harness.client_as(text).get("/v1/keys")
    assert text.split("_")[2] not in caplog.text + json.dumps(
        [str(event.detail) for event in harness.queue.store.events(0, limit=100)]
    )


# -- the queue as a whole ---------------------------------------------------------------------------------------------


def test_pause_and_resume_record_operator_and_reason(harness: Harness, anna: TestClient) -> None:
    harness.queue.submit("acme", [NewDocument("a")])
    paused = anna.post("/v1/queue/pause", params={"why": "the disk is full"}).json()
    assert paused == anna.get("/v1/queue").json() == {"paused": {"operator": "anna", "why": "the disk is full"}}
    assert harness.queue.claim("worker") == ()
    assert anna.post("/v1/queue/resume", params={"why": "there is room"}).json() == {"paused": None}
    assert len(harness.queue.claim("worker")) == 1
    events = anna.get("/v1/audit", params={"kind": ["queue_paused", "queue_resumed"]}).json()["events"]
    assert [(event["kind"], event["why"]) for event in events] == [
        ("queue_resumed", "there is room"),
        ("queue_paused", "the disk is full"),
    ]


def test_only_operators_pause_the_queue(harness: Harness) -> None:
    acme, eyes = (
        harness.client_as(harness.create_api_key("acme")),
        harness.client_as(harness.create_api_key(None, ApiKeyScope.READ_ONLY)),
    )
    for path in ("/v1/queue/pause", "/v1/queue/resume"):
        assert acme.post(path).status_code == 404
        assert eyes.post(path).status_code == 403
    assert acme.get("/v1/queue").status_code == 404
    assert eyes.get("/v1/queue").json() == {"paused": None}
    assert harness.queue.store.paused() is None


def test_server_route_shows_limits_to_all_and_version_to_operators(make_harness: Callable[..., Harness]) -> None:
    harness = make_harness(limits=Limits(file=7, waiting=5))
    anna, acme, stranger = (
        harness.client_as(harness.operator),
        harness.client_as(harness.create_api_key("acme")),
        harness.client_as(None),
    )
    eyes, own_eyes = (harness.client_as(harness.create_api_key(item, ApiKeyScope.READ_ONLY)) for item in (None, "acme"))
    limits = anna.get("/v1/server").json()["limits"]
    assert (limits["file"], limits["waiting"], limits["files"]) == (7, 5, 10)
    for knows, client in ((True, anna), (True, eyes), (False, acme), (False, own_eyes)):
        version = inturn.__version__ if knows else None
        assert client.get("/v1/server").json() == {"version": version, "limits": limits}
        assert client.get("/session").json()["version"] == version
        assert client.get("/openapi.json").json()["info"]["version"] == (version or "1")
    assert stranger.get("/v1/server").status_code == 401
    assert stranger.get("/session").json()["version"] is None


# -- the audit log ----------------------------------------------------------------------------------------------------


def test_audit_log_filters_by_kind_operator_and_customer(harness: Harness, anna: TestClient) -> None:
    for number in range(6):
        harness.queue.change_customer(f"Customer {number % 3}", Operator(f"maria {number % 2}", ""), weight=2)
    harness.queue.pause(ANNA)

    def result(**where: str | list[str]) -> list[tuple[str, str | None]]:
        events = anna.get("/v1/audit", params=where).json()["events"]
        return [(event["kind"], event["customer"]) for event in events]

    assert result(kind="queue_paused") == [("queue_paused", None)]
    assert len(result(kind=["queue_paused", "customer_changed"])) == 7
    assert len(result(operator="MARIA 1")) == 3
    assert result(customer="mer 2") == [("customer_changed", "Customer 2")] * 2
    assert result(customer="customer 2", operator="maria 0", kind="queue_paused") == []
    assert anna.get("/v1/audit", params={"kind": "nonsense"}).status_code == 422


def test_filtered_audit_page_continues_where_it_stopped_reading(
    harness: Harness, anna: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "READ_PAGE_SIZE", 3)
    monkeypatch.setattr(audit, "MAX_READS", 2)
    harness.queue.pause(ANNA)
    for _ in range(20):
        harness.queue.change_customer("acme", ANNA, weight=2)
    seen, pages = everything(anna, kind="queue_paused")
    assert [item["kind"] for item in seen] == [EventKind.QUEUE_PAUSED]
    assert pages == 4
    changes, _ = everything(anna, customer="acme", limit=2)
    numbers = [event.number for event in harness.queue.store.audit(limit=100) if event.customer == "acme"]
    assert [change["number"] for change in changes] == numbers


def everything(client: TestClient, **where: str | int) -> tuple[list[dict[str, Any]], int]:
    """All that is found, page by page, and the number of pages."""
    seen, pages, before = [], 0, None
    while True:
        page = client.get("/v1/audit", params=where | ({} if before is None else {"before": before})).json()
        seen += page["events"]
        pages, before = pages + 1, page["next"]
        if before is None:
            return seen, pages
