"""History: read from stores and files, cut in time, scrubbed, and how many workers it tells of."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import recorded_day
from services import drop_schema, new_schema

from inturn.clock import ManualClock
from inturn.errors import InvalidInputError
from inturn.model import SECOND, NewDocument
from inturn.policy import Policy
from inturn.queue import Queue
from inturn.simulate.compare import compare
from inturn.simulate.history import History, group_of, read_history
from inturn.simulate.replay import AS_IT_WAS, Plan, replay
from inturn.simulate.staff import Staff, staff_of
from inturn.simulate.tables import read_table, write_table
from inturn.store import Store
from inturn.stores import open_store

HEADER = "customer,arrived,service,pages,cost,failures,started,level\n"


@pytest.fixture(scope="module")
def day() -> Store:
    store = open_store("memory://")
    recorded_day.record(store, 7_200, seed=2)
    return store


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
    found = compare(history, AS_IT_WAS, None).groups
    assert [each.group for each in found] == ["1-20", "21-200", "201+"]
    wrong = []
    for each in found:
        assert each.measured is not None
        if abs(each.current.mean - each.measured.mean) > max(0.1, 0.1 * each.measured.mean):
            wrong.append((each.group, each.measured.mean, each.current.mean))
    return wrong


def test_a_replay_of_a_two_hour_day_predicts_its_own_waits(day: Store) -> None:
    history = read_history(day, 0)
    assert len(history.arrivals) > 5_000
    assert history.workers == recorded_day.WORKERS
    assert near(history) == []


def test_so_it_does_from_every_store_that_lasts(kept: Store) -> None:
    recorded_day.record(kept, 1_200, seed=1)
    assert near(read_history(kept, 0)) == []


def test_a_worker_that_was_away_is_away_again(day: Store) -> None:
    history = read_history(day, 0)
    away = [workers for _, workers in history.staff.changes if workers < history.workers]
    assert away == [5]
    everybody = replay(history, Plan(workers=6))
    assert sum(everybody.started) < sum(replay(history).started)


def test_policies_change_when_they_did(day: Store) -> None:
    history = read_history(day, 0)
    assert [policy.priority.reset_interval // SECOND for _, policy in history.policies] == [1500, 600]
    as_it_was, old = replay(history), replay(history, Plan(Policy()))
    assert list(as_it_was.levels) == list(history.levels)
    assert list(old.levels) != list(history.levels)


def test_what_came_before_is_in_the_way_and_does_not_count(day: Store) -> None:
    begin = recorded_day.BEGAN + 3_000 * SECOND
    cold = read_history(day, begin)
    warm = read_history(day, begin, lead=3_000 * SECOND)
    assert warm.lead == len(warm.arrivals) - len(cold.arrivals) > 0
    kept = [[(each.at, each.customer, each.service) for each in one.counted().arrivals] for one in (cold, warm)]
    assert kept[0] == kept[1]
    assert near(warm) == []
    assert compare(warm, AS_IT_WAS, None).documents == len(cold.arrivals)
    errors = []
    for each in (cold, warm):
        busy = compare(each, AS_IT_WAS, None).groups[1]
        assert busy.measured is not None
        errors.append(abs(busy.current.mean - busy.measured.mean))
    assert errors[1] < errors[0]


def test_only_what_came_before_to_is_read(day: Store) -> None:
    until = recorded_day.BEGAN + 600 * SECOND
    history = read_history(day, 0, until=until)
    assert 0 < len(history.arrivals) < 5_000
    assert history.arrivals[-1].at < until


def test_a_file_says_what_the_store_said(day: Store, tmp_path: Path) -> None:
    history = read_history(day, 0)
    path = tmp_path / "history.csv"
    assert write_table(history, path) == len(history.arrivals)
    again = read_table(path)
    assert again.arrivals == history.arrivals
    assert [again.waits, again.finished, again.staff.most] == [history.waits, history.finished, 6]
    assert list(again.levels) == list(history.levels)
    later = read_table(path, recorded_day.BEGAN + 3_000 * SECOND, lead=600 * SECOND)
    assert 0 < later.lead < len(later.arrivals) < len(history.arrivals)


def test_scrubbed_history_names_nobody_and_plays_the_same(day: Store) -> None:
    history = read_history(day, 0)
    scrubbed = history.scrubbed()
    assert {each.customer.split()[0] for each in scrubbed.arrivals} == {"customer"}
    assert {name.split()[0] for name in scrubbed.settings} == {"customer"}
    assert len(set(scrubbed.groups())) == len(set(history.groups()))
    assert list(replay(scrubbed).started) == list(replay(history).started)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "line 1: the header lacks customer, arrived, service"),
        ("customer,arrived,service,page\n", "line 1: the header does not know page"),
        ("customer,arrived,service,service\n", "does not know a column twice"),
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
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, text: str, wrong: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=wrong):
        read_table(path)


def test_a_file_of_anyones_needs_three_columns_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_bytes(b"\xef\xbb\xbfservice,customer,arrived\r\n2,acme,100\r\n,zoo,2.5\r\n\r\n")
    history = read_table(path)
    assert [(each.customer, each.at, each.service) for each in history.arrivals] == [
        ("zoo", 2_500_000, 2 * SECOND),
        ("acme", 100 * SECOND, 2 * SECOND),
    ]
    assert history.waits == [None, None]
    assert replay(history, Plan(workers=1)).finished[-1] == 102 * SECOND


def test_groups_are_by_documents_a_day() -> None:
    assert [group_of(n) for n in (0.1, 20, 20.1, 200, 201)] == ["1-20", "1-20", "21-200", "21-200", "201+"]
    clock = ManualClock(SECOND)
    queue = Queue(open_store("memory://", clock), clock=clock)
    for _ in range(60):
        queue.submit("acme", [NewDocument("a document")])
        queue.finish(queue.claim("worker")[0])
        clock.advance(3_600 * SECOND)
    history = read_history(queue.store, 0)
    assert history.groups() == {"acme": "21-200"}
    assert round(history.per_day()["acme"], 1) == 24.4


def test_workers_are_read_off_what_ran_while_others_waited() -> None:
    # Two at a time for ten seconds, then one for a minute while a document waits, then two again.
    begun = [n * SECOND for n in (*range(10), *range(10), *range(10, 70), *range(70, 80), *range(70, 80))]
    found = staff_of(begun, [each + SECOND for each in begun], [(10 * SECOND, 70 * SECOND)])
    assert found.most == 2
    assert [(at // SECOND, workers) for at, workers in found.changes] == [(10, 1), (70, 2)]
    assert staff_of([], [], []) == Staff(1)


def test_the_way_to_a_worker_is_measured() -> None:
    begun = [20_000 + n * SECOND for n in range(5)]
    ended = [each + 500_000 for each in begun]
    assert staff_of(begun, ended, [(n * SECOND, 20_000 + n * SECOND) for n in range(5)]).wake == 20_000
    busy = [n * 1_030_000 for n in range(10)]
    found = staff_of(busy, [each + SECOND for each in busy], [(0, busy[-1])])
    assert (found.most, found.handover) == (1, 30_000)


def test_workers_that_leave_finish_what_they_are_at() -> None:
    clock = ManualClock(SECOND)
    queue = Queue(open_store("memory://", clock), clock=clock)
    queue.submit("acme", [NewDocument("a document")] * 4)
    for _ in range(4):
        (claimed,) = queue.claim("worker", 1)
        clock.advance(10 * SECOND)
        queue.finish(claimed)
    history = replace(read_history(queue.store, 0), staff=Staff(2, ((5 * SECOND, 0), (60 * SECOND, 1))))
    played = replay(history)
    assert [each // SECOND for each in played.started] == [1, 1, 60, 70]
