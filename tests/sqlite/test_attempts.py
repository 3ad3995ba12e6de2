"""Earlier attempts in a file: one from before they were kept goes on, and none is left behind."""

from pathlib import Path

import pytest

import inturn
from inturn.clock import ManualClock
from inturn.insights import document_timeline
from inturn.model import NewDocument
from inturn.store_types import MAX_STORED_ATTEMPTS, Operator
from inturn.stores import migrate
from inturn.stores.sqlite import SqliteStore, schema
from inturn.values import SECOND
from sqlite_file import direct

ANNA = Operator("anna", "because the test says so")


def rows(store: SqliteStore) -> int:
    with direct(store.path) as tables:
        return int(tables.execute("SELECT count(*) FROM attempt").get)


def test_a_file_from_before_attempts_were_kept_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before_fronts: str
) -> None:
    path, clock = tmp_path / "queue.db", ManualClock(SECOND)
    with inturn.open(str(path), clock=clock) as queue:
        (receipt,) = queue.submit("acme", [NewDocument("a")])
        queue.fail(queue.claim("worker", 1)[0], "first", retry_in=0)
    with direct(path) as tables:
        tables.execute(before_fronts + "DROP TABLE attempt; DROP INDEX event_by_hand_of; PRAGMA user_version = 2")
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:2])
        assert migrate(str(path)) == []
    assert migrate(str(path)) == [migration.name for migration in schema.MIGRATIONS[2:]]
    with inturn.open(str(path), clock=clock) as queue:
        assert queue.attempts(receipt.id) == ()
        queue.fail(queue.claim("worker", 1)[0], "second", retry_in=0)
        assert [(attempt.number, attempt.error) for attempt in queue.attempts(receipt.id)] == [(2, "second")]
        assert not document_timeline(queue, queue.document(receipt.id)).is_complete


def test_no_attempt_outlives_its_document(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "queue.db")
    with inturn.Queue(store) as queue:
        for customer in ("acme", "beta"):
            queue.submit(customer, [NewDocument("a")] * 2)
        for claim in queue.claim("worker", 4):
            queue.release(claim)
        assert rows(store) == 4
        queue.purge("acme", ANNA)
        assert rows(store) == 2
        (done,) = queue.claim("worker", 1)
        queue.finish(done)
        assert rows(store) == 2
        store.prune(2**60, limit=10)
        assert rows(store) == 1


def test_no_more_attempts_are_kept_than_are_told(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "queue.db")
    with inturn.Queue(store) as queue:
        (receipt,) = queue.submit("acme", [NewDocument("a")])
        for _ in range(MAX_STORED_ATTEMPTS + 3):
            queue.release(queue.claim("worker", 1)[0])
        assert rows(store) == len(queue.attempts(receipt.id)) == MAX_STORED_ATTEMPTS
