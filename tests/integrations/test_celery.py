"""Celery with real brokers and real workers: what comes out first, and what is checked how often."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from celery import Celery, chain, chord, group

import inturn
from celery_fleet import make
from fleets import Record, log_contains, running_process
from inturn.counters import Counters
from services import fresh_redis, needs_redis

pytestmark = needs_redis

BURST = [1] * 3 + [2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7] + [8] * 6 + [9] * 4
WORKER = ("celery", "-A", "celery_fleet", "worker", "--pool=solo", "--loglevel=WARNING", "--without-gossip")
QUIET = ("--without-mingle", "--without-heartbeat")
GOOD = {"worker_prefetch_multiplier": 1, "task_acks_late": True}


class Fleet(NamedTuple):
    app: Celery
    counters: Counters
    record: Record
    given: dict[str, Any]
    log: Path

    def count(self, customer: str) -> int | None:
        counter = self.counters.counter(customer)
        return counter.count if counter else None


def new_fleet(broker: str, folder: Path, **settings: Any) -> Fleet:
    where = fresh_redis()
    given = {"broker": broker, "counters": where, "record": str(folder / "record")}
    given |= {"task_default_queue": f"q-{uuid.uuid4().hex[:8]}", "result_backend": fresh_redis(), **settings}
    return Fleet(make(**given), inturn.open_counters(where), Record(folder / "record"), given, folder / "log")


@pytest.fixture(scope="module")
def fleet(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One worker for all tests of a broker; each test has customers of its own."""
    made = new_fleet(broker, tmp_path_factory.mktemp("fleet"), **GOOD)
    with running_process([*WORKER, *QUIET], made.log, INTURN_FLEET=json.dumps(made.given)):
        yield made
    made.app.close()


def test_levels_come_out_in_order_and_a_late_customer_overtakes(fleet: Fleet, tmp_path: Path) -> None:
    work = fleet.app.tasks["work"]
    fleet.app.tasks["gate"].delay(str(tmp_path / "open"))
    fleet.record.next(1)
    for number in range(25):
        work.delay("flood", number)
    for number in range(4):
        work.apply_async(("small",), {"what": number})
    (tmp_path / "open").touch()
    done = fleet.record.next(29)
    expected = sorted(
        [(level, 0, "flood", number) for number, level in enumerate(BURST)]
        + [(level, 1, "small", number) for number, level in enumerate(BURST[:4])]
    )
    assert [tuple(line[1:4]) for line in done] == [(customer, what, level) for level, _, customer, what in expected]
    assert not log_contains(fleet.log)("WARNING")


def test_the_priority_is_the_brokers_own_for_the_level(fleet: Fleet) -> None:
    fleet.app.tasks["work"].delay("prio", 1)
    ((_, _, _, level, priority),) = fleet.record.next(1)
    assert (level, priority) == (1, 9 if fleet.given["broker"].startswith("amqp") else 1)


def test_a_task_sent_by_its_name_is_checked_too(fleet: Fleet) -> None:
    fleet.app.send_task("work", kwargs={"customer_id": 77, "what": "named"})
    fleet.app.send_task("work", args=("placed", 1))
    assert [line[1:4] for line in fleet.record.next(2)] == [[77, "named", 1], ["placed", 1, 1]]
    assert (fleet.count("77"), fleet.count("placed")) == (0, 0)


def test_retries_are_no_second_check(fleet: Fleet) -> None:
    fleet.counters.check("stubborn", 10)
    fleet.app.tasks["stubborn"].delay("stubborn", 3)
    assert [line[2:4] for line in fleet.record.next(4)] == [[0, 5], [1, 5], [2, 5], [3, 5]]
    assert fleet.count("stubborn") == -10


def test_a_replaced_task_is_the_same_document(fleet: Fleet) -> None:
    fleet.counters.check("replaced", 5)
    fleet.app.tasks["replaced"].delay("replaced")
    assert [(line[0], line[-2]) for line in fleet.record.next(2)] == [("replaced", 3), ("work", 3)]
    assert fleet.count("replaced") == -5


def test_a_chain_is_one_document(fleet: Fleet) -> None:
    tasks = fleet.app.tasks
    fleet.counters.check("chained", 5)
    chain(tasks["work"].s("chained", "x"), tasks["step"].s("second"), tasks["step"].s("third")).apply_async()
    assert [line[-2] for line in fleet.record.next(3)] == [3, 3, 3]
    assert fleet.count("chained") == -5


