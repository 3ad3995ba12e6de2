"""Roles with least rights, made by the very statements of docs/postgres.md."""

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

import inturn
from full_queue import transfer
from inturn.errors import StoreMovedError, StoreReadOnlyError
from inturn.insights import Insights
from inturn.model import NewDocument
from inturn.queue_reader import QueueReader
from inturn.store_types import ClaimRequest, CustomerFilter, DocumentFilter, LeaseStatus, Operator
from inturn.stores import migrate, open_transfer_endpoint
from inturn.stores.postgres import PostgresStore
from inturn.stores.transfer import ClosedKind, ClosedMarker
from inturn.worker_report import WorkerReport
from services import needs_postgres, postgres

pytestmark = needs_postgres
PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"
ANNA = Operator("anna", "because the test says so")
REQUEST = ClaimRequest("worker", 1, 60_000_000)
NAMES = ("inturn_app", "inturn_reports", "ocr")


def statements(*words: str) -> list[str]:
    """The page's statements on roles in which any of these words stands."""
    section = PAGE.read_text(encoding="utf-8").partition("### Roles with least rights")[2].partition("\n## ")[0]
    result = re.findall(r"^((?:CREATE ROLE|GRANT|ALTER DEFAULT)[^;]*);", section, re.MULTILINE)
    return [item for item in result if any(word in item for word in words)]


class Addresses(NamedTuple):
    """One queue, as its roles come to it."""

    owner: str
    app: str
    reports: str
    schema: str


@pytest.fixture
def addresses() -> Iterator[Addresses]:
    """Names are those of the page, made one of a kind: roles belong to the whole server."""
    mark = uuid.uuid4().hex[:8]
    names = {name: f"{name}_{mark}" for name in NAMES}
    host = postgres().partition("@")[2]
    schema = names["ocr"]
    owner = f"{postgres()}?schema={schema}"
    migrate(owner)
    with psycopg.connect(postgres(), autocommit=True) as admin:
        for statement in statements("inturn_app", "inturn_reports"):
            admin.execute(re.sub("|".join(NAMES), lambda match: names[match[0]], statement).encode())
    app, reports = (f"postgresql://{names[role]}@{host}?schema={schema}" for role in ("inturn_app", "inturn_reports"))
    yield Addresses(owner, app, reports, schema)
    with psycopg.connect(postgres(), autocommit=True) as admin:
        admin.execute(b"SET client_min_messages = error")
        admin.execute(f"DROP SCHEMA {schema} CASCADE".encode())
        for role in ("inturn_app", "inturn_reports"):
            admin.execute(f"DROP OWNED BY {names[role]}; DROP ROLE {names[role]}".encode())


def test_the_page_has_statements_for_both_roles() -> None:
    assert len(statements("inturn_app")) == 4
    assert len(statements("inturn_reports")) == 3


def test_servers_and_workers_do_all_their_work(addresses: Addresses) -> None:
    with inturn.open(addresses.app) as queue:
        store = queue.store
        queue.check("acme")
        receipts = queue.submit("acme", [NewDocument("x")] * 6, key="k")
        store.record_worker(WorkerReport("w1", "here", 1, 1, 0, "none", 0))
        done, failed, back, lost = queue.claim("worker", limit=4)
        assert store.heartbeat([(done.document.id, done.fence)], 60_000_000) == (LeaseStatus.HELD,)
        queue.finish(done, {"pages": 1})
        queue.fail(failed, "no good", final=True)
        queue.release(back)
        assert [attempt.ended for attempt in queue.attempts(back.document.id)] == ["handed_back"]
        queue.cancel(lost.document.id, ANNA)
        assert queue.ack_and_claim([], "worker", 2)
        queue.retry(failed.document.id, ANNA)
        queue.change_customer("acme", ANNA, weight=2.0, cap=3)
        queue.pause(ANNA)
        queue.resume(ANNA)
        queue.set_policy(queue.policy().policy, ANNA)
        assert queue.policy().number == 2
        store.sweep()
        assert store.prune(2**60, limit=100).documents == 2
        assert store.recount(repair=True) == ()
        Insights(queue).overview()
        Insights(queue).why(receipts[4].id)
        assert {event.kind for event in queue.events()} >= {"cancelled", "retried", "queue_paused", "policy_set"}
        queue.purge("acme", ANNA)
        store.forget_worker("w1")


