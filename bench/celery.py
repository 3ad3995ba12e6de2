"""Celery on RabbitMQ with and without Inturn: how long a small customer waits behind a flood, what publishing costs.

Both sides: the same queue with x-max-priority, messages persistent, prefork with two processes, prefetch 1, acks_late.
Counters in Redis with appendonly, fsync every second.
"""

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from celery import Celery

from bench.measure import check_limit, spread
from bench.services import ROOT, folder, kill, start_process, wait_until

sys.path.append(str(ROOT / "tests"))  # the servers that the tests start
import inturn
from inturn.integrations.celery import install
from services import RabbitServer, RedisServer

FLOOD_DOCUMENTS = 5_000
LATE_DOCUMENTS = 5
REPEATS = 3
ROUNDS = 40
PUBLISH_BATCH = 100
REDIS_OPTIONS = ("--appendonly", "yes", "--appendfsync", "everysec")
WORKER_OPTIONS = ["--pool=prefork", "--concurrency=2", "--loglevel=ERROR", "--without-gossip", "--without-mingle"]


def make_app(broker: str, counters: str | None, queue: str, record: str = "") -> Celery:
    app = Celery(queue, broker=broker, set_as_current=False)
    app.conf.update(
        task_default_queue=queue,
        task_queue_max_priority=10,
        task_ignore_result=True,
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        broker_connection_retry_on_startup=True,
    )
    if counters is not None:
        install(app, inturn.open_counters(counters), customer="customer")

    @app.task(name="work", shared=False)
    def work(customer: str, published: float) -> None:
        waited = time.time() - published
        time.sleep(0.002)
        if customer != "flood":
            with Path(record).open("a", encoding="ascii") as file:
                file.write(f"{waited}\n")

    return app


def worst_wait(broker: str, counters: str | None, queue: str) -> float:
    """Of the five documents that come when five thousand of somebody else wait."""
    with folder() as path:
        given: dict[str, Any] = {"broker": broker, "counters": counters, "queue": queue}
        given["record"] = str(path / "record")
        app = make_app(**given)
        command = [sys.executable, "-m", "celery", "-A", "bench.celery:worker_app", "worker", *WORKER_OPTIONS]
        worker = start_process(command, path, {"BENCH_FLEET": json.dumps(given)})
        try:
            publish(app, "warm-up", 1)
            wait_for_lines(path / "record", 1)
            publish(app, "flood", FLOOD_DOCUMENTS)
            publish(app, "late", LATE_DOCUMENTS)
            wait_for_lines(path / "record", 1 + LATE_DOCUMENTS)
            return max(float(line) for line in (path / "record").read_text().splitlines()[1:])
        finally:
            kill([worker])
            remove_queue(app)


def publish(app: Celery, customer: str, n: int) -> None:
    for _ in range(n):
        app.tasks["work"].delay(customer, time.time())


def wait_for_lines(record: Path, n: int) -> None:
    if not wait_until(lambda: record.exists() and len(record.read_text().splitlines()) >= n, 180):
        raise RuntimeError(f"the worker did not do its work:\n{(record.parent / 'said.txt').read_text()[-1500:]}")


def remove_queue(app: Celery) -> None:
    with app.connection_for_write() as connection:
        connection.default_channel.queue_delete(app.conf.task_default_queue)
    app.close()


def publish_times(broker: str, counters: str) -> tuple[list[list[float]], list[list[float]]]:
    """Microseconds a publish, wall and processor, of Celery alone and with Inturn, each first in every other round."""
    apps = [make_app(broker, None, "cost-plain"), make_app(broker, counters, "cost-inturn")]
    wall: list[list[float]] = [[], []]
    processor: list[list[float]] = [[], []]
    for app in apps:
        publish(app, "acme", PUBLISH_BATCH)
        purge_queue(app)
    for turn in range(ROUNDS):
        for side in (0, 1) if turn % 2 else (1, 0):
            gc.collect()
            began, worked = time.perf_counter(), time.process_time()
            publish(apps[side], "acme", PUBLISH_BATCH)
            wall[side].append((time.perf_counter() - began) / PUBLISH_BATCH * 1e6)
            processor[side].append((time.process_time() - worked) / PUBLISH_BATCH * 1e6)
            purge_queue(apps[side])
    for app in apps:
        remove_queue(app)
    return wall, processor


def purge_queue(app: Celery) -> None:
    """On the connection that published, so that the broker has taken it all before it is thrown away."""
    with app.producer_or_acquire() as producer:
        producer.channel.queue_purge(app.conf.task_default_queue)


@contextmanager
def servers() -> Iterator[tuple[str, str]]:
    rabbitmq, redis = RabbitServer(), RedisServer(*REDIS_OPTIONS)
    try:
        rabbitmq.start()
        redis.start()
        yield rabbitmq.url, f"{redis.url}/0"
    finally:
        rabbitmq.remove()
        redis.remove()


def main() -> int:
    with servers() as (broker, counters):
        waits: dict[str, list[float]] = {"without": [], "with": []}
        for turn in range(REPEATS):
            waits["without"].append(worst_wait(broker, None, f"plain-{turn}"))
            waits["with"].append(worst_wait(broker, f"{counters[:-1]}{turn + 1}", f"inturn-{turn}"))
        for side, seconds in waits.items():
            print(
                f"worst wait of {LATE_DOCUMENTS} documents behind {FLOOD_DOCUMENTS:,}, {side} Inturn: "
                f"{spread(seconds)} s"
            )
        wall, processor = publish_times(broker, counters)
    for name, sides in (("wall", wall), ("processor", processor)):
        print(f"publish, {name} time, µs: Celery {spread(sides[0])}, with Inturn {spread(sides[1])}")
    more = [statistics.median(sides[1]) / statistics.median(sides[0]) * 100 - 100 for sides in (wall, processor)]
    failed = check_limit("worst wait with Inturn, s", max(waits["with"]), 0.5, at_most=True)
    failed += check_limit("times longer without Inturn", min(waits["without"]) / max(waits["with"]), 20, at_most=False)
    print(f"     added processor time to a publish, %: {more[1]:.0f}")
    return failed + check_limit("added to a publish, %", more[0], 30, at_most=True)


if "BENCH_FLEET" in os.environ:
    worker_app = make_app(**json.loads(os.environ["BENCH_FLEET"]))