def test_callbacks_belong_to_their_document_and_signatures_stay_as_they_were(fleet: Fleet) -> None:
    tasks = fleet.app.tasks
    after, error = tasks["step"].s("after"), tasks["step"].si("x", "wrong")
    for _ in range(4):
        tasks["work"].apply_async(("linked", "x"), link=after)
    lines = fleet.record.next(8)
    assert sorted(line[-2] for line in lines if line[0] == "step") == [1, 1, 1, 2]
    assert fleet.count("linked") == -3
    tasks["failing"].apply_async(("linked",), link_error=error)
    assert [line[-2] for line in fleet.record.next(2)] == [2, 2]
    assert (dict(after["options"]), dict(error["options"])) == ({}, {})
    assert fleet.count("linked") == -4


def test_each_member_of_a_group_is_a_document(fleet: Fleet) -> None:
    work = fleet.app.tasks["work"]
    group(work.s("grouped", number) for number in range(5)).apply_async()
    assert sorted(line[-2] for line in fleet.record.next(5)) == [1, 1, 1, 2, 2]
    assert fleet.count("grouped") == -4


def test_the_body_of_a_chord_belongs_to_the_customer_of_its_parts(fleet: Fleet) -> None:
    tasks = fleet.app.tasks
    chord([tasks["work"].s("chord", number) for number in range(4)])(tasks["step"].s("body"))
    lines = fleet.record.next(5)
    assert sorted(line[-2] for line in lines[:4]) == [1, 1, 1, 2]
    assert (lines[4][2], lines[4][-2]) == ("body", lines[3][-2])
    assert fleet.count("chord") == -3


def test_what_fans_out_in_a_chain_is_checked_part_by_part(fleet: Fleet) -> None:
    tasks = fleet.app.tasks
    fanned = group(tasks["step"].s(f"part {number}") for number in range(4))
    chain(tasks["work"].s("fan", "x"), fanned, tasks["step"].s("end")).apply_async()
    lines = fleet.record.next(6)
    assert sorted(line[-2] for line in lines[1:5]) == [1, 1, 2, 2]
    assert (lines[5][2], lines[5][-2]) == ("end", lines[4][-2])
    assert fleet.count("fan") == -4


def test_what_a_task_publishes_itself_are_new_documents(fleet: Fleet) -> None:
    fleet.app.tasks["split"].delay("splitter", 3)
    assert [line[-2] for line in fleet.record.next(4)] == [1, 1, 1, 2]
    assert fleet.count("splitter") == -3


def test_tasks_of_nobody_are_left_alone(fleet: Fleet) -> None:
    fleet.app.tasks["tick"].delay()
    fleet.app.tasks["tick"].apply_async(priority=4)
    lines = fleet.record.next(2)
    assert sorted(line[-2:] for line in lines) == [[None, 0], [None, 4]]


def test_beat_is_left_alone(fleet: Fleet, tmp_path: Path) -> None:
    schedule = {"tick": {"task": "tick", "schedule": 0.1}}
    given = {**fleet.given, "beat_schedule": schedule}
    command = ["celery", "-A", "celery_fleet", "beat", "--schedule", str(tmp_path / "schedule"), "--loglevel=WARNING"]
    with running_process(command, tmp_path / "beat.log", INTURN_FLEET=json.dumps(given)):
        lines = fleet.record.next(2)
    assert {(line[0], line[-2]) for line in lines} == {("tick", None)}
    drain(fleet)


def drain(fleet: Fleet) -> None:
    """Let the worker do what is still waiting, so that the next test reads its own lines alone."""
    fleet.app.tasks["work"].delay("drained", uuid.uuid4().hex)
    while not any(line[1:2] == ["drained"] for line in fleet.record.next(1)):
        pass


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("header", {"headers": {"tenant": "by rule"}}),
        ("function", {"kwargs": {"order": {"owner": "by rule"}}}),
        ("customer_id", {"args": ("by rule",)}),
    ],
)
def test_the_customer_comes_from_an_argument_a_header_or_a_function(
    broker: str, tmp_path: Path, rule: str, options: dict[str, Any]
) -> None:
    fleet = new_fleet(broker, tmp_path, customer=rule)
    for _ in range(3):
        fleet.app.send_task("work", **options)
        fleet.app.send_task("tick")
    if rule == "customer_id":
        assert fleet.count("by rule") == -2
    assert fleet.counters.counter("by rule") is not None
    fleet.app.close()
