"""Claims of several processes on one file, claims that fail, and files of older versions."""

import json
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest

from empty_queue import empty_queue
from inturn import Claim, DocumentState, NewDocument, Queue
from inturn.clock import ManualClock
from inturn.errors import StoreVersionError
from inturn.policy import Charge, Order, Policy, TurnPolicy
from inturn.store import Store
from inturn.store_types import ClaimRequest, DocumentFilter, Operator
from inturn.stores import migrate
from inturn.stores.memory import MemoryStore
from inturn.stores.sqlite import SqliteStore, schema
from inturn.stores.sqlite.queries import SqliteQueries
from inturn.values import seconds
from sqlite_file import direct, writer_of

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
    "SELECT policy, ordered, scheduler_state, fence, paused_by, next_due.start_by FROM queue_state, next_due",
    "SELECT 1 FROM queue_state WHERE EXISTS (SELECT 1 FROM next_due WHERE 5 >= min(start_by, lease, due, rate))",
    "SELECT policy, ordered, scheduler_state, fence, paused_by, deadline.start_by FROM queue_state, deadline",
]
"""The first statements of claims, submits and reads with schemas 5 to 8, and of claims with schemas 9 and 10."""


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
    empty_queue(path, clock)

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


def fill(store: Store) -> None:
    for number in range(6):
        Queue(store).submit(f"customer {number}", [NewDocument("x")] * (4 + 5 * number), now=1)


def claim(store: Store, limit: int) -> list[int]:
    return [claimed.document.seq for claimed in Queue(store).claim("worker", limit, now=2)]


def claim_from_memory(limits: list[int]) -> list[list[int]]:
    """What a store in memory gives for the same claims."""
    memory = MemoryStore(ManualClock())
    fill(memory)
    return [claim(memory, limit) for limit in limits]


# -- several processes ------------------------------------------------------------------------------------------------


def test_two_processes_that_claim_in_turn_keep_one_order(opened: Callable[[], SqliteStore]) -> None:
    limits = [1, 7, 2, 2, 1, 13, 1, 1, 5, 20]
    stores = [opened() for _ in range(2)]
    fill(stores[0])
    taken = [claim(store, limit) for store, limit in zip(cycle(stores), limits, strict=False)]
    assert taken == claim_from_memory(limits)


