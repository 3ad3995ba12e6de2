"""History: read from stores and files, cut in time, scrubbed, and how many workers it tells of."""

from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

import recorded_day
from inturn.analysis.capacity import Capacity, ExecutionLog, QueuedWait
from inturn.analysis.compare import compare
from inturn.analysis.csv_history import read_csv, write_csv
from inturn.analysis.engine import OPERATOR
from inturn.analysis.history import History, size_group_of
from inturn.analysis.history_reader import read_history
from inturn.analysis.replay import UNCHANGED_PLAN, Plan, replay
from inturn.analysis.scenario import Arrival
from inturn.clock import ManualClock
from inturn.errors import InvalidInputError
from inturn.model import CustomerSettings, NewDocument
from inturn.policy import Policy, TurnPolicy
from inturn.queue import Queue
from inturn.store import Store
from inturn.store_types import Work
from inturn.stores import open_store
from inturn.values import SECOND
from services import drop_schema, new_schema

HEADER = "customer,arrived,service,pages,cost,failures,started,level\n"


@pytest.fixture(scope="module")
def day() -> Queue:
    store = open_store("memory://")
    recorded_day.record(store, 7_200, seed=2)
    return Queue(store)


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = str(tmp_path / "queue.db") if request.param == "sqlite" else new_schema()
    store = open_store(url)
    yield store
    store.close()
    if request.param == "postgres":
        drop_schema(url)


def near(history: History) -> list[tuple[str, float, float]]:
    """Measured and predicted mean waits of the groups that a replay does not get right."""
    group_changes = compare(history, UNCHANGED_PLAN, None).groups
    assert [group_change.group for group_change in group_changes] == ["1-20", "21-200", "201+"]
    error = []
    for group_change in group_changes:
        assert group_change.measured is not None
        if abs(group_change.current.mean - group_change.measured.mean) > max(0.1, 0.1 * group_change.measured.mean):
            error.append((group_change.group, group_change.measured.mean, group_change.current.mean))
    return error


def test_a_replay_of_a_two_hour_day_predicts_its_own_waits(day: Queue) -> None:
    history = read_history(day, 0)
    assert len(history.arrivals) > 5_000
    assert history.workers == recorded_day.WORKERS
    assert near(history) == []


def test_every_store_that_lasts_has_the_history_that_memory_has(kept: Store) -> None:
    histories = []
    for store in (kept, open_store("memory://")):
        recorded_day.record(store, 120, quiet=24)
        history = read_history(Queue(store), 0)
        (_, first), *changes = history.policies  # the first one holds since the store was made
        histories.append(replace(history, policies=[(0, first), *changes]))
    assert histories[0] == histories[1]


def test_a_worker_that_was_away_is_away_again() -> None:
    """Without a limit of shares: slots that are kept for others look like workers that went away."""
    store = open_store("memory://")
    recorded_day.record(store, 7_200, seed=2, policy=Policy(turns=TurnPolicy(max_share=1.0)))
    history = read_history(Queue(store), 0)
    away = [workers for _, workers in history.capacity.changes if workers < history.workers]
    assert away == [5]
    all_customers = replay(history, Plan(workers=6))
    assert sum(all_customers.started) < sum(replay(history).started)


