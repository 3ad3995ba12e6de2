"""Shutdown while clients are still sending their requests."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from waiting import wait_until

from .conftest import ServerProcess

SLOW = 40


def slow_upload(server: ServerProcess, kind: str) -> socket.socket:
    address = urlsplit(server.url)
    client = socket.create_connection((address.hostname, address.port), 60)
    client.sendall(
        f"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\nContent-Type: {kind}\r\n\r\n"
        '--edge\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'.encode()
    )
    return client


def test_shutdown_cancels_unfinished_bodies_with_503(
    serve: Callable[..., ServerProcess],
) -> None:
    server = serve("--grace", "1")
    kinds = ("application/json", "multipart/form-data; boundary=edge")
    callers = [slow_upload(server, kinds[number % 2]) for number in range(SLOW)]
    with server.client() as client:
        wait_until(lambda: client.get("/healthz").status_code == 200)
    assert server.stop() == 0
    answers = [caller.recv(2_000) for caller in callers]
    for caller in callers:
        caller.close()
    assert {answer.split(b"\r\n")[0] for answer in answers} == {b"HTTP/1.1 503 Service Unavailable"}
    assert all(b'"code":"stopping"' in answer for answer in answers)
    assert all(b"retry-after: 5" in answer and b"connection: close" in answer for answer in answers)
    lines = [json.loads(line) for line in server.lines]
    assert "Traceback" not in server.log
    assert [line["message"] for line in lines if line["level"] != "info"] == [
        f"{SLOW} requests were cancelled: they took longer than the grace of 1 s"
    ]
    assert sum(line.get("status") == 503 for line in lines) == SLOW
    assert lines[-1]["message"] == "the server has stopped"


def test_body_within_the_grace_is_accepted(serve: Callable[..., ServerProcess]) -> None:
    server = serve("--grace", "20")
    body = json.dumps({"customer": "acme", "documents": [{"name": "a"}]}).encode()
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), 60) as caller:
        caller.sendall(
            b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body[:5]
        )
        with server.client() as client:
            client.get("/healthz")
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: _refuses(address.hostname, address.port))
        caller.sendall(body[5:])
        assert caller.recv(2_000).startswith(b"HTTP/1.1 202 ")
    assert server.stop() == 0


STOPPED_WHILE_IT_STARTS = """
import os, signal, sys
from inturn.http import server
from inturn.http.state import AppState
from inturn.queue import Queue
from inturn.stores import open_store

state = AppState(Queue(open_store("memory://")), None)
server.serve(state, server.bind("127.0.0.1", 0), grace=1, on_ready=lambda: os.kill(os.getpid(), int(sys.argv[1])))
print("stopped")
"""


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
def test_signal_before_uvicorn_listens_to_it_stops_the_server(which: signal.Signals) -> None:
    command = [sys.executable, "-c", STOPPED_WHILE_IT_STARTS, str(int(which))]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - ours
    assert (ended.returncode, ended.stdout) == (0, "stopped\n"), ended.stderr


def _refuses(host: str | None, port: int | None) -> bool:
    try:
        socket.create_connection((host, port), 60).close()
    except OSError:
        return True
    return False
