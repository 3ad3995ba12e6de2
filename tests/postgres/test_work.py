"""When work began, in queues from before that was kept, and beside processes that do not keep it."""

from typing import Any

import psycopg

import inturn
from inturn.clock import ManualClock
from inturn.model import NewDocument
from inturn.store_types import Outcome, OutcomeKind, Work
from inturn.stores import migrate
from inturn.stores.postgres import PostgresStore, schema
from inturn.stores.postgres.url import parse_url
from inturn.values import SECOND
from services import needs_postgres

pytestmark = needs_postgres
OLD_CLAIM = "UPDATE document SET state = 'running', attempt = attempt + 1, started_at = started_at + 100"
"""What an older version does to these columns; and to those that it does not know, nothing."""


def test_a_queue_from_before_goes_on(url: str, before_work: str) -> None:
    clock, name = ManualClock(SECOND), parse_url(url).schema
    with inturn.open(url, clock=clock) as queue:
        first, second = queue.submit("acme", [NewDocument("a")] * 2)
        queue.finish(queue.claim("worker", 1)[0], {"text": "before"})
    with psycopg.connect(parse_url(url).conninfo, autocommit=True) as admin:
        admin.execute(f"SET search_path = {name}".encode())
        admin.execute(before_work.encode())
    assert migrate(url) == [migration.name for migration in schema.MIGRATIONS[6:]]
    with inturn.open(url, clock=clock) as queue:
        old = queue.document(first.id)
        assert (old.began_at, old.worked, old.work_began_at, old.work_ended_at) == (None, None, SECOND, SECOND)
        queue.finish(queue.claim("worker", 1)[0], {"text": "after"})
        assert queue.document(second.id).began_at == SECOND


def test_what_an_older_process_leaves_standing_counts_for_nothing(
    store: PostgresStore, admin: psycopg.Connection[tuple[Any, ...]]
) -> None:
    queue = inturn.Queue(store)
    (receipt,) = queue.submit("acme", [NewDocument("a")])
    (claimed,) = queue.claim("worker", 1)
    failed = Outcome(receipt.id, claimed.fence, OutcomeKind.FAILED, error="no", retry_in=None, work=Work(0, 0))
    store.ack_and_claim([failed], None)
    assert store.document(receipt.id).worked == 0
    admin.execute(OLD_CLAIM)
    document = store.document(receipt.id)
    assert (document.began_at, document.worked, document.work_began_at) == (None, None, document.started_at)