def test_policies_change_when_they_did(day: Queue) -> None:
    history = read_history(day, 0)
    assert [policy.priority.reset_interval // SECOND for _, policy in history.policies] == [1500, 600]
    as_it_was, old = replay(history), replay(history, Plan(Policy()))
    assert list(as_it_was.levels) == list(history.levels)
    assert list(old.levels) != list(history.levels)


def test_what_came_before_is_in_the_way_and_does_not_count(day: Queue) -> None:
    begin = recorded_day.START_TIME + 3_000 * SECOND
    cold = read_history(day, begin)
    warm = read_history(day, begin, warmup=3_000 * SECOND)
    assert warm.warmup_documents == len(warm.arrivals) - len(cold.arrivals) > 0
    stored = [
        [(arrival.at, arrival.customer, arrival.service) for arrival in one.without_warmup().arrivals]
        for one in (cold, warm)
    ]
    assert stored[0] == stored[1]
    assert near(warm) == []
    assert compare(warm, UNCHANGED_PLAN, None).documents == len(cold.arrivals)
    errors = []
    for history in (cold, warm):
        busy = compare(history, UNCHANGED_PLAN, None).groups[1]
        assert busy.measured is not None
        errors.append(abs(busy.current.mean - busy.measured.mean))
    assert errors[1] < errors[0]


def test_only_what_came_before_to_is_read(day: Queue) -> None:
    until = recorded_day.START_TIME + 600 * SECOND
    history = read_history(day, 0, until=until)
    assert 0 < len(history.arrivals) < 5_000
    assert history.arrivals[-1].at < until


def test_a_file_says_what_the_store_said(day: Queue, tmp_path: Path) -> None:
    history = read_history(day, 0)
    path = tmp_path / "history.csv"
    assert write_csv(history, path) == len(history.arrivals)
    again = read_csv(path)
    plain = [replace(arrival, handover=0, wakeup=0, failed_attempts=()) for arrival in history.arrivals]
    assert [replace(arrival, handover=0, wakeup=0) for arrival in again.arrivals] == plain
    known = [None if arrival.failures else wait for arrival, wait in zip(plain, history.waits, strict=True)]
    assert [again.waits, again.finished, again.capacity.peak] == [known, history.finished, 6]
    assert list(again.levels) == list(history.levels)
    later = read_csv(path, recorded_day.START_TIME + 3_000 * SECOND, warmup=600 * SECOND)
    assert 0 < later.warmup_documents < len(later.arrivals) < len(history.arrivals)


def test_scrubbed_history_names_nobody_and_plays_the_same(day: Queue) -> None:
    history = read_history(day, 0)
    scrubbed = history.anonymized()
    assert {arrival.customer.split()[0] for arrival in scrubbed.arrivals} == {"customer"}
    assert {name.split()[0] for name in scrubbed.settings} == {"customer"}
    assert len(set(scrubbed.groups())) == len(set(history.groups()))
    assert list(replay(scrubbed).started) == list(replay(history).started)


@pytest.mark.parametrize(
    ("text", "invalid"),
    [
        ("", "line 1: the header lacks customer, arrived, service"),
        ("customer,arrived,service,page\n", "line 1: the header does not know page"),
        ("customer,arrived,service,service\n", "the header has service twice"),
        (HEADER + "acme,2026-03-02,1,,,,,\nacme,soon,1,,,,,\n", "line 3: arrived must be a time such as"),
        (HEADER + "acme,2026-03-02,slow,,,,,\n", "line 2: service must be a number, not 'slow'"),
        (HEADER + "acme,2026-03-02,-1,,,,,\n", "line 2: service must be .*from 0"),
        (HEADER + "acme,2026-03-02,1,1.5,,,,\n", "line 2: pages must be a whole number"),
        (HEADER + ",2026-03-02,1,,,,,\n", "line 2: customer must have 1 to 255 characters"),
        (HEADER + "acme,2026-03-02,1\n", "line 2: 8 columns are needed, not 3"),
        (HEADER + "acme,2026-03-02,1,,,,2026-03-01,\n", "line 2: started 2026-03-01 is before arrived"),
        (HEADER + "acme,1960-01-01,1,,,,,\n", "line 2: arrived must not be before 1970"),
        (HEADER + "acme,2026-03-02,nan,,,,,\n", "line 2: service"),
        (HEADER, "nothing to play"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, invalid: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=invalid):
        read_csv(path)


def test_a_file_of_anyones_needs_three_columns_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_bytes(b"\xef\xbb\xbfservice,customer,arrived\r\n2,acme,100\r\n,zoo,2.5\r\n\r\n")
    history = read_csv(path)
    assert [(arrival.customer, arrival.at, arrival.service) for arrival in history.arrivals] == [
        ("zoo", 2_500_000, 2 * SECOND),
        ("acme", 100 * SECOND, 2 * SECOND),
    ]
    assert history.waits == [None, None]
    assert replay(history, Plan(workers=1)).finished[-1] == 102 * SECOND


def test_groups_are_by_documents_a_day() -> None:
    assert [size_group_of(n) for n in (0.1, 20, 20.1, 200, 201)] == ["1-20", "1-20", "21-200", "21-200", "201+"]
    clock = ManualClock(SECOND)
    queue = Queue(open_store("memory://", clock), clock=clock)
    for _ in range(60):
        queue.submit("acme", [NewDocument("a document")])
        queue.finish(queue.claim("worker")[0])
        clock.advance(3_600 * SECOND)
    history = read_history(queue, 0)
    assert history.groups() == {"acme": "21-200"}
    assert round(history.per_day()["acme"], 1) == 24.4


def test_workers_are_read_off_what_ran_while_others_waited() -> None:
    # Two at a time for ten seconds, then one for a minute while a document waits, then two again.
    begun = [n * SECOND for n in (*range(10), *range(10), *range(10, 70), *range(70, 80), *range(70, 80))]
    capacity = ExecutionLog(
        begun, [item + SECOND for item in begun], [QueuedWait(70, 10 * SECOND, 70 * SECOND)]
    ).capacity()
    assert capacity.peak == 2
    assert [(at // SECOND, workers) for at, workers in capacity.changes] == [(10, 1), (70, 2)]
    assert ExecutionLog([], [], []).capacity() == ExecutionLog([None], [None], []).capacity() == Capacity(1)


def test_the_way_to_a_worker_is_measured_for_each_document() -> None:
    begun = [20_000 + n * (SECOND + 1_000) for n in range(5)]
    waited = [QueuedWait(n, n * SECOND, begun[n]) for n in range(4)]
    execution_log = ExecutionLog(begun, [item + 500_000 for item in begun], waited)
    assert list(execution_log.delays().wakeups) == [20_000, 21_000, 22_000, 23_000, 21_500]  # the last one is the mean
    assert set(execution_log.delays().handovers) == {0}


def test_what_a_worker_takes_from_one_document_to_the_next_is_measured_for_each() -> None:
    lags = [30_000, 10_000, 50_000, 30_000]
    begun = [0, *accumulate(SECOND + lag for lag in lags)]
    execution_log = ExecutionLog(
        begun, [item + SECOND for item in begun], [QueuedWait(n, 0, at) for n, at in enumerate(begun)]
    )
    assert execution_log.capacity().peak == 1
    assert list(execution_log.delays().handovers) == [*lags, 30_000]
    # A second worker goes away after its first document: nobody's start is taken for its next one.
    begun.append(0)
    ended = [*(item + SECOND for item in begun[:-1]), SECOND - 300_000]
    execution_log = ExecutionLog(begun, ended, [QueuedWait(n, 0, at) for n, at in enumerate(begun)])
    assert list(execution_log.delays().handovers) == [*lags, 30_000, 30_000]
    # Who comes while a worker is on its way is taken by it; where nobody waits, a worker that has ended is idle.
    execution_log = ExecutionLog(
        [0, 1_020_000], [SECOND, 2 * SECOND], [QueuedWait(0, 0, 0), QueuedWait(1, 1_010_000, 1_020_000)]
    )
    assert list(execution_log.delays()) == [array("q", [0, 0]), array("q", [0, 10_000])]
    execution_log = ExecutionLog(
        [0, 1_020_000, 2_040_000],
        [SECOND, 2_020_000, 3_040_000],
        [
            QueuedWait(0, 0, 0),
            QueuedWait(1, 1_010_000, 1_020_000),
            QueuedWait(2, 500_000, 2_040_000),
        ],
    )
    assert list(execution_log.delays().handovers) == [20_000, 20_000, 20_000]


def test_workers_are_thought_to_leave_when_as_many_were_last_seen_and_to_come_when_more_are() -> None:
    # Three from 0 to 100 s, two until 200 s, three again; somebody waits all the time.
    begun = [n * SECOND for place in range(3) for n in range(place, 300, 3) if place < 2 or not 100 <= n < 200]
    ended = [item + 3 * SECOND for item in begun]
    capacity = ExecutionLog(begun, ended, [QueuedWait(None, 0, 300 * SECOND)]).capacity()
    assert [(at // SECOND, workers) for at, workers in capacity.changes] == [(101, 2), (200, 3)]


def test_what_failed_is_played_as_it_was() -> None:
    clock = ManualClock(SECOND)
    queue = Queue(open_store("memory://", clock), clock=clock)
    queue.submit("acme", [NewDocument("a document")] * 2)
    (first,) = queue.claim("worker", 1)
    clock.advance(7 * SECOND)
    queue.fail(first, "once more", retry_in=20 * SECOND)
    (second,) = queue.claim("worker", 1)
    clock.advance(30 * SECOND)
    queue.finish(second)
    clock.advance(100 * SECOND)
    (again,) = queue.claim("worker", 1)
    clock.advance(4 * SECOND)
    queue.finish(again)
    history = read_history(queue, 0)
    tried, whole = history.arrivals
    assert [(failed_attempt.service, failed_attempt.retry_in) for failed_attempt in tried.failed_attempts] == [
        (7 * SECOND, 130 * SECOND)
    ]
    assert (tried.service, whole.service, whole.failed_attempts) == (4 * SECOND, 30 * SECOND, ())
    assert [wait and wait // SECOND for wait in history.waits] == [0, 7]
    assert history.started(0) == 138 * SECOND
    played = replay(history)
    assert [item // SECOND for item in played.started] == [1, 8]
    assert [item // SECOND for item in played.finished] == [142, 38]


def test_a_cap_makes_room_when_a_document_ends_not_when_its_worker_looks_again() -> None:
    arrivals = [Arrival(0, "capped", 0, 10 * SECOND, 0, 5 * SECOND), Arrival(0, "capped", 0, SECOND, 0)]
    arrivals.append(Arrival(0, "other", 0, 12 * SECOND, 0))
    settings = {"capped": CustomerSettings(cap=1)}
    history = History(
        arrivals, [0, 0, 0], [None] * 3, [1, 1, 1], [NewDocument("a document")], settings, capacity=Capacity(2)
    )
    assert [item // SECOND for item in replay(history).started] == [0, 12, 0]


def test_workers_that_leave_finish_what_they_are_at() -> None:
    clock = ManualClock(SECOND)
    queue = Queue(open_store("memory://", clock), clock=clock)
    queue.submit("acme", [NewDocument("a document")] * 4)
    for _ in range(4):
        (claimed,) = queue.claim("worker", 1)
        clock.advance(10 * SECOND)
        queue.finish(claimed)
    history = replace(read_history(queue, 0), capacity=Capacity(2, ((5 * SECOND, 0), (60 * SECOND, 1))))
    played = replay(history)
    assert [item // SECOND for item in played.started] == [1, 1, 60, 70]


def test_a_slot_that_is_idle_while_others_wait_is_away_until_it_starts_again() -> None:
    # One slot, a document a second, and somebody waits all the time: an idle second is a handover, ten are not.
    begun = [n * SECOND for n in (*range(5), *range(6, 10), *range(20, 25))]
    ended = [item + SECOND for item in begun]
    execution_log = ExecutionLog(begun, ended, [QueuedWait(n, 0, at) for n, at in enumerate(begun)])
    assert [(at // SECOND, workers) for at, workers in execution_log.capacity().changes] == [(10, 0), (20, 1)]
    assert [handover // SECOND for handover in execution_log.delays().handovers] == [0, 0, 0, 0, 1, *[0] * 9]
    # Where attempts are missing, it may have been at one of them for as long as that.
    unsure = ExecutionLog(begun, ended, [QueuedWait(n, 0, at) for n, at in enumerate(begun)], is_complete=False)
    assert unsure.delays().handovers[4] == 0


def test_before_the_first_start_nobody_is_there() -> None:
    begun = [n * SECOND for n in range(30, 40)]
    capacity = ExecutionLog(
        begun, [item + SECOND for item in begun], [QueuedWait(n, 0, at) for n, at in enumerate(begun)]
    ).capacity()
    assert [(at // SECOND, workers) for at, workers in capacity.changes] == [(0, 0), (30, 1)]


def test_documents_that_touch_do_not_run_at_a_time() -> None:
    begun = [n * SECOND - (n % 3) * 5_000 for n in range(30)]
    capacity = ExecutionLog(
        begun, [at + SECOND for at in begun], [QueuedWait(n, 0, at) for n, at in enumerate(begun)]
    ).capacity()
    assert capacity == Capacity(1)
    short = [n * 1_000 for n in range(30)]
    assert ExecutionLog(short * 2, [at + 1_000 for at in short] * 2, []).capacity().peak == 2


def test_what_is_claimed_ahead_does_not_run() -> None:
    clock = ManualClock(SECOND)
    queue = Queue(open_store("memory://", clock), clock=clock)
    queue.submit("acme", [NewDocument("a document")] * 60)
    claimed = queue.claim("worker", 60)
    for place, claim in enumerate(claimed):
        clock.advance(SECOND)
        queue.ack_and_claim([queue.done(claim, work=Work(place * SECOND, SECOND))], "worker", 1)
    history = read_history(queue, 0)
    assert history.workers == 1
    assert {arrival.service for arrival in history.arrivals} == {SECOND}
    assert [wait and wait // SECOND for wait in history.waits] == list(range(60))
    assert compare(history, UNCHANGED_PLAN, None).contradictions == ()


def failed_and_retried(store: Store, clock: ManualClock) -> str:
    """Failed after two attempts, retried by hand twenty minutes later, and done at once."""
    queue = Queue(store, clock=clock)
    (receipt,) = queue.submit("acme", [NewDocument("a document", max_attempts=2)])
    for _ in range(2):
        clock.advance(10 * SECOND)
        (claimed,) = queue.claim("worker", 1)
        clock.advance(5 * SECOND)
        queue.fail(claimed, "no", retry_in=0)
    clock.advance(1_200 * SECOND)
    queue.retry(receipt.id, OPERATOR)
    clock.advance(2 * SECOND)
    (claimed,) = queue.claim("worker", 1)
    clock.advance(3 * SECOND)
    queue.finish(claimed)
    return receipt.id


def test_a_retry_by_hand_came_when_it_was_retried() -> None:
    clock = ManualClock(SECOND)
    store = open_store("memory://", clock)
    failed_and_retried(store, clock)
    history = read_history(Queue(store), 0)
    assert [arrival.at // SECOND for arrival in history.arrivals] == [1, 1_231]
    assert [wait and wait // SECOND for wait in history.waits] == [10, 2]
    first, second = history.arrivals
    assert [(arrival.service // SECOND, arrival.failures) for arrival in (first, second)] == [(5, 1), (3, 0)]


def test_a_retry_of_an_old_document_does_not_end_the_past() -> None:
    """It is listed with the newest, and was submitted before all others."""
    clock = ManualClock(SECOND)
    store = open_store("memory://", clock)
    queue = Queue(store, clock=clock)
    (old,) = queue.submit("old", [NewDocument("a document", max_attempts=1)])
    queue.fail(queue.claim("worker", 1)[0], "no", final=True)
    clock.advance(86_400 * SECOND)
    since = clock.now()
    queue.submit("acme", [NewDocument("a document")] * 3)
    queue.retry(old.id, OPERATOR)
    for claimed in queue.claim("worker", 4):
        queue.finish(claimed)
    names = [arrival.customer for arrival in read_history(queue, since).arrivals]
    assert sorted(names) == ["acme", "acme", "acme", "old"]


def test_a_replay_that_contradicts_its_own_past_says_so(day: Queue) -> None:
    history = read_history(day, 0)
    assert compare(history, UNCHANGED_PLAN, None).contradictions == ()
    error = replace(history, capacity=Capacity(20))
    comparison = compare(error, UNCHANGED_PLAN, Plan(workers=3))
    assert [contradiction.group for contradiction in comparison.contradictions] == ["1-20", "21-200", "201+"]
    assert all(contradiction.replayed < contradiction.measured for contradiction in comparison.contradictions)
    assert comparison.to_dict()["contradictions"][0]["group"] == comparison.contradictions[0].group
    assert compare(error, Plan(workers=20), None).contradictions == ()
