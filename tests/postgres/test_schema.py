"""Schemas: made once, refused when newer, the same by hand; addresses; plans that need no statistics."""

import json
import logging
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

import inturn
from inturn.errors import InvalidInputError, StoreError, StoreVersionError
from inturn.ids import RandomIds
from inturn.model import Claim, NewDocument
from inturn.policy import Policy
from inturn.store_types import ClaimRequest, Operator, Outcome, OutcomeKind, Submission
from inturn.stores import migrate, migrations_sql
from inturn.stores.postgres import PostgresStore, connection, schema
from inturn.stores.postgres.queries import QUERIES, encode_params, row_array, to_columns
from inturn.stores.postgres.url import parse_url
from inturn.stores.sql.deadlines import Deadlines
from inturn.stores.sql.scheduler_state import INITIAL_STATE
from inturn.stores.sql.steps import MOVE_COLUMNS
from inturn.stores.sql.transitions import ATTEMPT_COLUMNS, OUTCOME_COLUMNS
from requeue_walk import check_nothing_lost, make_unclaimed_changes
from services import drop_schema, needs_postgres, new_schema
from waiting import wait_until

pytestmark = needs_postgres
MANY = 200
PLAIN_NAMES = 9
ANNA = Operator("anna", "because the test says so")
COLUMNS = """
    SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
    WHERE table_schema = %s ORDER BY 1, ordinal_position
"""
INDEXES = "SELECT indexname, replace(indexdef, schemaname, 'x') FROM pg_indexes WHERE schemaname = %s ORDER BY 1"
CONSTRAINTS = "SELECT conname, contype FROM pg_constraint WHERE connamespace = %s::regnamespace ORDER BY 1"
SEQUENCES = "SELECT sequencename FROM pg_sequences WHERE schemaname = %s ORDER BY 1"
FUNCTIONS = "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = %s::regnamespace ORDER BY 1"
VIEWS = "SELECT viewname, replace(definition, schemaname, 'x') FROM pg_views WHERE schemaname = %s ORDER BY 1"
SHAPES = (COLUMNS, INDEXES, CONSTRAINTS, SEQUENCES, FUNCTIONS, VIEWS)


def submission(customer: str, n: int = 1) -> Submission:
    return Submission(customer, RandomIds().make(n, 0), [NewDocument("a document")] * n)


def test_a_queue_is_migrated_once(missing_url: str) -> None:
    url = missing_url
    assert migrate(url) == [migration.name for migration in schema.MIGRATIONS]
    assert migrate(url) == []
    with inturn.open(url) as queue:
        assert queue.policy().number == 1


def test_what_is_printed_makes_the_same_schema(missing_url: str) -> None:
    url = missing_url
    name = parse_url(url).schema
    shapes = []
    with psycopg.connect(parse_url(url).conninfo, autocommit=True) as admin:
        for make in (lambda: migrate(url), lambda: admin.execute(migrations_sql(url).encode())):
            make()
            admin.execute("RESET search_path")
            shapes.append([admin.execute(query, (name,)).fetchall() for query in (COLUMNS, INDEXES)])
            if len(shapes) == 1:
                admin.execute(b"DROP SCHEMA " + name.encode() + b" CASCADE")
    assert shapes[0] == shapes[1]
    store = PostgresStore(url)
    assert store.submit(submission("acme"))[0].count == 0
    store.close()


@pytest.mark.parametrize("version", range(1, len(schema.MIGRATIONS)))
def test_a_queue_of_every_older_schema_gets_the_schema_of_a_new_one(url: str, missing_url: str, version: int) -> None:
    names = [parse_url(address).schema for address in (url, missing_url)]
    with psycopg.connect(parse_url(url).conninfo, autocommit=True) as admin:
        make_old_queue(admin, names[1], version)
        assert migrate(missing_url) == [migration.name for migration in schema.MIGRATIONS[version:]]
        admin.execute("RESET search_path")
        new, migrated = ([admin.execute(query, (name,)).fetchall() for query in SHAPES] for name in names)
    assert migrated == new
    store = PostgresStore(missing_url)
    assert store.submit(submission("acme"))[0].count == 0
    assert len(store.claim(ClaimRequest("worker", 1, 60_000_000))) == 1
    store.close()


