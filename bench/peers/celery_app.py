"""Celery on Redis: results in the same server's second database, so that its size is the number of results.

On RabbitMQ (`celery_rabbitmq.py`) Redis keeps the results alone.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from celery import Celery
from redis import Redis

from bench.peers.handler import handle
from bench.services import DURABLE_REDIS, SystemUnderTest, redis

DEFAULT_SETTINGS: dict[str, Any] = {}
ACKS_LATE_SETTINGS = {
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "broker_transport_options": {"visibility_timeout": 8},
}
TUNED_SETTINGS = {
    "task_acks_late": True,
    "worker_prefetch_multiplier": 4,  # the best of 1, 4, 16, 64 and 0, by little
    "worker_disable_rate_limits": True,
    "worker_enable_remote_control": False,
    "worker_redirect_stdouts": False,
}
QUIET_OPTIONS = ("--without-gossip", "--without-mingle", "--without-heartbeat")

app = Celery("bench")
app.conf.update(json.loads(os.environ.get("BENCH_CELERY", "{}")))


@app.task(name="work", ignore_result=False)
def work(payload: Mapping[str, Any]) -> dict[str, Any]:
    return handle(payload)


class CelerySystem(SystemUnderTest):
    store_settings = ""

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any],
        options: Sequence[str] = (),
        server: Sequence[str] = DURABLE_REDIS,
        *,
        workers: int = 1,
    ) -> None:
        self.name = name
        self.overrides = dict(settings)
        self.options = options
        self.server = server
        self.workers = workers
        count = f"{workers} of: " if workers > 1 else ""
        reported = ", ".join(f"{key}={value}" for key, value in settings.items()) or "defaults"
        self.settings = (
            f"{self.store_settings}{count}prefork, concurrency 2, {reported}{' ' if options else ''}{' '.join(options)}"
        )

    def _open(self, stack: ExitStack) -> None:
        url = stack.enter_context(redis(self.path, self.server))
        self.conf = {"broker_url": f"{url}/0", "result_backend": f"{url}/1", **self.overrides}
        self.broker = stack.enter_context(Redis.from_url(f"{url}/0"))
        self.results = stack.enter_context(Redis.from_url(f"{url}/1"))
        self.sender = Celery("sender", broker=f"{url}/0", set_as_current=False)
        stack.callback(self.sender.close)

    def _environment(self) -> dict[str, str]:
        return {"BENCH_CELERY": json.dumps(self.conf)}

    def enqueue(self, payloads: Sequence[Mapping[str, Any]]) -> None:
        with self.sender.producer_pool.acquire(block=True) as producer:
            for payload in payloads:
                self.sender.send_task("work", args=(payload,), producer=producer)

    def _commands(self) -> list[list[str]]:
        program = [sys.executable, "-m", "celery", "-A", "bench.peers.celery_app:app", "worker"]
        options = ["--pool=prefork", "--concurrency=2", "--loglevel=ERROR", *self.options]
        return [[*program, *options, f"--hostname=bench{number}@%h"] for number in range(self.workers)]

    def finished(self) -> int:
        return int(self.results.dbsize())

    def pending(self) -> int:
        return int(self.broker.llen("celery")) + int(self.broker.hlen("unacked"))
