"""HEAD: the headers of a GET without its body."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from inturn.model import NewDocument
from waiting import wait_until

from .conftest import Harness, ServerProcess

CHANGING = frozenset({"x-request-id", "date", "content-length", "set-cookie"})


def test_every_get_route_answers_a_head_with_the_same_headers_and_no_body(harness: Harness, anna: TestClient) -> None:
    given = {"customer": "acme", "documents": [{"name": "a", "text": "Hello", "batch": "b"}]}
    id_ = anna.post("/v1/documents", json=given).json()["receipts"][0]["id"]
    harness.process_documents({"pages": 3})
    asked = [path for path, operations in harness.app.openapi()["paths"].items() if "get" in operations]
    asked.remove("/v1/events")
    for path in (*asked, "/", "/documents/{id}", "/openapi.json", "/session", "/v1/documents/nothing"):
        name = "b" if "/batches/" in path else "acme"
        address = path.replace("{id}", id_).replace("{name}", name)
        got, head = anna.get(address), anna.head(address)
        assert head.status_code == got.status_code, address
        assert head.content == b"", address
        stored, reported = ({**response.headers} for response in (got, head))
        assert reported.keys() == stored.keys(), address
        assert all(reported[header] == stored[header] for header in stored.keys() - CHANGING), address
    assert anna.head(f"/v1/documents/{id_}/content").headers["content-length"] == "5"
    assert anna.head(f"/v1/documents/{id_}/result").headers["content-length"] != "0"


def test_head_changes_nothing_and_shows_nothing_of_others(harness: Harness, acme: TestClient) -> None:
    own, other = (harness.queue.submit(name, [NewDocument("a")])[0].id for name in ("acme", "beta"))
    assert acme.head(f"/v1/documents/{own}").status_code == 200
    assert acme.head(f"/v1/documents/{other}").status_code == 404
    assert acme.head("/v1/audit").status_code == 404
    assert harness.client_as(None).head("/v1/documents").status_code == 401


@pytest.mark.parametrize("path", ["/v1/checks", "/v1/documents/cancel", "/v1/queue/pause"])
def test_head_of_a_post_route_is_refused(harness: Harness, anna: TestClient, path: str) -> None:
    before = harness.queue.store.last_event()
    answer = anna.head(path)
    assert (answer.status_code in {404, 405}, answer.content) == (True, b"")
    assert harness.queue.store.last_event() == before


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/documents", "GET, HEAD, POST"),
        ("POST", "/v1/overview", "GET, HEAD"),
        ("GET", "/v1/checks", "POST"),
        ("PUT", "/v1/documents/018f3c5e-0000-7000-8000-000000000000", "DELETE, GET, HEAD"),
        ("POST", "/", "GET, HEAD"),
    ],
)
def test_405_lists_the_allowed_methods(anna: TestClient, method: str, path: str, allowed: str) -> None:
    answer = anna.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


def test_head_of_a_stream_ends_without_a_subscriber(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    server = serve()
    (tmp_path / "a.txt").write_bytes(b"x" * 3_000_000)
    address = urlsplit(server.url)
    with server.client() as client:
        with (tmp_path / "a.txt").open("rb") as file:
            sent = client.post("/v1/documents", files={"file": ("a.txt", file)}, data={"customer": "acme"})
        content = f"/v1/documents/{sent.json()['receipts'][0]['id']}/content"
        with socket.create_connection((address.hostname, address.port), 60) as raw:
            for path in ("/v1/events", content, "/healthz"):  # on one connection: a body would be read as an answer
                raw.sendall(f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += raw.recv(1)
                assert head.startswith(b"HTTP/1.1 200 OK\r\n"), path
                assert (b"content-length: 3000000" in head) == (path == content)
            wait_until(lambda: "HEAD /v1/events 200" in server.log, message="it is over while the connection is open")
        assert client.get(content).content == b"x" * 3_000_000
    assert server.stop() == 0
    assert "rror" not in server.log


def test_a_head_of_a_stream_ends_under_any_server(harness: Harness) -> None:
    sent: list[dict[str, Any]] = []

    async def ask() -> None:
        scope = {
            "type": "http",
            "method": "HEAD",
            "path": "/v1/events",
            "query_string": b"",
            "headers": [(b"authorization", f"Bearer {harness.operator}".encode())],
            "client": ("192.0.2.1", 1),
        }

        async def receive() -> dict[str, Any]:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        async with asyncio.timeout(20):
            await harness.app(scope, receive, send)  # type: ignore[arg-type]

    asyncio.run(ask())
    assert [item["type"] for item in sent] == ["http.response.start", "http.response.body"]
    assert (sent[0]["status"], sent[1]["body"], sent[1]["more_body"]) == (200, b"", False)
    assert len(harness.app_state.broadcaster) == 0
