"""What a claim did to a line stands in the queue's row at first: everybody has to see it all the same, and nobody may
rely on what he remembers once anybody has written anything.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from inturn import Claimed, NewDocument, Queue
from inturn.clock import ManualClock
from inturn.errors import StoreError
from inturn.model import seconds
from inturn.policy import Order, Policy, TurnPolicy
from inturn.store import ClaimRequest, CustomerFilter, Operator
from inturn.stores import migrate
from inturn.stores.memory import MemoryStore
from inturn.stores.sqlite import SqliteStore, book, schema, single
from inturn.stores.sqlite.moving import SqliteEnd
from inturn.stores.sqlite.tables import QUERIES

ANNA = Operator("anna", "a test")
START = seconds(1_700_000_000)


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


def one_by_one(store: SqliteStore, n: int, done: Claimed | None = None) -> list[Claimed]:
    """Exchange one for the next, so many times."""
    queue, taken = Queue(store), [] if done is None else [done]
    for _ in range(n):
        outcomes = [queue.done(each) for each in taken[-1:]]
        taken += queue.exchange(outcomes, "worker", 1).claimed
    return taken


def unsaved(store: SqliteStore) -> list[list[int]]:
    found = json.loads(store._tables.connection.execute("SELECT unsaved FROM queue").get)
    return sorted([owner, level, waiting] for owner, level, _, _, _, waiting, *_ in found)


def statements(store: SqliteStore, work: Callable[[], object]) -> list[str]:
    """The names of the queries that the work asks."""
    names = {text: name for name, text in QUERIES.items()}
    seen: list[str] = []

    def trace(_: apsw.Cursor, statement: str, __: object) -> bool:
        seen.append(names.get(statement, statement))
        return True

    store._tables.connection.exec_trace = trace
    work()
    store._tables.connection.exec_trace = None
    return seen


# -- kept in the queue's row ------------------------------------------------------------------------------------------


def test_a_line_that_is_only_taken_from_is_not_written(store: SqliteStore) -> None:
    taken = one_by_one(store, 2)
    assert statements(store, lambda: one_by_one(store, 1, taken[-1])) == [
        "BEGIN IMMEDIATE",
        "finish_document",
        "waiting_in_line",
        "start_document",
        "add_event",
        "add_event",
        "save_claim",
        "COMMIT",
    ]
    assert unsaved(store) == [[1, 1, 1], [2, 1, 2]]
    kept = {(owner, level): n for owner, level, n in store._tables.all("line_counts")}
    assert (kept[1, 1], kept[2, 1]) == (2, 3)  # as the first claim, which made the rows, left them


def test_who_only_looks_sees_it(store: SqliteStore, opened: Callable[[], SqliteStore]) -> None:
    one_by_one(store, 3)
    for each in (store, opened()):
        acme, beta = each.customers(CustomerFilter(), limit=10).items
        assert [line.waiting for line in acme.lines] == [1, 2, 2, 2, 1]
        assert [line.waiting for line in beta.lines] == [2, 2, 2, 2, 1]
        assert each.customer("acme") == acme


def test_a_customer_of_whom_nothing_waits_any_more_is_not_among_those_who_wait(store: SqliteStore) -> None:
    one_by_one(store, 3)
    store.purge("acme", ANNA)
    assert [each.name for each in store.customers(CustomerFilter(waiting=True), limit=10).items] == ["beta"]
    assert store.customer("acme").lines == ()


def test_another_process_writes_it_down_before_it_takes(store: SqliteStore, opened: Callable[[], SqliteStore]) -> None:
    memory = MemoryStore(ManualClock(START))
    for customer in ("acme", "beta"):
        Queue(memory).submit(customer, [NewDocument("x")] * 10)
    expected = [claimed.document.seq for claimed in Queue(memory).claim("worker", 9)]
    taken = one_by_one(store, 4)
    before = unsaved(store)
    assert before == [[1, 1, 1], [2, 1, 1]]
    other = opened()
    taken += one_by_one(other, 3)
    assert all(line not in unsaved(other) for line in before)
    taken += one_by_one(store, 2)
    assert [claimed.document.seq for claimed in taken] == expected
    assert store.recount(repair=False) == ()


def test_standings_are_what_the_next_claim_finds_though_the_rows_do_not_tell_yet(store: SqliteStore) -> None:
    memory = MemoryStore(ManualClock(START))
    for customer in ("acme", "beta"):
        Queue(memory).submit(customer, [NewDocument("x")] * 10)
    one_by_one(store, 3)
    Queue(memory).claim("worker", 3)
    assert unsaved(store) != []
    assert store.standings() == memory.standings()


def test_recounts_have_every_line_tell_by_its_own_row(store: SqliteStore) -> None:
    one_by_one(store, 3)
    assert store.recount(repair=False) == ()
    assert unsaved(store) == []


def test_too_many_lines_are_written(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "MAX_UNSAVED", 1)
    one_by_one(store, 1)
    assert len(unsaved(store)) <= 1
    one_by_one(store, 2)
    assert len(unsaved(store)) <= 1
    assert store.recount(repair=False) == ()


def test_as_many_lines_as_may_be_unsaved_fit_the_queues_page(opened: Callable[[], SqliteStore]) -> None:
    store = opened()
    store._tables.connection.execute("PRAGMA synchronous = OFF")
    for number in range(book.MAX_UNSAVED):
        Queue(store).submit(f"customer {number}", [NewDocument("x", cost=1.25)] * 3)
    one_by_one(store, 2 * book.MAX_UNSAVED)
    assert len(unsaved(store)) == book.MAX_UNSAVED
    (length,) = store._tables.connection.execute("SELECT length(turns) + length(unsaved) FROM queue").fetchall()[0]
    assert length < 3_900


def test_a_new_order_holds_for_lines_that_were_unsaved(store: SqliteStore, opened: Callable[[], SqliteStore]) -> None:
    one_by_one(store, 3)
    store.set_policy(Policy(turns=TurnPolicy(order=Order.CLASSIC)), ANNA)
    other = opened()
    assert [claimed.document.seq for claimed in other.claim(ClaimRequest("worker", 3, 1_000_000))] == [3, 12, 13]
    assert other.recount(repair=False) == ()


def test_a_queue_is_not_closed_for_a_move_while_lines_are_unsaved(store: SqliteStore, path: Path) -> None:
    Queue(store).finish(one_by_one(store, 3)[-1])
    end = SqliteEnd(path)
    with end.reading() as reader:
        assert reader.busy().unsettled
    assert end.settle() == ()
    with end.reading() as reader:
        assert not reader.busy().unsettled
    end.let_go()


# -- nothing is read again --------------------------------------------------------------------------------------------


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
        lambda: store._exchange((), request, START),
        lambda: store._tables.one("pause", by="anna", why="a test"),
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


@pytest.mark.parametrize("wrong", ["stale", "repeated"])
def test_an_outcome_that_comes_to_nothing_is_judged_and_the_next_one_claimed(store: SqliteStore, wrong: str) -> None:
    (claimed,) = one_by_one(store, 1)
    queue = Queue(store)
    if wrong == "repeated":
        queue.finish(claimed)
    outcome = queue.done(claimed if wrong == "repeated" else claimed._replace(fence=99))
    verdicts, after = queue.exchange([outcome], "worker", 1)
    assert verdicts == (wrong,)
    assert [each.document.customer for each in after] == ["beta"]


def test_the_short_way_and_the_long_way_leave_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table, row by row."""
    dumps = []
    for way in ("short", "long"):
        clock = ManualClock(START)
        if way == "long":
            monkeypatch.setattr(single, "is_single", lambda *_: False)
        store = SqliteStore(tmp_path / f"{way}.db", clock)
        made = iter(range(1_000))
        for number in range(5):
            ids = [f"00000000-0000-7000-8000-{next(made):012x}" for _ in range(8)]
            queue = Queue(store)
            store.submit(queue.submission(f"customer {number}", [NewDocument("x")] * 8)._replace(ids=ids))
        store.change_customer("customer 1", {"cap": 1, "weight": 2.0}, ANNA)
        taken: list[Claimed] = []
        for step in range(45):
            clock.advance(seconds(40))
            done = [queue.done(each, {"step": step}) for each in taken[-1:]]
            taken += queue.exchange(done, "worker", 1, lease=seconds(300)).claimed
        tables = [name for (name,) in store._tables.connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
        )]  # fmt: skip
        dumps.append({name: store._tables.connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables})  # noqa: S608
        store.close()
    assert dumps[0] == dumps[1]


