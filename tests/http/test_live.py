"""Event streams and policy previews of a real server."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import Request
from fastapi.security import HTTPAuthorizationCredentials

from inturn.http import simulation_jobs
from inturn.http.auth import Caller, is_still_authorized
from inturn.http.sessions import COOKIE_NAME
from inturn.http.settings import Limits
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.stores import open_store
from inturn.values import SECOND

from .conftest import ANNA, Harness, ServerProcess

POLICY = {
    "reset_interval": 1_500 * SECOND,
    "thresholds": [-2, -4, -6, -8, -10, -12, -14, -20],
    "order": "classic",
    "overdue_after": 900 * SECOND,
    "overdue_every": 10,
    "per_document": 1.0,
    "per_page": 0.0,
    "bytes_per_page": 1_000_000,
}


class Stream:
    """A subscriber of a real server."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.answer = answer
        self._lines = answer.iter_lines()
        assert next(self._lines).startswith("retry: ")  # an event before this line would be missed

    def next(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for line in self._lines:
            if not line and "event" in fields:
                fields["data"] = json.loads(fields["data"])
                return fields
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
        raise EOFError


@contextmanager
def listening(server: ServerProcess, key: str | None = None, after: str | None = None) -> Iterator[Stream]:
    headers = {} if after is None else {"Last-Event-ID": after}
    with server.client(key) as client, client.stream("GET", "/v1/events", headers=headers) as answer:
        answer.raise_for_status()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Stream(answer)


def submit(server: ServerProcess, key: str | None, customer: str, n: int = 1) -> list[str]:
    with server.client(key) as client:
        asked = {"customer": customer, "documents": [{"name": "a"}] * n}
        answer = client.post("/v1/documents", json=asked).raise_for_status()
    return [item["id"] for item in answer.json()["receipts"]]


def test_events_reach_streams_of_other_servers_and_after_a_restart(serve: Callable[..., ServerProcess]) -> None:
    one, other = serve(), serve()
    with listening(other) as stream:
        first = submit(one, None, "acme")
        reported = stream.next()
        assert (reported["event"], reported["data"]["documents"]) == ("submitted", first)
    one.kill()
    other.kill()
    again = serve()
    second = submit(again, None, "acme", 2)
    with listening(again, after=reported["id"]) as stream:
        assert stream.next()["data"]["documents"] == second


def test_customer_stream_has_only_its_own_documents(
    serve: Callable[..., ServerProcess], keys_at: Callable[..., list[str]], tmp_path: Path
) -> None:
    operator, acme, other = keys_at(tmp_path, None, "acme", "other")
    server = serve("--auth", "keys")
    with listening(server, acme) as stream:
        submit(server, operator, "other", 3)
        submit(server, other, "other")
        own = submit(server, acme, "acme")
        reported = stream.next()
        assert reported["data"]["documents"] == own
        assert set(reported["data"]) == {"at", "kind", "documents"}
    with listening(server, acme, after="0") as stream:
        assert stream.next()["data"]["documents"] == own


def test_stream_is_unauthorized_after_its_key_is_revoked(harness: Harness) -> None:
    text = harness.create_api_key("acme")
    api_key = next(api_key for api_key in harness.queue.store.api_keys.all() if api_key.customer == "acme")
    by_key = HTTPAuthorizationCredentials(scheme="Bearer", credentials=text), Caller("acme", api_key.scope)
    by_cookie = None, Caller("acme", api_key.scope, by_cookie=True)
    cookie = f"{COOKIE_NAME}={harness.app_state.sessions.create_cookie(api_key)}".encode()
    asked = Request({"type": "http", "app": harness.app, "headers": [(b"cookie", cookie)]})
    assert [asyncio.run(is_still_authorized(asked, *item)) for item in (by_key, by_cookie)] == [True, True]
    harness.queue.store.api_keys.revoke(api_key.id, api_key.made_at, ANNA)
    assert [asyncio.run(is_still_authorized(asked, *item)) for item in (by_key, by_cookie)] == [False, False]
    assert asyncio.run(is_still_authorized(asked, None, Caller("local", api_key.scope)))


def test_stopping_server_ends_its_streams(serve: Callable[..., ServerProcess]) -> None:
    server = serve()
    with listening(server) as stream:
        stopped = threading.Thread(target=server.stop)
        stopped.start()
        with pytest.raises(EOFError):
            stream.next()
        stopped.join(60)
    assert server.process.returncode == 0


@pytest.mark.parametrize("after", ["x", "-1"])
def test_a_wrong_last_event_is_refused(harness: Harness, after: str) -> None:
    answer = harness.client_as(harness.operator).get("/v1/events", headers={"Last-Event-ID": after})
    assert answer.status_code == 422
    assert "Last-Event-ID" in answer.json()["detail"]


def test_stream_above_the_limit_is_refused(make_harness: Callable[..., Harness]) -> None:
    harness = make_harness(limits=Limits(listeners=0))
    answer = harness.client_as(harness.operator).get("/v1/events")
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "5"


def test_many_streams_leave_the_server_responsive(serve: Callable[..., ServerProcess]) -> None:
    """500 streams all get the event of the same document."""
    server = serve()
    with (
        ThreadPoolExecutor(1) as pool,
        httpx2.Client(base_url=server.url, timeout=60, limits=httpx2.Limits(max_connections=600)) as client,
    ):
        streams = []
        for _ in range(500):
            asked = client.build_request("GET", "/v1/events")
            streams.append(client.send(asked, stream=True))
        assert client.get("/healthz").status_code == 200
        (id_,) = pool.submit(submit, server, None, "acme").result(60)
        for answer in streams:
            assert Stream(answer).next()["data"]["documents"] == [id_]
            answer.close()
        assert client.get("/readyz").status_code == 200


# -- previews -------------------------------------------------------------------------------------------------------


def past(folder: Path, n: int = 60) -> None:
    """Some documents that were processed."""
    with Queue(open_store(str(folder / "inturn.db"))) as queue:
        for number in range(n):
            queue.submit(f"customer {number % 7}", [NewDocument("a")])
            for claimed in queue.claim("worker"):
                queue.finish(claimed)


def test_preview_streams_progress_then_a_comparison(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    past(tmp_path)
    server = serve()
    with server.client() as client:
        answer = client.post("/v1/policy/preview", json={"policy": POLICY}).raise_for_status()
        before = client.get("/v1/policy").json()
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines[-2] == {"done": 120, "total": 120}
    result = lines[-1]["comparison"]
    assert (result["documents"], result["customers"]) == (60, 7)
    assert [item["group"] for item in result["groups"]] == ["1-20"]
    assert before["version"] == 1  # nothing was put in force


def test_preview_without_documents_is_an_error(serve: Callable[..., ServerProcess]) -> None:
    server = serve()
    with server.client() as client:
        answer = client.post("/v1/policy/preview", json={"policy": POLICY, "since": 0})
    assert "nothing to play" in json.loads(answer.text.splitlines()[-1])["error"]


def test_preview_is_bounded(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    client = harness.client_as(harness.operator)
    assert client.post("/v1/policy/preview", json={"policy": POLICY | {"order": "none"}}).status_code == 422
    error = client.post("/v1/policy/preview", json={"policy": POLICY | {"thresholds": [1, 2]}})
    assert error.status_code == 422
    response = client.post("/v1/policy/preview", json={"policy": POLICY})
    assert response.status_code == 422
    assert "in memory" in response.json()["detail"]
    harness.app_state.simulation_jobs = simulation_jobs.SimulationJobs("queue.db")
    monkeypatch.setattr(simulation_jobs, "MAX_CONCURRENT_JOBS", 0)
    assert client.post("/v1/policy/preview", json={"policy": POLICY}).status_code == 429
    acme = harness.client_as(harness.create_api_key("acme"))
    assert acme.post("/v1/policy/preview", json={"policy": POLICY}).status_code == 404
