"""Health, metrics, logs, several servers, shutdown, and workers of a server."""

import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import inturn
from inturn.errors import StoreBusyError
from inturn.model import NewDocument
from waiting import TIMEOUT_SECONDS, wait_until

from .conftest import ANNA, Harness, ServerProcess


def value(page: str, name: str) -> float:
    return next(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(f"{name} "))


def test_ready_means_that_the_store_answers(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    client = harness.client_as(None)
    assert client.get("/readyz").status_code == 200

    def busy() -> None:
        raise StoreBusyError("/our/own/path is locked")

    monkeypatch.setattr(harness.queue.store, "policy", busy)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "store_busy", "5")
    assert "/our/own/path" not in answer.text
    assert client.get("/healthz").status_code == 200


def test_metrics_tell_what_waits_runs_and_ended(harness: Harness, anna: TestClient) -> None:
    harness.queue.submit("acme", [NewDocument("a")] * 6)
    claimed = harness.queue.claim("worker", 3, lease=1_000)
    harness.queue.finish(claimed[0])
    harness.queue.fail(claimed[1], "no", final=True)
    time.sleep(0.05)
    harness.queue.store.sweep()
    harness.queue.cancel(harness.queue.documents(limit=1).items[0].id, ANNA)
    wanted = {
        "inturn_submitted_total": 6,
        "inturn_started_total": 3,
        'inturn_outcomes_total{outcome="done"}': 1,
        'inturn_outcomes_total{outcome="failed"}': 1,
        'inturn_outcomes_total{outcome="cancelled"}': 1,
        "inturn_leases_lost_total": 1,
        'inturn_wait_seconds_count{level="1"}': 3,
        'inturn_waiting{level="2"}': 2,
        "inturn_running": 0,
        "inturn_overdue_slots_total": 0,
    }
    reported: dict[str, float] = {}

    def is_complete() -> bool:
        page = anna.get("/metrics").text
        reported.update((name, value(page, name)) for name in wanted if f"\n{name} " in page)
        return reported == wanted and value(page, "inturn_oldest_wait_seconds") > 0

    wait_until(is_complete, message=lambda: reported)  # lanes are read now and then


def test_a_server_logs_objects_with_request_ids_and_stops_cleanly(serve: Callable[..., ServerProcess]) -> None:
    server = serve()
    with server.client() as client:
        answer = client.post(
            "/v1/documents", json={"customer": "acme", "documents": [{"name": "a", "text": "PLANTED"}]}
        )
        client.get("/v1/documents?text=PLANTED")
    assert server.stop() == 0
    lines = [json.loads(line) for line in server.lines]
    (reported,) = [line for line in lines if line.get("request") == answer.headers["x-request-id"]]
    assert (reported["method"], reported["path"], reported["status"], reported["level"]) == (
        "POST",
        "/v1/documents",
        202,
        "info",
    )
    assert lines[-1]["message"] == "the server has stopped"
    assert "PLANTED" not in server.log


def test_a_long_poll_is_answered_when_the_server_stops(serve: Callable[..., ServerProcess]) -> None:
    server = serve("--grace", "20", alone=True)
    with server.client() as client:
        body = {"customer": "acme", "documents": [{"name": "a"}]}
        id_ = client.post("/v1/documents", json=body).json()["receipts"][0]["id"]
        answers: list[int] = []
        poll = threading.Thread(target=lambda: answers.append(client.get(f"/v1/documents/{id_}?wait=50").status_code))
        poll.start()
        with server.client() as other:
            wait_until(lambda: "inturn_long_polls 1.0" in other.get("/metrics").text)
        began = time.monotonic()
        assert server.stop() == 0
        poll.join(TIMEOUT_SECONDS)
    assert answers == [200]
    assert time.monotonic() - began < 45  # the long poll alone would have taken 50 s


def test_servers_share_store_and_keys_and_workers_run_beside_them(
    serve: Callable[..., ServerProcess], keys_at: Callable[..., list[str]], tmp_path: Path
) -> None:
    key, operator = keys_at(tmp_path, "acme", None)
    first, second = serve("--auth", "keys", "--workers", "2", alone=True), serve("--auth", "keys")
    with first.client(key) as ours, second.client(key) as theirs, second.client(operator) as anna:
        receipts = theirs.post("/v1/documents", files=[("file", ("a.txt", b"Hello there"))]).json()["receipts"]
        answer = ours.get(f"/v1/documents/{receipts[0]['id']}/result?wait=50")
        assert answer.json()["result"]["text"] == "Hello there"
        # One did the work before the other had started.
        wait_until(lambda: len(anna.get("/v1/workers").json()["workers"]) == 2)
        pids = [item["process"] for item in anna.get("/v1/workers").json()["workers"]]
        (fresh,) = keys_at(tmp_path, "acme")
        assert ours.get("/v1/documents", headers={"Authorization": f"Bearer {fresh}"}).status_code == 200
    assert first.stop() == second.stop() == 0
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_a_server_for_others_refuses_to_start_without_a_key(tmp_path: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(  # noqa: S603 - our own
        [*environment["INTURN"].split("\n"), "serve", "--host", "0.0.0.0", "--port", "0"],  # noqa: S104 - that is the point
        cwd=tmp_path,
        env={name: item for name, item in environment.items() if name != "INTURN"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "inturn keys create --operator" in done.stderr


def test_settings_come_from_file_environment_and_flags(
    serve: Callable[..., ServerProcess], keys_at: Callable[..., list[str]], tmp_path: Path
) -> None:
    (tmp_path / "inturn.toml").write_text('auth = "keys"\nmax_file = 0.001\nmax_waiting = 3\nburst = 1000\n')
    (key,) = keys_at(tmp_path, "acme")
    server = serve(INTURN_MAX_WAITING="2")
    with server.client(key) as client:
        assert client.get("/v1/documents", headers={"Authorization": ""}).status_code == 401
        assert client.post("/v1/documents", files=[("file", ("a", b"x" * 2_000))]).status_code == 413
        documents = [{"name": "a"}] * 3
        assert client.post("/v1/documents", json={"documents": documents}).status_code == 429
        assert client.post("/v1/documents", json={"documents": documents[:2]}).status_code == 202


def test_a_server_can_be_killed_and_loses_nothing_it_accepted(
    serve: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    accepted: list[str] = []
    for _ in range(2):
        server = serve()
        over = threading.Event()

        def send(server: ServerProcess = server, over: threading.Event = over) -> None:
            with server.client() as client:
                while not over.is_set():
                    try:
                        answer = client.post(
                            "/v1/documents", files=[("file", ("a.txt", b"x" * 100))], data={"customer": "a"}
                        )
                    except Exception:  # noqa: BLE001 - it was killed
                        return
                    if answer.status_code == 202:
                        accepted.extend(item["id"] for item in answer.json()["receipts"])

        senders = [threading.Thread(target=send) for _ in range(4)]
        for sender in senders:
            sender.start()
        enough = len(accepted) + 5
        wait_until(lambda: len(accepted) >= enough, message="nothing is accepted")  # noqa: B023 - called at once
        server.process.kill()
        over.set()
        for sender in senders:
            sender.join(60)
    with inturn.open(str(tmp_path / "inturn.db")) as queue:
        blobs = inturn.open_blobs(str(tmp_path / "inturn.db.blobs"))
        for id_ in accepted:
            given = queue.document(id_).spec
            blobs.check(given.blob or "", given.sha256 or "")
