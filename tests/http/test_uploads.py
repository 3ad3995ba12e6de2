"""Uploads to a real server: streamed, concurrent, broken off, slow; and many long polls."""

import asyncio
import http.client
import json
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from inturn.http.settings import Limits
from waiting import wait_until

from .conftest import Harness, ServerProcess

MEGABYTE = 1 << 20


def left_in(folder: Path) -> list[Path]:
    blobs = folder / "inturn.db.blobs"
    return [path for path in blobs.rglob("*") if path.is_file()]


def form(size: int, piece: int = 256 * 1024) -> Iterator[bytes]:
    """A multipart body with one file of so many bytes."""
    yield b'--edge\r\nContent-Disposition: form-data; name="customer"\r\n\r\nacme\r\n'
    yield b'--edge\r\nContent-Disposition: form-data; name="file"; filename="big.bin"\r\n\r\n'
    while size > 0:
        yield bytes(min(size, piece))
        size -= piece
    yield b"\r\n--edge--\r\n"


HEADERS = {"Content-Type": "multipart/form-data; boundary=edge"}


def test_a_large_upload_is_never_held_whole(serve: Callable[..., ServerProcess], tmp_path: Path) -> None:
    server = serve(alone=True)  # its memory is its own
    with server.client() as client:
        assert client.post("/v1/documents", content=form(MEGABYTE), headers=HEADERS).status_code == 202
        before = most = server.pss()

        def watched() -> Iterator[bytes]:
            nonlocal most
            for number, piece in enumerate(form(50 * MEGABYTE)):
                if number % 40 == 0:
                    most = max(most, server.pss())
                yield piece

        answer = client.post("/v1/documents", content=watched(), headers=HEADERS)
        most = max(most, server.pss())
        assert answer.status_code == 202
        id_ = answer.json()["receipts"][0]["id"]
        assert client.get(f"/v1/documents/{id_}").json()["size"] == 50 * MEGABYTE
        assert most - before < 60 * MEGABYTE
        refused = client.post("/v1/documents", content=form(50 * MEGABYTE + 1), headers=HEADERS)
        assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    assert len(left_in(tmp_path)) == 2


def test_two_hundred_uploads_at_once_all_arrive_or_are_refused_with_a_reason(
    serve: Callable[..., ServerProcess], keys_at: Callable[..., list[str]], tmp_path: Path
) -> None:
    keys = keys_at(tmp_path, *(f"customer {number}" for number in range(20)))
    server = serve("--auth", "keys", INTURN_BURST="8", INTURN_REQUESTS_PER_SECOND="0.01")

    async def send(client: httpx2.AsyncClient, number: int) -> tuple[int, str]:
        files = [("file", (f"{number}.txt", bytes([65 + number % 26]) * 40_000))]
        headers = {"Authorization": f"Bearer {keys[number % 20]}"}
        answer = await client.post("/v1/documents", files=files, headers=headers)
        reported = answer.json()
        return answer.status_code, reported["receipts"][0]["id"] if answer.status_code == 202 else reported["code"]

    async def all_at_once() -> list[tuple[int, str]]:
        limits = httpx2.Limits(max_connections=200)
        async with httpx2.AsyncClient(base_url=server.url, timeout=60, limits=limits) as client:
            return await asyncio.gather(*(send(client, number) for number in range(200)))

    answers = asyncio.run(all_at_once())
    statuses = Counter(status for status, _ in answers)
    assert statuses == {202: 160, 429: 40}
    assert {reported for status, reported in answers if status == 429} == {"too_many"}
    with server.client(keys[0]) as client:
        assert client.get("/healthz").status_code == 200
    assert len(left_in(tmp_path)) == statuses[202]


def test_a_client_that_stops_half_way_leaves_nothing_behind(
    serve: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    server = serve()
    address = urlsplit(server.url)
    for gone in (100, 300_000, 3 * MEGABYTE):
        with socket.create_connection((address.hostname, address.port)) as raw:
            raw.sendall(
                b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000000\r\n"
                b"Content-Type: multipart/form-data; boundary=edge\r\n\r\n" + b"".join(form(10 * MEGABYTE))[:gone]
            )
            if gone > MEGABYTE:
                wait_until(lambda: left_in(tmp_path), message="it is written away while it comes in")
    wait_until(lambda: left_in(tmp_path) == [])
    with server.client() as client:
        assert client.get("/v1/documents").json()["documents"] == []


def test_stalled_upload_is_cut_off(make_harness: Callable[..., Harness]) -> None:
    harness = make_harness(limits=Limits(stall_seconds=0.2))

    async def stalled() -> int:
        async def pieces() -> object:
            yield b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + b"x" * 300_000
            await asyncio.sleep(60)

        sent: list[dict[str, object]] = []
        stream = pieces()

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": await anext(stream), "more_body": True}  # type: ignore[call-overload]

        async def send(message: dict[str, object]) -> None:
            sent.append(message)

        headers = [(b"authorization", f"Bearer {harness.create_api_key('acme')}".encode())]
        headers += [(name.lower().encode(), item.encode()) for name, item in HEADERS.items()]
        scope = {"type": "http", "method": "POST", "path": "/v1/documents", "raw_path": b"/v1/documents"}
        scope |= {"query_string": b"", "headers": headers, "client": ("192.0.2.1", 1), "server": ("x", 80)}
        await harness.app(scope | {"scheme": "http", "http_version": "1.1", "root_path": ""}, receive, send)
        return int(str(sent[0]["status"]))

    assert asyncio.run(stalled()) == 408
    assert harness.stored_blobs() == set()


def test_many_long_polls_leave_the_server_responsive(serve: Callable[..., ServerProcess]) -> None:
    server = serve()
    address = urlsplit(server.url)
    with server.client() as client:
        body = {"customer": "acme", "documents": [{"name": "a"}]}
        id_ = client.post("/v1/documents", json=body).json()["receipts"][0]["id"]
        ask = f"GET /v1/documents/{id_}?wait=50 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        idle = [socket.create_connection((address.hostname, address.port)) for _ in range(300)]
        for item in idle:
            item.sendall(ask)
        wait_until(lambda: "inturn_long_polls 300.0" in client.get("/metrics").text)
        took = []
        for _ in range(20):
            began = time.monotonic()
            assert client.post("/v1/documents", json=body).status_code == 202
            took.append(time.monotonic() - began)
        assert sorted(took)[10] < 5  # one that stood behind a long poll would take 50
        client.delete(f"/v1/documents/{id_}")
        for item in idle:
            answer = http.client.HTTPResponse(item)
            answer.begin()
            assert json.loads(answer.read())["state"] == "cancelled"
            item.close()
