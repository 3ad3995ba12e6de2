"""Requests for claims that nobody serves, and sessions that fail or die while others wait for them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from claim_turn import MINUTE, START, Claimer, Turn, calls_for, seqs, submit
from inturn.clock import ManualClock
from inturn.errors import StoreBusyError, StoreError
from inturn.store_types import ClaimRequest
from inturn.stores.postgres import PostgresStore
from inturn.stores.postgres.queries import QUERIES
from services import needs_postgres
from waiting import wait_until

pytestmark = needs_postgres


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url, ManualClock(START))) as opened:
        yield opened


# -- requests that are not served -------------------------------------------------------------------------------------


def ask(turn: Turn, limit: int, pid: int | None = None, age: int = 0) -> int:
    """Leave a request as a session that waits does: the test's own, or one that is gone."""
    asking = turn.admin.info.backend_pid if pid is None else pid
    turn.admin.execute(
        "INSERT INTO claim_request (pid, ticket, worker, max_documents, lease, now, asked_at)"
        " VALUES (%s, 1, 'waits', %s, %s, %s, clock_timestamp() - %s * interval '1 second')",
        (asking, limit, MINUTE, START, age),
    )
    return asking


def test_request_older_than_20_seconds_is_not_served(store: PostgresStore, claimers: list[Claimer], turn: Turn) -> None:
    submit(store, "acme", 10)
    for pid, age in ((-1, 21), (-2, 19)):
        ask(turn, 2, pid, age)
    assert seqs(claimers[0].claim(1)) == [3]
    assert turn.admin.execute("SELECT pid, answer FROM claim_request ORDER BY pid").fetchall() == [
        (-2, [1, 2]),
        (-1, None),
    ]


def test_requests_of_sessions_that_are_gone_cost_nothing(store: PostgresStore, turn: Turn) -> None:
    """A claim reads no lanes for them, and a sweep forgets them."""
    for number in range(20):
        submit(store, f"customer {number}", 1, number)
    store.apply_lane_log()
    for pid, age in ((-1, 61), (-2, 3_600), (-3, 30)):
        ask(turn, 5, pid, age)
    lanes = store.claim_transaction(lambda queries: queries.fetch_all("first_lanes", limit=2, more=1, queue="default"))  # type: ignore[attr-defined]
    assert len(lanes) == 2 + 5 + 1
    store.sweep()
    assert turn.pids() == [-3]


def test_process_that_is_alone_claims_without_the_turn(
    store: PostgresStore, claimers: list[Claimer], turn: Turn
) -> None:
    submit(store, "acme", 10)
    taken = [seqs(claimers[0].claim(1)) for _ in range(2)]
    with turn.held(), ThreadPoolExecutor(1) as pool:
        taken.append(seqs(pool.submit(claimers[0].claim, 1).result(60)))
    assert taken == [[1], [2], [3]]
    claimers[1].claim(1)
    claimers[0].claim(1)  # finds out that it is not alone
    with turn.held():
        (future,) = turn.wait_for(lambda: claimers[0].claim(1))
    assert seqs(future.result(60)) == [6]


def test_process_that_is_alone_serves_those_that_wait(
    store: PostgresStore, claimers: list[Claimer], turn: Turn
) -> None:
    submit(store, "acme", 10)
    for _ in range(2):
        claimers[0].claim(1)
    with turn.held():
        (future,) = turn.wait_for(lambda: claimers[1].claim(2))
        assert seqs(claimers[0].claim(1)) == [5]
    assert seqs(future.result(60)) == [3, 4]
    assert turn.is_free()


def test_claim_that_lost_its_lease_before_it_was_read_is_not_given_twice(
    store: PostgresStore, claimers: list[Claimer], turn: Turn
) -> None:
    """The document runs again by then, under a fence of its new worker."""
    submit(store, "acme", 3)
    ask(turn, 2)
    assert seqs(claimers[0].claim(1)) == [3]
    served = QUERIES["served_documents"]
    assert [row[2] for row in turn.admin.execute(served, {"ticket": 1}).fetchall()] == [1, 2]
    again = store.claim(ClaimRequest("other", 1, MINUTE), now=START + MINUTE)
    assert seqs(again) == [1]
    assert turn.admin.execute(served, {"ticket": 1}).fetchall() == []
    assert turn.admin.execute(served, {"ticket": 2}).fetchall() == []


