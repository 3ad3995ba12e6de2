"""Claimers on one queue in PostgreSQL, and the turn to claim, which a session of the test takes away from them."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from inturn.model import Claim, NewDocument
from inturn.store import Store
from inturn.store_types import ClaimRequest, Submission
from inturn.stores.postgres.claims import Claims
from inturn.stores.postgres.connection import Database
from inturn.stores.postgres.url import parse_url
from inturn.stores.sql.queries import QueueCache
from inturn.values import seconds
from waiting import wait_until

Admin = psycopg.Connection[tuple[Any, ...]]
START = seconds(1_700_000_000)
MINUTE = seconds(60)
MAX_CLAIMERS = 6
LOCK = "SELECT pg_advisory_lock('claim_lock'::regclass::oid::bigint)"
UNLOCK = "SELECT pg_advisory_unlock('claim_lock'::regclass::oid::bigint)"
COUNT_LOCKS = """
    SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
    WHERE datname = current_database() AND locktype = 'advisory' AND objid = 'claim_lock'::regclass::oid
        AND granted = %s
"""


class Turn:
    """The turn to claim, taken by a session of the test."""

    def __init__(self, url: str) -> None:
        options = f"-c search_path={parse_url(url).schema}"
        self.admin: Admin = psycopg.connect(parse_url(url).conninfo, autocommit=True, options=options)

    @contextmanager
    def held(self) -> Iterator[None]:
        self.admin.execute(LOCK)
        try:
            yield
        finally:
            self.admin.execute(UNLOCK)

    def count(self, *, granted: bool) -> int:
        """How many sessions wait for it, or have it."""
        return int((self.admin.execute(COUNT_LOCKS, (granted,)).fetchone() or (0,))[0])

    def is_free(self) -> bool:
        return self.count(granted=True) + self.count(granted=False) == 0

    def version(self) -> int:
        """How many transactions have written lanes."""
        return int((self.admin.execute("SELECT max(version) FROM scheduler_state").fetchone() or (0,))[0])

    def wait_for(self, *calls: Callable[[], Any]) -> "list[Future[Any]]":
        """Start calls while the turn is held, each once those before it wait. Return their futures once all wait."""
        pool = ThreadPoolExecutor(len(calls))
        futures: list[Future[Any]] = []
        for call in calls:
            futures.append(pool.submit(call))
            wait_until(lambda: self.count(granted=False) == len(futures) or futures[-1].done())
            assert not futures[-1].done(), futures[-1].result()
        pool.shutdown(wait=False)
        return futures

    def pids(self) -> list[int]:
        """The sessions that have asked, in the order in which they did."""
        return [pid for (pid,) in self.admin.execute("SELECT pid FROM claim_request ORDER BY asked_at").fetchall()]


class Claimer:
    """A process that claims, and does not ask first whether there is anything."""

    def __init__(self, url: str) -> None:
        self._database = Database(parse_url(url))
        self._claims = Claims(self._database, QueueCache())

    def claim(self, limit: int, worker: str = "worker", now: int = START) -> tuple[Claim, ...]:
        return self._claims.claim(ClaimRequest(worker, limit, MINUTE), now)

    def close(self) -> None:
        self._database.close()


def made_id(n: int) -> str:
    return f"00000000-0000-7000-8000-{n:012x}"


def submit(store: Store, customer: str, n: int, first: int = 0) -> None:
    ids = [made_id(first + number) for number in range(n)]
    store.submit(Submission(customer, ids, [NewDocument("a document")] * n))


def calls_for(claimers: Sequence[Claimer], limits: Sequence[int]) -> list[Callable[[], tuple[Claim, ...]]]:
    return [
        lambda claimer=claimer, limit=limit, worker=f"worker {n}": claimer.claim(limit, worker)  # type: ignore[misc]
        for n, (claimer, limit) in enumerate(zip(claimers, limits, strict=False))
    ]


def seqs(claimed: Sequence[Claim]) -> list[int]:
    return [item.document.seq for item in claimed]


@pytest.fixture
def turn(url: str) -> Iterator[Turn]:
    turn = Turn(url)
    yield turn
    turn.admin.close()


@pytest.fixture
def claimers(url: str) -> Iterator[list[Claimer]]:
    """As if in processes of their own."""
    opened = [Claimer(url) for _ in range(MAX_CLAIMERS)]
    yield opened
    for claimer in opened:
        claimer.close()
