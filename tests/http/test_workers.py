"""Workers over HTTP: what they do, and the switch that lets one take no more documents."""

from starlette.testclient import TestClient

from inturn.model import NewDocument
from inturn.store_types import EventKind
from inturn.values import SECOND
from inturn.worker_report import Progress, WorkerReport

from .conftest import Harness


def report(harness: Harness, name: str, **fields: object) -> None:
    standard = WorkerReport(name, "scan.example", 7, 2, 2, "x:y", 5, version="1.2.3")
    harness.queue.record_worker(standard._replace(**fields))


def test_a_worker_is_listed_with_what_it_runs(harness: Harness, anna: TestClient) -> None:
    harness.queue.submit("acme", [NewDocument("a.pdf", max_attempts=2)] * 3)
    first, second, _ = harness.queue.claim("w1", 3, lease=60 * SECOND)
    at_work = {first.document.id: 2 * SECOND, second.document.id: SECOND}
    report(harness, "w1", progress={first.document.id: Progress(1, 4)}, at_work=at_work)
    (worker,) = anna.get("/v1/workers").json()["workers"]
    facts = {"name": "w1", "host": "scan.example", "process": 7, "slots": 2, "busy": 2, "version": "1.2.3"}
    assert facts.items() <= worker.items()
    assert (worker["stopping"], worker["silent"], worker["paused"], worker["claimed_ahead"]) == (False, False, None, 1)
    running = {document["id"]: document for document in worker["documents"]}
    assert running.keys() == at_work.keys()
    shown = running[first.document.id]
    assert (shown["customer"], shown["name"], shown["done"], shown["attempt"], shown["max_attempts"]) == (
        *("acme", "a.pdf", 0.25),
        *(1, 2),
    )
    assert shown["lease_until"] == first.document.lease_until


def test_a_silent_worker_is_named_so_with_the_leases_it_holds(harness: Harness, anna: TestClient) -> None:
    harness.queue.submit("acme", [NewDocument("a.pdf")])
    (claim,) = harness.queue.claim("w1", lease=60 * SECOND)
    harness.queue.record_worker(
        WorkerReport("w1", "host", 7, 1, 1, "x:y", 5, at_work={claim.document.id: 1}),
        now=harness.queue.now() - 31 * SECOND,
    )
    (worker,) = anna.get("/v1/workers").json()["workers"]
    assert worker["silent"]
    assert [document["lease_until"] for document in worker["documents"]] == [claim.document.lease_until]


def test_a_worker_is_paused_and_resumed_with_a_reason(harness: Harness, anna: TestClient) -> None:
    report(harness, "host/7 ü")
    (paused,) = anna.post("/v1/workers/host%2F7%20%C3%BC/pause", params={"why": "new disk"}).json()["workers"]
    assert (paused["paused"]["operator"], paused["paused"]["why"]) == ("anna", "new disk")
    harness.queue.submit("acme", [NewDocument("a.pdf")])
    assert harness.queue.claim("host/7 ü") == ()
    (resumed,) = anna.post("/v1/workers/host%2F7%20%C3%BC/resume").json()["workers"]
    assert resumed["paused"] is None
    assert len(harness.queue.claim("host/7 ü")) == 1
    newest, before = harness.queue.audit(limit=2)
    assert (before.kind, newest.kind) == (EventKind.WORKER_PAUSED, EventKind.WORKER_RESUMED)
    assert (before.detail, before.operator and before.operator.why) == ({"worker": "host/7 ü"}, "new disk")


def test_an_unknown_worker_cannot_be_paused(anna: TestClient) -> None:
    answer = anna.post("/v1/workers/nobody/pause")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "nobody" in answer.json()["detail"]


def test_customers_know_nothing_of_workers(harness: Harness, acme: TestClient) -> None:
    report(harness, "w1")
    for answer in (acme.get("/v1/workers"), acme.post("/v1/workers/w1/pause"), acme.post("/v1/workers/w1/resume")):
        assert answer.status_code == 404
    assert harness.queue.workers()[0].paused is None
