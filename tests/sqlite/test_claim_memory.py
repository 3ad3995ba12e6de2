"""What a process remembers between its claims holds only while `queue.version` says so, in the claim's transaction."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from inturn import Claim, NewDocument, Queue
from inturn.clock import ManualClock
from inturn.errors import StoreVersionError
from inturn.model import seconds
from inturn.policy import Order, Policy, TurnPolicy
from inturn.store import ClaimRequest, Operator
from inturn.stores import migrate
from inturn.stores.memory import MemoryStore
from inturn.stores.sqlite import SqliteStore, schema

ANNA = Operator("anna", "a test")
START = seconds(1_700_000_000)
OLD_STATEMENTS = [
    (
        "SELECT fence, event, policy, ordered, turns, unsaved, paused_by, version, EXISTS (SELECT 1 FROM line_change),"
        " EXISTS (SELECT 1 FROM returned), next_due.start_by FROM queue, next_due"
    ),
    (
        "SELECT paused_by IS NULL AND (EXISTS (SELECT 1 FROM line_change) OR EXISTS (SELECT 1 FROM line WHERE filed = 1"
        ")) FROM queue"
    ),
    "UPDATE queue SET seq = seq + 1 RETURNING seq, policy",
    "SELECT id, sha256, scope, name, customer, made_at, expires_at, used_at, replaces FROM access_key WHERE id = 'k'",
    "SELECT customer, level, sum(n) FROM line_length GROUP BY 1, 2",
    "SELECT * FROM whole WHERE id = 'x'",
]
"""The first statements of claims, submits and reads of the versions with schemas 5 to 8."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def opened(path: Path, clock: ManualClock) -> Iterator[Callable[[], SqliteStore]]:
    """Opens the file once more, as another process would."""
    stores: list[SqliteStore] = []

    def another() -> SqliteStore:
        stores.append(SqliteStore(path, clock))
        return stores[-1]

    yield another
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[[], SqliteStore]) -> SqliteStore:
    store = opened()
    for customer in ("acme", "beta"):
        Queue(store).submit(customer, [NewDocument("x")] * 10)
    return store


def one_by_one(store: SqliteStore, n: int, done: Claim | None = None) -> list[Claim]:
    """Exchange one for the next, so many times."""
    queue, taken = Queue(store), [] if done is None else [done]
    for _ in range(n):
        outcomes = [queue.done(claim) for claim in taken[-1:]]
        taken += queue.ack_and_claim(outcomes, "worker", 1).claimed
    return taken


NO_OPS: dict[str, Callable[[Queue, Claim], object]] = {
    "an outcome that was recorded before": lambda queue, claimed: queue.finish(claimed),
    "a stale outcome": lambda queue, claimed: queue.store.ack_and_claim([queue.done(claimed._replace(fence=99))], None),
    "a submit that was made before": lambda queue, _: queue.submit("acme", [NewDocument("x")], key="again"),
    "a prune with nothing old": lambda queue, _: queue.store.prune(0, limit=10),
    "a cancel of what has ended": lambda queue, claimed: queue.store.cancel([claimed.document.id], ANNA),
    "a heartbeat of a claim that ended": lambda queue, claimed: queue.heartbeat([claimed], lease=1_000_000),
}


@pytest.mark.parametrize("no_op", NO_OPS)
def test_claim_sees_other_processes_after_a_write_that_changed_nothing(
    opened: Callable[[], SqliteStore], no_op: str
) -> None:
    one, other = Queue(opened()), Queue(opened())
    one.submit("acme", [NewDocument("x")], key="again")
    (claimed,) = one.claim("worker", 1)
    one.finish(claimed)
    assert one.claim("worker", 1) == ()
    other.submit("beta", [NewDocument("x")])
    NO_OPS[no_op](one, claimed)
    assert [claim.document.customer for claim in one.claim("worker", 1)] == ["beta"]


def test_event_numbers_stay_unique_after_a_write_that_changed_nothing(opened: Callable[[], SqliteStore]) -> None:
    one, other = Queue(opened()), Queue(opened())
    one.submit("acme", [NewDocument("x")] * 2)
    (claimed,) = one.claim("worker", 1)
    other.submit("beta", [NewDocument("x")])
    other.claim("worker", 1)
    one.store.prune(0, limit=10)
    one.ack_and_claim([one.done(claimed)], "worker", 1)
    numbers = [event.number for event in one.store.events(0, limit=100)]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("who", ["another", "itself"])
def test_whatever_anybody_writes_makes_the_next_claim_look(
    store: SqliteStore, opened: Callable[[], SqliteStore], who: str
) -> None:
    other = opened() if who == "another" else store
    one_by_one(store, 3)
    other.pause(ANNA)
    assert store.claim(ClaimRequest("worker", 1, 1_000_000)) == ()
    other.resume(ANNA)
    (claimed,) = store.claim(ClaimRequest("worker", 1, 1_000_000))
    assert claimed.document.customer == "beta"
    Queue(other).submit("gamma", [NewDocument("x")])
    taken = [claimed.document.customer for claimed in one_by_one(store, 3)]
    assert "gamma" in taken


def test_what_was_written_in_the_same_commit_is_seen(store: SqliteStore) -> None:
    """Two callers' works share a commit: an exchange, then a pause."""
    one_by_one(store, 2)
    request = ClaimRequest("worker", 1, 1_000_000)
    works: list[Callable[[], object]] = [
        lambda: store._ack_and_claim((), request, START),
        lambda: store._queries.fetch_one("pause", by="anna", why="a test"),
    ]
    store._writer.run_all(works)
    assert store.claim(request) == ()


