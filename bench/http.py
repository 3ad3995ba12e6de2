"""HTTP: single submissions over 32 connections, against the least that an upload can be.

The other side (peers/bare_http.py) is FastAPI on the same uvicorn, streams the same bytes into a file, fsyncs it and
inserts one row into the same kind of store with its own durable commit: no multipart, no hash, no type, no counter, no
line, no event. Each connection is another customer's, or all are one's, whose counter they then take turns at.
"""

import asyncio
import importlib
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import inturn
from bench.measure import check_limit, interleaved, median, spread
from bench.services import ROOT, folder, kill, start_process, wait_until

CONNECTIONS = 32
REQUESTS_PER_CONNECTION = 40
BODY_BYTES = 10_000
REPEATS = 7
BOUNDARY = "edge-of-the-parts"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_up(port: int) -> bool:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


@contextmanager
def serving(command: list[str], path: Path, port: int) -> Iterator[int]:
    process = start_process(command, path, {"INTURN_MAX_WAITING": "1000000000", "INTURN_MAX_STORED": "1000000"})
    try:
        if not wait_until(lambda: is_up(port), 30):
            raise RuntimeError((path / "said.txt").read_text(encoding="utf-8"))
        yield port
    finally:
        kill([process])


def inturn_server(path: Path, store: str) -> tuple[list[str], int]:
    port = free_port()
    command = [sys.executable, "-m", "inturn.cli", "serve", "--port", str(port), "--store", store, "--blobs"]
    return [*command, str(path / "blobs")], port


def bare_server(path: Path, store: str) -> tuple[list[str], int]:
    port, program = free_port(), str(Path(__file__).parent / "peers" / "bare_http.py")
    return [sys.executable, program, str(path), str(port), *([store] if "://" in store else [])], port


def request(customer: str) -> bytes:
    """The same bytes for both: a form with a customer and a file."""
    body = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="customer"\r\n\r\n{customer}\r\n'
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    ).encode() + os.urandom(BODY_BYTES // 2).hex().encode()
    body += f"\r\n--{BOUNDARY}--\r\n".encode()
    head = f"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n".encode() + body


async def _client(port: int, message: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(REQUESTS_PER_CONNECTION):
        writer.write(message)
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 202 " not in head.split(b"\r\n", 1)[0]:
            raise RuntimeError(head.decode())
        length = head.lower().split(b"content-length: ")[1].split(b"\r\n", 1)[0]
        await reader.readexactly(int(length))
    writer.close()


async def _load(port: int, customers: int) -> None:
    messages = [request(f"customer {number % customers}") for number in range(CONNECTIONS)]
    await asyncio.gather(*(_client(port, message) for message in messages))


def load(port: int, customers: int) -> None:
    asyncio.run(_load(port, customers))


def compare(name: str, path: Path, store: str) -> int:
    other, missed = path / "bare", 0
    other.mkdir()
    (mine, my_port), (theirs, their_port) = inturn_server(path, store), bare_server(other, store)
    with serving(mine, path, my_port), serving(theirs, other, their_port):
        for customers, limit in ((CONNECTIONS, 0.6), (1, None)):
            for port in (my_port, their_port):
                load(port, customers)  # imports, first pages and files are behind us
            both = [partial(load, my_port, customers), partial(load, their_port, customers)]
            times = interleaved(both, REPEATS)
            missed += print_rates(f"{name}, {customers} customers", times, limit)
    return missed


def print_rates(name: str, times: Sequence[Sequence[float]], limit: float | None) -> int:
    mine, theirs = ([CONNECTIONS * REQUESTS_PER_CONNECTION / item for item in side] for side in times)
    print(f"{name}: documents/s {spread(mine)}; bare {spread(theirs)}")
    ratio = median(mine) / median(theirs)
    if limit is None:
        print(f"     HTTP on {name} against bare: {ratio:.2f}")
        return 0
    return check_limit(f"HTTP on {name} against bare", ratio, limit, at_most=False)


def main() -> int:
    missed = 0
    with folder() as path:
        missed += compare("SQLite", path, str(path / "ours.db"))
    with folder() as path, postgres() as url:
        missed += compare("PostgreSQL", path, url)
    return missed


@contextmanager
def postgres() -> Iterator[str]:
    """The tests' own server, but as durable as SQLite."""
    sys.path.append(str(ROOT / "tests"))
    server = importlib.import_module("services").PostgresServer()
    try:
        server.start(fsync="on")
        inturn.migrate(server.url)
        yield server.url
    finally:
        server.remove()
