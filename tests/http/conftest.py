"""A server to talk to: the application in this process, or `inturn serve` in one of its own."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

import inturn as package
from inturn.access import AccessKey, KeyScope, make_key
from inturn.blobs import open_blobs
from inturn.http.app import create_app
from inturn.http.service import Service
from inturn.http.settings import Limits, ServerSettings
from inturn.model import Claimed
from inturn.queue import Queue
from inturn.store import Operator, Store
from inturn.stores import open_store

ANNA = Operator("anna", "because the test says so")


def make(store: Store, name: str, customer: str | None = None, scope: KeyScope | None = None) -> str:
    """A new key's text."""
    chosen = scope or (KeyScope.OPERATOR if customer is None else KeyScope.CUSTOMER)
    text, key = make_key(AccessKey("", "", chosen, name, customer, time.time_ns() // 1_000))
    store.keys.add(key, ANNA)
    return text


class Rig:
    """An application in this process, on SQLite and a folder, that asks for keys."""

    def __init__(self, folder: Path, settings: ServerSettings, client: str = "192.0.2.1") -> None:
        self.folder = folder
        self.queue = Queue(open_store(str(folder / "queue.db")))
        self.blobs = open_blobs(str(folder / "blobs"))
        self.service = Service(self.queue, self.blobs, settings)
        self.app = create_app(self.service)
        self.operator = self.key(None)
        self._client = client

    def key(self, customer: str | None, scope: KeyScope | None = None) -> str:
        """A key of a customer, or of an operator."""
        return make(self.queue.store, customer or "anna", customer, scope)

    def as_(self, key: str | None) -> TestClient:
        """Whoever has this key. Requests go to the running application."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        base = "http://127.0.0.1" if not self.service.settings.needs_keys else "http://testserver"
        return TestClient(self.app, base_url=base, headers=headers, client=(self._client, 1234))

    @contextmanager
    def running(self) -> Iterator["Rig"]:
        """With the watcher at work."""
        with self.service:
            yield self

    def work(self, result: Any = None, n: int = 1) -> list[Claimed]:
        """Process n documents."""
        claimed = list(self.queue.claim("worker", n))
        for each in claimed:
            self.queue.finish(each, result)
        return claimed

    def kept_blobs(self) -> set[str]:
        """All blobs, and whatever was left half-written."""
        return {each.name for each in (self.folder / "blobs").rglob("*") if each.is_file()}


GENEROUS = Limits(per_second=1_000_000, burst=1_000_000)


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[Callable[..., Rig]]:
    """Rigs with settings of their own."""
    made: list[Rig] = []

    def one(*, needs_keys: bool = True, limits: Limits = GENEROUS, client: str = "192.0.2.1") -> Rig:
        folder = tmp_path / f"rig{len(made)}"
        folder.mkdir()
        made.append(Rig(folder, ServerSettings(needs_keys=needs_keys, limits=limits), client))
        return made[-1]

    yield one
    for each in made:
        each.queue.close()


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Iterator[Rig]:
    """The usual one, with its watcher at work."""
    with make_rig().running() as running:
        yield running


@pytest.fixture
def anna(rig: Rig) -> TestClient:
    """An operator."""
    return rig.as_(rig.operator)


@pytest.fixture
def acme(rig: Rig) -> TestClient:
    """A customer."""
    return rig.as_(rig.key("acme"))


class Process:
    """`inturn serve` as a person runs it."""

    def __init__(self, folder: Path, *flags: str, **environment: str) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self._port: queue.Queue[int | None] = queue.Queue()
        ours = {name: value for name, value in os.environ.items() if not name.startswith("INTURN_")}
        path = str(Path(package.__file__).parents[1])
        command = [sys.executable, "-m", "inturn.cli", "serve", "--port", "0", "--json", *flags]
        self.process = subprocess.Popen(  # noqa: S603 - our own
            command, cwd=folder, env=ours | {"PYTHONPATH": path} | environment, stderr=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        port = self._port.get(timeout=60)
        if port is None:
            self.process.wait(60)
            raise AssertionError(f"the server did not start: {self.log}")
        self.url = f"http://127.0.0.1:{port}"
        self._wait_until_up()

    @property
    def log(self) -> str:
        """All that it logged."""
        return "".join(self.lines)

    def client(self, key: str | None = None, **more: Any) -> httpx2.Client:
        """A client of its own."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=60, **more)

    def stop(self) -> int:
        """As an operator stops it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self._end()
        return code

    def kill(self) -> None:
        """As nobody should; workers beside it would go on."""
        self.process.kill()
        self.process.wait(60)
        self._end()

    def pss(self) -> int:
        """Bytes of memory that are its own."""
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return 1024 * next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))

    def _end(self) -> None:
        self._reader.join(60)
        if self.process.stderr is not None:
            self.process.stderr.close()

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.lines.append(line)
            if '"listening on' in line:
                self._port.put(json.loads(line)["port"])
        self._port.put(None)

    def _wait_until_up(self) -> None:
        with self.client() as client:
            for _ in range(200):
                try:
                    client.get("/healthz")
                except httpx2.TransportError:
                    time.sleep(0.05)
                else:
                    return
        raise AssertionError("the server does not answer")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start servers; they are stopped afterwards."""
    made: list[Process] = []

    def one(*flags: str, folder: Path = tmp_path, **environment: str) -> Process:
        made.append(Process(folder, *flags, **environment))
        return made[-1]

    yield one
    for each in made:
        each.stop()  # with its workers; of one that was killed, what it said is closed


@pytest.fixture
def keys_at() -> Callable[..., list[str]]:
    """Make keys of these customers, None being an operator, in the store of a folder."""

    def some(folder: Path, *customers: str | None) -> list[str]:
        store = open_store(str(folder / "inturn.db"))
        try:
            return [make(store, each or "anna", each) for each in customers]
        finally:
            store.close()

    return some


@pytest.fixture
def environment() -> dict[str, str]:
    """Ours, without settings; INTURN holds the command, a part a line."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("INTURN_")}
    path = str(Path(package.__file__).parents[1])
    return ours | {"PYTHONPATH": path, "INTURN": f"{sys.executable}\n-m\ninturn.cli"}
