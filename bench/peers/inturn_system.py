"""Inturn on SQLite (WAL, synchronous=FULL), or on a PostgreSQL of its own (fsync, synchronous_commit=on)."""

import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import psycopg

import inturn
from bench.peers.postgres_server import server
from bench.services import ROOT, SystemUnderTest
from inturn import DocumentState, NewDocument


def has_worker() -> bool:
    """Whether this version has workers yet."""
    asked = subprocess.run(
        [sys.executable, "-m", "inturn.cli", "worker", "--help"],
        check=False,
        capture_output=True,
        cwd=ROOT / "src",
    )
    return asked.returncode == 0


class InturnSystem(SystemUnderTest):
    store_settings = "SQLite, WAL, synchronous=FULL"

    def __init__(self, *options: str, name: str = "Inturn", workers: int = 1) -> None:
        self.options = options
        self.name = name
        self.workers = workers
        count = f"{workers} of: " if workers > 1 else ""
        self.settings = f"{self.store_settings}, {count}{' '.join(('--slots 2', *options))}"

    def _open(self, stack: ExitStack) -> None:
        self.store = self._make_store(stack)
        self.queue = stack.enter_context(inturn.open(self.store))

    def _make_store(self, stack: ExitStack) -> str:  # noqa: ARG002 - a file needs no server
        return str(self.path / "inturn.db")

    def enqueue(self, payloads: Sequence[Mapping[str, Any]]) -> None:
        customers: dict[str, list[NewDocument]] = defaultdict(list)
        for payload in payloads:
            customers[payload["customer"]].append(NewDocument(payload["name"], metadata=payload))
        for customer, documents in customers.items():
            self.queue.submit(customer, documents)

    def _commands(self) -> list[list[str]]:
        program = [sys.executable, "-m", "inturn.cli", "worker", "--store", self.store]
        options = ["--processor", "bench.peers.inturn_noop:process", "--slots", "2", *self.options]
        return [[*program, *options]] * self.workers

    def finished(self) -> int:
        return self.queue.counts().states.get(DocumentState.DONE, 0)

    def pending(self) -> int:
        return sum(self.queue.counts().states.values()) - self.finished()


class InturnPostgresSystem(InturnSystem):
    store_settings = "PostgreSQL, fsync=on, synchronous_commit=on"

    def _make_store(self, stack: ExitStack) -> str:
        url = stack.enter_context(server())
        inturn.migrate(url)
        return url

    def enqueue(self, payloads: Sequence[Mapping[str, Any]]) -> None:
        """Submit, then vacuum, as after every bulk load."""
        super().enqueue(payloads)
        with psycopg.connect(self.store, autocommit=True) as connection:
            connection.execute(b"VACUUM ANALYZE")
