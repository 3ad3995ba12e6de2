"""The server crashes, the network breaks, the primary is demoted: errors say what to do, and everything heals."""

import itertools
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from inturn.errors import StoreBusyError, StoreError, StoreReadOnlyError
from inturn.ids import RandomIds
from inturn.model import NewDocument
from inturn.store_types import ClaimRequest, DocumentFilter, EventKind, Submission
from inturn.stores.postgres import PostgresStore, connection
from postgres_processes import known_ids
from services import PostgresServer, needs_own_postgres
from tcp_proxy import Proxy
from waiting import wait_until

pytestmark = needs_own_postgres
Start = Callable[..., Any]
HEALS_IN = 30
"""Seconds: the promise of G9."""


def submission(customer: str = "acme", n: int = 1) -> Submission:
    return Submission(customer, RandomIds().make(n, 0), [NewDocument("a document")] * n)


def heals(store: PostgresStore) -> float:
    """Submit until it succeeds; how long that took."""
    began = time.monotonic()

    def works() -> bool:
        try:
            store.submit(submission())
        except StoreError:
            return False
        return True

    wait_until(works, HEALS_IN)
    return time.monotonic() - began


def restart(server: PostgresServer) -> None:
    server.stop(signal.SIGQUIT)
    server.start(server.port)


def test_g9_after_two_crashes_nothing_accepted_is_lost_or_recorded_twice(start: Start, server: PostgresServer) -> None:
    submitters = [start("submit_for_ever", server.url, seed, seed) for seed in ("one", "other")]
    workers = [start("work_for_ever", server.url, f"worker {n}", 3) for n in range(2)]
    for child in (*submitters, *workers):
        assert child.receive() == "ready"
    for crash in range(3):
        for child in submitters:
            for _ in range(20):
                child.receive()
        if crash < 2:
            restart(server)
    accepted = {
        id_
        for seed, child in zip(("one", "other"), submitters, strict=True)
        for id_ in itertools.islice(known_ids(seed), 60 + len(child.kill()))
    }
    store = PostgresStore(server.url)
    wait_until(lambda: set(store.counts(DocumentFilter()).states) == {"done"}, HEALS_IN)
    reported = [item for child in workers for item in child.kill()]
    documents = store.documents(DocumentFilter(), limit=100_000).items
    assert accepted <= {document.id for document in documents}
    assert len(accepted) >= 120
    finished = [id_ for event in store.events(0, limit=100_000) if event.kind is EventKind.FINISHED
                for id_ in event.documents]  # fmt: skip
    assert Counter(finished) == Counter(document.id for document in documents)
    fences = [fence for _, fence in reported]
    assert len(set(fences)) == len(fences)
    assert store.recount(repair=False) == ()
    store.close()


def test_fences_of_claims_lost_in_a_crash_are_not_given_again(server: PostgresServer) -> None:
    """The claims' commits never reach the disk: nothing flushes the log, and the server is killed."""
    store = PostgresStore(server.url)
    store.submit(submission(n=40))
    first = store.claim(ClaimRequest("worker", 1, 60_000_000))
    store.submit(submission("other"))
    server.stop(signal.SIGINT)
    server.start(server.port, wal_writer_delay="10s")
    heals(store)
    lost = store.claim(ClaimRequest("worker", 5, 60_000_000))
    server.stop(signal.SIGQUIT)
    server.start(server.port)
    heals(store)
    running = store.counts(DocumentFilter()).states["running"]
    again = store.claim(ClaimRequest("worker", 5, 60_000_000))
    assert running == 1, "the claim was not lost: this test tests nothing"
    given = [claim.fence for claim in (*first, *lost, *again)]
    assert given == sorted(set(given))
    assert {claim.document.id for claim in lost} & {claim.document.id for claim in again}
    assert store.recount(repair=False) == ()
    store.close()


def test_a_pool_whose_connections_were_all_cut_heals(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy(server.port) as proxy:
        store = PostgresStore(server.url.replace(str(server.port), str(proxy.port)))
        store.submit(submission())
        proxy.cut()
        assert heals(store) < HEALS_IN
        proxy.cut()
        store.submit(submission())  # dead before anything was begun on it: another is taken
        proxy.cut()
        monkeypatch.setattr(connection, "IDLE_CHECK_SECONDS", 0.0)
        store.submit(submission())  # checked before it is used: the caller notices nothing
        store.close()


def test_a_half_open_connection_is_given_up(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "RESPONSE_TIMEOUT_SECONDS", 1.0)
    with Proxy(server.port) as proxy:
        store = PostgresStore(server.url.replace(str(server.port), str(proxy.port)) + "?connect_timeout=2")
        store.submit(submission())
        proxy.hang()
        with pytest.raises(StoreError) as refused:
            store.submit(submission())
        assert "try again" in str(refused.value)
        proxy.flow()
        assert heals(store) < HEALS_IN
        assert store.recount(repair=False) == ()
        store.close()


@pytest.fixture
def demoted(server: PostgresServer) -> Iterator[PostgresStore]:
    """A store whose primary became read-only under it."""
    store = PostgresStore(server.url)
    store.submit(submission(n=3))
    _let_write(server, "off")
    yield store
    store.close()


def _let_write(server: PostgresServer, read_only: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("SET default_transaction_read_only = off")
        turn = {"off": "ALTER SYSTEM SET default_transaction_read_only = on"}
        admin.execute(turn.get(read_only, "ALTER SYSTEM RESET default_transaction_read_only"))  # type: ignore[arg-type]
        admin.execute("SELECT pg_reload_conf()")


def test_a_read_only_primary_says_so_and_heals(server: PostgresServer, demoted: PostgresStore) -> None:
    said: list[str] = []

    def refuses() -> bool:
        try:
            demoted.submit(submission())
        except StoreReadOnlyError as refused:
            said.append(str(refused))
        return bool(said)

    wait_until(refuses)
    assert "Connect to the primary" in said[0]
    with pytest.raises(StoreReadOnlyError):
        demoted.claim(ClaimRequest("worker", 1, 60_000_000))
    assert demoted.counts(DocumentFilter()).states["waiting"] >= 3
    assert demoted.events(0, limit=10) is not None
    _let_write(server, "on")
    assert heals(demoted) < HEALS_IN
    assert demoted.recount(repair=False) == ()


def test_a_server_that_is_down_is_an_error_that_says_what_to_do(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "POOL_TIMEOUT_SECONDS", 1.0)
    store = PostgresStore(server.url)
    server.stop(signal.SIGQUIT)
    with pytest.raises((StoreBusyError, StoreError), match="try again"):
        store.submit(submission())
    with pytest.raises(StoreError, match="no server answers"):
        PostgresStore(server.url)
    server.start(server.port)
    assert heals(store) < HEALS_IN
    store.close()
