"""Celery: a check is on its way while Celery makes the message, and belongs to that message whatever comes between."""

import os
import signal
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from celery import Celery
from celery.app.amqp import AMQP

import inturn
from inturn.counters import Counters
from inturn.errors import StoreError
from inturn.integrations import common
from inturn.integrations.celery import install
from services import RedisServer, fresh_redis, needs_redis
from waiting import wait_until

pytestmark = needs_redis


@pytest.fixture
def server() -> Iterator[RedisServer]:
    own = RedisServer()
    own.start()
    yield own
    own.remove()


@pytest.fixture
def counters() -> Iterator[Counters]:
    with inturn.open_counters(fresh_redis()) as opened:
        yield opened


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Has something done once, while Celery makes the next message."""
    make = AMQP.as_task_v2

    def put(done: Callable[[], object]) -> None:
        waiting = [done]

        def as_task_v2(self: AMQP, *given: Any, **named: Any) -> Any:
            if waiting:
                waiting.pop()()
            return make(self, *given, **named)

        monkeypatch.setattr(AMQP, "as_task_v2", as_task_v2)

    return put


def fair(counters: Counters, **settings: Any) -> Celery:
    """An app whose messages stay in this process."""
    app = Celery("alone", broker="memory://", set_as_current=False)
    install(app, counters, customer="customer", **settings)
    app.conf.task_default_queue = f"q-{id(app)}"
    return app


def publish(app: Celery, customer: str, **options: Any) -> None:
    app.send_task("work", kwargs={"customer": customer}, **options)


def sent(app: Celery) -> list[tuple[str, int | None]]:
    """Customers and levels of all messages that went out since."""
    result = []
    with app.connection_for_read() as connection:
        queue = app.amqp.queues[app.conf.task_default_queue](connection.default_channel)
        while (message := queue.get(no_ack=True)) is not None:
            result.append((message.payload[1]["customer"], message.headers.get("inturn_level")))
    return result


def test_the_question_is_out_before_the_message_is_made(counters: Counters, between: Any) -> None:
    app = fair(counters)
    between(lambda: wait_until(lambda: counters.counter("acme") is not None))
    publish(app, "acme")
    assert sent(app) == [("acme", 1)]
    app.close()


def test_what_is_published_between_gets_its_own_answer(counters: Counters, between: Any) -> None:
    app = fair(counters)
    counters.check("bulk", 30)
    between(lambda: [publish(app, "acme"), publish(app, "bulk")])
    publish(app, "bulk")
    assert sorted(sent(app)) == [("acme", 1), ("bulk", 9), ("bulk", 9)]
    assert [counters.check(item)[0].count for item in ("acme", "bulk")] == [-1, -32]
    app.close()


def test_a_message_that_was_never_made_takes_nobodys_answer(counters: Counters) -> None:
    app = fair(counters)
    counters.check("bulk", 30)
    for _ in range(3):
        with pytest.raises(ValueError, match="countdown"):
            publish(app, "bulk", countdown=-(2**40))
    publish(app, "acme")
    publish(app, "bulk")
    assert sent(app) == [("acme", 1), ("bulk", 9)]
    app.close()


def test_counters_that_die_between_stop_nothing(
    server: RedisServer, between: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(common, "COUNTERS_RETRY_SECONDS", 0.0)
    with inturn.open_counters(server.url) as counters:
        app = fair(counters)
        counters.check("bulk", 20)
        publish(app, "bulk")
        os.kill(server.pids[0], signal.SIGSTOP)
        between(server.stop)
        publish(app, "bulk")
        server.start(server.port)
        publish(app, "acme")
        assert sent(app) == [("bulk", 8), ("bulk", 8), ("acme", 1)]
        assert caplog.text.count("was not checked") == 1
        app.close()


def test_counters_that_answer_too_late_are_not_heard_later(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "COUNTERS_RETRY_SECONDS", 0.0)
    with inturn.open_counters(f"{server.url}?socket_timeout=0.2") as counters:
        app = fair(counters)
        counters.check("bulk", 20)
        os.kill(server.pids[0], signal.SIGSTOP)
        publish(app, "bulk")
        os.kill(server.pids[0], signal.SIGCONT)
        for customer in ("acme", "bulk", "acme"):
            publish(app, customer)
        assert sent(app) == [("bulk", common.FALLBACK_LEVEL), ("acme", 1), ("bulk", 9), ("acme", 1)]
        app.close()


def test_an_answer_that_is_lost_fails_where_that_is_wanted(server: RedisServer, between: Any) -> None:
    with inturn.open_counters(server.url) as counters:
        app = fair(counters, raise_errors=True)
        publish(app, "acme")
        os.kill(server.pids[0], signal.SIGSTOP)
        between(server.stop)
        with pytest.raises(StoreError, match="cannot be reached"):
            publish(app, "acme")
        assert sent(app) == [("acme", 1)]
        app.close()


def test_threads_publish_as_many_documents_as_are_checked(counters: Counters) -> None:
    app = fair(counters)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: publish(app, "bulk" if number % 2 else "other"), range(100)))
    expected = [(customer, level) for customer in ("bulk", "other") for level in levels(50)]
    assert Tally(sent(app)) == Tally(expected)
    app.close()


def levels(n: int) -> list[int]:
    return [level for level, _ in inturn.PriorityPolicy().check_many(None, 0, n).per_document()]


def test_what_celery_refuses_is_not_checked(counters: Counters) -> None:
    app = fair(counters)
    app.task(lambda customer: customer, name="work", shared=False)
    with pytest.raises(TypeError, match="list or tuple"):
        app.send_task("work", args="acme")
    assert counters.counter("a") is None
    app.close()


def test_a_message_that_is_sent_twice_by_hand_is_two_documents(counters: Counters) -> None:
    app = fair(counters)
    message = app.amqp.create_task_message("id", "work", kwargs={"customer": "acme"}, retries=0)
    with app.producer_or_acquire() as producer:
        for _ in range(2):
            app.amqp.send_task_message(producer, "work", message)
    assert counters.check("acme")[0].count == -2
    app.close()


def test_the_old_protocol_has_no_headers_and_is_left_alone(counters: Counters) -> None:
    app = fair(counters)
    app.conf.task_protocol = 1
    publish(app, "acme")
    assert counters.counter("acme") is None
    app.close()
