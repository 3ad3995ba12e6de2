"""Simulations over HTTP: bounds, access, disconnects, and the figures of a report."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from inturn.analysis import built_in_scenarios
from inturn.analysis.scenario import generate_arrivals
from inturn.api_keys import ApiKeyScope
from inturn.http import simulation_jobs
from inturn.http.simulation_jobs import apply_overrides, run_scenario
from inturn.policy import Policy, PriorityPolicy
from inturn.values import SECOND
from waiting import wait_until

from .conftest import ANNA, Harness, ServerProcess

SMALL = {"scenario": "two-bulk", "orders": ["fair", "classic"], "load": 0.1}


def run_request(**request: Any) -> list[dict[str, Any]]:
    """Run a scenario in this process; return the lines that it sends."""
    lines: list[dict[str, Any]] = []
    run_scenario({"orders": ["fair"], "most": simulation_jobs.MAX_JOB_DOCUMENTS, **request}, lines.append)
    return lines


def test_simulation_streams_progress_then_reports(serve: Callable[..., ServerProcess]) -> None:
    server = serve()
    with server.client() as client:
        answer = client.post("/v1/simulations", json=SMALL | {"workers": 2}).raise_for_status()
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert lines[-2] == {"done": 888, "total": 888}
    reports = lines[-1]["reports"]
    assert [(report["order"], report["workers"], report["documents"]) for report in reports] == [
        ("fair", 2, 444),
        ("classic", 2, 444),
    ]
    assert [report["customer"] for report in reports[0]["customers"]] == ["bulk A", "bulk B"]


def test_disconnect_kills_the_simulation_process(serve: Callable[..., ServerProcess]) -> None:
    server = serve()
    with server.client() as client:
        with client.stream("POST", "/v1/simulations", json={"scenario": "starving-105"}):
            (child,) = map(int, wait_until(lambda: _children(server)))  # its process takes a while to begin
            os.kill(child, signal.SIGSTOP)  # it does not end by itself any more
        try:
            wait_until(lambda: not _children(server))
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        assert client.get("/readyz").status_code == 200


def _children(server: ServerProcess) -> list[str]:
    """Find the simulation processes of a server."""
    result = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            command = (folder / "cmdline").read_text()
        except OSError:  # it has ended
            continue
        if parent == str(server.process.pid) and "inturn.http.simulation_jobs" in command:
            result.append(folder.name)
    return result


def test_simulations_are_bounded_and_for_operators(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    client = harness.client_as(harness.operator)
    for error in (
        {"scenario": "nothing"},
        {"scenario": "../flood"},
        SMALL | {"orders": []},
        SMALL | {"orders": ["fair", "fair"]},
        SMALL | {"workers": 0},
        SMALL | {"load": 11},
        SMALL | {"seed": -1},
    ):
        assert client.post("/v1/simulations", json=error).status_code == 422, error
    monkeypatch.setattr(simulation_jobs, "MAX_CONCURRENT_JOBS", 0)
    assert client.post("/v1/simulations", json=SMALL).status_code == 429
    customer, reader = (
        harness.client_as(harness.create_api_key("acme")),
        harness.client_as(harness.create_api_key(None, ApiKeyScope.READ_ONLY)),
    )
    assert customer.post("/v1/simulations", json=SMALL).status_code == 404
    assert customer.get("/v1/simulations").status_code == 404
    assert reader.post("/v1/simulations", json=SMALL).status_code == 403
    result = reader.get("/v1/simulations").json()["scenarios"]
    assert [item["scenario"] for item in result] == list(built_in_scenarios())
    groups = {item["scenario"]: item["groups"] for item in result}
    assert groups["two-bulk"] == [{"group": "bulk A", "customers": 1}, {"group": "bulk B", "customers": 1}]


def test_simulation_refuses_too_many_documents() -> None:
    with pytest.raises(Exception, match="more than 100 documents"):
        run_request(scenario="two-bulk", most=100)


@pytest.mark.parametrize("name", ["two-bulk", "huge", "newcomers", "day-70"])
def test_twice_the_load_is_twice_the_documents(name: str) -> None:
    once = generate_arrivals(built_in_scenarios()[name])
    twice = generate_arrivals(apply_overrides(built_in_scenarios()[name], {"load": 2.0, "seed": None, "workers": None}))
    assert len(twice) == pytest.approx(2 * len(once), rel=0.1)


def test_overrides_replace_workers_and_seed() -> None:
    given = built_in_scenarios()["flood"]
    scenario = apply_overrides(given, {"workers": 9, "seed": 5, "load": None})
    assert (scenario.workers, scenario.seed, scenario.groups) == (9, 5, given.groups)


def test_history_shares_add_up_to_the_work() -> None:
    scenario = apply_overrides(built_in_scenarios()["two-bulk"], {"load": 0.1})
    *_, last = run_request(scenario="two-bulk", load=0.1, orders=["fair", "fifo"])
    work = [0.0, 0.0]
    for arrival in generate_arrivals(scenario):
        work[arrival.group] += arrival.service / SECOND
    for report in last["reports"]:
        history = report["history"]
        served = [sum(item) * history["step"] * scenario.workers for item in history["groups"].values()]
        assert served == pytest.approx(work, rel=0.01)
        assert all(sum(parts) <= 1.001 for parts in zip(*history["groups"].values(), strict=True))


def test_charge_and_share_cap_of_the_scenario_are_changed() -> None:
    units, by_seconds = [], []
    for charge in ("documents", "time"):
        *_, last = run_request(scenario="long-beside-short", load=0.1, charge=charge, max_share=1)
        (report,) = last["reports"]
        units.append(report["charge"])
        by_seconds.append(report["jain"])
    assert units == ["documents", "time"]
    assert by_seconds[0] < by_seconds[1]


def test_spread_is_sorted_by_mean_wait() -> None:
    *_, last = run_request(scenario="flood", load=0.1)
    (report,) = last["reports"]
    assert report["spread"] == sorted(report["spread"])
    assert len(report["spread"]) == 51
    means = [item["mean"] for item in report["customers"]]
    assert report["spread"][-1] >= max(means)
    assert report["customers"][0]["group"] == "flood"


def test_customers_may_read_the_thresholds_but_not_the_policy(harness: Harness) -> None:
    harness.queue.set_policy(Policy(PriorityPolicy(60 * SECOND, (-1, -5))), ANNA)
    acme = harness.client_as(harness.create_api_key("acme"))
    assert acme.get("/v1/priority").json() == {"reset_interval": 60 * SECOND, "thresholds": [-1, -5]}
    assert acme.get("/v1/policy").status_code == 404
    assert harness.client_as(None).get("/v1/priority").status_code == 401
