"""Real processes on one queue. Whatever a test leaves running is killed."""

import math
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from claim_turn import claimers, turn
from inturn.stores import migrate
from inturn.stores.postgres import PostgresStore, notifier
from inturn.stores.postgres import connection as postgres_connection
from inturn.stores.postgres.libpq import TimeoutConnection
from inturn.stores.postgres.schema import MIGRATIONS
from services import PostgresServer, drop_schema, empty_postgres_data, new_schema
from store_children import Child, children_of

__all__ = ["claimers", "turn"]


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Start a function of `postgres_processes` in a process of its own."""
    yield from children_of("postgres_processes")


@pytest.fixture
def url() -> Iterator[str]:
    """An empty queue on the server that all tests share."""
    address = new_schema()
    yield address
    drop_schema(address)


@pytest.fixture
def missing_url() -> Iterator[str]:
    """The address of a queue that is not there yet."""
    address = new_schema(migrated=False)
    yield address
    drop_schema(address)


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(url)
    yield opened
    opened.close()


@pytest.fixture
def admin(store: PostgresStore) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A look behind the store's back."""
    options = f"-c search_path={store.address.schema}"
    with psycopg.connect(store.address.conninfo, autocommit=True, options=options) as connection:
        yield connection


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the calls of this test send to the server, a trip each.

    The pool's own trips depend on the speed of the machine and are left out: it checks a connection that lay idle for a
    second, and its threads configure the connections that they open in the background. A notification after the first
    waits for its timer.
    """
    monkeypatch.setattr(postgres_connection, "IDLE_CHECK_SECONDS", math.inf)
    monkeypatch.setattr(notifier, "MIN_NOTIFY_INTERVAL_SECONDS", 3_600.0)
    caller = threading.get_ident()
    reported: list[str] = []

    def counting(name: str) -> Callable[..., Any]:
        original = getattr(TimeoutConnection, name)

        def counted(self: TimeoutConnection, *args: Any, **options: Any) -> Any:
            if threading.get_ident() == caller:
                reported.append(name)
            return original(self, *args, **options)

        return counted

    for name in ("query", "query_pipeline", "execute"):
        monkeypatch.setattr(TimeoutConnection, name, counting(name))
    return reported


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of the test's own, which it may do anything to, with an empty queue."""
    own = PostgresServer(empty_postgres_data())
    own.start()
    migrate(own.url)
    yield own
    own.remove()


@pytest.fixture
def schema_18() -> str:
    """Bring a queue back to schema 18, whose events named no queue."""
    return """
        ALTER TABLE event DROP COLUMN queue;
        ALTER TABLE event_outbox DROP COLUMN queues;
        ALTER TYPE event_row DROP ATTRIBUTE queues;
        DELETE FROM migration WHERE number > 18;
    """


@pytest.fixture
def schema_17(schema_18: str) -> str:
    """Bring a queue back to schema 17, in which a document had one step."""
    (view,) = re.findall(r"CREATE VIEW document_view .*?;", MIGRATIONS[16].sql, re.DOTALL)
    after = f"""
        DROP VIEW document_view;
        DROP INDEX document_part, document_unended_part;
        ALTER TABLE document
            DROP COLUMN steps, DROP COLUMN first_queue, DROP COLUMN step, DROP COLUMN ahead, DROP COLUMN parent,
            DROP COLUMN part, DROP COLUMN split_step, DROP COLUMN unended_parent;
        ALTER TABLE attempt DROP COLUMN queue, DROP COLUMN step, DROP COLUMN ready_at, DROP COLUMN result;
        ALTER TABLE file DROP CONSTRAINT file_pkey;
        ALTER TABLE file DROP COLUMN step;
        ALTER TABLE file ADD PRIMARY KEY (document, name);
        ALTER TABLE named_queue
            DROP COLUMN cap, DROP COLUMN rate_documents, DROP COLUMN rate_per, DROP COLUMN manual,
            DROP COLUMN form;
        ALTER TABLE named_queue RENAME COLUMN turn_weight TO weight;
        DROP TABLE queue_rate;
        {view}
        DELETE FROM migration WHERE number > 17;
    """  # noqa: S608 - texts of ours
    return schema_18 + after