@pytest.mark.parametrize("limit", [1, 2])
def test_a_lease_that_ends_is_noticed_though_nobody_wrote(store: SqliteStore, clock: ManualClock, limit: int) -> None:
    request = ClaimRequest("worker", limit, seconds(5))
    first = store.claim(request)[0]
    store.claim(ClaimRequest("worker", limit, seconds(60)))
    clock.advance(seconds(5))
    again = store.claim(request)[0]
    assert (again.document.id, again.document.attempt) == (first.document.id, 2)


def test_a_freed_cap_opens_the_line_in_the_same_exchange(store: SqliteStore) -> None:
    store.change_customer("acme", {"cap": 1}, ANNA)
    store.change_customer("beta", {"paused": True}, ANNA)
    taken = one_by_one(store, 4)
    assert [claimed.document.seq for claimed in taken] == [1, 2, 3, 4]
    assert len(one_by_one(store, 1)) == 0


@pytest.mark.parametrize("invalid", ["stale", "repeated"])
def test_an_outcome_that_comes_to_nothing_is_judged_and_the_next_one_claimed(store: SqliteStore, invalid: str) -> None:
    (claimed,) = one_by_one(store, 1)
    queue = Queue(store)
    if invalid == "repeated":
        queue.finish(claimed)
    outcome = queue.done(claimed if invalid == "repeated" else claimed._replace(fence=99))
    verdicts, after = queue.ack_and_claim([outcome], "worker", 1)
    assert verdicts == (invalid,)
    assert [claim.document.customer for claim in after] == ["beta"]


# -- files of other versions ------------------------------------------------------------------------------------------


def test_a_file_from_before_goes_on_and_what_ended_is_still_pruned(
    store: SqliteStore, path: Path, before_clock: str, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    Queue(store).finish(one_by_one(store, 3)[-1])
    store.recount(repair=False)
    store._queries.connection.execute(before_clock)
    store.close()
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:4])
        assert migrate(str(path)) == []
    assert migrate(str(path)) == [migration.name for migration in schema.MIGRATIONS[4:]]
    again = SqliteStore(path, clock)
    assert again.throughput(START).finished == 3
    assert again.prune(START + 1, limit=10).documents == 3
    assert again.recount(repair=False) == ()
    again.close()


@pytest.mark.parametrize("order", Order)
def test_lines_that_only_the_queues_row_knew_go_on(
    store: SqliteStore, path: Path, schema_7: str, clock: ManualClock, order: Order
) -> None:
    """The version before left lines that were only taken from in the queue's row."""
    store.set_policy(Policy(turns=TurnPolicy(order)), ANNA)
    one_by_one(store, 1)
    connection = store._queries.connection
    columns = "customer, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, scheduled, scan_from"
    old_columns = columns.replace("scheduled, scan_from", "filed, front")
    old_rows = connection.execute(f"SELECT {columns}, sort_key, sort_tie FROM lane").fetchall()  # noqa: S608 - columns
    taken = one_by_one(store, 4)
    new_rows = connection.execute(f"SELECT {columns} FROM lane").fetchall()  # noqa: S608 - columns
    connection.execute(schema_7)
    connection.execute("UPDATE queue SET unsaved = ?", (json.dumps(new_rows),))
    old_rows = [row for row in old_rows if row[:2] in {new[:2] for new in new_rows}]
    places = ", ".join("?" * 13)
    connection.executemany(f"INSERT OR REPLACE INTO line ({old_columns}, place, tie) VALUES ({places})", old_rows)  # noqa: S608 - columns
    expected = MemoryStore(clock)
    for customer in ("acme", "beta"):
        Queue(expected).submit(customer, [NewDocument("x")] * 10)
    expected.set_policy(Policy(turns=TurnPolicy(order)), ANNA)
    rest = [claim.document.seq for claim in Queue(expected).claim("worker", 20)][1 + len(taken) :]
    migrate(str(path))
    again = SqliteStore(path, clock)
    assert again.recount(repair=False) == ()
    assert [claim.document.seq for claim in Queue(again).claim("worker", 20)] == rest
    again.close()


@pytest.mark.parametrize("statement", OLD_STATEMENTS)
def test_a_process_of_an_older_version_is_refused_with_advice(store: SqliteStore, statement: str) -> None:
    one_by_one(store, 3)
    with pytest.raises(StoreVersionError, match="upgraded by a newer version of Inturn: stop this process"):
        store._write(lambda: store._queries.connection.execute(statement).fetchall())


def test_what_ended_first_is_pruned_first_however_it_ended(store: SqliteStore, clock: ManualClock) -> None:
    queue = Queue(store)
    first, last = (receipt.id for receipt in queue.submit("gamma", [NewDocument("x")] * 2))
    queue.cancel(first, ANNA)
    done = []
    for _ in range(2):
        clock.advance(1)
        done += queue.claim("worker")
        queue.finish(done[-1])
    clock.advance(1)
    queue.cancel(last, ANNA)
    assert store.prune(START + seconds(1), limit=2).documents == 2
    stored = {document.id for document in queue.documents().items}
    assert stored.isdisjoint({first, done[0].document.id})
    assert stored.issuperset({last, done[1].document.id})
