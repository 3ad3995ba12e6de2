"""The file itself: its schema, its queries and their plans, its copies, and the size of its log."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

import inturn.stores.sqlite
from empty_queue import empty_queue
from inturn.ids import RandomIds
from inturn.model import NewDocument
from inturn.policy import Policy
from inturn.store_types import ClaimRequest, DocumentFilter, Submission
from inturn.stores import migrate, migrations_sql
from inturn.stores.sql.scheduler_state import INITIAL_STATE
from inturn.stores.sqlite import SqliteStore, connection, schema
from inturn.stores.sqlite.queries import QUERIES
from sqlite_file import direct, writer_of

Sound = Callable[..., None]
STORES = Path(inturn.stores.sqlite.__file__).parents[1]
HOUR = 3_600_000_000
CLAIM_PATH = [
    "queue", "anything_to_claim", "deadlines",
    "lanes_of", "lowest_lanes", "oldest_lanes", "oldest_rested_lanes", "limits_of", "waiting_in_lanes",
    "customer_names",
    "late_to_start", "expired_leases", "due_documents", "next_start_by", "next_lease_check", "next_due", "next_rate",
    "save_lane", "forget_lane", "forget_requeued", "start_document",
    "finish_documents", "lock_documents", "states_of", "capped_of", "record_work", "heartbeat",
    "requeue_document", "release_document", "delay_document", "end_document", "cancel_document", "retry_document",
    "expedite_document", "end_attempts", "end_last_attempt", "forget_attempts", "move_documents", "unended_parts",
    "split_without_unended_parts", "forget_steps", "move_files", "save_tat",
]  # fmt: skip
"""Queries whose cost must not grow with the number of documents or lanes."""
SCRIPTS = {
    "requeue_document", "release_document", "end_document", "cancel_document", "retry_document", "expedite_document",
    "end_attempts", "purge_documents", "rebuild_derived_tables", "move_documents", "forget_steps",
}  # fmt: skip
"""Queries of several statements. PostgreSQL does the same in one."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(empty_queue(path))
    yield opened
    opened.close()


def submission(customer: str, n: int = 1, **given: Any) -> Submission:
    return Submission(customer, RandomIds().make(n, 0), [NewDocument("a document", **given)] * n)


def schema_of(tables: apsw.Connection) -> list[tuple[Any, ...]]:
    return tables.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name").fetchall()


# -- the schema -------------------------------------------------------------------------------------------------------


PLAIN_NAMES_VERSION = 9


def make_old_file(path: Path, version: int) -> None:
    """Make an empty queue of an older schema, as the code of that time did."""
    old = apsw.Connection(str(path))
    for migration in schema.MIGRATIONS[:version]:
        old.execute(migration.sql)
    policy = json.dumps(Policy().to_dict())
    old.execute("INSERT INTO policy VALUES (1, ?, 0, 'inturn', 'a new queue')", (policy,))
    queue, state = ("queue", "turns") if version < PLAIN_NAMES_VERSION else ("queue_state", "scheduler_state")
    columns = f"one, seq, fence, event, policy, ordered, {state}"
    old.execute(f"INSERT INTO {queue} ({columns}) VALUES (1, 0, 0, 0, 1, 'fair', ?)", (INITIAL_STATE,))  # noqa: S608 - columns
    old.pragma("application_id", schema.APPLICATION_ID)
    old.pragma("user_version", version)
    old.close()


@pytest.mark.parametrize("version", range(1, len(schema.MIGRATIONS)))
def test_a_file_of_every_older_schema_gets_the_schema_of_a_new_one(
    store: SqliteStore, tmp_path: Path, version: int
) -> None:
    old = tmp_path / "old.db"
    make_old_file(old, version)
    assert migrate(str(old)) == [migration.name for migration in schema.MIGRATIONS[version:]]
    assert migrate(str(old)) == []
    migrated = apsw.Connection(str(old))
    with direct(store.path) as new:
        assert schema_of(migrated) == schema_of(new)
        for number in ("user_version", "application_id"):
            assert migrated.pragma(number) == new.pragma(number)
    assert migrated.execute("PRAGMA integrity_check").get == "ok"
    migrated.close()
    opened = SqliteStore(old)
    assert opened.submit(submission("acme"))[0].count == 0
    assert len(opened.claim(ClaimRequest("worker", 1, HOUR))) == 1
    opened.close()


def test_a_migration_that_fails_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = schema.MIGRATIONS[0]._replace(name="0002_broken", sql="CREATE TABLE half (x); CREATE TABLE half (x)")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, broken])
        with pytest.raises(inturn.StoreError, match="half already exists"):
            SqliteStore(path)
    left = apsw.Connection(str(path))
    assert schema_of(left) == []
    left.close()
    SqliteStore(path).close()


def test_the_printed_migrations_make_the_same_schema(store: SqliteStore, path: Path) -> None:
    printed = apsw.Connection(":memory:")
    printed.execute(migrations_sql(str(path)))
    with direct(store.path) as tables:
        assert schema_of(printed) == schema_of(tables)
    printed.close()
    assert migrations_sql("memory://") == ""


def test_the_maps_at_the_heads_of_migrations_name_every_table(store: SqliteStore) -> None:
    named = {name for migration in schema.MIGRATIONS[8:] for name in re.findall(r"(?m)^--   (\w+) ", migration.sql)}
    with direct(store.path) as tables:
        names = {name for kind, name, _, _ in schema_of(tables) if kind == "table"}
    assert names <= named