# -- files of other versions ------------------------------------------------------------------------------------------


def test_a_file_from_before_goes_on_and_what_ended_is_still_pruned(
    store: SqliteStore, path: Path, before_clock: str, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    Queue(store).finish(one_by_one(store, 3)[-1])
    store.recount(repair=False)
    store._tables.connection.execute(before_clock)
    store.close()
    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:4])
        assert migrate(str(path)) == []
    assert migrate(str(path)) == ["0005_fewer_pages"]
    again = SqliteStore(path, clock)
    assert again.pace(START).finished == 3
    assert again.prune(START + 1, limit=10).documents == 3
    assert again.recount(repair=False) == ()
    again.close()


def test_a_process_of_an_older_version_is_refused_before_it_claims(store: SqliteStore) -> None:
    one_by_one(store, 3)
    older = "SELECT turns, deadline.lease FROM queue, deadline"
    with pytest.raises(StoreError, match="deadline"):
        store._write(lambda: store._tables.connection.execute(older))


def test_what_ended_first_is_pruned_first_however_it_ended(store: SqliteStore, clock: ManualClock) -> None:
    queue = Queue(store)
    first, last = (each.id for each in queue.submit("gamma", [NewDocument("x")] * 2))
    queue.cancel(first, ANNA)
    done = []
    for _ in range(2):
        clock.advance(1)
        done += queue.claim("worker")
        queue.finish(done[-1])
    clock.advance(1)
    queue.cancel(last, ANNA)
    assert store.prune(START + seconds(1), limit=2).documents == 2
    kept = {each.id for each in queue.documents().items}
    assert kept.isdisjoint({first, done[0].document.id})
    assert kept.issuperset({last, done[1].document.id})
