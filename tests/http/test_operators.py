"""Customers, policy, checks, audit, workers, estimates."""

from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from inturn.api_keys import ApiKey, ApiKeyScope, generate_api_key
from inturn.http.key_cache import CACHE_TTL
from inturn.model import NewDocument
from inturn.policy import Charge, CostPolicy, Policy, TurnPolicy
from inturn.policy.forecasts import Forecast, ForecastOutcome
from inturn.store_types import EventKind
from inturn.values import SECOND
from inturn.worker_report import WorkerReport
from waiting import wait_until

from .conftest import ANNA, Harness


def test_checks_are_those_of_the_spec_and_safe_to_repeat(harness: Harness, acme: TestClient, anna: TestClient) -> None:
    first = anna.post("/v1/checks", json={"customer": "acme", "count": 4})
    assert [(item["count"], item["level"]) for item in first.json()["checks"]] == [(0, 1), (-1, 1), (-2, 1), (-3, 2)]
    headers = {"Idempotency-Key": "once"}
    repeats = [acme.post("/v1/checks", json={"count": 2}, headers=headers).json() for _ in range(3)]
    assert (
        repeats[0]
        == repeats[2]
        == {
            "customer": "acme",
            "checks": [{"level": 2, "count": -4}, {"level": 3, "count": -5}],
        }
    )
    assert harness.queue.customer("acme").count == -5
    other = acme.post("/v1/checks", json={"count": 3}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "key_conflict")
    for error in ({"count": 0}, {"count": 10_001}, {"count": "3"}, {"count": True}, {"customer": "acme", "n": 1}):
        assert acme.post("/v1/checks", json=error).status_code == 422, error


def test_customer_has_counter_lanes_and_share(harness: Harness, acme: TestClient, anna: TestClient) -> None:
    by_documents = Policy(turns=TurnPolicy(charge=Charge.COST, max_share=1.0), costs=CostPolicy(1, 0))
    harness.queue.set_policy(by_documents, ANNA)
    harness.queue.change_customer("acme", ANNA, weight=3)
    harness.queue.submit("acme", [NewDocument("a")] * 5)
    harness.queue.submit("beta", [NewDocument("a")] * 5)
    harness.process_documents(n=4)
    wait_until(lambda: anna.get("/v1/customers/acme").json()["share"]["documents"] == 3)
    result = anna.get("/v1/customers/acme").json()
    assert (result["waiting"], result["weight"]) == (2, 3)
    assert result["share"].keys() == {"received", "due", "worker_seconds", "documents", "is_over"}
    assert result["counter"]["resets_after"] - result["counter"]["updated_at"] == 1_500_000_000
    assert [(item["level"], item["is_open"]) for item in result["lines"]] == [(2, True)]
    assert all(item["oldest_wait"] > 0 for item in result["lines"])
    own = acme.get("/v1/customers/acme").json()
    assert own["share"] is None
    assert own["counter"] == result["counter"]
    assert acme.get("/v1/customers/beta").status_code == 404


def test_customers_are_listed_in_pages(harness: Harness, anna: TestClient) -> None:
    for name in ("a", "b/c", "d"):
        harness.queue.submit(name, [NewDocument("x")])
    harness.queue.pause(ANNA, "d")
    page = anna.get("/v1/customers", params={"limit": 2}).json()
    rest = anna.get("/v1/customers", params={"limit": 2, "after": page["next"]}).json()
    assert [item["customer"] for item in (*page["customers"], *rest["customers"])] == ["a", "b/c", "d"]
    assert rest["next"] is None
    assert [item["customer"] for item in anna.get("/v1/customers", params={"paused": True}).json()["customers"]] == [
        "d"
    ]
    assert anna.get("/v1/customers/b%2Fc").json()["customer"] == "b/c"


