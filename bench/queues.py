"""What several queues in one store cost: the work of a claim with 1 and with 20 queues.

    python -m bench queues

Counts of VM steps (SQLite) and touched pages (PostgreSQL) are exact, whatever else the machine does.

With 20 queues there are 20 times as many lanes, whose index has another level then. So the claims of 20 queues are
compared with those of one queue that has as many lanes: those of other customers, a level below those that are claimed.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

import inturn
from bench.measure import check_limit, median
from bench.peers.postgres_server import database, server
from bench.postgres import pages_per_exchange
from bench.services import folder
from bench.sqlite import vm_steps
from inturn import NewDocument, Operator, Policy, PriorityPolicy, Queue
from inturn.stores.sqlite import SqliteStore

CUSTOMERS = 10
DOCUMENTS = 12_000
"""Waiting documents of all queues together."""
QUEUES = 20
OTHER_LANES = CUSTOMERS * (QUEUES - 1)
ONE_LEVEL = Policy(PriorityPolicy(thresholds=(-(10**6),)))
LEVEL_BELOW = Policy(PriorityPolicy(thresholds=(-1, -(10**6))))


def fill(queue: Queue, queues: int, other_lanes: int = 0) -> None:
    """Share the documents out among the queues, all in one level: only the number of queues differs.

    `other_lanes` are lanes of other customers in the first queue, in the level below.
    """
    queue.set_policy(LEVEL_BELOW, Operator("bench", "the level below"))
    for number in range(other_lanes):
        queue.submit(f"other {number:03}", [NewDocument("document.pdf")])
    queue.set_policy(ONE_LEVEL, Operator("bench", "one level"))
    for number in range(queues):
        name = "default" if number == 0 else f"queue-{number}"
        for customer in range(CUSTOMERS):
            documents = [NewDocument("document.pdf", queue=name)] * (DOCUMENTS // queues // CUSTOMERS)
            queue.submit(f"customer {customer:02}", documents)
        claim(queue, 10, name)


def claim(queue: Queue, times: int, name: str) -> None:
    for _ in range(times):
        for claimed in queue.claim("bench", 10, queues=[name]):
            queue.finish(claimed, {"pages": 3})


def steps(path: Path, queues: int, name: str, other_lanes: int = 0) -> float:
    with inturn.open(str(path)) as queue:
        store = queue.store
        assert isinstance(store, SqliteStore)  # noqa: S101
        fill(queue, queues, other_lanes)
        return median([vm_steps(store, lambda: queue.claim("bench", 10, queues=[name])) for _ in range(30)])


def pages(url: str, queues: int, other_lanes: int = 0) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(b"CREATE EXTENSION pg_stat_statements")
    inturn.migrate(url)
    with inturn.open(url) as queue:
        fill(queue, queues, other_lanes)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(b"VACUUM ANALYZE")
        outcomes: list[Any] = []
        _, outcomes = pages_per_exchange(queue, url, 5, outcomes)
        touched, _ = pages_per_exchange(queue, url, 25, outcomes)
        return touched


def on_sqlite() -> int:
    with folder() as path:
        one, many = steps(path / "one.db", 1, "default"), steps(path / "many.db", QUEUES, "default")
        wide, other = steps(path / "wide.db", 1, "default", OTHER_LANES), steps(path / "other.db", QUEUES, "queue-7")
    print(
        f"VM steps of a claim of 10: {one:,.0f} with one queue, {wide:,.0f} with {QUEUES} times the lanes,"
        f" {many:,.0f} with {QUEUES} queues, {other:,.0f} of another"
    )
    return check_limit("VM steps, 20 queues against 1 with as many lanes", many / wide, 1.05, at_most=True)


def on_postgres() -> int:
    with server() as url:
        one, many = pages(database(url, "one_queue"), 1), pages(database(url, "many_queues"), QUEUES)
        wide = pages(database(url, "wide_queue"), 1, OTHER_LANES)
    print(
        f"pages of an exchange of 10: {one:,.0f} with one queue, {wide:,.0f} with {QUEUES} times the lanes,"
        f" {many:,.0f} with {QUEUES} queues"
    )
    return check_limit("pages, 20 queues against 1 with as many lanes", many / wide, 1.05, at_most=True)


def main(arguments: Sequence[str] = ()) -> int:
    del arguments
    began = time.monotonic()
    missed = on_sqlite() + on_postgres()
    print(f"{time.monotonic() - began:.0f} s")
    return missed