def make_old_queue(admin: psycopg.Connection[Any], name: str, version: int) -> None:
    """Make an empty queue of an older schema, as the code of that time did."""
    admin.execute(f"CREATE SCHEMA {name}; SET search_path = {name}".encode())
    for migration in schema.MIGRATIONS[:version]:
        admin.execute(migration.sql.encode())
        admin.execute("INSERT INTO migration (number, name) VALUES (%s, %s)", (migration.number, migration.name))
    policy = json.dumps(Policy().to_dict())
    admin.execute("INSERT INTO policy VALUES (1, %s, 0, 'inturn', 'a new queue')", (policy,))
    has_plain_names = version >= PLAIN_NAMES
    state, sequence, queue = (
        ("scheduler_state", "event_sequence", "queue_state") if has_plain_names else ("turns", "numbering", "queue")
    )
    values = (INITIAL_STATE, Deadlines().to_json())
    admin.execute(f"INSERT INTO {state} VALUES (0, 'fair', %s, %s, 0, 0)".encode(), values)  # noqa: S608 - our names
    admin.execute(f"INSERT INTO {sequence} (one, last) VALUES (1, 0)".encode())  # noqa: S608
    admin.execute(f"INSERT INTO {queue} (one, policy) VALUES (1, 1)".encode())  # noqa: S608


@pytest.mark.parametrize(
    "fixture",
    [
        "schema_18",
        "schema_17",
        "schema_16",
        "schema_15",
        "schema_14",
        "schema_13",
        "schema_11",
        "schema_9",
        "schema_8",
        "before_work",
        "before_doubt",
        "before_fronts",
    ],
)
def test_a_queue_of_an_older_schema_goes_on_with_its_documents(
    url: str, fixture: str, request: pytest.FixtureRequest
) -> None:
    with inturn.open(url) as queue:
        left = make_unclaimed_changes(queue)
    options = f"-c search_path={parse_url(url).schema}"
    with psycopg.connect(parse_url(url).conninfo, autocommit=True, options=options) as admin:
        admin.execute(request.getfixturevalue(fixture).encode())
    migrate(url)
    with inturn.open(url) as queue:
        check_nothing_lost(queue, left)


def test_a_newer_schema_is_refused(store: PostgresStore, url: str) -> None:
    store.write(lambda queries: queries.connection.execute(b"INSERT INTO migration VALUES (99, 'from the future')"))
    with pytest.raises(StoreVersionError, match="newer version"):
        PostgresStore(url)


