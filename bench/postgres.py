"""PostgreSQL: against PgQueuer and Procrastinate on the same server, and against ourselves at other sizes.

All sides are equally durable: fsync on, synchronous_commit=on, logged tables. Each side has a database of its own and
runs at the best of the settings that its documentation names, found by a trial that is printed. Theirs run their own
workers with a handler that does nothing and keep no result; ours claims and finishes with a result, in the fair order.
"""

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import psycopg

import inturn
from bench.measure import check_limit, median, spread, wall_seconds
from bench.peers import postgres_inturn, postgres_pgqueuer, postgres_procrastinate
from bench.peers.postgres_server import SETTINGS, database, server
from inturn import Queue
from inturn.stores.postgres import PostgresStore

SIDES: tuple[ModuleType, ...] = (postgres_inturn, postgres_pgqueuer, postgres_procrastinate)
OURS, PGQUEUER, PROCRASTINATE = (side.NAME for side in SIDES)
PAYLOAD = "x" * 200
BATCH_SIZE = 500
ROUNDS = 5
BULK_ROUNDS = 120
DRAIN_DOCUMENTS = {OURS: 6_000, PGQUEUER: 6_000, PROCRASTINATE: 500}
"""Documents of one drain."""
TIMEOUT_SECONDS = 60
"""Seconds after which a process is taken for stuck."""
Rates = dict[str, list[float]]