@pytest.fixture
def schema_16(schema_17: str) -> str:
    """Bring a queue back to schema 16, which knew one queue."""
    (view,) = re.findall(r"CREATE VIEW document_view .*?;", MIGRATIONS[11].sql, re.DOTALL)
    (types,) = re.findall(r"CREATE TYPE work_row .*?;\nCREATE TYPE replaced_work .*?;", MIGRATIONS[14].sql, re.DOTALL)
    (procedure,) = re.findall(r"CREATE PROCEDURE take_claim_turn.*?\n\$\$;", MIGRATIONS[9].sql, re.DOTALL)
    after = f"""
        CREATE TABLE customer_work (
            customer bigint NOT NULL, version bigint NOT NULL DEFAULT 0, unit_time bigint, in_flight bigint NOT NULL,
            PRIMARY KEY (customer, version)
        ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
        INSERT INTO customer_work SELECT customer, version, unit_time, in_flight FROM queue_work WHERE queue = 0;
        DROP TABLE queue_work;
        DROP TABLE queue_scheduler;
        DROP TABLE named_queue;
        DROP FUNCTION queue_number;
        DROP TYPE work_row, replaced_work;
        {types}
        DROP PROCEDURE take_claim_turn;
        {procedure}
        ALTER TABLE claim_request DROP COLUMN queues;
        UPDATE scheduler_state SET scheduler_json = (scheduler_json::jsonb - 6)::text;
        ALTER TABLE worker DROP COLUMN queues;
        UPDATE document SET lane = mod(lane, 10) + 10 * (lane / 1000) WHERE lane > 9;
        UPDATE requeued SET lane = mod(lane, 10) + 10 * (lane / 1000) WHERE lane > 9;
        UPDATE lane_log SET level = mod(level, 10) + 10 * (level / 1000) WHERE level > 9;
        DROP VIEW document_view;
        ALTER TABLE document DROP COLUMN queue;
        {view}
        DELETE FROM migration WHERE number > 16;
    """  # noqa: S608 - texts of ours
    return schema_17 + after


@pytest.fixture
def schema_15(schema_16: str) -> str:
    """Bring a queue back to schema 15, which had no index of words."""
    after = """
        DROP TABLE search_term;
        DROP TABLE search_chunk;
        DROP TABLE search_progress;
        DELETE FROM migration WHERE number > 15;
    """
    return schema_16 + after


@pytest.fixture
def schema_14(schema_15: str) -> str:
    """Bring a queue back to schema 14, in which `save_claim` had a parameter for each column."""
    after = """
        DROP TYPE claimed_row, lane_row, replaced_lane, work_row, replaced_work, event_row, claim_answer;
        DELETE FROM migration WHERE number > 14;
    """
    return schema_15 + after


@pytest.fixture
def schema_13(schema_14: str) -> str:
    """Bring a queue back to schema 13, in which no worker was paused."""
    after = """
        DROP INDEX ended_failed;
        ALTER TABLE ended DROP COLUMN failed;
        ALTER TABLE queue_state DROP COLUMN forecasts;
        ALTER TABLE worker DROP COLUMN version, DROP COLUMN started_at;
        ALTER TABLE worker DROP COLUMN paused_by, DROP COLUMN paused_why, DROP COLUMN paused_at;
        DELETE FROM migration WHERE number > 13;
    """
    return schema_14 + after


@pytest.fixture
def schema_12(schema_13: str) -> str:
    """Bring a queue back to schema 12, which had no history."""
    after = """
        DROP TABLE history;
        DROP TABLE history_cursor;
        DELETE FROM migration WHERE number > 12;
    """
    return schema_13 + after