# -- the queries ------------------------------------------------------------------------------------------------------


def test_every_query_is_used_and_every_used_one_is_there() -> None:
    folders = (STORES / "sqlite", STORES / "sql")
    source = "\n".join(path.read_text(encoding="utf-8") for folder in folders for path in folder.glob("*.py"))
    assert [name for name in QUERIES if f'"{name}"' not in source] == []
    asked = set(re.findall(r'\b(?:queries|self)\.(?:fetch|execute)\w*\(\s*"(\w+)"', source))
    assert asked - QUERIES.keys() == set()
    assert len(asked) > 50


@pytest.mark.parametrize("name", QUERIES)
def test_every_statement_fits_the_schema(store: SqliteStore, name: str) -> None:
    assert all(explain(store, statement, "EXPLAIN") for statement in statements_of(name))


def test_queries_of_several_statements_are_few_and_known() -> None:
    assert {name for name in QUERIES if len(statements_of(name)) > 1} == SCRIPTS


class Anything(dict[str, None]):
    """A value for every name."""

    def __missing__(self, _: str) -> None:
        return None


def statements_of(name: str) -> list[str]:
    """The statements of a query; no text in them has a semicolon."""
    return QUERIES[name].split(";")


def explain(store: SqliteStore, statement: str, how: str = "EXPLAIN QUERY PLAN") -> list[Any]:
    return writer_of(store).execute(f"{how} {statement}", Anything()).fetchall()


@pytest.mark.parametrize("name", CLAIM_PATH)
def test_claims_and_transitions_use_indexes(store: SqliteStore, name: str) -> None:
    steps = [step[3] for statement in statements_of(name) for step in explain(store, statement)]
    if name == "queue":
        steps.remove("SCAN limits")  # whether there is any row
    assert [step for step in steps if step.startswith("SCAN document") or "(rowid>" in step] == []
    assert [
        step for step in steps if re.match(r"SCAN (lane|limits|customer|requeued|attempt)\b(?!.*INDEX)", step)
    ] == []
    assert [step for step in steps if "TEMP B-TREE" in step or "AUTOMATIC" in step] == []


# -- copies and the log -----------------------------------------------------------------------------------------------


def test_a_backup_under_load_holds_all_that_was_accepted_before(
    store: SqliteStore, tmp_path: Path, sound: Sound
) -> None:
    store.submit(submission("acme", 2_000))
    accepted: list[str] = []
    begun, enough = threading.Barrier(3), threading.Event()

    def submit_many(customer: str) -> None:
        begun.wait(60)
        while not enough.is_set():
            accepted.extend(receipt.id for receipt in store.submit(submission(customer)))

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(submit_many, customer) for customer in ("acme", "böhm")]
        try:
            begun.wait(60)
            store.claim(ClaimRequest("worker", 10, HOUR))
            before = list(accepted)
            store.backup(tmp_path / "copy.db")
        finally:
            enough.set()
        for writer in writers:
            writer.result(60)
    copy = SqliteStore(tmp_path / "copy.db")
    stored = {document.id for document in copy.documents(DocumentFilter(), limit=100_000).items}
    assert set(before) <= stored
    assert len(stored) == 2_000 + len(stored & set(accepted))
    assert copy.customer("acme").count == 1 - sum(copy.counts(DocumentFilter(customer="acme")).states.values())
    sound(copy, tmp_path / "copy.db")
    copy.close()
    assert {document.id for document in store.documents(DocumentFilter(), limit=100_000).items} >= set(accepted)


CRAMPED = """
import resource, sys
from pathlib import Path
from inturn.errors import StoreError
from inturn.stores.sqlite import SqliteStore

store = SqliteStore(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    store.backup(Path(sys.argv[2]))
except StoreError:
    print("refused")
"""


def test_a_backup_that_fails_leaves_no_file(python: Callable[..., Any], path: Path, tmp_path: Path) -> None:
    store = SqliteStore(path)
    store.submit(submission("acme", 3_000))
    store.close()
    copy = tmp_path / "copy.db"
    done = python("-c", CRAMPED, path, copy)
    assert done.stdout.strip() == "refused", done.stderr
    assert not copy.exists()
    assert not copy.with_name("copy.db-journal").exists()


def test_the_log_stays_bounded_while_readers_come_and_go(
    path: Path, monkeypatch: pytest.MonkeyPatch, sound: Sound
) -> None:
    monkeypatch.setattr(connection, "WAL_CHECKPOINT_PAGES", 500)
    store = SqliteStore(path)
    log, largest = path.with_name("queue.db-wal"), 0
    for n in range(3_000):
        if n % 3 == 2:
            store.claim(ClaimRequest("worker", 2, HOUR))
        else:
            store.submit(submission(f"customer {n % 7}"))
        if n % 100 == 0:
            reader = apsw.Connection(str(path))
            reader.execute("BEGIN; SELECT count(*) FROM document").fetchall()
        elif n % 100 == 40:
            reader.close()
        largest = max(largest, log.stat().st_size)
    assert largest <= 4 * 500 * 4_096 <= connection.MAX_WAL_BYTES == 64 * 1024 * 1024
    sound(store, path)
    store.close()
