"""When work began, in files from before that was kept, and beside processes that do not keep it."""

from pathlib import Path

import pytest

import inturn
from inturn.clock import ManualClock
from inturn.model import NewDocument
from inturn.store_types import Outcome, OutcomeKind, Work
from inturn.stores import migrate
from inturn.stores.sqlite import SqliteStore, schema
from inturn.values import SECOND
from sqlite_file import direct

OLD_CLAIM = "UPDATE document SET state = 'running', attempt = attempt + 1, started_at = ?, fence = fence + 1"
"""What an older version does to these columns; and to those that it does not know, nothing."""


def test_a_file_from_before_keeps_its_results_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before_work: str
) -> None:
    path, clock = tmp_path / "queue.db", ManualClock(SECOND)
    with inturn.open(str(path), clock=clock) as queue:
        first, second = queue.submit("acme", [NewDocument("a")] * 2)
        queue.finish(queue.claim("worker", 1)[0], {"text": "before"})
    with direct(path) as tables:
        tables.execute(before_work)
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:6])
        assert migrate(str(path)) == []
    assert migrate(str(path)) == [migration.name for migration in schema.MIGRATIONS[6:]]
    with inturn.open(str(path), clock=clock) as queue:
        old = queue.document(first.id)
        assert queue.result(first.id) == {"text": "before"}
        assert (old.began_at, old.worked, old.work_began_at, old.work_ended_at) == (None, None, SECOND, SECOND)
        queue.finish(queue.claim("worker", 1)[0], {"text": "after"})
        assert queue.result(second.id) == {"text": "after"}
        assert queue.document(second.id).began_at == SECOND


def test_what_an_older_process_leaves_standing_counts_for_nothing(tmp_path: Path) -> None:
    clock = ManualClock(SECOND)
    store = SqliteStore(tmp_path / "queue.db", clock)
    queue = inturn.Queue(store)
    (receipt,) = queue.submit("acme", [NewDocument("a")])
    (claimed,) = queue.claim("worker", 1)
    clock.advance(9)
    failed = Outcome(receipt.id, claimed.fence, OutcomeKind.FAILED, error="no", retry_in=None, work=Work(2, 3))
    store.ack_and_claim([failed], None)
    assert store.document(receipt.id).worked == 3
    with direct(store.path) as tables:
        tables.execute(OLD_CLAIM, (clock.now(),))
    document = store.document(receipt.id)
    assert (document.began_at, document.worked, document.work_began_at) == (None, None, clock.now())
    store.close()