@pytest.fixture
def schema_11(schema_12: str) -> str:
    """Bring a queue back to schema 11, which knew no groups."""
    (view,) = re.findall(r"CREATE VIEW document_view .*?;", MIGRATIONS[6].sql, re.DOTALL)
    after = f"""
        DROP VIEW document_view;
        DROP INDEX document_grouped;
        DROP TABLE lane_group;
        DROP FUNCTION group_number;
        DROP TABLE customer_group;
        ALTER TABLE lane DROP COLUMN group_turn;
        ALTER TABLE document DROP COLUMN group_name;
        {view.replace("document.line", "document.lane")}
        ALTER TABLE scheduler_state RENAME COLUMN scheduler_json TO scheduler;
        DELETE FROM migration WHERE number > 11;
    """  # noqa: S608 - a view of ours
    return schema_12 + after


@pytest.fixture
def schema_10(schema_11: str) -> str:
    """Bring a queue back to schema 10, in which lanes were charged costs alone."""
    after = """
        DROP INDEX attempt_ended;
        DROP TABLE customer_work;
        ALTER TABLE scheduler_state RENAME COLUMN scheduler TO state;
        UPDATE scheduler_state SET state = (state::jsonb - 5 - 4)::text;
        ALTER TABLE worker DROP COLUMN slots;
        ALTER TABLE lane_log DROP COLUMN charged, DROP COLUMN worked;
        ALTER TABLE document DROP COLUMN charged;
        UPDATE policy SET settings = (settings::jsonb - 'charge' - 'max_share' - 'share_idle_after')::text;
        DELETE FROM migration WHERE number > 10;
    """
    return schema_11 + after


@pytest.fixture
def schema_9(schema_10: str) -> str:
    """Bring a queue back to schema 9, in which claims did not combine."""
    after = """
        DROP PROCEDURE take_claim_turn;
        DROP TABLE claim_request;
        DELETE FROM migration WHERE number > 9;
    """
    return schema_10 + after


@pytest.fixture
def schema_8(schema_9: str) -> str:
    """Bring a queue back to schema 8, the last one with the old names."""
    after = """
        UPDATE lane_log SET kind = 'returned' WHERE kind = 'requeued';
        CREATE VIEW whole AS SELECT document.id FROM document;
        ALTER SEQUENCE lane_log_number_seq RENAME TO line_change_number_seq;
        ALTER SEQUENCE event_outbox_id_seq RENAME TO news_id_seq;
        ALTER TABLE queue_state RENAME CONSTRAINT queue_state_pkey TO queue_pkey;
        ALTER TABLE queue_state RENAME CONSTRAINT queue_state_one_check TO queue_one_check;
        ALTER TABLE scheduler_state RENAME CONSTRAINT scheduler_state_pkey TO turns_pkey;
        ALTER TABLE crash_sentinel RENAME CONSTRAINT crash_sentinel_pkey TO alive_pkey;
        ALTER TABLE crash_sentinel RENAME CONSTRAINT crash_sentinel_one_check TO alive_one_check;
        ALTER TABLE requeued RENAME CONSTRAINT requeued_pkey TO returned_pkey;
        ALTER TABLE lane RENAME CONSTRAINT lane_pkey TO line_pkey;
        ALTER TABLE event_sequence RENAME CONSTRAINT event_sequence_pkey TO numbering_pkey;
        ALTER TABLE event_sequence RENAME CONSTRAINT event_sequence_one_check TO numbering_one_check;
        ALTER TABLE idempotency_key RENAME CONSTRAINT idempotency_key_pkey TO key_pkey;
        ALTER TABLE api_key RENAME CONSTRAINT api_key_pkey TO access_key_pkey;
        ALTER INDEX document_lane RENAME TO document_line;
        ALTER INDEX lane_sort RENAME TO line_place;
        ALTER INDEX lane_age RENAME TO line_age;
        ALTER INDEX lane_empty RENAME TO line_empty;
        ALTER INDEX lane_log_xid RENAME TO line_change_xid;
        ALTER INDEX event_outbox_xid RENAME TO news_xid;
        ALTER INDEX idempotency_key_at RENAME TO key_at;
        ALTER INDEX event_operator RENAME TO event_by_hand;
        ALTER INDEX event_customer_operator RENAME TO event_by_hand_of;
        ALTER TABLE queue_state RENAME TO queue;
        ALTER TABLE scheduler_state RENAME COLUMN state TO standing;
        ALTER TABLE scheduler_state RENAME TO turns;
        ALTER TABLE claim_lock RENAME TO claiming;
        ALTER TABLE cap_lock RENAME TO capping;
        ALTER TABLE crash_sentinel RENAME TO alive;
        ALTER VIEW document_view RENAME COLUMN lane TO line;
        ALTER TABLE document RENAME COLUMN lane TO line;
        ALTER TABLE document RENAME COLUMN last_outcome TO settled;
        ALTER TABLE document RENAME COLUMN lease_check_at TO look_at;
        ALTER TABLE requeued RENAME COLUMN lane TO line;
        ALTER TABLE requeued RENAME TO returned;
        ALTER TABLE running RENAME COLUMN lease_check_at TO look_at;
        ALTER TABLE lane RENAME COLUMN scheduled TO filed;
        ALTER TABLE lane RENAME COLUMN scan_from TO front;
        ALTER TABLE lane RENAME COLUMN sort_key TO place;
        ALTER TABLE lane RENAME COLUMN sort_tie TO tie;
        ALTER TABLE lane RENAME TO line;
        ALTER TABLE limits RENAME COLUMN tat TO whole_at;
        ALTER TABLE lane_log RENAME TO line_change;
        ALTER TABLE event_outbox RENAME TO news;
        ALTER TABLE event_sequence RENAME TO numbering;
        ALTER TABLE idempotency_key RENAME TO key;
        ALTER TABLE api_key RENAME TO access_key;
        DROP FUNCTION require_claimed;
        DELETE FROM migration WHERE number > 8;
    """
    return schema_9 + after