def test_event_numbers_of_two_processes_stay_unique(opened: Callable[[], SqliteStore]) -> None:
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
def test_claim_sees_all_that_was_written_since_the_last(
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


def test_claim_sees_a_write_of_the_same_commit(store: SqliteStore) -> None:
    """A pause and a claim share a commit."""
    one_by_one(store, 2)
    request = ClaimRequest("worker", 1, 1_000_000)
    works: list[Callable[[], object]] = [
        lambda: store._queries.execute("pause", by="anna", why="a test"),  # noqa: SLF001 - calls of two threads
        lambda: store._ack_and_claim((), request, START),  # noqa: SLF001 - that share a commit just so
    ]
    _, (statuses, make_claims) = store._writer.run_all(works)  # type: ignore[misc]  # noqa: SLF001 - by chance alone
    assert (statuses, make_claims()) == ((), ())


@pytest.mark.parametrize("limit", [1, 2])
def test_claim_finds_an_expired_lease_though_nothing_was_written(
    store: SqliteStore, clock: ManualClock, limit: int
) -> None:
    store.set_policy(Policy(turns=TurnPolicy(charge=Charge.COST)), ANNA)  # a lost lease costs no turn
    request = ClaimRequest("worker", limit, seconds(5))
    first = store.claim(request)[0]
    store.claim(ClaimRequest("worker", limit, seconds(60)))
    clock.advance(seconds(5))
    again = store.claim(request)[0]
    assert (again.document.id, again.document.attempt) == (first.document.id, 2)


def test_freed_cap_opens_the_lane_in_the_same_call(store: SqliteStore) -> None:
    store.change_customer("acme", {"cap": 1}, ANNA)
    store.change_customer("beta", {"paused": True}, ANNA)
    taken = one_by_one(store, 4)
    assert [claimed.document.seq for claimed in taken] == [1, 2, 3, 4]
    assert len(one_by_one(store, 1)) == 0


@pytest.mark.parametrize("invalid", ["stale", "repeated"])
def test_outcome_that_changes_nothing_is_answered_and_the_next_one_claimed(store: SqliteStore, invalid: str) -> None:
    (claimed,) = one_by_one(store, 1)
    queue = Queue(store)
    if invalid == "repeated":
        queue.finish(claimed)
    outcome = queue.done(claimed if invalid == "repeated" else claimed._replace(fence=99))
    verdicts, after = queue.ack_and_claim([outcome], "worker", 1)
    assert verdicts == (invalid,)
    assert [claim.document.customer for claim in after] == ["beta"]


def test_failed_claim_leaves_nothing(opened: Callable[[], SqliteStore], monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened()
    fill(store)
    taken = [claim(store, 3)]
    with monkeypatch.context() as broken:

        def fails(*_: object) -> None:
            raise RuntimeError("after the lanes were written")

        broken.setattr(SqliteQueries, "_insert_events", fails)
        with pytest.raises(RuntimeError, match="after the lanes"):
            claim(store, 25)
    taken += [claim(store, limit) for limit in (1, 8, 30)]
    assert store.recount(repair=False) == ()
    assert taken == claim_from_memory([3, 1, 8, 30])


# -- the order of memory ----------------------------------------------------------------------------------------------


def test_claims_see_documents_that_leave_or_come_back(opened: Callable[[], SqliteStore]) -> None:
    stores: list[Store] = [MemoryStore(ManualClock()), opened()]
    claimed_seqs: list[list[int]] = [[], []]
    for store, taken in zip(stores, claimed_seqs, strict=True):
        queue = Queue(store)
        late = NewDocument("late", delay=seconds(9))
        queue.submit("acme", [NewDocument("x"), NewDocument("x"), late] * 20, now=1)
        for step in range(30):
            now = 2 if step < 15 else seconds(10)
            (claimed,) = queue.claim("worker", now=now)
            taken.append(claimed.document.seq)
            waiting = queue.documents(DocumentFilter(states=frozenset({DocumentState.WAITING}))).items
            if step % 5 == 2:
                queue.cancel(waiting[-2].id, Operator("test", "the one after the head"), now=now)
            if step % 5 == 4:
                queue.release(claimed, now=now)
    assert claimed_seqs[0] == claimed_seqs[1]


def test_more_customers_than_are_read_at_once_keep_their_order(opened: Callable[[], SqliteStore]) -> None:
    claimed_seqs = []
    for store in (MemoryStore(ManualClock()), opened()):
        for number in range(150):
            Queue(store).submit(f"customer {number}", [NewDocument("x")] * (1 + number % 4), now=1)
        claimed_seqs.append([claim(store, limit) for limit in (1, 1, 40, 3, 90, 1, 60, 150)])
    assert claimed_seqs[0] == claimed_seqs[1]


def test_prune_deletes_the_oldest_first_however_they_ended(store: SqliteStore, clock: ManualClock) -> None:
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


def test_claim_that_would_start_what_does_not_wait_is_not_committed(store: SqliteStore) -> None:
    with direct(store.path) as connection:
        connection.execute("UPDATE document SET state = 'cancelled' WHERE seq = 1")
    with pytest.raises(AssertionError, match="of 3 documents that head their lanes only 2 wait"):
        store.claim(ClaimRequest("worker", 3, 1_000_000))
    assert store.counts(DocumentFilter()).states == {"cancelled": 1, "waiting": 19}
    with direct(store.path) as connection:
        connection.execute("UPDATE document SET state = 'waiting'")
    assert [claim.document.seq for claim in store.claim(ClaimRequest("worker", 2, 1_000_000))] == [1, 11]


# -- files of older versions ------------------------------------------------------------------------------------------


def test_file_of_schema_4_goes_on_and_ended_documents_are_pruned(
    store: SqliteStore, path: Path, before_clock: str, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    Queue(store).finish(one_by_one(store, 3)[-1])
    store.recount(repair=False)
    with direct(store.path) as connection:
        connection.execute(before_clock)
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
def test_lanes_that_stood_in_the_queues_row_alone_go_on(
    store: SqliteStore, path: Path, schema_7: str, clock: ManualClock, order: Order
) -> None:
    """Schema 7 could leave lanes that were only taken from in the queue's row."""
    turns = TurnPolicy(order, charge=Charge.COST, max_share=1.0)
    store.set_policy(Policy(turns=turns), ANNA)
    one_by_one(store, 1)
    connection = writer_of(store)
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
    expected.set_policy(Policy(turns=turns), ANNA)
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
        store.write(lambda queries: queries.connection.execute(statement).fetchall())
