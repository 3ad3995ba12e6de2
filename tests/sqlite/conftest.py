"""Real processes on one file. Whatever a test leaves running is killed."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

import inturn
from inturn.store import Store
from inturn.stores.sqlite.schema import MIGRATIONS
from store_children import Child, children_of
from waiting import TIMEOUT_SECONDS

ROOT = Path(inturn.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", "TERM": "dumb"}


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Start a function of `sqlite_processes` in a process of its own."""
    yield from children_of("sqlite_processes")


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python with these arguments until it ends."""

    def run(*args: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - our own
            [sys.executable, *map(str, args)],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )

    return run


@pytest.fixture
def sound() -> Callable[[Store, Path], None]:
    """Assert that a store's file is whole and that its counts agree with its documents."""

    def check(store: Store, path: Path) -> None:
        connection = apsw.Connection(str(path))
        try:
            assert connection.execute("PRAGMA integrity_check").get == "ok"
        finally:
            connection.close()
        assert store.recount(repair=False) == ()

    return check


@pytest.fixture
def schema_16() -> str:
    """Bring a file back to schema 16, whose events named no queue."""
    return """
        ALTER TABLE event DROP COLUMN queue;
        PRAGMA user_version = 16;
    """


@pytest.fixture
def schema_15(schema_16: str) -> str:
    """Bring a file back to schema 15, in which a document had one step."""
    (document_view,) = re.findall(r"CREATE VIEW document_view .*?;", MIGRATIONS[14].sql, re.DOTALL)
    columns = {
        "document": ("steps", "first_queue", "step", "ahead", "parent", "part", "split_step"),
        "attempt": ("queue", "step", "ready_at", "result"),
        "named_queue": ("cap", "rate_documents", "rate_per", "manual", "form"),
    }
    drops = [f"ALTER TABLE {table} DROP COLUMN {name};" for table, names in columns.items() for name in names]
    after = f"""
        DROP VIEW document_view;
        DROP INDEX document_part;
        DROP INDEX document_unended_part;
        {"".join(drops)}
        ALTER TABLE named_queue RENAME COLUMN turn_weight TO weight;
        DROP TABLE queue_rate;
        CREATE TABLE old_file (
            document INTEGER NOT NULL, name TEXT NOT NULL, blob TEXT NOT NULL, size INTEGER NOT NULL,
            sha256 TEXT NOT NULL, media_type TEXT, PRIMARY KEY (document, name)
        ) STRICT, WITHOUT ROWID;
        INSERT INTO old_file SELECT document, name, blob, size, sha256, media_type FROM file;
        DROP TABLE file;
        ALTER TABLE old_file RENAME TO file;
        CREATE INDEX file_blob ON file (blob);
        {document_view}
        PRAGMA user_version = 15;
    """  # noqa: S608 - texts of ours
    return schema_16 + after


@pytest.fixture
def schema_14(schema_15: str) -> str:
    """Bring a file back to schema 14, which knew one queue."""
    (document_view,) = re.findall(r"CREATE VIEW document_view .*?;", MIGRATIONS[10].sql, re.DOTALL)
    after = f"""
        CREATE TABLE customer_work (customer INTEGER PRIMARY KEY, unit_time INTEGER, in_flight INTEGER NOT NULL) STRICT;
        INSERT INTO customer_work SELECT customer, unit_time, in_flight FROM queue_work WHERE queue = 0;
        DROP TABLE queue_work;
        DROP TABLE queue_scheduler;
        DROP TABLE named_queue;
        UPDATE queue_state SET scheduler_state = json_remove(scheduler_state, '$[6]');
        ALTER TABLE worker DROP COLUMN queues;
        UPDATE document SET lane = lane % 10 + 10 * (lane / 1000);
        UPDATE requeued SET lane = lane % 10 + 10 * (lane / 1000);
        UPDATE lane_log SET level = level % 10 + 10 * (level / 1000);
        DROP VIEW document_view;
        ALTER TABLE document DROP COLUMN queue;
        {document_view}
        PRAGMA user_version = 14;
    """  # noqa: S608 - a view of ours
    return schema_15 + after


