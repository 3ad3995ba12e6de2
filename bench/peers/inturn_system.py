"""Inturn on SQLite: WAL, synchronous=FULL."""

import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import inturn
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
    def __init__(self, *options: str) -> None:
        self.options = options
        self.name = "Inturn"
        self.settings = f"SQLite, WAL, synchronous=FULL, {' '.join(('--slots 2', *options))}"

    def _open(self, stack: ExitStack) -> None:
        self.store = str(self.path / "inturn.db")
        self.queue = stack.enter_context(inturn.open(self.store))

    def enqueue(self, payloads: Sequence[Mapping[str, Any]]) -> None:
        customers: dict[str, list[NewDocument]] = defaultdict(list)
        for payload in payloads:
            customers[payload["customer"]].append(NewDocument(payload["name"], metadata=payload))
        for customer, documents in customers.items():
            self.queue.submit(customer, documents)

    def _commands(self) -> list[list[str]]:
        program = [sys.executable, "-m", "inturn.cli", "worker", "--store", self.store]
        return [[*program, "--processor", "bench.peers.inturn_noop:process", "--slots", "2", *self.options]]

    def finished(self) -> int:
        return self.queue.counts().states.get(DocumentState.DONE, 0)

    def pending(self) -> int:
        return sum(self.queue.counts().states.values()) - self.finished()
