"""HTTP: single submissions over 32 connections, against the least that an upload can be.

The other side (peers/bare_http.py) is FastAPI on the same uvicorn, streams the same bytes into a file, fsyncs it and
inserts one row with its own durable commit: no multipart, no hash, no type, no counter, no line, no event.
"""

import asyncio
import importlib
import os
import socket
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.measure import interleaved, median, spread, verdict
from bench.services import ROOT, folder, kill, start, wait_until

CONNECTIONS = 32
EACH = 40
SIZE = 10_000
REPEATS = 7
EDGE = "edge-of-the-parts"


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
    process = start(command, path, {"INTURN_MAX_WAITING": "1000000000", "INTURN_MAX_STORED": "1000000"})
    try:
        if not wait_until(lambda: is_up(port), 30):
            raise RuntimeError((path / "said.txt").read_text(encoding="utf-8"))
        yield port
    finally:
        kill([process])


def ours(path: Path, store: str) -> tuple[list[str], int]:
    port = free_port()
    command = [sys.executable, "-m", "inturn.cli", "serve", "--port", str(port), "--store", store, "--blobs"]
    return [*command, str(path / "blobs")], port


def bare(path: Path) -> tuple[list[str], int]:
    port = free_port()
    return [sys.executable, str(Path(__file__).parent / "peers" / "bare_http.py"), str(path), str(port)], port


def request() -> bytes:
    """The same bytes for both: a form with a customer and a file."""
    body = (
        f'--{EDGE}\r\nContent-Disposition: form-data; name="customer"\r\n\r\nacme\r\n'
        f'--{EDGE}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
    ).encode() + os.urandom(SIZE // 2).hex().encode()
    body += f"\r\n--{EDGE}--\r\n".encode()
    head = f"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Content-Type: multipart/form-data; boundary={EDGE}\r\n\r\n".encode() + body


async def _client(port: int, message: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(EACH):
        writer.write(message)
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 202 " not in head.split(b"\r\n", 1)[0]:
            raise RuntimeError(head.decode())
        length = head.lower().split(b"content-length: ")[1].split(b"\r\n", 1)[0]
        await reader.readexactly(int(length))
    writer.close()


async def _load(port: int, message: bytes) -> None:
    await asyncio.gather(*(_client(port, message) for _ in range(CONNECTIONS)))


def load(port: int) -> None:
    asyncio.run(_load(port, request()))


def compare(name: str, path: Path, store: str) -> int:
    other = path / "bare"
    other.mkdir()
    (mine, my_port), (theirs, their_port) = ours(path, store), bare(other)
    with serving(mine, path, my_port), serving(theirs, other, their_port):
        for port in (my_port, their_port):
            load(port)  # imports, first pages and files are behind us
        times = interleaved([lambda: load(my_port), lambda: load(their_port)], REPEATS)
        with urllib.request.urlopen(f"http://127.0.0.1:{my_port}/v1/customers/acme", timeout=10) as answer:
            print(f"{name}: kept {answer.read()[:200].decode()}")
    n = CONNECTIONS * EACH
    rates = [[n / each for each in side] for side in times]
    print(f"{name}: documents/s {spread(rates[0])}; bare {spread(rates[1])}")
    return verdict(f"HTTP on {name} against bare", median(rates[0]) / median(rates[1]), 0.6, at_most=False)


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
        yield server.url
    finally:
        server.remove()