@pytest.fixture
def schema_10(schema_14: str) -> str:
    """Bring a file back to schema 10, which knew no groups, history, pauses of workers or index."""
    (deadline,) = re.findall(r"CREATE VIEW deadline .*?;", MIGRATIONS[9].sql, re.DOTALL)
    (document_view,) = re.findall(r"CREATE VIEW document_view .*?;", MIGRATIONS[8].sql, re.DOTALL)
    after = f"""
        DROP TABLE search_term;
        DROP TABLE search_chunk;
        DROP TABLE search_progress;
        ALTER TABLE worker DROP COLUMN version;
        ALTER TABLE worker DROP COLUMN started_at;
        ALTER TABLE worker DROP COLUMN paused_by;
        ALTER TABLE worker DROP COLUMN paused_why;
        ALTER TABLE worker DROP COLUMN paused_at;
        ALTER TABLE queue_state DROP COLUMN forecasts;
        DROP TABLE history;
        DROP TABLE history_cursor;
        DROP VIEW deadlines;
        DROP VIEW deadline;
        {deadline}
        DROP VIEW document_view;
        DROP INDEX document_grouped;
        DROP TABLE lane_group;
        DROP TABLE customer_group;
        ALTER TABLE lane DROP COLUMN group_turn;
        ALTER TABLE document DROP COLUMN group_name;
        {document_view}
        PRAGMA user_version = 10;
    """
    return schema_14 + after


@pytest.fixture
def schema_9(schema_10: str) -> str:
    """Bring a file back to schema 9, in which lanes were charged costs alone."""
    (view,) = re.findall(r"CREATE VIEW next_due.*?;", MIGRATIONS[4].sql, re.DOTALL)
    after = f"""
        DROP INDEX attempt_ended;
        DROP TABLE customer_work;
        DROP VIEW deadline;
        DROP VIEW next_due;
        {view}
        UPDATE queue_state SET scheduler_state = json_remove(scheduler_state, '$[5]', '$[4]');
        ALTER TABLE worker DROP COLUMN slots;
        ALTER TABLE lane_log DROP COLUMN charged;
        ALTER TABLE lane_log DROP COLUMN worked;
        ALTER TABLE document DROP COLUMN charged;
        UPDATE policy SET settings = json_remove(settings, '$.charge', '$.max_share', '$.share_idle_after');
        PRAGMA user_version = 9;
    """  # noqa: S608 - a view of ours
    return schema_10 + after


@pytest.fixture
def schema_8(schema_9: str) -> str:
    """Bring a file back to schema 8, the last one with the old names."""
    after = """
        DROP VIEW queue;
        DROP VIEW line;
        DROP VIEW line_change;
        DROP VIEW line_length;
        DROP VIEW whole;
        DROP VIEW returned;
        DROP VIEW key;
        DROP VIEW access_key;
        DROP VIEW upgraded;
        DROP VIEW document_view;
        DROP INDEX document_lane;
        DROP INDEX lane_sort;
        DROP INDEX lane_age;
        DROP INDEX idempotency_key_at;
        DROP INDEX event_operator;
        DROP INDEX event_customer_operator;
        UPDATE lane_log SET kind = 'returned' WHERE kind = 'requeued';
        ALTER TABLE queue_state RENAME COLUMN scheduler_state TO turns;
        ALTER TABLE queue_state RENAME TO queue;
        ALTER TABLE document RENAME COLUMN lane TO line;
        ALTER TABLE document RENAME COLUMN last_outcome TO settled;
        ALTER TABLE lane RENAME COLUMN scheduled TO filed;
        ALTER TABLE lane RENAME COLUMN scan_from TO front;
        ALTER TABLE lane RENAME COLUMN sort_key TO place;
        ALTER TABLE lane RENAME COLUMN sort_tie TO tie;
        ALTER TABLE lane RENAME TO line;
        ALTER TABLE limits RENAME COLUMN tat TO whole_at;
        ALTER TABLE lane_log RENAME TO line_change;
        ALTER TABLE requeued RENAME COLUMN lane TO line;
        ALTER TABLE requeued RENAME TO returned;
        ALTER TABLE idempotency_key RENAME TO key;
        ALTER TABLE api_key RENAME TO access_key;
        CREATE INDEX document_line ON document (customer, line);
        CREATE INDEX line_place ON line (level, place, tie) WHERE filed = 1;
        CREATE INDEX line_age ON line (level, head_ready_at, head_seq) WHERE filed = 1;
        CREATE INDEX key_at ON key (at);
        CREATE INDEX event_by_hand ON event (number) WHERE operator IS NOT NULL;
        CREATE INDEX event_by_hand_of ON event (customer, number) WHERE operator IS NOT NULL;
        CREATE VIEW whole AS SELECT document.id FROM document;
        CREATE VIEW document_view AS SELECT document.id FROM document;
        PRAGMA user_version = 8;
    """
    return schema_9 + after


