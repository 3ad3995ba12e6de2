"""Huey's storage on SQLite: a dequeue removes one task, and its result is put into the result table.

WAL, and synchronous=FULL set explicitly, so it is as durable as Inturn. It has no batches: a step of k documents is k
dequeues and k results, each a commit of its own. Its busy timeout is raised from 5 s, which 16 processes run into.
"""

import json
import uuid

from huey.storage import SqliteStorage  # type: ignore[import-untyped]

from bench.peers.claimer import Step

PAYLOAD = "x" * 200
BUSY_TIMEOUT_SECONDS = 60
RESULT = b'{"pages": 3}'


def _open(target: str) -> SqliteStorage:
    return SqliteStorage("bench", target, fsync=True, timeout=BUSY_TIMEOUT_SECONDS)


def setup(target: str) -> None:
    _open(target).close()


def fill(target: str, documents: int, customers: int) -> None:
    storage = _open(target)
    rows = [
        (storage.name, json.dumps({"id": str(uuid.uuid4()), "payload": PAYLOAD}).encode(), number % customers % 9)
        for number in range(documents)
    ]
    with storage.db(commit=True) as cursor:
        cursor.executemany("INSERT INTO task (queue, data, priority) VALUES (?, ?, ?)", rows)
    storage.close()


class Claimer:
    def __init__(self, target: str, worker: str, limit: int) -> None:  # noqa: ARG002 - it keeps no worker's name
        self._storage, self._limit = _open(target), limit

    def step(self) -> Step:
        for done in range(self._limit):
            data = self._storage.dequeue()
            if data is None:
                return Step(done, done)
            self._storage.put_data(json.loads(bytes(data))["id"], RESULT)
        return Step(self._limit, self._limit)

    def finish(self) -> int:
        return 0

    def close(self) -> None:
        self._storage.close()
