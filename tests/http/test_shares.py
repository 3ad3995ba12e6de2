"""Shares of worker seconds: in the overview, of customers, and as a metric."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from http_server import create_api_key
from inturn.clock import ManualClock
from inturn.http.app import create_app
from inturn.http.settings import Limits, ServerSettings
from inturn.http.state import AppState
from inturn.http.stats import COMMIT_DELAY
from inturn.model import Claim, NewDocument
from inturn.queue import Queue
from inturn.store_types import OutcomeKind, Work
from inturn.stores import open_store
from inturn.values import seconds

START = seconds(1_700_000_000)
UNLIMITED = Limits(per_second=1_000_000, burst=1_000_000)


class Server:
    """A server in this process whose clock and store are moved by hand; no thread polls."""

    def __init__(self, queue: Queue, clock: ManualClock) -> None:
        self.clock = clock
        self.queue = queue
        self.app_state = AppState(self.queue, None, ServerSettings(needs_keys=True, limits=UNLIMITED), clock=self.clock)
        key = create_api_key(self.queue.store, "anna", None, None)
        self.client = TestClient(create_app(self.app_state), headers={"Authorization": f"Bearer {key}"})
        self.overview()

    def get(self, path: str, **query: Any) -> Any:
        answer = self.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def overview(self) -> Any:
        return self.get("/v1/overview")

    def run(self, length: int) -> None:
        """Let time pass; shares are measured every five seconds."""
        for _ in range(length // 5):
            self.clock.advance(seconds(5))
            self.app_state.shares.measure()

    def submit(self, customer: str, n: int = 1) -> None:
        self.queue.submit(customer, [NewDocument("a document")] * n)

    def claim(self, n: int = 1) -> tuple[Claim, ...]:
        return self.queue.claim("worker", n, lease=seconds(3_600))

    def end(self, claim: Claim, kind: OutcomeKind, worked: float, retry_in: int | None = None) -> None:
        outcome = self.queue.done(claim)._replace(kind=kind, work=Work(0, seconds(worked)), retry_in=retry_in)
        if kind is not OutcomeKind.DONE:
            outcome = outcome._replace(result=None, error="no")
        self.queue.store.ack_and_claim([outcome], None)


@pytest.fixture
def open_server() -> Iterator[Callable[[str], Server]]:
    made: list[Server] = []

    def one(url: str) -> Server:
        clock = ManualClock(START)
        made.append(Server(Queue(open_store(url, clock=clock), clock=clock), clock))
        return made[-1]

    yield one
    for server in made:
        server.queue.close()


@pytest.fixture(params=["memory", "sqlite"])
def server(request: pytest.FixtureRequest, open_server: Callable[[str], Server], tmp_path: Path) -> Server:
    return open_server("memory://" if request.param == "memory" else str(tmp_path / "queue.db"))


def worker_seconds(server: Server) -> dict[str, float]:
    """The metric, by outcome."""
    lines = server.client.get("/metrics").text.splitlines()
    prefix = 'inturn_worker_seconds_total{outcome="'
    samples = [line.removeprefix(prefix).split('"} ') for line in lines if line.startswith(prefix)]
    return {outcome: float(value) for outcome, value in samples}


def test_overview_compares_worker_seconds_with_fair_shares(server: Server) -> None:
    server.submit("long")
    server.claim()
    server.submit("short", 4)
    server.run(60)
    result = server.overview()
    measured = 60 - COMMIT_DELAY / seconds(1)
    assert result["share_window"] == {
        "since": START,
        "until": START + seconds(60) - COMMIT_DELAY,
        "worker_seconds": measured,
        "documents": 0,
    }
    long, short = result["top_customers"]
    expected = {"received": 1.0, "due": 0.5, "worker_seconds": measured, "documents": 0, "is_over": True}
    assert long == {"customer": "long", **expected}
    assert short == {
        "customer": "short",
        "received": 0.0,
        "due": 0.5,
        "worker_seconds": 0.0,
        "documents": 0,
        "is_over": False,
    }
    assert result["busiest"][0]["share"] == {name: short[name] for name in expected}
    assert server.get("/v1/customers/long")["share"] == expected
    rows = server.get("/v1/customers", sort="share", down=True)["customers"]
    assert [(row["customer"], row["share"]["received"]) for row in rows] == [("long", 1.0), ("short", 0.0)]


def test_documents_are_counted_beside_the_seconds(server: Server) -> None:
    server.submit("acme", 2)
    server.submit("beta")
    claims = sorted(server.claim(3), key=lambda claim: claim.document.customer)
    server.run(10)
    for claim, worked in zip(claims, (1, 2, 9), strict=True):
        server.end(claim, OutcomeKind.DONE, worked)
    server.run(10)
    result = server.overview()
    assert result["share_window"]["documents"] == 3
    shares = {item["customer"]: item for item in result["top_customers"]}
    assert {name: share["documents"] for name, share in shares.items()} == {"acme": 2, "beta": 1}


def test_shares_are_unknown_before_any_work(server: Server) -> None:
    server.submit("acme")
    none = {"received": None, "due": None, "worker_seconds": 0.0, "documents": 0, "is_over": False}
    assert (server.overview()["top_customers"], server.overview()["share_window"]) == ([], None)
    assert server.get("/v1/customers/acme")["share"] == none
    server.run(10)
    assert (server.overview()["top_customers"], server.overview()["share_window"]["worker_seconds"]) == ([], 0.0)
    assert server.get("/v1/customers/acme")["share"] == none


def test_work_before_the_start_of_the_server_is_left_out(open_server: Callable[[str], Server], tmp_path: Path) -> None:
    first = open_server(str(tmp_path / "queue.db"))
    first.submit("acme")
    (claim,) = first.claim()
    first.clock.advance(seconds(30))
    first.queue.finish(claim)
    first.clock.advance(seconds(1))
    second = Server(first.queue, first.clock)
    second.run(10)
    assert second.overview()["share_window"]["worker_seconds"] == 0.0
    assert worker_seconds(second)["done"] == 0.0


def test_worker_seconds_are_counted_by_outcome(server: Server) -> None:
    assert worker_seconds(server) == {"done": 0.0, "failed": 0.0, "retried": 0.0, "released": 0.0}
    server.submit("acme", 3)
    done, failed, retried = server.claim(3)
    server.run(70)
    server.end(done, OutcomeKind.DONE, 65)
    server.end(failed, OutcomeKind.FAILED, 4)
    server.end(retried, OutcomeKind.FAILED, 2.5, retry_in=seconds(900))
    assert worker_seconds(server)["done"] == 0.0
    server.run(10)
    assert worker_seconds(server) == {"done": 65.0, "failed": 4.0, "retried": 2.5, "released": 0.0}
    server.run(10)
    assert worker_seconds(server)["done"] == 65.0


def test_number_of_viewers_does_not_load_the_store(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.submit("acme")
    server.claim()
    server.run(10)
    reads: list[tuple[int, int]] = []
    read = server.queue.store.work_between
    monkeypatch.setattr(
        server.queue.store, "work_between", lambda since, until: reads.append((since, until)) or read(since, until)
    )
    server.clock.advance(seconds(5))
    for _ in range(5):
        server.overview()
        server.get("/v1/customers/acme")
        server.get("/v1/customers", sort="share")
    assert len(reads) == 1


def test_shares_go_on_after_the_clock_went_back(server: Server) -> None:
    server.submit("acme")
    server.claim()
    server.run(60)
    server.clock.set(START - seconds(86_400))
    server.run(20)
    window = server.overview()["share_window"]
    assert window["until"] == server.clock.now() - COMMIT_DELAY
    assert window["until"] - window["since"] < seconds(20)


def test_why_has_the_share_of_the_customer(server: Server) -> None:
    server.submit("greedy")
    server.claim()
    server.submit("patient")
    server.run(60)
    id_ = server.get("/v1/documents", customer="patient")["documents"][0]["id"]
    why = server.get(f"/v1/documents/{id_}/why")
    assert (why["share"]["received"], why["share"]["due"], why["share"]["is_over"]) == (0.0, 0.5, False)
    assert "Share of worker time: 0 % actual, 50 % fair" in why["sentence"]


def test_customer_does_not_see_its_share(server: Server) -> None:
    server.submit("acme", 2)
    server.claim()
    server.run(60)
    key = create_api_key(server.queue.store, "acme", "acme", None)
    headers = {"Authorization": f"Bearer {key}"}
    own = server.client.get("/v1/customers/acme", headers=headers).json()
    assert (own["customer"], own["share"]) == ("acme", None)
    id_ = server.get("/v1/documents", customer="acme")["documents"][0]["id"]
    why = server.client.get(f"/v1/documents/{id_}/why", headers=headers).json()
    assert (why["id"], why["share"]) == (id_, None)
    assert "Share of worker time" not in why["sentence"]