@pytest.fixture
def schema_7(schema_8: str) -> str:
    """Bring a file back to schema 7, in which lanes could stand in the queue's row alone."""
    after = """
        ALTER TABLE line DROP COLUMN out_of_turn_at;
        ALTER TABLE queue ADD COLUMN unsaved TEXT NOT NULL DEFAULT '[]';
        CREATE VIEW line_length AS SELECT customer, level, n FROM line_change WHERE level IS NOT NULL;
        PRAGMA user_version = 7;
    """
    return schema_8 + after


@pytest.fixture
def before_work(schema_7: str) -> str:
    """What makes a file one from before it was kept when work began."""
    after = """
        DROP VIEW document_view;
        ALTER TABLE worker DROP COLUMN at_work;
        ALTER TABLE attempt DROP COLUMN began_at;
        ALTER TABLE attempt DROP COLUMN worked;
        ALTER TABLE document DROP COLUMN began_at;
        ALTER TABLE document DROP COLUMN worked;
        UPDATE document SET old_result = coalesce(result, old_result);
        ALTER TABLE document DROP COLUMN result;
        ALTER TABLE document RENAME COLUMN old_result TO result;
        PRAGMA user_version = 6;
    """
    return schema_7 + after


@pytest.fixture
def before_doubt(before_work: str) -> str:
    """What makes a file one from before leases and delays of wrong clocks were doubted."""
    after = """
        DROP INDEX document_delayed;
        ALTER TABLE document DROP COLUMN leased_at;
        ALTER TABLE document DROP COLUMN delayed_at;
        ALTER TABLE document DROP COLUMN doubted_at;
        ALTER TABLE queue DROP COLUMN maintenance;
        PRAGMA user_version = 5;
    """
    return before_work + after


@pytest.fixture
def before_clock(before_doubt: str) -> str:
    """What makes a file one from before lines could be unsaved."""
    after = """
        DROP VIEW next_due;
        DROP VIEW line_length;
        DROP INDEX document_clock;
        ALTER TABLE queue DROP COLUMN unsaved;
        CREATE INDEX document_due ON document (state, due_at) WHERE due_at IS NOT NULL;
        CREATE INDEX document_ended ON document (finished_at) WHERE finished_at IS NOT NULL;
        CREATE VIEW deadline AS
        SELECT
            (SELECT min(start_by) FROM document INDEXED BY document_start_by
             WHERE start_by IS NOT NULL AND attempt = 0 AND state IN ('waiting', 'delayed')) AS start_by,
            (SELECT min(due_at) FROM document INDEXED BY document_due
             WHERE state = 'running' AND due_at IS NOT NULL) AS lease,
            (SELECT min(due_at) FROM document INDEXED BY document_due
             WHERE state = 'delayed' AND due_at IS NOT NULL) AS due,
            (SELECT min(rate_closed_until) FROM limits WHERE rate_closed_until IS NOT NULL) AS rate;
        PRAGMA user_version = 4;
    """
    return before_doubt + after


@pytest.fixture
def before_fronts(before_clock: str) -> str:
    """What makes a file one from before there were fronts."""
    after = """
        CREATE INDEX document_customer ON document (customer);
        CREATE INDEX document_waiting ON document (customer, line) WHERE state = 'waiting';
        DROP INDEX document_line;
        DROP TABLE returned;
        ALTER TABLE line DROP COLUMN front;
        UPDATE line_change SET kind = 'joined' WHERE kind = 'returned';
        UPDATE line_change SET n = NULL WHERE kind IN ('left', 'emptied');
        PRAGMA user_version = 3;
    """
    return before_clock + after