class PeerDatabase:
    """One side's."""

    def __init__(self, side: ModuleType, url: str, purpose: str) -> None:
        self.side, self.name = side, side.NAME
        self.url = database(url, f"{self.name.lower()}_{purpose}")
        side.setup(self.url)
        self.submitter = side.Submitter(self.url)
        self.choice: Any = side.CHOICES[0]

    def fill(self, n: int) -> None:
        for _ in range(0, n, BATCH_SIZE):
            self.submitter.bulk([PAYLOAD] * min(BATCH_SIZE, n))
        self.analyze()

    def analyze(self) -> None:
        """As both peers' documentation asks after a bulk load."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(b"ANALYZE")

    def close(self) -> None:
        self.submitter.close()


# -- submits --------------------------------------------------------------------------------------------------------


def submits(databases: Sequence[PeerDatabase]) -> int:
    """One at a time, each call a durable commit; and by 500, in turns: a machine changes its pace within a second."""
    singles: Rates = {peer.name: [] for peer in databases}
    bulks: Rates = {peer.name: [] for peer in databases}
    for _ in range(ROUNDS):
        for peer in databases:
            singles[peer.name].append(300 / wall_seconds(lambda: peer.submitter.singles([PAYLOAD] * 300)))  # noqa: B023
    for turn in range(BULK_ROUNDS):
        for peer in databases if turn % 2 else databases[::-1]:
            bulks[peer.name].append(BATCH_SIZE / wall_seconds(partial(peer.submitter.bulk, [PAYLOAD] * BATCH_SIZE)))
    _print_rates("single submits/s", singles)
    _print_rates(f"submits/s by {BATCH_SIZE}", bulks)
    return check_limit(
        "single submits against PgQueuer's", _ratio(singles, PGQUEUER), 0.8, at_most=False
    ) + check_limit(f"submits by {BATCH_SIZE} against PgQueuer's", _ratio(bulks, PGQUEUER), 1.5, at_most=False)


# -- claims ---------------------------------------------------------------------------------------------------------


def _drain(side: str, url: str, choice: Any, barrier: Any, answers: Any) -> None:
    module = next(item for item in SIDES if side == item.NAME)
    begun = 0.0

    def go() -> None:
        nonlocal begun
        barrier.wait()
        begun = time.monotonic()

    done = module.drain(url, choice, go)
    answers.put((begun, time.monotonic(), done))


def _drain_rate(peer: PeerDatabase, processes: int) -> float:
    """Documents/s of so many processes that empty a filled queue together."""
    peer.fill(DRAIN_DOCUMENTS[peer.name] * processes)
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(processes), context.Queue()
    given = (peer.name, peer.url, peer.choice, barrier, answers)
    started = [context.Process(target=_drain, args=given) for _ in range(processes)]
    for process in started:
        process.start()
    reported = [answers.get(timeout=TIMEOUT_SECONDS) for _ in started]
    for process in started:
        process.join()
    begun, ended = min(begun for begun, _, _ in reported), max(ended for _, ended, _ in reported)
    return sum(done for _, _, done in reported) / (ended - begun)


def _choose_settings(peer: PeerDatabase) -> None:
    """The best of its settings, by one trial of each; the first run warms up and does not count."""
    _drain_rate(peer, 1)
    result = {}
    for choice in peer.side.CHOICES:
        peer.choice = choice
        result[choice] = _drain_rate(peer, 1)
    peer.choice = max(result, key=lambda choice: result[choice])
    tried = ", ".join(f"{choice}: {rate:,.0f}" for choice, rate in result.items())
    print(f"{peer.name}: {peer.side.settings(peer.choice)} (tried {tried})", flush=True)


def claims(databases: Sequence[PeerDatabase]) -> int:
    """Claim and finish."""
    for peer in databases:
        _choose_settings(peer)
    missed = 0
    for processes in (1, 2):
        rates: Rates = {peer.name: [] for peer in databases}
        for _ in range(ROUNDS):
            for peer in databases:
                rates[peer.name].append(_drain_rate(peer, processes))
        _print_rates(f"claim and finish/s, {processes} process(es)", rates)
        what = f"claim and finish, {processes} process(es), against"
        missed += check_limit(f"{what} PgQueuer", _ratio(rates, PGQUEUER), 0.8, at_most=False)
        missed += check_limit(f"{what} Procrastinate", _ratio(rates, PROCRASTINATE), 8, at_most=False)
    return missed


# -- latency --------------------------------------------------------------------------------------------------------


def _serve(side: str, url: str, ready: Any, answers: Any) -> None:
    module = next(item for item in SIDES if side == item.NAME)
    module.serve(url, lambda payload, at: answers.put((payload, at)), ready.set)


@contextmanager
def _serving(peer: PeerDatabase) -> Iterator[Any]:
    context = multiprocessing.get_context("spawn")
    ready, answers = context.Event(), context.Queue()
    process = context.Process(target=_serve, args=(peer.name, peer.url, ready, answers))
    process.start()
    if not ready.wait(TIMEOUT_SECONDS):
        raise RuntimeError(f"{peer.name} does not begin")
    try:
        yield answers
    finally:
        peer.submitter.singles(["over"])
        process.join(30)


def latency(databases: Sequence[PeerDatabase]) -> int:
    """From before a submit in one process to the start of its handler in another, in turns."""
    rates: Rates = {peer.name: [] for peer in databases}
    with ExitStack() as stack:
        answers = {peer.name: stack.enter_context(_serving(peer)) for peer in databases}
        for number in range(200):
            for peer in databases:
                time.sleep(0.04 + number % 7 / 100)  # one side rings at most every 100 ms
                sent = time.monotonic()
                peer.submitter.singles([str(number)])
                _, at = answers[peer.name].get(timeout=TIMEOUT_SECONDS)
                rates[peer.name].append((at - sent) * 1e3)
    for name, times in rates.items():
        print(f"submit to handler start, ms: {name} p50 {median(times):.2f}, p99 {sorted(times)[-3]:.1f}")
    return sum(
        check_limit(f"latency p50 against {peer}'s", _ratio(rates, peer), 1, at_most=True)
        for peer in (PGQUEUER, PROCRASTINATE)
    )


# -- what a claim touches -------------------------------------------------------------------------------------------


def _touched_pages(url: str) -> int:
    """Pages that all backends' statements have touched in this database so far, by pg_stat_statements."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            b"SELECT sum(shared_blks_hit + shared_blks_read) FROM pg_stat_statements s"
            b" JOIN pg_database d ON d.oid = s.dbid AND d.datname = current_database()"
            b" WHERE query NOT LIKE '%pg_stat_statements%'"
        ).fetchone()
    return int(row[0] or 0) if row else 0


FILL_SQL = """
INSERT INTO customer (name) SELECT 'customer ' || n FROM generate_series(1, {customers}) AS n;
INSERT INTO document (
    seq, id, customer, level, lane, count, submitted_at, ready_at, cost, max_attempts, name, uri, delay, attempt, state
)
SELECT
    nextval('document_seq'), gen_random_uuid(), customer.id, 1 + customer.id % 9, 1 + customer.id % 9, 0, {now}, {now},
    1, 3, 'document.pdf', 's3://bucket/document.pdf', 0, 0, 'waiting'
FROM generate_series(1, {share}), customer;
INSERT INTO lane_log (customer, kind, level, n, seq, ready_at, cost)
SELECT customer, 'joined', lane, count(*), min(seq), {now}, 1 FROM document GROUP BY customer, lane;
"""
"""What submits of {share} documents of each customer would leave, each customer's in one level: quicker than they."""


