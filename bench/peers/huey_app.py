"""Huey on SQLite at its defaults: WAL and, as SQLite's own default, synchronous=FULL."""

import os
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

from huey import SqliteHuey

from bench.peers.handler import handle
from bench.services import SystemUnderTest


def make_huey(filename: str) -> tuple[SqliteHuey, Any]:
    """The queue in this file, and its task."""
    made = SqliteHuey("bench", filename=filename)

    @made.task(name="work")
    def work(given: Mapping[str, Any]) -> dict[str, Any]:
        return handle(given)

    return made, work


if "BENCH_HUEY" in os.environ:
    huey, _ = make_huey(os.environ["BENCH_HUEY"])


class HueySystem(SystemUnderTest):
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = f"Huey, {kind} workers"
        self.settings = f"WAL, synchronous=FULL, -w 2 -k {kind} -d 0.001 -m 0.01 -n (polls every 1 to 10 ms)"

    def _open(self, stack: ExitStack) -> None:
        self.file = str(self.path / "huey.db")
        made, self.task = make_huey(self.file)
        stack.callback(made.storage.close)
        self.reader = stack.enter_context(closing(sqlite3.connect(self.file)))

    def _environment(self) -> dict[str, str]:
        return {"BENCH_HUEY": self.file}

    def enqueue(self, payloads: Sequence[Mapping[str, Any]]) -> None:
        for payload in payloads:
            self.task(dict(payload))

    def _commands(self) -> list[list[str]]:
        options = ["-w", "2", "-k", self.kind, "-d", "0.001", "-m", "0.01", "-n", "-q"]
        return [[sys.executable, "-m", "huey.bin.huey_consumer", "bench.peers.huey_app.huey", *options]]

    def finished(self) -> int:
        return int(self.reader.execute("SELECT count(*) FROM kv").fetchone()[0])

    def pending(self) -> int:
        return int(self.reader.execute("SELECT count(*) FROM task").fetchone()[0])
