"""Recorded documents with steps and parts, played again."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from inturn.analysis.advice import busiest_span
from inturn.analysis.compare import compare
from inturn.analysis.csv_history import read_csv, write_csv
from inturn.analysis.engine import Discipline, simulate_scenario
from inturn.analysis.history import History
from inturn.analysis.history_reader import read_history
from inturn.analysis.replay import UNCHANGED_PLAN, Plan, replay, waits_of
from inturn.analysis.scenario import parse_scenario
from inturn.clock import ManualClock
from inturn.errors import InvalidInputError
from inturn.model import NewDocument
from inturn.policy import Policy, TurnPolicy
from inturn.queue import Queue
from inturn.store_types import Operator
from inturn.stores import open_store
from inturn.values import SECOND

QUEUES = ("ocr", "split", "page", "merge", "export")
WORK = {"ocr": 3, "split": 1, "page": 2, "merge": 4, "export": 5}
ANNA = Operator("anna", "a test")


def work(queue: Queue, clock: ManualClock) -> None:
    """Process everything by one worker of all queues: documents of `split` get three parts each."""
    while claims := queue.claim("worker", 1, queues=QUEUES):
        (claimed,) = claims
        name = claimed.document.queue
        clock.advance(WORK[name] * SECOND)
        if name == "split":
            parts = [NewDocument(f"page {n}", queue="page") for n in range(3)]
            queue.ack([queue.split(claimed, parts, "merge", {"pages": 3})])
        else:
            queue.finish(claimed, name)


@pytest.fixture
def queue() -> Queue:
    """A day with documents of two steps, one that was split, and one without steps."""
    clock = ManualClock(1_000 * SECOND)
    queue = Queue(open_store("memory://", clock), clock=clock)
    queue.set_policy(Policy(turns=TurnPolicy(max_share=1.0)), ANNA)
    queue.submit("acme", [NewDocument("a", queue="ocr", steps=("ocr", "export"))] * 3)
    queue.submit("beta", [NewDocument("b", queue="split")])
    queue.submit("small", [NewDocument("s", queue="export")])
    work(queue, clock)
    return queue


def described(history: History) -> list[tuple[str, str, int, int | None, bool]]:
    """Return customer, queue, seconds of work, number of the arrival before, and whether it is a part."""
    return [
        (one.customer, history.specs[one.group].queue, one.service // SECOND, one.follows, one.is_part)
        for one in history.arrivals
    ]


def test_each_step_is_an_arrival_that_follows_the_one_before(queue: Queue) -> None:
    history = read_history(queue, 0)
    rows = described(history)
    assert len(rows) == 3 * 2 + 2 + 3 + 1
    assert sorted(name for _, name, _, follows, _ in rows if follows is None) == [
        "export",
        "ocr",
        "ocr",
        "ocr",
        "split",
    ]
    for customer, name, seconds, follows, is_part in rows:
        assert seconds == WORK[name]
        if follows is not None:
            before = rows[follows]
            assert before[0] == customer
            assert (before[1], name, is_part) in {
                ("ocr", "export", False), ("split", "page", True), ("split", "merge", False),
            }  # fmt: skip


def test_an_unchanged_replay_has_the_waits_that_were_measured(queue: Queue) -> None:
    history = read_history(queue, 0)
    result = replay(history)
    numbers = range(len(history.arrivals))
    assert waits_of(result, numbers) == [(wait or 0) / SECOND for wait in history.waits]
    assert list(result.came) == [arrival.at for arrival in history.arrivals]
    assert list(result.levels) == list(history.levels)


def test_a_check_at_each_step_shows_other_levels(queue: Queue) -> None:
    history = read_history(queue, 0)
    comparison = compare(history, UNCHANGED_PLAN, Plan(Policy(check_each_step=True)))
    assert comparison.documents == 12
    assert comparison.levels_current == {1: 12}
    assert comparison.levels_proposed != comparison.levels_current
    assert sum(comparison.levels_proposed.values()) == 12
    assert not comparison.contradictions


def test_an_order_keeps_the_check_of_each_step() -> None:
    assert Discipline.CLASSIC.apply_to(Policy(check_each_step=True)).check_each_step


def test_more_workers_bring_later_steps_earlier(queue: Queue) -> None:
    history = read_history(queue, 0)
    slow, fast = replay(history), replay(history, Plan(workers=12))
    last = max(range(len(history.arrivals)), key=lambda number: history.arrivals[number].at)
    assert fast.came[last] < slow.came[last]
    assert max(fast.finished) < max(slow.finished)


def test_a_limit_of_a_queue_is_played(queue: Queue) -> None:
    queue.change_queue("export", ANNA, cap=1)
    history = read_history(queue, 0)
    assert history.queues["export"].cap == 1
    result = replay(history, Plan(workers=12))
    spans = sorted(
        (result.started[number], result.finished[number])
        for number, row in enumerate(described(history))
        if row[1] == "export"
    )
    assert all(ended <= began for (_, ended), (began, _) in pairwise(spans))


def test_csv_carries_queues_steps_and_parts(queue: Queue, tmp_path: Path) -> None:
    history = read_history(queue, 0)
    path = tmp_path / "history.csv"
    assert write_csv(history, path) == 12
    assert path.read_text(encoding="utf-8").splitlines()[0].endswith("level,queue,document,step,part_of")
    again = read_csv(path)
    assert described(again) == described(history)
    plan = Plan(Policy())
    without_order = replace(history, queues={})  # a file does not say which queue was made first
    assert waits_of(replay(again, plan), range(12)) == waits_of(replay(without_order, plan), range(12))


def test_csv_without_steps_has_no_columns_of_steps(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    path.write_text("customer,arrived,service,started\nacme,0,5,0\n", encoding="utf-8")
    write_csv(read_csv(path), path)
    assert path.read_text(encoding="utf-8").splitlines()[0].endswith(",level")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (",1,", "needs a document"),
        ("7,0,3", "as 7:0, not '3'"),
        ("7,x,", "step must be a whole number"),
        ("7,0,9:-1", "part_of's step must be"),
    ],
)
def test_steps_that_belong_to_nothing_are_refused(tmp_path: Path, cells: str, message: str) -> None:
    path = tmp_path / "history.csv"
    path.write_text(f"customer,arrived,service,document,step,part_of\nacme,0,5,{cells}\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=message):
        read_csv(path)


def test_steps_whose_beginning_is_left_out_come_by_themselves(queue: Queue, tmp_path: Path) -> None:
    history = read_history(queue, 0)
    for n in range(1, len(history.arrivals)):
        cut = busiest_span(history, n)
        assert all(one.follows is None or 0 <= one.follows < len(cut.arrivals) for one in cut.arrivals)
        assert all(at >= 0 for at in replay(cut).finished)
    path = tmp_path / "history.csv"
    path.write_text(
        "customer,arrived,service,started,document,step,part_of\nacme,0,5,0,1,0,2:0\nacme,0,5,5,2,0,1:0\n",
        encoding="utf-8",
    )
    circle = read_csv(path)
    assert [one.follows for one in circle.arrivals] == [None, None]


def test_a_document_that_still_waits_for_its_parts_is_played_to_its_end() -> None:
    clock = ManualClock(1_000 * SECOND)
    with Queue(open_store("memory://", clock), clock=clock) as queue:
        queue.submit("acme", [NewDocument("a", queue="split")])
        (claimed,) = queue.claim("worker", 1, queues=["split"])
        clock.advance(SECOND)
        queue.ack([queue.split(claimed, [NewDocument("page", queue="page")] * 2, "merge")])
        (claimed,) = queue.claim("worker", 1, queues=["page"])
        clock.advance(SECOND)
        queue.finish(claimed)
        history = read_history(queue, 0)
    result = replay(history)
    assert len(result.finished) == 4
    assert min(result.finished) > 0


SPLIT_FLOOD = """
workers = 2
[policy]
max_share = 1
check_each_step = CHECKED
[[group]]
name = "split"
arrivals = { kind = "burst", documents = 3 }
service = { kind = "fixed", mean = 1.0 }
parts = 10
part_seconds = 2.0
[[group]]
name = "small"
arrivals = { kind = "burst", documents = 1, at = 3 }
service = { kind = "fixed", mean = 1.0 }
"""


@pytest.mark.parametrize("checked", ["false", "true"])
def test_scenario_of_split_documents_plays_their_parts_at_their_level(checked: str) -> None:
    scenario = parse_scenario("mine", SPLIT_FLOOD.replace("CHECKED", checked))
    run = simulate_scenario(scenario)
    assert len(run.arrivals) == 3 * (1 + 10 + 1) + 1
    assert [one.at for one in run.arrivals] == sorted(one.at for one in run.arrivals)
    assert max(run.finished) >= (3 * 1 + 3 * 11 * 2 + 1) * SECOND / 2
    assert list(run.came) == [one.at for one in run.arrivals]
    levels = {level for arrival, level in zip(run.arrivals, run.levels, strict=True) if arrival.customer == "split"}
    assert (max(levels) > 1) is (checked == "true")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("parts = -1", "whole number from 0"),
        ("parts = 2\ncancels = 1", "give one of them"),
        ("part_seconds = 0", "part_seconds"),
    ],
)
def test_parts_that_make_no_sense_are_refused(line: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        parse_scenario("mine", SPLIT_FLOOD.replace("CHECKED", "false").replace("parts = 10\npart_seconds = 2.0", line))
    with pytest.raises(InvalidInputError, match="must be true or false"):
        parse_scenario("mine", SPLIT_FLOOD.replace("CHECKED", "1"))