def _open_filled(url: str, waiting: int, customers: int) -> Queue:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(b"CREATE EXTENSION pg_stat_statements")
    inturn.migrate(url)
    queue = inturn.open(url)
    store = queue.store
    assert isinstance(store, PostgresStore)  # noqa: S101 - opened above
    with psycopg.connect(url) as connection:
        connection.execute(b"SET search_path = inturn")
        script = FILL_SQL.format(customers=customers, share=waiting // customers, now=time.time_ns() // 1000)
        connection.execute(script.encode())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(b"VACUUM ANALYZE")
    queue.claim("bench", 1)
    return queue


def pages_per_exchange(
    queue: Queue, url: str, exchanges: int, outcomes: list[Any], limit: int = 10
) -> tuple[float, list[Any]]:
    """Pages an exchange of so many documents touches, on average."""
    before = _touched_pages(url)
    for _ in range(exchanges):
        claimed = queue.ack_and_claim(outcomes, "bench", limit).claimed
        outcomes = [queue.done(claim, {"pages": 3}) for claim in claimed]
    return (_touched_pages(url) - before) / exchanges, outcomes


def buffers(url: str) -> int:
    """1,000 waiting documents of 10 customers against 1,000,000 of 100,000; and with an old snapshot held open."""
    result = {}
    for name, waiting, customers in (("small", 1_000, 10), ("large", 1_000_000, 100_000)):
        place = database(url, name)
        with _open_filled(place, waiting, customers) as queue:
            _, outcomes = pages_per_exchange(queue, place, 10, [])
            result[name], _ = pages_per_exchange(queue, place, 50, outcomes)
    print(f"pages of an exchange of 10: {result['small']:,.0f} with 1,000 waiting of 10 customers,"
          f" {result['large']:,.0f} with 1,000,000 of 100,000")  # fmt: skip
    return check_limit(
        "pages, 1M waiting of 100k customers", result["large"] / result["small"], 2, at_most=True
    ) + _held_snapshot(url)


def _held_snapshot(url: str) -> int:
    """The same before and during 200,000 claims past a reader that never ends."""
    place = database(url, "held")
    with _open_filled(place, 260_000, 50) as queue, psycopg.connect(place) as reader:
        _, outcomes = pages_per_exchange(queue, place, 100, [])
        first, outcomes = pages_per_exchange(queue, place, 100, outcomes)
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute(b"SELECT 1 FROM pg_class")
        worst = 0.0
        for share in range(1, 5):
            _, outcomes = pages_per_exchange(queue, place, 500, outcomes, 100)
            later, outcomes = pages_per_exchange(queue, place, 100, outcomes)
            print(f"pages of an exchange of 10 after {share * 50_000:,} claims past a held snapshot: {later:,.0f}"
                  f" (before it {first:,.0f})", flush=True)  # fmt: skip
            worst = max(worst, later)
        reader.rollback()
    return check_limit("pages past a held snapshot, 200k claims", worst / first, 3, at_most=True)


# -- all ------------------------------------------------------------------------------------------------------------


def _ratio(rates: Rates, peer: str) -> float:
    return median(rates[OURS]) / median(rates[peer])


def _print_rates(label: str, rates: Rates) -> None:
    for name, values in rates.items():
        print(f"{label}: {name} {spread(values)}", flush=True)


def main(names: Sequence[str] = ()) -> int:
    missed = 0
    with server() as url, ExitStack() as stack:
        with psycopg.connect(url) as connection:
            version = connection.info.server_version
        shown = ", ".join(f"{name}={value}" for name, value in SETTINGS.items())
        print(f"PostgreSQL {version // 10_000}.{version % 10_000}, {os.cpu_count()} cores: {shown}")
        for name, work in (("submits", submits), ("claims", claims), ("latency", latency)):
            if not names or name in names:
                databases = [stack.enter_context(closing(PeerDatabase(side, url, name))) for side in SIDES]
                missed += work(databases)
        if not names or "buffers" in names:
            missed += buffers(url)
    return missed
