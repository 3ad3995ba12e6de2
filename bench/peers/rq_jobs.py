"""RQ: two worker processes on one queue."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from redis import Redis
from rq import Queue
from rq.registry import FailedJobRegistry, FinishedJobRegistry, StartedJobRegistry

from bench.peers.handler import handle
from bench.services import SystemUnderTest, redis

RESULT_TTL_SECONDS = 86_400
PROGRAM = "import bench.peers.rq_jobs, rq.cli; rq.cli.main()"
"""The command `rq`, with what the jobs need imported before it forks, as its notes on performance advise."""


def work(payload: Mapping[str, Any]) -> dict[str, Any]:
    return handle(payload)


class RqSystem(SystemUnderTest):
    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.name = f"RQ, {worker}"
        self.settings = (
            f"2 of: rq worker -w rq.worker.{worker} -q --disable-job-desc-logging, jobs imported before the fork"
        )

    def _open(self, stack: ExitStack) -> None:
        self.url = stack.enter_context(redis(self.path))
        self.connection = stack.enter_context(Redis.from_url(self.url))
        self.queue = Queue("bench", connection=self.connection)

    def enqueue(self, payloads: Sequence[Mapping[str, Any]]) -> None:
        for first in range(0, len(payloads), 500):
            some = payloads[first : first + 500]
            jobs = [
                Queue.prepare_data(work, (dict(item),), result_ttl=RESULT_TTL_SECONDS, description="work")
                for item in some
            ]
            self.queue.enqueue_many(jobs)

    def _commands(self) -> list[list[str]]:
        options = ["-w", f"rq.worker.{self.worker}", "-q", "--disable-job-desc-logging"]
        return [[sys.executable, "-c", PROGRAM, "worker", "--url", self.url, *options, "bench"]] * 2

    def finished(self) -> int:
        return FinishedJobRegistry(queue=self.queue).get_job_count(cleanup=False)

    def pending(self) -> int:
        registries = (StartedJobRegistry(queue=self.queue), FailedJobRegistry(queue=self.queue))
        return len(self.queue) + sum(registry.get_job_count(cleanup=False) for registry in registries)