def test_patch_changes_given_settings_and_null_removes_them(harness: Harness, anna: TestClient) -> None:
    answer = anna.patch(
        "/v1/customers/new",
        params={"why": "a contract"},
        json={
            "weight": 2,
            "cap": 5,
            "rate": {"documents": 10, "per": 1_000_000},
            "paused": True,
            "display_name": "New",
        },
    )
    assert answer.status_code == 200
    settings = harness.queue.customer("new").settings
    assert (settings.weight, settings.cap, settings.rate, settings.paused) == (2, 5, (10, 1_000_000), True)
    after = anna.patch("/v1/customers/new", json={"cap": None, "paused": False}).json()
    assert (after["cap"], after["paused"], after["weight"], after["display_name"]) == (None, False, 2, "New")
    for error in ({}, {"weight": 0}, {"cap": 0}, {"rate": {"documents": 1}}, {"colour": 1}, {"weight": None}):
        assert anna.patch("/v1/customers/new", json=error).status_code == 422, error
    assert harness.queue.store.audit(limit=9)[-2].operator == ("anna", "a contract")


def test_a_purge_needs_the_name_twice_and_deletes_everything_but_the_counter(
    harness: Harness, anna: TestClient
) -> None:
    key = harness.create_api_key("acme")
    harness.client_as(key).post("/v1/documents", files=[("file", ("a.txt", b"x"))])
    harness.client_as(harness.create_api_key("beta")).post("/v1/documents", files=[("file", ("a.txt", b"x"))])
    error = anna.post("/v1/customers/acme/purge", json={"confirm": "beta"})
    assert (error.status_code, len(harness.stored_blobs())) == (422, 2)
    purged = anna.post("/v1/customers/acme/purge", json={"confirm": "acme"}, params={"why": "the contract ended"})
    assert purged.json() == {"documents": 1, "blobs": 1}
    assert len(harness.stored_blobs()) == 1
    assert harness.queue.customer("acme").count == 0
    harness.clock.advance(CACHE_TTL)
    assert harness.client_as(key).get("/v1/documents").status_code == 401
    newest = anna.get("/v1/audit").json()["events"][0]
    assert (newest["kind"], newest["operator"], newest["why"], newest["customer"]) == (
        "purged",
        "anna",
        "the contract ended",
        "acme",
    )


def test_the_policy_is_read_checked_and_put_in_force_once(harness: Harness, anna: TestClient) -> None:
    version = anna.get("/v1/policy").json()
    assert version["version"] == 1
    policy = version["policy"] | {"reset_interval": 60_000_000}
    answer = anna.put("/v1/policy", json={"policy": policy, "expected": 1}, params={"why": "a trial"})
    assert (answer.json()["version"], answer.json()["why"]) == (2, "a trial")
    assert harness.queue.policy().policy.priority.reset_interval == 60_000_000
    stale = anna.put("/v1/policy", json={"policy": policy, "expected": 1})
    assert (stale.status_code, stale.json()["code"]) == (409, "version_conflict")
    error: Any
    for error in (
        policy | {"thresholds": [-4, -2]},
        policy | {"overdue_every": 0},
        policy | {"order": "random"},
        policy | {"reset_interval": -1},
        policy | {"per_page": -1},
        policy | {"charge": "pages"},
        policy | {"max_share": 0.4},
        policy | {"max_share": "7/8"},
        policy | {"share_idle_after": -1},
        policy | {"share_idle_after": 1.5},
        {"order": "fair"},
    ):
        assert anna.put("/v1/policy", json={"policy": error}).status_code == 422, error
    assert [item["version"] for item in anna.get("/v1/policy/versions").json()["versions"]] == [2, 1]


