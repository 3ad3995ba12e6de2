"""Serve the application in this process, or start `inturn serve`."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import inturn as package
from empty_queue import empty_queue
from http_server import ANNA, ServerProcess, create_api_key
from inturn.api_keys import ApiKeyScope
from inturn.blobs import open_blobs
from inturn.clock import SystemClock
from inturn.http.app import create_app
from inturn.http.settings import Limits, ServerSettings
from inturn.http.state import AppState
from inturn.model import Claim
from inturn.queue import Queue
from inturn.stores import open_store

__all__ = ["ANNA", "UNLIMITED", "Harness", "ServerProcess"]


class TestClock:
    """The machine's clock, which a test may advance or stop."""

    __test__ = False

    def __init__(self) -> None:
        self._ahead = 0
        self._stopped_at: int | None = None

    def now(self) -> int:
        """Return microseconds since 1970."""
        return (self._system.now() if self._stopped_at is None else self._stopped_at) + self._ahead

    def advance(self, by: int) -> None:
        """Add microseconds."""
        self._ahead += by

    def stop(self) -> None:
        """Stand still, unless advanced."""
        self._stopped_at = self._system.now()

    _system = SystemClock()


class Harness:
    """The application in this process, on SQLite and a folder, with keys."""

    def __init__(self, folder: Path, settings: ServerSettings, client: str = "192.0.2.1") -> None:
        self.folder = folder
        self.queue = Queue(open_store(str(empty_queue(folder / "queue.db"))))
        self.blobs = open_blobs(str(folder / "blobs"))
        self.clock = TestClock()
        self.app_state = AppState(self.queue, self.blobs, settings, clock=self.clock)
        self.app = create_app(self.app_state)
        self.operator = self.create_api_key(None)
        self.client_address = client

    def create_api_key(self, customer: str | None, scope: ApiKeyScope | None = None) -> str:
        """Create a key of a customer, or of an operator."""
        return create_api_key(self.queue.store, customer or "anna", customer, scope)

    def client_as(self, key: str | None) -> TestClient:
        """Return a client with this key."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        base = "http://127.0.0.1" if not self.app_state.settings.needs_keys else "http://testserver"
        return TestClient(self.app, base_url=base, headers=headers, client=(self.client_address, 1234))

    @contextmanager
    def running(self) -> Iterator["Harness"]:
        """Run the event poller."""
        with self.app_state:
            yield self

    def process_documents(self, result: Any = None, n: int = 1) -> list[Claim]:
        """Process n documents."""
        claimed = list(self.queue.claim("worker", n))
        for claim in claimed:
            self.queue.finish(claim, result)
        return claimed

    def stored_blobs(self) -> set[str]:
        """Return the names of all blobs and of incomplete files."""
        return {path.name for path in (self.folder / "blobs").rglob("*") if path.is_file()}


UNLIMITED = Limits(per_second=1_000_000, burst=1_000_000)


@pytest.fixture
def make_harness(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    """Make harnesses with their own settings."""
    made: list[Harness] = []

    def one(*, needs_keys: bool = True, limits: Limits = UNLIMITED, client: str = "192.0.2.1") -> Harness:
        folder = tmp_path / f"harness{len(made)}"
        folder.mkdir()
        made.append(Harness(folder, ServerSettings(needs_keys=needs_keys, limits=limits), client))
        return made[-1]

    yield one
    for harness in made:
        harness.queue.close()


@pytest.fixture
def harness(make_harness: Callable[..., Harness]) -> Iterator[Harness]:
    """The default harness, with its event poller running."""
    with make_harness().running() as running:
        yield running


@pytest.fixture
def anna(harness: Harness) -> TestClient:
    """An operator."""
    return harness.client_as(harness.operator)


@pytest.fixture
def acme(harness: Harness) -> TestClient:
    """A customer."""
    return harness.client_as(harness.create_api_key("acme"))


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., ServerProcess]]:
    """Start servers; they are stopped afterwards."""
    made: list[ServerProcess] = []

    def one(*flags: str, folder: Path = tmp_path, alone: bool = False, **environment: str) -> ServerProcess:
        made.append(ServerProcess(folder, *flags, alone=alone, **environment))
        return made[-1]

    yield one
    for server_process in made:
        server_process.stop()  # with its workers; closes the log of one that was killed


@pytest.fixture
def keys_at() -> Callable[..., list[str]]:
    """Create keys of customers (None: an operator) in the store of a folder."""

    def some(folder: Path, *customers: str | None) -> list[str]:
        store = open_store(str(folder / "inturn.db"))
        try:
            return [create_api_key(store, customer or "anna", customer) for customer in customers]
        finally:
            store.close()

    return some


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment without settings; INTURN holds the command, one part a line."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("INTURN_")}
    path = str(Path(package.__file__).parents[1])
    return ours | {"PYTHONPATH": path, "INTURN": f"{sys.executable}\n-m\ninturn.cli"}
