"""Whose document a task is: what looks like a slip in `install` is told, and what cannot work is refused."""

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from celery import Celery
from dramatiq.brokers.stub import StubBroker

import inturn
from celery_fleet import make
from fleets import log_contains, running_process
from inturn.errors import InvalidInputError
from inturn.integrations import celery, common
from inturn.integrations import dramatiq as dramatiqs
from inturn.integrations.common import CustomerResolver, FromHeader, Publish, TaskArgument, find_argument
from services import fresh_redis, needs_redis
from waiting import wait_until

WORKER = ("celery", "-A", "celery_fleet", "worker", "--pool=solo", "--loglevel=WARNING", "--without-gossip")


class Known:
    """Tasks by name."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        self.functions = functions

    def names(self) -> list[str]:
        return list(self.functions)

    def function(self, name: str) -> Callable[..., Any] | None:
        return self.functions.get(name)


def plain(document: str, customer_id: str) -> None: ...
def optional(document: str, customer_id: str = "house") -> None: ...
def by_name(*documents: str, customer_id: str) -> None: ...
def anything(**facts: str) -> None: ...
def camel(document: str, customerId: str) -> None: ...  # noqa: N803 - as others write it
def shorter(document: str, customer: str) -> None: ...
def nobodys(path: str, days: int) -> None: ...


def rules(*functions: Callable[..., Any], rule: Any = "customer_id") -> CustomerResolver:
    known = Known(**{function.__name__: function for function in functions})
    return CustomerResolver(rule, known, logging.getLogger("rules"))


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (plain, TaskArgument(is_accepted=True, position=1)),
        (optional, TaskArgument(is_accepted=True, position=1, default="house")),
        (by_name, TaskArgument(is_accepted=True)),
        (anything, TaskArgument(is_accepted=True)),
        (camel, TaskArgument(is_accepted=False, similar_name="customerId")),
        (shorter, TaskArgument(is_accepted=False, similar_name="customer")),
        (nobodys, TaskArgument(is_accepted=False)),
    ],
)
def test_an_argument_is_found_as_python_would_bind_it(function: Callable[..., Any], argument: TaskArgument) -> None:
    assert find_argument("customer_id", function) == argument


def test_the_customer_is_what_the_task_gets() -> None:
    customer_resolver = rules(plain, optional, by_name)
    assert customer_resolver.resolve(Publish("plain", ("a", "acme"), {}, {})) == "acme"
    assert customer_resolver.resolve(Publish("optional", ("a", "acme"), {}, {})) == "acme"
    assert customer_resolver.resolve(Publish("optional", ("a",), {}, {})) == "house"
    assert customer_resolver.resolve(Publish("optional", ("a",), {"customer_id": None}, {})) is None
    assert customer_resolver.resolve(Publish("by_name", ("a", "b", "c"), {"customer_id": "acme"}, {})) == "acme"
    assert customer_resolver.resolve(Publish("by_name", ("a", "b", "c"), {}, {})) is None


@pytest.mark.parametrize(
    ("function", "args", "words"),
    [
        (camel, ("a", "acme"), "task camel has no argument customer_id but one called customerId"),
        (shorter, (), "task shorter has no argument customer_id but one called customer"),
        (None, ("a", "acme"), "task elsewhere is not known in this process.*customer_id=… by keyword"),
    ],
)
def test_a_task_that_looks_like_a_slip_is_told_once(
    caplog: pytest.LogCaptureFixture, function: Any, args: tuple[str, ...], words: str
) -> None:
    customer_resolver = rules(plain) if function is None else rules(plain, function)
    name = "elsewhere" if function is None else function.__name__
    for _ in range(3):
        assert customer_resolver.resolve(Publish(name, args, {}, {})) is None
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert re.search(words, record.getMessage())


def test_a_task_that_has_no_customer_on_purpose_is_no_slip(caplog: pytest.LogCaptureFixture) -> None:
    customer_resolver = rules(plain, nobodys, anything)
    assert customer_resolver.resolve(Publish("nobodys", ("old", 3), {}, {})) is None
    assert customer_resolver.resolve(Publish("anything", (), {}, {})) is None
    assert customer_resolver.resolve(Publish("elsewhere", (), {"x": 1}, {})) is None
    assert customer_resolver.resolve(Publish("plain", ("a", ""), {}, {})) is None
    customer_resolver.check_tasks()
    assert caplog.records == []


def test_a_task_that_is_registered_later_is_known_from_then_on() -> None:
    known = Known()
    customer_resolver = CustomerResolver("customer_id", known, logging.getLogger("rules"))
    assert customer_resolver.resolve(Publish("plain", ("a", "acme"), {}, {})) is None
    known.functions["plain"] = plain
    assert customer_resolver.resolve(Publish("plain", ("a", "acme"), {}, {})) == "acme"


def test_a_header_that_no_task_has_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    slip, good = rules(rule=FromHeader("tennant")), rules(rule=FromHeader("tenant"))
    for number in range(3 * common.MISSING_HEADER_WARN_COUNT):
        headers = {"tenant": "acme"} if number % 10 == 9 else {}
        assert slip.resolve(Publish("work", (), {}, headers)) is None
        good.resolve(Publish("work", (), {}, headers))
    (record,) = caplog.records
    assert "none of the first 100 tasks" in record.getMessage()
    assert "header tennant" in record.getMessage()


@pytest.mark.parametrize("invalid", ["redis://localhost:6379/1", None, object(), inturn.open_counters])
def test_counters_that_are_none_are_refused_at_install(invalid: Any) -> None:
    app, broker = Celery("x", broker="memory://", set_as_current=False), StubBroker()
    with pytest.raises(InvalidInputError, match=r"inturn\.open_counters\(\"redis://…\"\)"):
        celery.install(app, invalid, customer="customer_id")
    with pytest.raises(InvalidInputError, match=r"inturn\.open_counters\(\"redis://…\"\)"):
        dramatiqs.install(broker, invalid, customer="customer_id")
    app.send_task("work", kwargs={"customer_id": "acme"})  # nothing was half installed
    for install, where in ((celery.install, app), (dramatiqs.install, broker)):
        install(where, inturn.open_counters("memory://"), customer="customer_id")  # type: ignore[operator]
    app.close()


@needs_redis
def test_a_worker_whose_tasks_have_no_such_argument_says_so_at_its_start(tmp_path: Path) -> None:
    log = tmp_path / "log"
    given = {"broker": fresh_redis(), "counters": fresh_redis(), "record": str(tmp_path / "record")}
    with running_process(WORKER, log, INTURN_FLEET=json.dumps({**given, "customer": "custmer_id"})):
        make(**given).tasks["tick"].delay()
        wait_until((tmp_path / "record").exists)
    assert log_contains(log)("customer='custmer_id', and no task known here has an argument of that name")
    assert log_contains(log)("(there is customer_id)")


def test_a_dramatiq_worker_says_so_too(caplog: pytest.LogCaptureFixture) -> None:
    broker = StubBroker()
    dramatiqs.install(broker, inturn.open_counters("memory://"), customer="custmer_id")

    @dramatiq.actor(broker=broker)
    def work(customer_id: str) -> None:
        del customer_id

    worker = dramatiq.Worker(broker, worker_threads=1)
    worker.start()
    worker.stop()
    work.send("acme")
    reported = [record.getMessage() for record in caplog.records if record.name == "inturn.integrations.dramatiq"]
    assert any("no task known here has an argument of that name (there is customer_id)" in item for item in reported)
    assert any("task work has no argument custmer_id but one called customer_id" in item for item in reported)
