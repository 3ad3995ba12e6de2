"""Claims that combine: the session that has the turn claims for all that wait, as if they had claimed one by one."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inturn.clock import ManualClock
from inturn.errors import StoreBusyError, StoreError
from inturn.model import Claim, NewDocument, seconds
from inturn.policy import Order, Policy, PriorityPolicy, TurnPolicy
from inturn.store import ClaimRequest, DocumentFilter, EventKind, Operator, Outcome, OutcomeKind, Store, Submission
from inturn.stores.memory import MemoryStore
from inturn.stores.postgres import PostgresStore, claims
from inturn.stores.postgres.queries import QUERIES
from inturn.stores.postgres.url import parse_url
from services import drop_schema, needs_postgres, new_schema
from state_machine_settings import SOAK
from waiting import wait_until

pytestmark = needs_postgres
Admin = psycopg.Connection[tuple[Any, ...]]
ANNA = Operator("anna", "a test")
START = seconds(1_700_000_000)
MINUTE = seconds(60)
MAX_CLAIMERS = 6
LOCK = "SELECT pg_advisory_lock('claim_lock'::regclass::oid::bigint)"
UNLOCK = "SELECT pg_advisory_unlock('claim_lock'::regclass::oid::bigint)"
COUNT_LOCKS = """
    SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
    WHERE datname = current_database() AND locktype = 'advisory' AND objid = 'claim_lock'::regclass::oid
        AND granted = %s