@pytest.mark.parametrize("bad", ["schema=A", "schema=x;y", "schema=", "schema=pg_x", "pool=0", "pool=x", "pool=9999"])
def test_bad_addresses_are_refused(bad: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_url(f"postgresql://localhost/x?{bad}")


def test_an_address_is_shown_without_its_password() -> None:
    address = parse_url("postgresql://me:secret@db:5433/queue?schema=ocr&pool=3&sslmode=require")
    assert (address.schema, address.pool_size) == ("ocr", 3)
    assert "secret" not in address.display_url
    assert "sslmode=require" in address.conninfo
    assert "schema" not in address.conninfo


def test_queues_in_two_schemas_know_nothing_of_each_other(store: PostgresStore, url: str) -> None:
    migrate(url + "_other")
    other = PostgresStore(url + "_other")
    try:
        store.submit(submission("acme", 2))
        assert other.claim(ClaimRequest("worker", 5, 60_000_000)) == ()
    finally:
        other.write(lambda queries: queries.connection.execute(f"DROP SCHEMA {other.address.schema} CASCADE".encode()))
        other.close()


def test_behind_a_pooler_settings_travel_with_every_transaction(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "detect_pooler", lambda _: True)
    with caplog.at_level(logging.WARNING, "inturn.postgres"):
        store = PostgresStore(url)
    assert "pooler" in caplog.text
    (receipt,) = store.submit(submission("acme"))
    store.wait(0.01)
    (claimed,) = store.claim(ClaimRequest("worker", 1, 60_000_000))
    assert claimed.document.id == receipt.id
    assert store.write(lambda queries: queries.fetch_one("search_path")) == (f"{store.address.schema}, pg_temp",)
    with psycopg.connect(store.address.conninfo) as fresh:
        assert fresh.execute("SHOW search_path").fetchone() == ('"$user", public',)
    store.close()


def test_a_used_queue_is_not_restored_over(store: PostgresStore, url: str, tmp_path: Any) -> None:
    store.submit(submission("acme"))
    store.backup(tmp_path / "copy")
    with pytest.raises(StoreError, match="exists already"):
        store.backup(tmp_path / "copy")
    with pytest.raises(StoreError, match="used already"):
        PostgresStore.restore(tmp_path / "copy", url)


@pytest.fixture(scope="module", params=[False, True], ids=["without", "with"])
def planned(request: pytest.FixtureRequest) -> Iterator[PostgresStore]:
    """A queue whose statements are only explained, with statistics and without."""
    address = new_schema()
    with closing(PostgresStore(address)) as store:
        if request.param:
            store.submit(submission("acme", 500))
            with psycopg.connect(store.address.conninfo, autocommit=True) as admin:
                admin.execute(f"ANALYZE {store.address.schema}.document, {store.address.schema}.lane".encode())
        yield store
    drop_schema(address)


SAVE = {
    "claimed": row_array([(1, 1, 1, 1, 1, 2, "worker", None)]),
    "lanes": "{}",
    "old_lanes": row_array([(1, 1, 1, "(0,1)")]),
    "work": row_array([(1, 0, 1, 1)]),
    "old_work": row_array([(1, 0, 1)]),
    "events": "{}",
    "answers": row_array([(1, "{1}", 1)]),
    "version": 1, "ordered": "fair", "scheduler_state": "", "deadlines": "", "last_fence": 1, "reserved": 1,
    "first_own_fence": 1,
}  # fmt: skip
ID = "018f3c5e-0000-7000-8000-000000000000"
ATTEMPT = (1, ID, 1, 1, 1, "delayed", "no", "worker", 1, 0, "default", 0, 1, None)
MOVED = (1, "waiting", "ocr", 11, 1, 0, None, "next", 1, 0)
LANES = {"customer": [1], "level": [1], "after": [0], "scan_from": [1], "limit": 5}
OLDEST = {"level": 1, "after": 0, "after_tie": 0, "limit": 50}
FINISHED = {**to_columns(OUTCOME_COLUMNS, [(ID, 1, "null", None, None)]), "now": 1}
MOVED_ONCE = {**to_columns(MOVE_COLUMNS, [MOVED]), "now": 1}
TRIED_ONCE = {**to_columns(ATTEMPT_COLUMNS, [ATTEMPT]), "now": 1, "kept": 9}


@pytest.mark.parametrize(
    ("query", "index", "values"),
    [
        ("first_lanes", "lane_sort", {"limit": 1, "more": 1, "queue": "default"}),
        ("first_lanes", "document_lane", {"limit": 1, "more": 1, "queue": "default"}),
        ("first_lanes", "requeued_pkey", {"limit": 1, "more": 1, "queue": "default"}),
        ("lowest_lanes", "lane_sort", OLDEST),
        ("oldest_lanes", "lane_age", OLDEST),
        ("oldest_rested_lanes", "lane_age", {**OLDEST, "rested_since": 1, "now": 2}),
        ("waiting_in_lanes", "document_lane", LANES),
        ("waiting_in_lanes", "requeued_pkey", LANES),
        ("waiting_claims", "claim_request", {}),
        ("served_documents", "claim_request_pkey", {"ticket": 1}),
        ("served_documents", "document_pkey", {"ticket": 1}),
        ("due_documents", "document_due", {"floor": 0, "now": 1, "limit": 5}),
        ("expired_leases", "running_pkey", {"floor": 0, "now": 1, "limit": 5}),
        ("late_to_start", "document_start_by", {"floor": 0, "now": 1, "limit": 5}),
        ("next_due", "document_due", {"now": 1}),
        ("next_start_by", "document_start_by", {"now": 1}),
        ("next_lease_check", "running_pkey", {"floor": 0, "now": 1}),
        ("lanes_of", "lane_pkey", {"customer": [1], "level": [1]}),
        ("save_claim", "document_pkey", SAVE),
        ("save_claim", "requeued_pkey", SAVE),
        ("save_claim", "lane_pkey", SAVE),
        ("save_claim", "claim_request_pkey", SAVE),
        ("save_claim", "TID Cond: (ctid = old.at)", SAVE),
        ("finish_documents", "document_id", FINISHED),
        ("finish_documents", "running_pkey", FINISHED),
        ("finish_documents_and_log", "document_id", FINISHED),
        ("finish_documents_and_log", "running_pkey", FINISHED),
        ("finish_documents_and_log", "customer_pkey", FINISHED),
        ("move_documents", "document_pkey", MOVED_ONCE),
        ("move_documents", "running_pkey", MOVED_ONCE),
        ("unended_parts", "document_unended_part", {"id": [ID]}),
        ("parts_below", "document_part", {"id": [ID]}),
        ("split_without_unended_parts", "document_unended_part", {"seq": [1]}),
        ("split_without_unended_parts", "document_id", {"seq": [1]}),
        ("parts", "document_part", {"id": ID, "after": 0, "limit": 9}),
        ("take_lane_log", "lane_log_xid", {}),
        ("end_attempts", "Index Scan Backward using attempt_pkey", TRIED_ONCE),
        ("forget_attempts", "Index Scan using attempt_pkey", {"seq": [1, 2]}),
        ("forget_attempts", "document_pkey", {"seq": [1, 2]}),
    ],
)
def test_plans_are_the_same_with_statistics_and_without(
    planned: PostgresStore, query: str, index: str, values: dict[str, Any]
) -> None:
    text = planned.claim_transaction(
        lambda queries: queries.connection.execute(b"EXPLAIN " + QUERIES[query], encode_params(values)).fetchall(),
    )
    plan = "\n".join(line for (line,) in text)
    assert index in plan, plan
    assert "Seq Scan on document" not in plan, plan
    assert "Seq Scan on lane " not in plan, plan


@pytest.mark.parametrize("query", ["finish_documents", "finish_documents_and_log"])
def test_tables_that_were_empty_when_analyzed_are_not_compared_row_by_row(store: PostgresStore, query: str) -> None:
    def claimed() -> tuple[Claim, ...]:
        store.submit(submission("acme", MANY))
        return store.claim(ClaimRequest("worker", MANY, 60_000_000))

    store.ack_and_claim(
        [Outcome(claim.document.id, claim.fence, OutcomeKind.DONE, "null") for claim in claimed()], None
    )
    with psycopg.connect(store.address.conninfo, autocommit=True) as admin:
        for table in ("running", "requeued", "lane"):
            admin.execute(f"ANALYZE {store.address.schema}.{table}".encode())
    again = claimed()
    outcomes = [(claim.document.id, claim.fence, "null", None, 0) for claim in again]
    values = encode_params({**to_columns(OUTCOME_COLUMNS, outcomes), "now": 1})
    explain = b"EXPLAIN (ANALYZE, FORMAT JSON) " + QUERIES[query]
    ((result,),) = store.write(lambda queries: queries.connection.execute(explain, values).fetchall())
    assert max(_rows_looked_at(result[0]["Plan"])) <= 2 * MANY


def _rows_looked_at(node: dict[str, Any]) -> Iterator[float]:
    removed = node.get("Rows Removed by Join Filter", 0) + node.get("Rows Removed by Filter", 0)
    yield (node["Actual Rows"] + removed) * node["Actual Loops"]
    for item in node.get("Plans", ()):
        yield from _rows_looked_at(item)


def test_starts_and_heartbeats_stay_off_the_indexes(store: PostgresStore) -> None:
    store.submit(submission("acme", 5))
    claimed = store.claim(ClaimRequest("worker", 5, 60_000_000))
    held = [(claim.document.id, claim.fence) for claim in claimed]

    def updates() -> tuple[int, int]:
        with psycopg.connect(store.address.conninfo, autocommit=True) as admin:
            row = admin.execute(
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
                " WHERE schemaname = %s AND relname = 'document'",
                (store.address.schema,),
            ).fetchone()
        return row or (0, 0)

    for _ in range(10):
        assert set(store.heartbeat(held, 120_000_000)) == {"held"}
    store.close()
    wait_until(lambda: updates()[0] >= 5 + 50, message=updates)  # a session counts its updates when it ends
    all_, hot = updates()
    assert all_ == 5 + 50
    assert hot >= 45  # a snapshot held by others keeps a full page from being tidied


@pytest.mark.parametrize(
    "old", ["LOCK TABLE claiming IN EXCLUSIVE MODE", "SELECT settled FROM document", "SELECT policy FROM queue"]
)
def test_a_process_of_an_older_version_is_refused_with_advice(store: PostgresStore, old: str) -> None:
    """The first statements of its claims, outcomes and submits."""
    with pytest.raises(StoreVersionError, match="start this process again with that version"):
        store.write(lambda queries: queries.connection.execute(old.encode()))
