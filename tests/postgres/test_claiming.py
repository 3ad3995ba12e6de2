"""A claim is committed with the statement that writes it down, in as few trips as can be."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest

import inturn
from inturn import Queue
from inturn.errors import StoreError
from inturn.ids import RandomIds
from inturn.model import NewDocument
from inturn.store_types import ClaimRequest, DocumentFilter, EventKind, Outcome, OutcomeKind, Submission
from inturn.stores.postgres import PostgresStore
from inturn.stores.postgres.connection import Database
from services import needs_postgres
from waiting import wait_until

pytestmark = needs_postgres
REQUEST = ClaimRequest("worker", 1, 60_000_000)


def submission(n: int = 1) -> Submission:
    return Submission("acme", RandomIds().make(n, 0), [NewDocument("a document")] * n)


def test_a_claim_of_what_came_meanwhile_takes_two_trips(store: PostgresStore, trips: list[str]) -> None:
    """It begins, and takes the lane log with the lanes that it names; it writes everything and commits."""
    for _ in range(3):
        store.submit(submission())
        trips.clear()
        (claimed,) = store.claim(REQUEST)
        taken = len(trips)
        store.ack_and_claim([Outcome(claimed.document.id, claimed.fence, OutcomeKind.DONE, result="1")], None)
    assert taken == 2


@pytest.mark.parametrize("name", ['"', "\\", "a,b", "(a)", "{a}", " a ", "null", "ä\n\t", "it's", '{"a":"\\"}'])
def test_names_are_written_as_they_are(store: PostgresStore, name: str) -> None:
    store.submit(Submission("acme", RandomIds().make(2, 0), [NewDocument("a document")] * 2))
    claimed = store.claim(ClaimRequest(name, 2, 60_000_000))
    assert [document.worker for document, _ in claimed] == [name] * 2
    assert store.document(claimed[0].document.id).worker == name


def test_a_plan_is_made_when_there_is_something_to_plan_for_and_not_kept_for_good(store: PostgresStore) -> None:
    """One that was made while the tables were empty would read all of them for every claim."""
    with closing(Database(store.address)) as database, database.dedicated_connection() as connection:
        connection.can_prepare = True
        plans = []
        for _ in range(20):
            connection.query((b"SELECT 1", [], []))
            plans.append(connection.execute("SELECT name, prepare_time FROM pg_prepared_statements", prepare=False))
        first, second, third, *between, last = [plan.fetchall() for plan in plans]
    assert first == second == []
    assert all(item == third for item in between)
    assert len(third) == len(last) == 1
    assert third != last


def test_a_claim_that_would_start_what_does_not_wait_is_not_committed(
    store: PostgresStore, admin: psycopg.Connection[tuple[Any, ...]]
) -> None:
    call = submission(2)
    store.submit(call)
    for claim in store.claim(ClaimRequest("worker", 2, 60_000_000)):
        store.ack_and_claim([Outcome(claim.document.id, claim.fence, OutcomeKind.RELEASED)], None)
    admin.execute("UPDATE document SET state = 'cancelled' WHERE id = %s", (call.ids[0],))
    with pytest.raises(StoreError, match=r"of 2 documents that head their lanes only 1 wait.*nothing was written"):
        store.claim(ClaimRequest("worker", 2, 60_000_000))
    assert store.counts(DocumentFilter()).states == {"cancelled": 1, "waiting": 1}
    assert admin.execute("SELECT count(*) FROM requeued").fetchone() == (2,)
    admin.execute("UPDATE document SET state = 'waiting'")
    assert [claim.document.id for claim in store.claim(ClaimRequest("worker", 2, 60_000_000))] == list(call.ids)


def test_rows_that_were_moved_since_they_were_read_are_found(
    url: str, store: PostgresStore, admin: psycopg.Connection[tuple[Any, ...]]
) -> None:
    """A process remembers where it read lines; VACUUM FULL puts others there."""
    queue = Queue(store)
    names = [f"customer {number:02}" for number in range(30)]
    for name in names:
        queue.submit(name, [NewDocument("x")] * 3)
    with inturn.open(url) as other:
        claimed = [claim.document.customer for claim in other.claim("worker", 5)]
    claimed += [claim.document.customer for claim in queue.claim("worker", 5)]
    before = admin.execute("SELECT customer, level, ctid FROM lane").fetchall()
    # The first row goes to the end, and all others move up by one.
    admin.execute("UPDATE lane SET waiting = waiting WHERE ctid = (SELECT min(ctid) FROM lane)")
    admin.execute("VACUUM FULL lane")
    assert set(admin.execute("SELECT customer, level, ctid FROM lane").fetchall()) != set(before)
    for _ in range(4):
        claimed += [claim.document.customer for claim in queue.claim("worker", 5)]
    assert claimed == names
    assert store.recount(repair=False) == ()
    assert admin.execute("SELECT customer, level FROM lane GROUP BY 1, 2 HAVING count(*) > 1").fetchall() == []


def test_claims_of_a_queue_go_one_by_one(store: PostgresStore, admin: psycopg.Connection[tuple[Any, ...]]) -> None:
    store.submit(submission())
    waits = "SELECT 1 FROM pg_locks WHERE relation = 'claim_lock'::regclass AND NOT granted"
    with ThreadPoolExecutor(1) as pool:
        with admin.transaction():
            admin.execute("LOCK TABLE claim_lock IN EXCLUSIVE MODE")
            claim = pool.submit(store.claim, REQUEST)
            wait_until(lambda: claim.done() or admin.execute(waits).fetchone())
            assert not claim.done()
        assert len(claim.result()) == 1


@pytest.mark.parametrize("alone", [False, True])
def test_outcome_before_a_claim_that_is_tried_again_is_recorded_once(
    store: PostgresStore, admin: psycopg.Connection[tuple[Any, ...]], *, alone: bool
) -> None:
    store.submit(submission(4))
    for _ in range(1 + alone):  # one that finds nobody between two claims knows that it is alone
        (claimed,) = store.claim(REQUEST)
    admin.execute(
        """
        CREATE SEQUENCE times_raised;
        CREATE FUNCTION raise_once() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF nextval('times_raised') = 1 THEN
                RAISE EXCEPTION 'once' USING ERRCODE = '40001';
            END IF;
            RETURN NULL;
        END
        $$;
        CREATE TRIGGER raise_once AFTER INSERT ON running FOR EACH STATEMENT EXECUTE FUNCTION raise_once();
        """
    )
    outcome = Outcome(claimed.document.id, claimed.fence, OutcomeKind.DONE, result="1")
    statuses, claims = store.ack_and_claim([outcome], REQUEST)
    assert (statuses, len(claims)) == (("recorded",), 1)
    assert admin.execute("SELECT last_value FROM times_raised").fetchone() == (2,)
    finished = [event for event in store.events(0, limit=100) if event.kind is EventKind.FINISHED]
    assert [event.documents for event in finished] == [(claimed.document.id,)]