"""


class Turn:
    """The turn to claim, taken by a session of the test."""

    def __init__(self, url: str) -> None:
        options = f"-c search_path={parse_url(url).schema}"
        self.admin: Admin = psycopg.connect(parse_url(url).conninfo, autocommit=True, options=options)

    @contextmanager
    def held(self) -> Iterator[None]:
        self.admin.execute(LOCK)
        try:
            yield
        finally:
            self.admin.execute(UNLOCK)

    def count(self, *, granted: bool) -> int:
        """How many sessions wait for it, or have it."""
        return int((self.admin.execute(COUNT_LOCKS, (granted,)).fetchone() or (0,))[0])

    def is_free(self) -> bool:
        return self.count(granted=True) + self.count(granted=False) == 0

    def version(self) -> int:
        """How many transactions have written lanes."""
        return int((self.admin.execute("SELECT max(version) FROM scheduler_state").fetchone() or (0,))[0])

    def wait_for(self, *calls: Callable[[], Any]) -> "list[Future[Any]]":
        """Start calls while the turn is held, each once those before it wait. Return their futures once all wait."""
        pool = ThreadPoolExecutor(len(calls))
        futures: list[Future[Any]] = []
        for call in calls:
            futures.append(pool.submit(call))
            wait_until(lambda: self.count(granted=False) == len(futures) or futures[-1].done())
            assert not futures[-1].done(), futures[-1].result()
        pool.shutdown(wait=False)
        return futures

    def pids(self) -> list[int]:
        """The sessions that have asked, in the order in which they did."""
        return [pid for (pid,) in self.admin.execute("SELECT pid FROM claim_request ORDER BY asked_at").fetchall()]


@pytest.fixture
def turn(url: str) -> Iterator[Turn]:
    turn = Turn(url)
    yield turn
    turn.admin.close()


@pytest.fixture
def stores(url: str) -> Iterator[list[PostgresStore]]:
    """A store for each claimer, as if in processes of their own."""
    opened = [PostgresStore(url, ManualClock(START)) for _ in range(MAX_CLAIMERS)]
    yield opened
    for store in opened:
        store.close()


def made_id(n: int) -> str:
    return f"00000000-0000-7000-8000-{n:012x}"


def submit(store: Store, customer: str, n: int, first: int = 0) -> None:
    ids = [made_id(first + number) for number in range(n)]
    store.submit(Submission(customer, ids, [NewDocument("a document")] * n))


def claim(store: Store, limit: int, worker: str = "worker") -> tuple[Claim, ...]:
    """Claim without asking first whether there is anything."""
    request = ClaimRequest(worker, limit, MINUTE)
    return store._claims.claim(request, START) if isinstance(store, PostgresStore) else store.claim(request)


def calls_for(stores: Sequence[PostgresStore], limits: Sequence[int]) -> list[Callable[[], tuple[Claim, ...]]]:
    return [
        lambda store=store, limit=limit, worker=f"worker {n}": claim(store, limit, worker)  # type: ignore[misc]
        for n, (store, limit) in enumerate(zip(stores, limits, strict=False))
    ]


def seqs(claimed: Sequence[Claim]) -> list[int]:
    return [item.document.seq for item in claimed]


def claim_from_memory(n: int, *limits: int) -> list[list[int]]:
    """What a store in memory gives for the same claims of one customer, one after another."""
    memory = MemoryStore(ManualClock(START))
    submit(memory, "acme", n)
    return [seqs(claim(memory, limit)) for limit in limits]


# -- as if one by one -----------------------------------------------------------------------------------------------


CUSTOMER_SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "weight": st.sampled_from([0.5, 1.0, 3.0]),
        "cap": st.integers(1, 3),
        "paused": st.sampled_from([True, False, False]),
    },
)
CUSTOMERS = st.lists(
    st.tuples(st.lists(st.sampled_from([0.1, 1.0, 1.0, 30.0]), max_size=7), CUSTOMER_SETTINGS), min_size=1, max_size=5
)
POLICIES = st.builds(
    lambda order, thresholds, overdue_every: Policy(
        PriorityPolicy(MINUTE, thresholds), TurnPolicy(order, seconds(10), overdue_every)
    ),
    st.sampled_from(Order),
    st.sampled_from([(-1,), (-1, -3), (-100,)]),
    st.sampled_from([2, 3, 10]),
)
PAUSED = st.lists(st.integers(0, 3), max_size=3, unique=True)
OUTCOMES = st.lists(st.sampled_from(["done", "released", "due", "lost", "running"]), max_size=6)


def prepare(
    store: Store,
    clock: ManualClock,
    policy: Policy,
    customers: Sequence[tuple[Sequence[float], dict[str, Any]]],
    outcomes: Sequence[str],
    paused: Sequence[int],
) -> None:
    """Fill a queue: some documents have run before and are due or lost by now, and some have waited for long.

    Some customers are paused in the end, which no claim has seen yet.
    """
    clock.set(START - seconds(30))
    store.set_policy(policy, ANNA)
    given_ids = 0
    for number, (costs, changes) in enumerate(customers):
        if costs:
            ids = [made_id(given_ids + at) for at in range(len(costs))]
            given_ids += len(costs)
            documents = [NewDocument("a document", cost=cost) for cost in costs]
            store.submit(Submission(f"customer {number}", ids, documents))
        if changes:
            store.change_customer(f"customer {number}", changes, ANNA)
        clock.advance(seconds(5))
    clock.set(START - seconds(2))
    for outcome, claimed in zip(outcomes, store.claim(ClaimRequest("before", len(outcomes), MINUTE)), strict=False):
        id_, fence = claimed.document.id, claimed.fence
        recorded = {
            "done": [Outcome(id_, fence, OutcomeKind.DONE, result="0")],
            "released": [Outcome(id_, fence, OutcomeKind.RELEASED)],
            "due": [Outcome(id_, fence, OutcomeKind.FAILED, error="no", retry_in=seconds(1))],
        }.get(outcome, [])
        store.ack_and_claim(recorded, None)
        if outcome == "lost":
            store.heartbeat([(id_, fence)], seconds(1))
    clock.set(START)
    for number in paused:
        store.change_customer(f"customer {number}", {"paused": True}, ANNA)


@settings(
    max_examples=400 if SOAK else 15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(POLICIES, CUSTOMERS, OUTCOMES, PAUSED, st.lists(st.integers(1, 5), min_size=2, max_size=MAX_CLAIMERS))
def test_combined_claims_equal_claims_one_by_one(
    policy: Policy,
    customers: Sequence[tuple[Sequence[float], dict[str, Any]]],
    outcomes: Sequence[str],
    paused: Sequence[int],
    limits: Sequence[int],
) -> None:
    url, clock, other_clock = new_schema(), ManualClock(START), ManualClock(START)
    turn, memory = Turn(url), MemoryStore(other_clock)
    with closing(PostgresStore(url, clock)) as store, closing(PostgresStore(url, clock)) as other:
        prepare(store, clock, policy, customers, outcomes, paused)
        prepare(memory, other_clock, policy, customers, outcomes, paused)
        version = turn.version()
        with turn.held():
            store._claims._is_alone = False
            futures = turn.wait_for(*calls_for([store, other] * MAX_CLAIMERS, limits))
        claimed = [future.result(60) for future in futures]
        asked = list(range(len(limits)))
        expected = {
            n: claim(memory, limits[n], f"worker {n}") for n in [*asked[1:], asked[0]]
        }  # first come has the turn
        assert claimed == [expected[n] for n in asked]
        assert turn.version() <= version + 1
        assert store.scheduler_snapshot() == memory.scheduler_snapshot()
        assert store.events(0, limit=1_000) == memory.events(0, limit=1_000)
        assert store.recount(repair=False) == ()
        assert turn.is_free()
    turn.admin.close()
    drop_schema(url)


def test_claims_at_times_between_which_a_document_falls_due(stores: list[PostgresStore], turn: Turn) -> None:
    """One that must process what is due claims in a transaction of its own, as those before it are not written yet."""
    memory = MemoryStore(ManualClock(START))
    for store in (memory, stores[0]):
        submit(store, "acme", 10)
        (first,) = store.claim(ClaimRequest("before", 1, MINUTE))
        failed = Outcome(first.document.id, first.fence, OutcomeKind.FAILED, error="no", retry_in=seconds(5))
        store.ack_and_claim([failed], None)
    times = [START, START, START + seconds(5), START + seconds(6), START]
    request = ClaimRequest("worker", 2, MINUTE)
    version = turn.version()
    with turn.held():
        futures = turn.wait_for(
            *(
                lambda store=store, at=at: store._claims.claim(request, at)  # type: ignore[misc]
                for store, at in zip(stores[1:], times, strict=False)
            )
        )
    claimed = [future.result(60) for future in futures]
    expected = {n: memory.claim(request, now=times[n]) for n in (1, 0, 3, 4, 2)}  # the last overtakes nobody
    assert claimed == [expected[n] for n in range(5)]
    assert turn.version() == version + 2
    assert first.document.id in [item.document.id for item in claimed[3]]


def test_claims_read_on_where_the_first_lanes_were_closed(stores: list[PostgresStore], turn: Turn) -> None:
    """The first lanes are read in the trip that begins the claim, before the log says that some are closed."""
    memory = MemoryStore(ManualClock(START))
    for store in (stores[0], memory):
        for number in range(8):
            submit(store, f"customer {number}", 3, 3 * number)
        claim(store, 1)
        for number in range(1, 6):
            store.change_customer(f"customer {number}", {"paused": True}, ANNA)
    with turn.held():
        futures = turn.wait_for(*calls_for(stores[1:], [1, 1]))
    expected = [claim(memory, 1, f"worker {n}") for n in (1, 0)]
    assert [futures[n].result(60) for n in (1, 0)] == expected
    assert [items[0].document.customer for items in expected] == ["customer 6", "customer 7"]


def test_one_transaction_serves_all_that_wait(stores: list[PostgresStore], turn: Turn) -> None:
    submit(stores[0], "acme", 30)
    version = turn.version()
    with turn.held():
        futures = turn.wait_for(*calls_for(stores, [1, 2, 3, 4, 5, 6]))
    claimed = [future.result(60) for future in futures]
    assert [len(item) for item in claimed] == [1, 2, 3, 4, 5, 6]
    assert [seqs(item) for item in [*claimed[1:], claimed[0]]] == claim_from_memory(30, 2, 3, 4, 5, 6, 1)
    assert [[item.document.worker for item in items] for items in claimed] == [
        [f"worker {n}"] * (n + 1) for n in range(6)
    ]
    assert turn.version() == version + 1
    started = [event.documents for event in stores[0].events(0, limit=100) if event.kind is EventKind.STARTED]
    assert started == [tuple(item.document.id for item in items) for items in [*claimed[1:], claimed[0]]]


def test_claims_that_find_nothing_are_answered_too(stores: list[PostgresStore], turn: Turn) -> None:
    submit(stores[0], "acme", 3)
    with turn.held():
        futures = turn.wait_for(*calls_for(stores, [5, 2, 5, 5]))
    assert [seqs(future.result(60)) for future in futures] == [[], [1, 2], [3], []]
    assert turn.is_free()


def test_finish_is_recorded_whether_or_not_its_claim_has_to_wait(stores: list[PostgresStore], turn: Turn) -> None:
    submit(stores[0], "acme", 10)
    held = [store.claim(ClaimRequest("worker", 1, MINUTE))[0] for store in stores[:3]]
    finished = [Outcome(item.document.id, item.fence, OutcomeKind.DONE, result="1") for item in held]
    request = ClaimRequest("worker", 2, MINUTE)
    with turn.held():
        futures = turn.wait_for(
            *(
                lambda store=store, outcome=outcome: store.ack_and_claim([outcome], request)  # type: ignore[misc]
                for store, outcome in zip(stores, finished, strict=False)
            )
        )
        assert stores[3].counts(DocumentFilter()).states == {"done": 3, "waiting": 7}
    answers = [future.result(60) for future in futures]
    assert [answer.statuses for answer in answers] == [("recorded",)] * 3
    assert sorted(seq for answer in answers for seq in seqs(answer.claimed)) == [4, 5, 6, 7, 8, 9]


# -- how much one transaction does ------------------------------------------------------------------------------------


def test_claims_beyond_the_limit_of_a_transaction_wait_for_the_next(
    stores: list[PostgresStore], turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "MAX_DOCUMENTS_PER_RUN", 5)
    submit(stores[0], "acme", 40)
    version = turn.version()
    with turn.held():
        futures = turn.wait_for(*calls_for(stores, [3, 3, 3, 8, 2]))
    claimed = [seqs(future.result(60)) for future in futures]
    # The first serves the second, and then itself; the third finds that the fourth wants too much.
    assert [claimed[n] for n in (1, 0, 2, 4, 3)] == claim_from_memory(40, 3, 3, 3, 2, 8)
    assert turn.version() == version + 3
    assert turn.is_free()


def test_claim_larger_than_a_transaction_gets_all_its_documents(stores: list[PostgresStore], turn: Turn) -> None:
    n = claims.MAX_DOCUMENTS_PER_RUN + 10
    submit(stores[0], "acme", n + 5)
    with turn.held():
        futures = turn.wait_for(*calls_for(stores, [1, n, 2]))
    assert [len(future.result(60)) for future in futures] == [1, n, 2]
    assert stores[0].recount(repair=False) == ()


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


def test_request_older_than_20_seconds_is_not_served(stores: list[PostgresStore], turn: Turn) -> None:
    submit(stores[0], "acme", 10)
    for pid, age in ((-1, 21), (-2, 19)):
        ask(turn, 2, pid, age)
    assert seqs(claim(stores[0], 1)) == [3]
    assert turn.admin.execute("SELECT pid, answer FROM claim_request ORDER BY pid").fetchall() == [
        (-2, [1, 2]),
        (-1, None),
    ]


def test_requests_of_sessions_that_are_gone_cost_nothing(stores: list[PostgresStore], turn: Turn) -> None:
    """A claim reads no lanes for them, and a sweep forgets them."""
    for number in range(20):
        submit(stores[0], f"customer {number}", 1, number)
    stores[0].apply_lane_log()
    for pid, age in ((-1, 61), (-2, 3_600), (-3, 30)):
        ask(turn, 5, pid, age)
    lanes = stores[0]._database.run_claim(
        lambda queries: queries.fetch_all("first_lanes", limit=2, more=1, queue="default")
    )
    assert len(lanes) == 2 + 5 + 1
    stores[0].sweep()
    assert turn.pids() == [-3]


def test_process_that_is_alone_claims_without_the_turn(stores: list[PostgresStore], turn: Turn) -> None:
    submit(stores[0], "acme", 10)
    taken = [seqs(claim(stores[0], 1)) for _ in range(2)]
    with turn.held(), ThreadPoolExecutor(1) as pool:
        taken.append(seqs(pool.submit(claim, stores[0], 1).result(60)))
    assert taken == [[1], [2], [3]]
    claim(stores[1], 1)
    claim(stores[0], 1)  # finds out that it is not alone
    with turn.held():
        (future,) = turn.wait_for(lambda: claim(stores[0], 1))
    assert seqs(future.result(60)) == [6]


def test_process_that_is_alone_serves_those_that_wait(stores: list[PostgresStore], turn: Turn) -> None:
    submit(stores[0], "acme", 10)
    for _ in range(2):
        claim(stores[0], 1)
    with turn.held():
        (future,) = turn.wait_for(lambda: claim(stores[1], 2))
        assert seqs(claim(stores[0], 1)) == [5]
    assert seqs(future.result(60)) == [3, 4]
    assert turn.is_free()


def test_claim_that_lost_its_lease_before_it_was_read_is_not_given_twice(
    stores: list[PostgresStore], turn: Turn
) -> None:
    """The document runs again by then, under a fence of its new worker."""
    submit(stores[0], "acme", 3)
    ask(turn, 2)
    assert seqs(claim(stores[0], 1)) == [3]
    served = QUERIES["served_documents"]
    assert [row[2] for row in turn.admin.execute(served, {"ticket": 1}).fetchall()] == [1, 2]
    again = stores[1].claim(ClaimRequest("other", 1, MINUTE), now=START + MINUTE)
    assert seqs(again) == [1]
    assert turn.admin.execute(served, {"ticket": 1}).fetchall() == []
    assert turn.admin.execute(served, {"ticket": 2}).fetchall() == []


def test_claim_answered_while_its_turn_begins_keeps_its_answer(
    url: str, stores: list[PostgresStore], turn: Turn
) -> None:
    """A process that is alone serves it without the turn, and commits after the waiting session got the turn."""
    submit(stores[0], "acme", 3)
    blocked = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock' AND wait_event <> 'advisory'"
    with closing(Turn(url).admin) as alone, alone.transaction():
        with turn.held():
            (future,) = turn.wait_for(lambda: claim(stores[0], 2))
            (pid,) = turn.pids()
            alone.execute("UPDATE claim_request SET answer = '{}' WHERE pid = %s", (pid,))
        wait_until(lambda: turn.admin.execute(blocked, (pid,)).fetchone())
    assert future.result(60) == ()
    assert turn.is_free()


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_session_killed_while_it_waits_takes_nothing_from_the_others(stores: list[PostgresStore], turn: Turn) -> None:
    submit(stores[0], "acme", 20)
    with turn.held():
        futures = turn.wait_for(*calls_for(stores, [2, 3, 4]))
        turn.admin.execute("SELECT pg_terminate_backend(%s)", (turn.pids()[1],))
        wait_until(lambda: len(turn.pids()) == 4)  # its claim was begun anew by another session
    claimed = [seq for future in futures for seq in seqs(future.result(60))]
    assert [len(future.result()) for future in futures] == [2, 3, 4]
    assert len(set(claimed)) == 9
    wait_until(turn.is_free)
    # What was claimed for the dead session comes back when its lease is over.
    later = stores[3].claim(ClaimRequest("later", 100, MINUTE), now=START + MINUTE + 1)
    assert sorted(seqs(later)) == list(range(1, 21))
    assert stores[0].recount(repair=False) == ()


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


def test_error_of_the_session_that_has_the_turn_leaves_nobody_stuck(stores: list[PostgresStore], turn: Turn) -> None:
    submit(stores[0], "acme", 20)
    raise_once(turn, "P0001")
    with turn.held():
        futures = turn.wait_for(*calls_for(stores, [1, 2, 3]))
    with pytest.raises(StoreError, match="once"):
        futures[0].result(60)
    assert [seqs(future.result(60)) for future in futures[1:]] == [[4, 5], [1, 2, 3]]
    assert turn.is_free()
    assert seqs(claim(stores[0], 2)) == [6, 7]
    assert stores[0].recount(repair=False) == ()


def test_contention_of_the_session_that_has_the_turn_is_tried_again(stores: list[PostgresStore], turn: Turn) -> None:
    submit(stores[0], "acme", 20)
    raise_once(turn, "40001")
    with turn.held():
        futures = turn.wait_for(*calls_for(stores, [1, 2, 3]))
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
            claim(store, 1)
        assert turn.is_free()
        turn.admin.execute("UPDATE claim_request SET asked_at = asked_at - interval '20 seconds'")
        assert seqs(claim(store, 2)) == [1, 2]
