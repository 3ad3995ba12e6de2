"""Earlier attempts in PostgreSQL: a queue from before they were kept goes on, and none is left behind."""

import threading
import time

import psycopg

import inturn
from inturn.clock import ManualClock
from inturn.model import NewDocument
from inturn.store_types import Operator
from inturn.stores import migrate
from inturn.stores.postgres import PostgresStore, schema
from inturn.stores.postgres.url import parse_url
from inturn.values import SECOND
from services import needs_postgres

pytestmark = needs_postgres
ANNA = Operator("anna", "because the test says so")


def test_a_queue_from_before_attempts_were_kept_goes_on(url: str, before_fronts: str) -> None:
    clock, name = ManualClock(SECOND), parse_url(url).schema
    with inturn.open(url, clock=clock) as queue:
        (receipt,) = queue.submit("acme", [NewDocument("a")])
        queue.fail(queue.claim("worker", 1)[0], "first", retry_in=0)
    with psycopg.connect(parse_url(url).conninfo, autocommit=True) as admin:
        admin.execute(f"SET search_path = {name}".encode())
        admin.execute(before_fronts.encode())
        admin.execute("DROP TABLE attempt; DROP INDEX event_by_hand_of; DELETE FROM migration WHERE number > 3")
    assert migrate(url) == [migration.name for migration in schema.MIGRATIONS[3:]]
    with inturn.open(url, clock=clock) as queue:
        assert queue.attempts(receipt.id) == ()
        queue.fail(queue.claim("worker", 1)[0], "second", retry_in=0)
        assert [(attempt.number, attempt.error) for attempt in queue.attempts(receipt.id)] == [(2, "second")]


def test_a_purge_takes_along_the_attempt_of_an_outcome_in_flight(store: PostgresStore) -> None:
    """It is committed while the purge waits for the document, after the purge has begun."""
    with inturn.Queue(store) as queue, psycopg.connect(store.address.conninfo) as worker:
        (receipt,) = queue.submit("acme", [NewDocument("a")])
        queue.claim("worker", 1)
        worker.execute(f"SET search_path = {store.address.schema}".encode())
        worker.execute("SELECT 1 FROM document WHERE id = %s FOR NO KEY UPDATE", (receipt.id,))
        worker.execute(
            "INSERT INTO attempt SELECT customer, id, fence, started_at, 1, 1, 'delayed', 'a secret', 'worker'"
            " FROM document"
        )
        purge = threading.Thread(target=queue.purge, args=("acme", ANNA))
        purge.start()
        while worker.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,):
            assert purge.is_alive()
            time.sleep(0.01)
        worker.commit()
        purge.join()
        worker.execute(f"SET search_path = {store.address.schema}".encode())
        assert worker.execute("SELECT count(*) FROM attempt").fetchone() == (0,)
        worker.rollback()
