"""Policy evaluations and replays over HTTP."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

import changed_past
from inturn.api_keys import ApiKeyScope
from inturn.http import simulation_jobs
from inturn.policy import Policy, PriorityPolicy
from inturn.values import SECOND

from .conftest import ANNA, Harness, ServerProcess


def judged(client: httpx2.Client, version: int) -> dict[str, Any]:
    """The judgement of a version, and how far it was before."""
    answer = client.post(f"/v1/policy/versions/{version}/judgement").raise_for_status()
    *steps, last = [json.loads(line) for line in answer.text.splitlines()]
    assert all(step["done"] <= step["total"] for step in steps)
    result: dict[str, Any] = last["judgement"]
    return result


def test_policy_change_is_evaluated(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    changed_past.write(tmp_path / "inturn.db", time.time_ns() // 1_000 - 3_600 * SECOND)
    server = serve()
    with server.client() as client:
        second, third, fourth = (judged(client, version) for version in (2, 3, 4))
        unknown, first = (client.post(f"/v1/policy/versions/{item}/judgement") for item in (5, 1))
    assert {item["verdict"] for item in second["groups"]} == {"unknown"}
    assert (second["documents_before"], second["documents_since"]) == (0, 144)
    small, flood = third["groups"]
    assert (small["group"], small["expected"], small["happened"], small["verdict"]) == (
        *("1-20", "shorter", "shorter"),
        "came_true",
    )
    assert small["expected_with"]["mean"] < small["expected_without"]["mean"] / 5
    assert small["observed"]["mean"] < small["without"]["mean"] / 5
    assert (flood["group"], flood["verdict"]) == ("21-200", "came_true")
    assert third["until"] == fourth["at"]
    assert [(item["expected"], item["happened"], item["verdict"]) for item in fourth["groups"]] == [
        ("longer", "same", "did_not"),
        ("shorter", None, "unknown"),
    ]
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert "no version 5" in unknown.json()["detail"]
    assert (first.status_code, "nothing to judge" in first.json()["detail"]) == (422, True)


def test_policy_evaluation_is_bounded(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    client = harness.client_as(harness.operator)
    harness.queue.set_policy(Policy(PriorityPolicy(600 * SECOND)), ANNA)
    path = "/v1/policy/versions/2/judgement"
    assert "in memory" in client.post(path).json()["detail"]
    harness.app_state.simulation_jobs = simulation_jobs.SimulationJobs("queue.db")
    monkeypatch.setattr(simulation_jobs, "MAX_CONCURRENT_JOBS", 0)
    assert client.post(path).status_code == 429
    assert client.post("/v1/policy/versions/0/judgement").status_code == 422
    assert client.post("/v1/policy/versions/two/judgement").status_code == 422
    assert harness.client_as(harness.create_api_key("acme")).post(path).status_code == 404
    assert harness.client_as(harness.create_api_key(None, ApiKeyScope.READ_ONLY)).post(path).status_code == 403


def replayed(client: httpx2.Client, **asked: Any) -> dict[str, Any]:
    """The last line of a replay."""
    answer = client.post("/v1/replays", json=asked).raise_for_status()
    result: dict[str, Any] = json.loads(answer.text.splitlines()[-1])
    return result


def test_replay_compares_unchanged_and_changed_plans(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    began = time.time_ns() // 1_000 - 3_600 * SECOND
    changed_past.write(tmp_path / "inturn.db", began)
    server = serve()
    with server.client() as client:
        same = replayed(client)["comparison"]
        fifo = replayed(client, order="fifo")["comparison"]
        more = replayed(client, since=began, workers=4)["comparison"]
        by_document = replayed(client, since=began, charge="documents", max_share=1)["comparison"]
        none = replayed(client, since=began + 3_000 * SECOND)
        part = replayed(client, since=began + 130 * SECOND, until=began + 290 * SECOND)["comparison"]
    small, flood = same["groups"]
    assert same["is_same"]
    assert (same["documents"], same["customers"], same["workers"], same["is_cut"]) == (312, 25, 1, False)
    assert small["current"]["mean"] == pytest.approx(small["measured"]["mean"], rel=0.1)
    assert flood["current"]["mean"] == pytest.approx(flood["measured"]["mean"], rel=0.1)
    assert set(fifo["levels_proposed"]) == {"1"}
    assert fifo["groups"][0]["proposed"]["mean"] > 1.2 * fifo["groups"][0]["current"]["mean"]
    assert (more["workers"], more["workers_proposed"]) == (1, 4)
    assert not by_document["is_same"]
    assert more["groups"][0]["proposed"]["mean"] < more["groups"][0]["current"]["mean"] / 2
    assert "nothing to play" in none["error"]
    (behind,) = part["groups"]  # the flood came before, and was in the way
    assert behind["measured"]["mean"] > 100
    assert behind["current"]["mean"] == pytest.approx(behind["measured"]["mean"], rel=0.1)


def test_replays_are_bounded_and_for_operators(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    client = harness.client_as(harness.operator)
    assert "in memory" in client.post("/v1/replays", json={}).json()["detail"]
    harness.app_state.simulation_jobs = simulation_jobs.SimulationJobs("queue.db")
    for error in (
        {"order": "lifo"},
        {"workers": 0},
        {"workers": 1_001},
        {"since": 5, "until": 5},
        {"load": 2},
        {"charge": "x"},
        {"max_share": 2},
    ):
        assert client.post("/v1/replays", json=error).status_code == 422, error
    monkeypatch.setattr(simulation_jobs, "MAX_CONCURRENT_JOBS", 0)
    assert client.post("/v1/replays", json={}).status_code == 429
    assert harness.client_as(harness.create_api_key("acme")).post("/v1/replays", json={}).status_code == 404
    assert (
        harness.client_as(harness.create_api_key(None, ApiKeyScope.READ_ONLY)).post("/v1/replays", json={}).status_code
        == 403
    )