def test_a_submit_rides_in_a_transaction_of_the_same_role(addresses: Addresses) -> None:
    with inturn.open(addresses.app) as queue:
        with psycopg.connect(addresses.app.partition("?")[0]) as mine:
            queue.submit("acme", [NewDocument("x")], connection=mine)
        assert len(queue.claim("worker", limit=5)) == 1


@pytest.mark.parametrize("what", ["CREATE TABLE more (x int)", "DROP TABLE lane", "TRUNCATE document"])
def test_servers_and_workers_cannot_change_the_schema(addresses: Addresses, what: str) -> None:
    with psycopg.connect(addresses.app.partition("?")[0], autocommit=True) as mine:
        mine.execute(f"SET search_path = {addresses.schema}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            mine.execute(what.encode())


def test_servers_and_workers_cannot_migrate(addresses: Addresses) -> None:
    assert migrate(addresses.app) == []
    with pytest.raises(StoreReadOnlyError, match=r"docs/postgres\.md"):
        migrate(f"{addresses.app}_other")
    with psycopg.connect(addresses.owner.partition("?")[0], autocommit=True) as admin:
        admin.execute(f"DELETE FROM {addresses.schema}.migration WHERE number > 1".encode())  # noqa: S608 - our own name
    with pytest.raises(StoreReadOnlyError, match=r"docs/postgres\.md"):
        migrate(addresses.app)


def test_reports_can_be_read_and_nothing_written(addresses: Addresses) -> None:
    with inturn.open(addresses.app) as queue:
        (receipt, other) = queue.submit("acme", [NewDocument("x")] * 2)
        (claimed,) = queue.claim("worker")
        queue.finish(claimed, {"pages": 1})
        queue.events()
        queue.check("acme")
    store = PostgresStore(addresses.reports)
    assert store.document(receipt.id).state == "done"
    assert store.result(receipt.id) == '{"pages": 1}'
    assert store.attempts(receipt.id) == ()
    assert len(store.documents(DocumentFilter(), limit=5).items) == 2
    assert [customer.name for customer in store.customers(CustomerFilter(), limit=5).items] == ["acme"]
    assert [event.kind for event in store.events(0, limit=9)] == ["submitted", "started", "finished"]
    insights = Insights(QueueReader(store))
    overview = insights.overview()
    assert overview.states == {"waiting": 1, "done": 1}
    assert insights.why(other.id).place == 0
    for write in (
        lambda: store.check("acme", 1),
        lambda: store.claim(REQUEST),
        lambda: store.pause(ANNA),
        lambda: store.cancel([other.id], ANNA),
        lambda: store.prune(2**60, limit=9),
        lambda: store.record_worker(WorkerReport("w1", "here", 1, 1, 0, "none", 0)),
    ):
        with pytest.raises(StoreReadOnlyError, match=r"docs/postgres\.md"):
            write()
    store.close()


def test_only_the_owner_can_move_a_queue(addresses: Addresses, tmp_path: Path) -> None:
    file = str(tmp_path / "queue.db")
    with inturn.open(file) as queue:
        queue.submit("acme", [NewDocument("x")])
    with pytest.raises(StoreReadOnlyError, match=r"docs/postgres\.md"):
        transfer(file, addresses.app)
    with inturn.open(file) as queue:  # it was not closed, or is open again
        assert queue.submit("acme", [NewDocument("y")])
    assert (transfer(file, addresses.owner) or {})["document"] == 2
    with pytest.raises(StoreReadOnlyError, match=r"docs/postgres\.md"):
        transfer(addresses.app, str(tmp_path / "back.db"))
    with inturn.open(addresses.app) as queue:
        assert len(queue.claim("worker", limit=5)) == 2


def test_a_closed_queue_says_so_to_every_role(addresses: Addresses) -> None:
    with inturn.open(addresses.app) as queue:
        end = open_transfer_endpoint(addresses.owner)
        end.close(ClosedMarker(ClosedKind.LEAVING, "elsewhere", "token"))
        end.disconnect()
        with pytest.raises(StoreMovedError, match="is being moved to elsewhere"):
            queue.submit("acme", [NewDocument("x")])
    for address in (addresses.app, addresses.reports):
        with pytest.raises(StoreMovedError, match="is being moved to elsewhere"):
            inturn.open(address)
