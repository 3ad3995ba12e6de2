"""Dramatiq with real brokers and real workers: what comes out first, and what is checked how often."""

import json
import logging
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import dramatiq
import pytest
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker

import inturn
from dramatiq_fleet import make
from fleets import Record, log_contains, running_process
from inturn.counters import Counters
from inturn.errors import InvalidInputError
from inturn.integrations.dramatiq import FairRedisBroker, UncheckedError, install
from services import RedisServer, fresh_redis, needs_redis
from waiting import wait_until

pytestmark = needs_redis

BURST = [1] * 3 + [2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7] + [8] * 6 + [9] * 4
WORKER = ("dramatiq", "dramatiq_fleet", "--processes=1", "--threads=1")


class Fleet(NamedTuple):
    broker: dramatiq.Broker
    counters: Counters
    record: Record
    queue: str
    log: Path

    def actor(self, name: str) -> Any:
        return self.broker.get_actor(name)

    def count(self, customer: str) -> int | None:
        counter = self.counters.counter(customer)
        return counter.count if counter else None


@pytest.fixture(scope="module")
def fleet(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One worker for all tests of a broker; each test has customers of its own."""
    folder, where = tmp_path_factory.mktemp("fleet"), fresh_redis()
    queue = f"q-{uuid.uuid4().hex[:8]}"
    given = {"broker": broker, "counters": where, "record": str(folder / "record"), "queue": queue}
    made = Fleet(make(**given), inturn.open_counters(where), Record(folder / "record"), queue, folder / "log")
    with running_process([*WORKER], made.log, INTURN_FLEET=json.dumps(given), dramatiq_queue_prefetch="1"):
        yield made
    made.broker.close()


def test_levels_come_out_in_order_and_a_late_customer_overtakes(fleet: Fleet, tmp_path: Path) -> None:
    fleet.actor("gate").send(str(tmp_path / "open"))
    fleet.record.next(1)
    for number in range(25):
        fleet.actor("work").send("flood", number)
    for number in range(4):
        fleet.actor("work").send_with_options(kwargs={"customer_id": "small", "what": number})
    if isinstance(fleet.broker, RabbitmqBroker):  # it takes messages without an answer: some may be on the way
        wait_until(lambda: fleet.broker.get_queue_message_counts(fleet.queue)[0] == 29)
    (tmp_path / "open").touch()
    expected = sorted(
        [(level, 0, "flood", number) for number, level in enumerate(BURST)]
        + [(level, 1, "small", number) for number, level in enumerate(BURST[:4])]
    )
    done = [tuple(line[1:]) for line in fleet.record.next(29)]
    assert done == [(customer, what, level) for level, _, customer, what in expected]
    assert not log_contains(fleet.log)("ahead of time")


def test_retries_and_delays_are_no_second_check(fleet: Fleet) -> None:
    fleet.counters.check("stubborn", 10)
    fleet.actor("stubborn").send("stubborn", 2)
    assert [line[2:] for line in fleet.record.next(3)] == [[0, 5], [1, 5], [2, 5]]
    fleet.actor("work").send_with_options(args=("stubborn", "later"), delay=5)
    assert [line[2:] for line in fleet.record.next(1)] == [["later", 6]]
    assert fleet.count("stubborn") == -11


def test_a_pipeline_is_one_document_each_time_it_runs(fleet: Fleet) -> None:
    fleet.counters.check("piped", 4)
    work, step = fleet.actor("work"), fleet.actor("step")
    for expected in (2, 3):
        piped = dramatiq.pipeline(
            [work.message("piped", "x"), step.message("second"), step.message("third")], broker=fleet.broker
        )
        piped.run()
        assert [line[-1] for line in fleet.record.next(3)] == [expected] * 3
    assert fleet.count("piped") == -5


def test_each_member_of_a_group_is_a_document_and_its_callback_none(fleet: Fleet) -> None:
    members = dramatiq.group([fleet.actor("work").message("grouped", n) for n in range(4)], broker=fleet.broker)
    members.add_completion_callback(fleet.actor("step").message("body"))
    members.run()
    lines = fleet.record.next(5)
    assert sorted(line[-1] for line in lines[:4]) == [1, 1, 1, 2]
    assert (lines[4][1], lines[4][-1]) == ("body", lines[3][-1])
    assert fleet.count("grouped") == -3


def test_messages_of_nobody_are_left_alone(fleet: Fleet) -> None:
    fleet.actor("step").send("nobody's")
    assert fleet.record.next(1) == [["step", "nobody's", None, None]]


def test_nothing_is_left_in_the_broker(fleet: Fleet) -> None:
    if isinstance(fleet.broker, FairRedisBroker):
        wait_until(lambda: fleet.broker.do_qsize(fleet.queue) == 0)
        names = {key.decode() for key in fleet.broker.client.keys("dramatiq:*") if b"heartbeats" not in key}
        assert names == set()
    else:
        wait_until(lambda: fleet.broker.get_queue_message_counts(fleet.queue)[:2] == (0, 0))


# -- without a worker of its own ---------------------------------------------------------------------------------------


@pytest.fixture
def five(tmp_path: Path) -> Iterator[str]:
    """The address of a Redis broker in whose queue `default` five documents wait, of levels 1 1 1 2 2."""
    url = fresh_redis()
    broker = make(url, fresh_redis(), str(tmp_path / "record"), "default")
    for number in range(5):
        broker.get_actor("work").send("acme", number)
    yield url
    broker.close()


def fetched(broker: FairRedisBroker, limit: int) -> list[Any]:
    return [dramatiq.Message.decode(content) for content in broker.do_fetch("default", limit)]


def test_what_a_dead_worker_held_comes_back_to_its_level(five: str) -> None:
    dying = FairRedisBroker(url=five, maintenance_chance=0)
    assert [message.args[1] for message in fetched(dying, 2)] == [0, 1]
    other = FairRedisBroker(url=five, heartbeat_timeout=0, maintenance_chance=1_000_000)
    result = fetched(other, 9)
    assert sorted(message.args[1] for message in result) == list(range(5))
    assert [message.options["inturn_level"] for message in result] == [1, 1, 1, 2, 2]


def test_what_is_handed_back_or_fails_stays_in_its_level(five: str) -> None:
    broker = FairRedisBroker(url=five, maintenance_chance=0)
    ids = [message.options["redis_message_id"] for message in fetched(broker, 9)]
    broker.do_ack("default", ids[0])
    broker.do_nack("default", ids[3])
    broker.do_requeue("default", ids[4], ids[1], ids[2])
    assert [message.options["inturn_level"] for message in fetched(broker, 9)] == [1, 1, 2]
    assert broker.client.hlen("dramatiq:default@2.XQ.msgs") == 1
    broker.flush("default")
    assert broker.do_qsize("default") == 0


def test_the_customer_may_stand_in_an_option(tmp_path: Path) -> None:
    given = {"record": str(tmp_path / "record"), "queue": "default", "customer": "option"}
    where = fresh_redis()
    broker = make(fresh_redis(), where, **given)
    sent = broker.get_actor("step").send_with_options(args=("x",), tenant="acme")
    assert sent.options["inturn_customer"] == "acme"
    assert "inturn_level" not in broker.get_actor("work").send("acme").options


def stub(url: str, **settings: Any) -> Any:
    broker = StubBroker()
    install(broker, inturn.open_counters(url), customer="customer", **settings)

    @dramatiq.actor(broker=broker)
    def work(customer: str) -> None:
        del customer

    return work


def test_a_failure_of_the_counters_stops_nothing_unless_asked_to(caplog: pytest.LogCaptureFixture) -> None:
    server = RedisServer()
    server.start()
    url = server.url
    server.remove()
    with caplog.at_level(logging.WARNING):
        assert stub(url).send("acme").options["inturn_level"] == 5
    assert "was not checked" in caplog.text
    with pytest.raises(UncheckedError, match="cannot be reached"):
        stub(url, raise_errors=True).send("acme")


def test_a_worker_that_takes_too_much_is_told_what_to_change(caplog: pytest.LogCaptureFixture) -> None:
    work = stub("memory://")
    worker = dramatiq.Worker(work.broker, worker_threads=2)
    with caplog.at_level(logging.WARNING):
        worker.start()
    worker.stop()
    assert "dramatiq_queue_prefetch=2" in caplog.text


def test_brokers_without_priorities_and_a_second_time_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="FairRedisBroker"):
        install(RedisBroker(url="redis://localhost:1"), inturn.open_counters("memory://"), customer="customer")
    work = stub("memory://")
    with pytest.raises(InvalidInputError, match="already"):
        install(work.broker, inturn.open_counters("memory://"), customer="customer")
