"""Malformed requests are refused with a reason, and never a server error."""

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from starlette.testclient import TestClient

from inturn.http.sessions import COOKIE_NAME
from inturn.model import NewDocument
from waiting import TIMEOUT_SECONDS, wait_until

from .conftest import Harness, ServerProcess

DIGITS = "0" * 5_000 + "2"
DEEP = "[" * 5_000 + "]" * 5_000
JUNK = ("", "²", "-1", "1e999", "9" * 5_000, "NaN", "null", "\x00", "%s", "../..", "[]", "{}", "x" * 10_000, "ﬀ", "٣")
BODIES = (
    "",
    "null",
    "[]",
    "{}",
    '"x"',
    "²",
    DEEP,
    '{"a":' * 5_000 + "1" + "}" * 5_000,
    '{"ids":[' + "9" * 5_000 + "]}",
)
HEADERS = ("accept-language", "accept-encoding", "if-none-match", "idempotency-key", "last-event-id", "range", "cookie")
COOKIES = tuple(
    f"{COOKIE_NAME}={text}" for text in ("a.b.c", "." * 100, "²", f"0f3c5e7a9b1d.{DIGITS}.x", "0f3c5e7a9b1d.-1.²")
)
PAGES = ("/", "/customers/{name}", "/documents/{id}", "/static/{build}/{path}", "/session", "/openapi.json")


def raw(harness: Harness, method: str, path: str, *headers: tuple[str, bytes], body: bytes = b"") -> tuple[int, Any]:
    """Ask the application, with headers that no client would send."""
    sent: list[dict[str, Any]] = []
    known = {"host": b"server"} | dict(headers)
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value) for name, value in known.items()],
        "client": ("192.0.2.1", 1),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(harness.app(scope, receive, send))  # type: ignore[arg-type]
    text = b"".join(item.get("body", b"") for item in sent[1:])
    return sent[0]["status"], json.loads(text)


def keyed(harness: Harness) -> tuple[str, bytes]:
    """The header with an operator's key."""
    return "authorization", f"Bearer {harness.operator}".encode()


