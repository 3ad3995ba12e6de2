"""PgQueuer on asyncpg, which its documentation calls about twice as fast as psycopg, and uvloop, which its CLI uses."""

import asyncio
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import uvloop
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.ports.repository import EntrypointExecutionParameter
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries
from pgqueuer.types import QueueEntrypoint, QueueExecutionMode, QueueManagerId

from bench.peers.claimer import Step

NAME = "PgQueuer"
CHOICES = ((5, 10), (1, 50), (1, 100), (1, 200))
"""Consumers in a process (its own benchmark has 5) and its batch size (10 by default)."""


def settings(choice: tuple[int, int]) -> str:
    return f"asyncpg, uvloop, durable, {choice[0]} consumer(s) a process, batch_size={choice[1]}, no result kept"


def setup(url: str) -> None:
    async def install() -> None:
        connection = await asyncpg.connect(url)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    uvloop.run(install())


class Submitter:
    """One process that enqueues."""

    def __init__(self, url: str) -> None:
        self._loop = uvloop.new_event_loop()
        self._connection: Any = self._loop.run_until_complete(asyncpg.connect(url))
        self._queries = Queries(AsyncpgDriver(self._connection))

    def singles(self, payloads: list[str]) -> None:
        async def enqueue() -> None:
            for payload in payloads:
                await self._queries.enqueue("noop", payload.encode())

        self._loop.run_until_complete(enqueue())

    def bulk(self, payloads: list[str]) -> None:
        self.enqueue(payloads, [0] * len(payloads))

    def enqueue(self, payloads: list[str], priorities: list[int]) -> None:
        given: list[bytes | None] = [payload.encode() for payload in payloads]
        self._loop.run_until_complete(self._queries.enqueue(["noop"] * len(given), given, priorities))

    def close(self) -> None:
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()


def fill(url: str, documents: int, customers: int) -> None:
    """Enqueue so many jobs, their priorities shared out like customers."""
    submitter = Submitter(url)
    submitter.enqueue(["x" * 200] * documents, [number % customers % 9 for number in range(documents)])
    submitter.close()


class Claimer:
    """Dequeue a batch and log it as successful, on one connection and without its queue manager.

    It keeps no result. Both statements commit with synchronous_commit=on, as it comes.
    """

    def __init__(self, url: str, worker: str, limit: int) -> None:  # noqa: ARG002 - it names workers by uuid
        self._limit = limit
        self._id = QueueManagerId(uuid.uuid4())
        self._loop = uvloop.new_event_loop()
        self._connection: Any = self._loop.run_until_complete(asyncpg.connect(url))
        self._queries = Queries(AsyncpgDriver(self._connection))
        self._entrypoints = {QueueEntrypoint("noop"): EntrypointExecutionParameter(0)}

    def step(self) -> Step:
        return self._loop.run_until_complete(self._step())

    async def _step(self) -> Step:
        jobs = await self._queries.dequeue(self._limit, self._entrypoints, self._id, None, timedelta(seconds=60))
        if jobs:
            await self._queries.log_jobs([(job, "successful", None) for job in jobs])
        return Step(len(jobs), len(jobs))

    def finish(self) -> int:
        return 0

    def close(self) -> None:
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()


def drain(url: str, choice: tuple[int, int], on_ready: Callable[[], object]) -> int:
    """Run its own queue manager until nothing is left; how many."""
    consumers, batch = choice
    done = 0

    async def noop(_: Job) -> None:
        nonlocal done
        done += 1

    async def work() -> None:
        managers = []
        for _ in range(consumers):
            manager = QueueManager(Queries(AsyncpgDriver(await asyncpg.connect(url))))
            manager.entrypoint("noop")(noop)
            managers.append(manager)
        on_ready()
        drained = QueueExecutionMode.drain
        await asyncio.gather(
            *[manager.run(timedelta(seconds=1), batch_size=batch, mode=drained) for manager in managers]
        )

    uvloop.run(work())
    return done


def serve(url: str, on_started: Callable[[str, float], object], on_ready: Callable[[], object]) -> None:
    async def work() -> None:
        manager = QueueManager(Queries(AsyncpgDriver(await asyncpg.connect(url))))

        @manager.entrypoint("noop")
        async def noop(job: Job) -> None:
            payload = (job.payload or b"").decode()
            on_started(payload, time.monotonic())
            if payload == "over":
                manager.shutdown.set()

        asyncio.get_running_loop().call_later(1.0, on_ready)
        await manager.run()

    uvloop.run(work())