def test_claim_answered_while_its_turn_begins_keeps_its_answer(
    url: str, store: PostgresStore, claimers: list[Claimer], turn: Turn
) -> None:
    """A process that is alone serves it without the turn, and commits after the waiting session got the turn."""
    submit(store, "acme", 3)
    blocked = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock' AND wait_event <> 'advisory'"
    with closing(Turn(url).admin) as alone, alone.transaction():
        with turn.held():
            (future,) = turn.wait_for(lambda: claimers[0].claim(2))
            (pid,) = turn.pids()
            alone.execute("UPDATE claim_request SET answer = '{}' WHERE pid = %s", (pid,))
        wait_until(lambda: turn.admin.execute(blocked, (pid,)).fetchone())
    assert future.result(60) == ()
    assert turn.is_free()


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_session_killed_while_it_waits_takes_nothing_from_the_others(
    store: PostgresStore, claimers: list[Claimer], turn: Turn
) -> None:
    submit(store, "acme", 20)
    with turn.held():
        futures = turn.wait_for(*calls_for(claimers, [2, 3, 4]))
        turn.admin.execute("SELECT pg_terminate_backend(%s)", (turn.pids()[1],))
        wait_until(lambda: len(turn.pids()) == 4)  # its claim was begun anew by another session
    claimed = [seq for future in futures for seq in seqs(future.result(60))]
    assert [len(future.result()) for future in futures] == [2, 3, 4]
    assert len(set(claimed)) == 9
    wait_until(turn.is_free)
    # What was claimed for the dead session comes back when its lease is over.
    later = store.claim(ClaimRequest("later", 100, MINUTE), now=START + MINUTE + 1)
    assert sorted(seqs(later)) == list(range(1, 21))
    assert store.recount(repair=False) == ()


def raise_once(turn: Turn, sqlstate: str) -> None:
    """Let the next transaction that claims fail."""
    turn.admin.execute(
        f"""
        CREATE SEQUENCE times_raised;
        CREATE FUNCTION raise_once() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF nextval('times_raised') = 1 THEN
                RAISE EXCEPTION 'once' USING ERRCODE = '{sqlstate}';
            END IF;
            RETURN NULL;
        END
        $$;
        CREATE TRIGGER raise_once AFTER INSERT ON running FOR EACH STATEMENT EXECUTE FUNCTION raise_once();
        """.encode()
    )


def test_error_of_the_session_that_has_the_turn_leaves_nobody_stuck(
    store: PostgresStore, claimers: list[Claimer], turn: Turn
) -> None:
    submit(store, "acme", 20)
    raise_once(turn, "P0001")
    with turn.held():
        futures = turn.wait_for(*calls_for(claimers, [1, 2, 3]))
    with pytest.raises(StoreError, match="once"):
        futures[0].result(60)
    assert [seqs(future.result(60)) for future in futures[1:]] == [[4, 5], [1, 2, 3]]
    assert turn.is_free()
    assert seqs(claimers[0].claim(2)) == [6, 7]
    assert store.recount(repair=False) == ()


def test_contention_of_the_session_that_has_the_turn_is_tried_again(
    store: PostgresStore, claimers: list[Claimer], turn: Turn
) -> None:
    submit(store, "acme", 20)
    raise_once(turn, "40001")
    with turn.held():
        futures = turn.wait_for(*calls_for(claimers, [1, 2, 3]))
    claimed = [seqs(future.result(60)) for future in futures]
    assert [len(item) for item in claimed] == [1, 2, 3]
    assert sorted(seq for item in claimed for seq in item) == [1, 2, 3, 4, 5, 6]
    assert turn.is_free()


def test_claim_that_waits_too_long_is_refused_and_the_turn_stays_free(
    url: str, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(QUERIES, "settings", QUERIES["settings"].replace(b"20s", b"200ms"))  # type: ignore[arg-type]
    with closing(PostgresStore(url)) as store:
        submit(store, "acme", 2)
        with turn.held(), pytest.raises(StoreBusyError):
            store.claim(ClaimRequest("worker", 1, MINUTE))
        assert turn.is_free()
        turn.admin.execute("UPDATE claim_request SET asked_at = asked_at - interval '20 seconds'")
        assert seqs(store.claim(ClaimRequest("worker", 2, MINUTE))) == [1, 2]