def routes(harness: Harness) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Every method of every address, with the parameters it is described with."""
    for path, operations in harness.app.openapi()["paths"].items():
        for method, operation in operations.items():
            yield method, path, operation.get("parameters", [])
    for path in PAGES:
        yield "get", path, []


def filled(path: str, value: str) -> str:
    for name in ("id", "name", "version", "build", "path"):
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    return path


@pytest.mark.parametrize("length", [DIGITS, "1" * 5_000, "²", "٣", "+2", "-1", "1_0", "0x10", "2, 2", "", " "])
def test_a_content_length_that_is_no_number_is_a_bad_request(harness: Harness, length: str) -> None:
    given = ("content-length", length.encode("utf-8")), ("content-type", b"application/json"), keyed(harness)
    for method, path in (("POST", "/v1/documents"), ("POST", "/v1/checks"), ("GET", "/v1/documents"), ("GET", "/")):
        status, answer = raw(harness, method, path, *given, body=b"{}")
        assert (status, answer["code"]) == (400, "bad_request"), path
        assert "Content-Length" in answer["detail"]


def test_a_superscript_digit_is_no_content_length(harness: Harness) -> None:
    status, answer = raw(
        harness, "POST", "/v1/documents", ("content-length", b"\xb2"), ("content-type", b"application/json")
    )
    assert (status, answer["code"]) == (400, "bad_request")


def test_a_content_length_with_thousands_of_digits_is_refused_by_the_server(
    serve: Callable[..., ServerProcess],
) -> None:
    server = serve()
    address = urlsplit(server.url)
    for length in (DIGITS, "1" * 5_000):
        with socket.create_connection((address.hostname, address.port), 60) as client:
            client.sendall(
                f"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {length}\r\n\r\n{{}}".encode()
            )
            assert client.recv(100).startswith(b"HTTP/1.1 400 ")
    assert server.stop() == 0
    assert all(json.loads(line)["level"] != "error" for line in server.lines)


def test_junk_in_any_parameter_is_never_a_server_error(harness: Harness, anna: TestClient) -> None:
    asked = 0
    for method, path, parameters in routes(harness):
        if path in {"/v1/events", "/v1/simulations", "/v1/replays"} or path.endswith(("/preview", "/judgement")):
            continue  # what is streamed is asked below
        for junk in JUNK:
            address = filled(path, junk or "x")
            names = [parameter["name"] for parameter in parameters if parameter["in"] == "query"]
            for answer in [anna.request(method, address, params={name: junk}) for name in names or ["x"]]:
                asked += 1
                assert answer.status_code < 500, f"{method} {path} with {junk[:20]!r}: {answer.text}"
    assert asked > 1_000


def test_junk_body_is_never_a_server_error(harness: Harness, anna: TestClient) -> None:
    known = harness.queue.submit("acme", [NewDocument("a")])[0].id
    for method, path, _ in routes(harness):
        if method in {"post", "put", "patch"}:
            for body in BODIES:
                for kind in ("application/json", "multipart/form-data; boundary=x", "text/plain", "²".encode()):
                    answer = anna.request(method, filled(path, known), content=body, headers={"Content-Type": kind})
                    assert answer.status_code < 500, f"{method} {path} with {body[:20]!r}: {answer.text}"


def test_junk_header_is_never_a_server_error(harness: Harness) -> None:
    id_ = harness.queue.submit("acme", [NewDocument("a")])[0].id
    for header in HEADERS:
        for junk in (*JUNK, *COOKIES, "bytes=²-", f"bytes=0-{DIGITS}"):
            for method, path in (("GET", f"/v1/documents/{id_}/why"), ("GET", "/session"), ("POST", "/v1/checks")):
                key = () if header == "cookie" else (keyed(harness),)
                status, answer = raw(harness, method, path, *key, (header, junk.encode()), body=b"{}")
                assert status < 500, f"{header}: {junk[:20]!r}: {answer}"


@pytest.mark.parametrize("junk", [item for item in JUNK if item])
def test_junk_last_event_id_is_refused(harness: Harness, junk: str) -> None:
    status, answer = raw(harness, "GET", "/v1/events", keyed(harness), ("last-event-id", junk.encode()))
    assert (status, answer["code"]) == (422, "invalid_input")


def test_deeply_nested_result_is_served_as_stored(harness: Harness, anna: TestClient) -> None:
    texts = {}
    for depth in (10, 250, 300, 900):
        (receipt,) = harness.queue.submit("acme", [NewDocument("a", metadata={"depth": depth})])
        result: Any = "é\u2028"
        for _ in range(depth):
            result = {"a": result}
        harness.process_documents(result)
        texts[receipt.id] = harness.queue.store.result(receipt.id)
    for id_, text in texts.items():
        answer = anna.get(f"/v1/documents/{id_}/result")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.content.decode() == f'{{"id":"{id_}","result":{text},"files":[]}}'


def test_deeply_nested_metadata_can_be_read(anna: TestClient) -> None:
    metadata: Any = 1
    for _ in range(90):
        metadata = {"a": metadata}
    body = {"customer": "acme", "documents": [{"name": "a", "metadata": metadata}]}
    id_ = anna.post("/v1/documents", json=body).json()["receipts"][0]["id"]
    for path in (f"/v1/documents/{id_}", f"/v1/documents/{id_}/why", f"/v1/documents/{id_}/timeline", "/v1/documents"):
        assert anna.get(path).status_code == 200, path
    assert anna.get(f"/v1/documents/{id_}").json()["metadata"] == metadata
    for _ in range(200):
        metadata = {"a": metadata}
    deeper = {"customer": "acme", "documents": [{"name": "a", "metadata": metadata}]}
    assert anna.post("/v1/documents", json=deeper).status_code == 422


def _reported_requests(server: ServerProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.lines if '"method"' in line and "/healthz" not in line]


def test_client_disconnect_is_not_logged_as_an_error(serve: Callable[..., ServerProcess]) -> None:
    server = serve()
    address = urlsplit(server.url)
    asked = [
        ("POST", "/v1/documents", "application/json"),
        ("POST", "/v1/documents", "multipart/form-data; boundary=edge"),
        ("POST", "/v1/checks", "application/json"),
        ("PUT", "/v1/policy", "application/json"),
    ]
    for method, path, kind in asked:
        with socket.create_connection((address.hostname, address.port), TIMEOUT_SECONDS) as client:
            client.sendall(
                f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\nContent-Type: {kind}\r\n"
                "Expect: 100-continue\r\n\r\n".encode()
            )
            assert client.recv(1_000).startswith(b"HTTP/1.1 100 ")  # the route has begun to read the body
            client.sendall(b"--edge\r\n")
    wait_until(lambda: len(_reported_requests(server)) >= len(asked), message=lambda: server.log)
    reported = _reported_requests(server)
    with server.client() as client:
        page = client.get("/metrics").text
    logged = [(item["method"], item["path"], item["status"], item["level"]) for item in reported]
    assert sorted(logged) == sorted((method, path, 499, "info") for method, path, _ in asked)
    assert all(" gone " in item["message"] for item in reported)
    assert 'status="500"' not in page


def test_failure_with_a_connected_client_is_logged_as_an_error(
    harness: Harness, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(harness.app_state.quotas, "check", broken)
    with caplog.at_level(logging.INFO):
        answer = harness.client_as(harness.create_api_key("acme")).post(
            "/v1/documents", json={"documents": [{"name": "a"}]}
        )
    assert answer.status_code == 500
    assert [record.levelname for record in caplog.records if record.name == "inturn.http"] == ["ERROR"]
