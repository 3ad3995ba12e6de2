"""Celery on RabbitMQ: a durable queue, persistent messages, publisher confirms; results in Redis, synced always."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from celery import Celery
from redis import Redis

from bench.peers.celery_app import CelerySystem
from bench.services import ROOT, redis

sys.path.append(str(ROOT / "tests" / "support"))  # the servers that the tests start
from services import RABBITMQ, RabbitServer

PUBLISH_SETTINGS = {"task_default_delivery_mode": "persistent", "broker_transport_options": {"confirm_publish": True}}
"""Celery's queues are durable and its messages persistent as they come; confirms are not."""


@contextmanager
def rabbitmq(path: Path) -> Iterator[str]:
    """The address of a RabbitMQ on loopback whose data is in this folder."""
    if not RABBITMQ:
        sys.exit("bench workers: needs RabbitMQ (Debian: apt-get install rabbitmq-server)")
    server = RabbitServer(str(path))
    try:
        server.start()
        yield server.url
    finally:
        server.remove()


class CeleryRabbitSystem(CelerySystem):
    store_settings = "durable classic queue, persistent messages, publisher confirms, results in Redis, "

    def _open(self, stack: ExitStack) -> None:
        broker = stack.enter_context(rabbitmq(self.path))
        results = stack.enter_context(redis(self.path, self.server))
        self.conf = {"broker_url": broker, "result_backend": f"{results}/1", **PUBLISH_SETTINGS, **self.overrides}
        self.results = stack.enter_context(Redis.from_url(f"{results}/1"))
        self.sender = Celery("sender", broker=broker, set_as_current=False)
        self.sender.conf.update(PUBLISH_SETTINGS)
        stack.callback(self.sender.close)

    def pending(self) -> int:
        """Count the queued messages; those of killed workers are queued again, those of live ones are left out."""
        with self.sender.connection_for_read() as connection:
            return int(connection.default_channel.queue_declare("celery", passive=True).message_count)