@pytest.fixture
def before_work(schema_8: str) -> str:
    """What makes a queue one from before it was kept when work began."""
    after = """
        ALTER TABLE line DROP COLUMN out_of_turn_at;
        ALTER TABLE turns RENAME COLUMN deadlines TO bounds;
        DROP VIEW document_view;
        ALTER TABLE worker DROP COLUMN at_work;
        ALTER TABLE attempt DROP COLUMN began_at, DROP COLUMN worked;
        ALTER TABLE document DROP COLUMN began_at, DROP COLUMN worked;
        DELETE FROM migration WHERE number > 6;
    """
    return schema_8 + after


@pytest.fixture
def before_doubt(before_work: str) -> str:
    """What makes a queue one from before leases and delays of wrong clocks were doubted."""
    after = """
        DROP INDEX document_delayed;
        ALTER TABLE document DROP COLUMN leased_at, DROP COLUMN delayed_at, DROP COLUMN doubted_at;
        ALTER TABLE queue DROP COLUMN maintenance;
        DELETE FROM migration WHERE number > 5;
    """
    return before_work + after


@pytest.fixture
def before_fronts(before_doubt: str) -> str:
    """What makes a queue one from before there were fronts."""
    after = """
        CREATE INDEX document_customer ON document (customer, seq);
        DROP INDEX document_line;
        ALTER TABLE returned RENAME TO waiting;
        ALTER INDEX returned_pkey RENAME TO waiting_pkey;
        INSERT INTO waiting (customer, line, seq, ready_at, cost)
        SELECT customer, line, seq, ready_at, cost FROM document WHERE state = 'waiting' ON CONFLICT DO NOTHING;
        ALTER TABLE line DROP COLUMN front;
        UPDATE line_change SET kind = 'joined' WHERE kind = 'returned';
        UPDATE line_change SET n = NULL WHERE kind IN ('left', 'emptied');
        DELETE FROM migration WHERE number > 4;
    """
    return before_doubt + after
