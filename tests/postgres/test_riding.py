"""A submit in the user's own transaction: the documents are there if and only if it commits."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.rows import dict_row

from inturn.errors import InvalidInputError, KeyConflictError
from inturn.ids import RandomIds
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.store_types import ClaimRequest, DocumentFilter, Submission
from inturn.stores.postgres import PostgresStore
from inturn.testing import memory_queue
from services import needs_postgres

pytestmark = needs_postgres
REQUEST = ClaimRequest("worker", 10, 60_000_000)


def submission(customer: str = "acme", key: str | None = None, fingerprint: str = "") -> Submission:
    return Submission(customer, RandomIds().make(2, 0), [NewDocument("a document")] * 2, key, fingerprint)


@pytest.fixture
def mine(store: PostgresStore) -> Iterator[psycopg.Connection[dict[str, object]]]:
    """A connection with ways of its own."""
    with psycopg.connect(store.address.conninfo, row_factory=dict_row) as connection:
        connection.execute("CREATE TEMP TABLE orders (id int)")
        connection.commit()
        yield connection


def test_documents_come_with_the_commit(store: PostgresStore, mine: psycopg.Connection[dict[str, object]]) -> None:
    mine.execute("INSERT INTO orders VALUES (1)")
    receipts = store.submit_in(mine, submission())
    assert [receipt.count for receipt in receipts] == [0, -1]
    assert store.claim(REQUEST) == ()
    assert mine.execute("SELECT count(*) AS n FROM orders").fetchone() == {"n": 1}
    assert mine.execute("SHOW search_path").fetchone() == {"search_path": '"$user", public'}
    mine.commit()
    assert {claim.document.id for claim in store.claim(REQUEST)} == {receipt.id for receipt in receipts}
    assert store.recount(repair=False) == ()


def test_nothing_comes_of_a_rollback(store: PostgresStore, mine: psycopg.Connection[dict[str, object]]) -> None:
    store.submit(submission())
    store.submit_in(mine, submission())
    mine.rollback()
    assert store.customer("acme").count == -1
    assert store.counts(DocumentFilter()).states == {"waiting": 2}
    assert len(store.claim(REQUEST)) == 2
    assert [event.kind for event in store.events(0, limit=9)] == ["submitted", "started"]


def test_a_refused_call_leaves_the_transaction_alive(
    store: PostgresStore, mine: psycopg.Connection[dict[str, object]]
) -> None:
    store.submit(submission(key="k", fingerprint="one"))
    mine.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(KeyConflictError):
        store.submit_in(mine, submission(key="k", fingerprint="other"))
    assert mine.execute("SHOW search_path").fetchone() == {"search_path": '"$user", public'}
    mine.commit()
    assert mine.execute("SELECT count(*) AS n FROM orders").fetchone() == {"n": 1}


def test_a_connection_without_a_transaction_is_refused(store: PostgresStore) -> None:
    with psycopg.connect(store.address.conninfo, autocommit=True) as connection:
        with pytest.raises(InvalidInputError, match="transaction"):
            store.submit_in(connection, submission())
        with connection.transaction():
            store.submit_in(connection, submission())
    assert store.counts(DocumentFilter()).states == {"waiting": 2}


def test_a_queue_rides_too(store: PostgresStore, mine: psycopg.Connection[dict[str, object]]) -> None:
    queue = Queue(store)
    (receipt,) = queue.submit("acme", [NewDocument("a document")], connection=mine)
    assert queue.counts().states == {}
    mine.commit()
    assert queue.document(receipt.id).customer == "acme"
    with pytest.raises(InvalidInputError, match="only a PostgreSQL store"):
        memory_queue().submit("acme", [NewDocument("a document")], connection=mine)