def test_a_customer_at_its_share_is_told_with_numbers_only_to_operators(
    harness: Harness, anna: TestClient, acme: TestClient
) -> None:
    queue = harness.queue
    queue.store.record_worker(WorkerReport("w", "host", 1, 8, 8, "p", 0))
    queue.submit("quick", [NewDocument("a")])
    queue.claim("w")
    receipts = queue.submit("acme", [NewDocument("b")] * 9)
    assert len(queue.claim("w", 20)) == 7
    path = f"/v1/documents/{receipts[-1].id}/why"
    seen = anna.get(path).json()
    assert (seen["closed_by"], seen["slot_use"], seen["no_start"]) == (["share"], {"running": 7, "slots": 8}, "closed")
    assert "acme already uses 7 of 8 slots while others have documents too" in seen["sentence"]
    own = acme.get(path, headers={"Accept-Language": "de"}).json()
    assert (own["closed_by"], own["slot_use"]) == (["share"], None)
    assert "der Kunde nutzt schon seinen Anteil der Slots" in own["sentence"]
    listed = {item["customer"]: item["at_slot_limit"] for item in anna.get("/v1/customers").json()["customers"]}
    assert listed == {"acme": True, "quick": False}
    assert acme.get("/v1/customers/acme").json()["at_slot_limit"] is True
    assert anna.get(f"/v1/documents/{receipts[0].id}/why").json()["closed_by"] == []


def test_a_policy_without_the_newer_settings_keeps_those_in_force(anna: TestClient) -> None:
    newer = {"charge": "cost", "max_share": 0.75, "share_idle_after": 5_000_000}
    version = anna.get("/v1/policy").json()
    assert {name: version["policy"][name] for name in newer} == {
        "charge": "time",
        "max_share": 0.875,
        "share_idle_after": 0,
    }
    changed = anna.put("/v1/policy", json={"policy": version["policy"] | newer}).json()["policy"]
    assert {name: changed[name] for name in newer} == newer
    older = {name: value for name, value in changed.items() if name not in newer}
    kept = anna.put("/v1/policy", json={"policy": older | {"overdue_every": 20}}).json()
    assert kept["policy"] == changed | {"overdue_every": 20}
    assert anna.put("/v1/policy", json={"policy": older | {"max_share": 1}}).json()["policy"]["max_share"] == 1
    refused = anna.put("/v1/policy", json={"policy": older, "expected": kept["version"]})
    assert (refused.status_code, refused.json()["code"]) == (409, "version_conflict")
    assert anna.put("/v1/policy", json={"policy": older | {"max_share": 0.4}}).json()["detail"] == (
        "max_share must be a number from 0.5 to 1, not 0.4"
    )


def test_kept_settings_are_those_of_the_version_that_is_replaced(
    harness: Harness, anna: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another operator's change between reading and writing is refused, not undone."""
    stale = harness.queue.policy()
    older = {name: value for name, value in stale.policy.to_dict().items() if name != "max_share"}
    harness.queue.set_policy(replace(stale.policy, turns=replace(stale.policy.turns, max_share=1)), ANNA)
    monkeypatch.setattr(harness.queue, "policy", lambda: stale)
    assert anna.put("/v1/policy", json={"policy": older}).status_code == 409
    monkeypatch.undo()
    assert harness.queue.policy().policy.turns.max_share == 1


def test_audit_log_pages_have_operator_and_reason(harness: Harness, anna: TestClient, acme: TestClient) -> None:
    id_ = acme.post("/v1/documents", json={"documents": [{"name": "a"}]}).json()["receipts"][0]["id"]
    acme.delete(f"/v1/documents/{id_}", params={"why": "a mistake"})
    anna.post(f"/v1/documents/{id_}/retry")
    page = anna.get("/v1/audit", params={"limit": 1}).json()
    (newest,) = page["events"]
    assert (newest["kind"], newest["operator"], newest["documents"]) == ("retried", "anna", [id_])
    (before,) = anna.get("/v1/audit", params={"limit": 1, "before": page["next"]}).json()["events"]
    assert (before["kind"], before["operator"], before["why"]) == ("cancelled", "customer acme", "a mistake")
    assert {event.kind for event in harness.queue.store.audit(limit=9)} == {
        EventKind.RETRIED,
        EventKind.CANCELLED,
        EventKind.KEY_MADE,
    }


def test_audit_log_takes_a_range_of_time(harness: Harness, anna: TestClient) -> None:
    for _ in range(3):
        harness.queue.pause(ANNA)
        harness.clock.advance(10 * SECOND)
    at = [event["at"] for event in anna.get("/v1/audit").json()["events"]]
    page = anna.get("/v1/audit", params={"since": at[1], "until": at[0]}).json()
    assert [event["at"] for event in page["events"]] == [at[1]]
    filtered = anna.get("/v1/audit", params={"since": at[1], "operator": "ANN", "limit": 1}).json()
    assert [event["at"] for event in filtered["events"]] == [at[0]]
    assert anna.get("/v1/audit", params={"until": at[2], "kind": "queue_paused"}).json()["events"] == []


def test_new_documents_are_estimated_without_anyone_asking_and_what_became_of_it_is_stored(
    harness: Harness, anna: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inturn.http.stats.SAMPLE_SECONDS", 0.0)
    harness.queue.submit("acme", [NewDocument("a")] * 30)
    harness.process_documents(n=25)
    harness.queue.store.record_worker(WorkerReport("w1", "host", 7, 4, 2, "x:y", 5))
    (receipt,) = harness.queue.submit("bolt", [NewDocument("b")])
    wait_until(lambda: anna.get("/v1/estimates").json()["open"])
    assert anna.get(f"/v1/documents/{receipt.id}/why").json()["start_held"] is None
    harness.process_documents(n=6)
    wait_until(lambda: harness.queue.forecast_log().outcomes)
    outcome = harness.queue.forecast_log().outcomes[0]
    assert outcome.waited >= 0
    assert outcome.forecast.level == 1


def test_an_explanation_says_how_often_such_estimates_held(harness: Harness, anna: TestClient) -> None:
    now = harness.queue.now()
    outcomes = [
        ForecastOutcome(Forecast(now - SECOND, SECOND, 1), SECOND // 2, number % 10 != 0) for number in range(40)
    ]
    harness.queue.add_forecasts(outcomes)
    harness.queue.submit("acme", [NewDocument("a")] * 30)
    harness.process_documents(n=25)
    harness.queue.store.record_worker(WorkerReport("w1", "host", 7, 4, 2, "x:y", 5))
    id_ = harness.queue.documents(limit=1).items[0].id
    why = anna.get(f"/v1/documents/{id_}/why").json()
    assert why["start_held"] == 9
    assert "9 of 10 starts of the last day were within such an estimate" in why["sentence"]
    assert "In about " in why["sentence"]


def test_estimated_starts_are_compared_with_real_ones(harness: Harness, anna: TestClient) -> None:
    harness.queue.submit("acme", [NewDocument("a")] * 30)
    harness.process_documents(n=25)
    harness.queue.store.record_worker(WorkerReport("w1", "host", 7, 4, 2, "x:y", 5))
    waiting = harness.queue.documents(limit=5).items
    for document in waiting:
        assert anna.get(f"/v1/documents/{document.id}/why").json()["start"] is not None
    assert anna.get("/v1/estimates").json()["open"] == 5
    harness.process_documents(n=4)
    harness.queue.cancel(waiting[0].id, ANNA)
    wait_until(lambda: not anna.get("/v1/estimates").json()["open"])
    result = anna.get("/v1/estimates").json()
    assert (result["compared"], result["inside"] + result["early"] + result["late"]) == (4, 4)
    assert result["median_error"] >= 0
    assert "inturn_estimate_error_seconds_count 4.0" in anna.get("/metrics").text


@pytest.mark.parametrize(
    ("scope", "customer"), [(ApiKeyScope.CUSTOMER, None), (ApiKeyScope.OPERATOR, "acme"), (ApiKeyScope.CUSTOMER, "")]
)
def test_key_scope_and_customer_must_fit(scope: ApiKeyScope, customer: str | None) -> None:
    with pytest.raises(ValueError, match=r"customer|characters"):
        generate_api_key(ApiKey("", "", scope, "x", customer, 0))
