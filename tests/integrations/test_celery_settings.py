"""Celery: queues in which priorities are real, warnings that say what to change, and counters that fail."""

import importlib
import json
import logging
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

import inturn
from celery_fleet import make
from fleets import running_process
from inturn.errors import InvalidInputError, StoreError
from inturn.integrations import common
from inturn.integrations.celery import install
from services import RedisServer, fresh_redis, needs_rabbitmq, needs_redis, rabbitmq
from waiting import wait_until

pytestmark = needs_redis

WORKER = ("celery", "-A", "celery_fleet", "worker", "--pool=solo", "--loglevel=WARNING", "--without-gossip")


def settings(broker: str, folder: Path, **more: Any) -> dict[str, Any]:
    queue = f"q-{uuid.uuid4().hex[:8]}"
    given = {"broker": broker, "counters": fresh_redis(), "record": str(folder / "record"), "task_default_queue": queue}
    return {**given, **more}


def warnings_of(given: dict[str, Any], folder: Path) -> str:
    """What a worker with these settings says before it does its first task."""
    log = folder / "log"
    with running_process([*WORKER, "--without-mingle"], log, INTURN_FLEET=json.dumps(given)):
        make(**given).tasks["tick"].delay()
        wait_until(lambda: Path(given["record"]).exists())
    return log.read_text()


def test_a_worker_on_redis_is_told_what_to_change(tmp_path: Path) -> None:
    steps = {"priority_steps": [0, 3, 6, 9]}
    reported = warnings_of(settings(fresh_redis(), tmp_path, broker_transport_options=steps), tmp_path)
    assert "worker_prefetch_multiplier is 4" in reported
    assert "set worker_prefetch_multiplier = 1" in reported
    assert "set task_acks_late = True" in reported
    assert "'priority_steps': list(range(10))" in reported


@needs_rabbitmq
def test_a_worker_on_rabbitmq_is_told_what_to_change(tmp_path: Path) -> None:
    reported = warnings_of(
        settings(rabbitmq(), tmp_path, task_queue_max_priority=3, worker_prefetch_multiplier=0), tmp_path
    )
    assert "worker_prefetch_multiplier is 0" in reported
    assert "max_priority=10" in reported
    assert "a queue of another name" in reported


@needs_rabbitmq
def test_a_queue_that_was_declared_without_priorities_is_explained(tmp_path: Path) -> None:
    app = make(**settings(rabbitmq(), tmp_path))
    with app.connection_for_write() as connection:
        connection.default_channel.queue_declare(app.conf.task_default_queue, durable=True, auto_delete=False)
        with pytest.raises(Exception, match="x-max-priority") as refused:
            app.tasks["work"].apply_async(("acme",), retry=False)
        assert any("task_default_queue" in note for note in refused.value.__notes__)
        connection.default_channel.queue_delete(app.conf.task_default_queue)


def fair(counters: str, **settings: Any) -> Celery:
    """An app whose messages stay in this process."""
    app = Celery("alone", broker="memory://", set_as_current=False)
    install(app, inturn.open_counters(counters), customer="customer", **settings)
    return app


def published(app: Celery, **kwargs: Any) -> dict[str, Any]:
    """What is sent: the headers of a message."""
    app.send_task("work", kwargs=kwargs)
    with app.connection_for_read() as connection:
        queue = app.amqp.queues[app.conf.task_default_queue](connection.default_channel)
        message = queue.get(no_ack=True)
    headers: dict[str, Any] = message.headers
    return headers


def test_settings_made_later_are_heard() -> None:
    app = Celery("late", set_as_current=False)
    install(app, inturn.open_counters("memory://"), customer="customer")
    app.config_from_object({"broker_url": "redis://localhost:1/0", "task_queue_max_priority": 5})
    assert app.conf.broker_transport_options == {"priority_steps": list(range(10))}
    other = Celery("amqp", set_as_current=False)
    install(other, inturn.open_counters("memory://"), customer="customer")
    other.config_from_object({"broker_url": "amqp://localhost:1//", "broker_transport_options": {"a": 1}})
    assert (other.conf.task_queue_max_priority, other.conf.broker_transport_options) == (10, {"a": 1})


def test_while_counters_fail_the_last_level_known_is_used(caplog: pytest.LogCaptureFixture) -> None:
    server = RedisServer()
    server.start()
    app = fair(server.url)
    with inturn.open_counters(server.url) as counters:
        counters.check("known", 20)
    assert published(app, customer="known")["inturn_level"] == 8
    server.remove()
    with caplog.at_level(logging.WARNING):
        levels = [published(app, customer=item)["inturn_level"] for item in ("known", "known", "stranger")]
    assert levels == [8, 8, common.FALLBACK_LEVEL]
    assert caplog.text.count("was not checked") == 1
    app.close()


def test_counters_that_come_back_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "COUNTERS_RETRY_SECONDS", 0.0)
    server = RedisServer()
    server.start()
    app = fair(server.url)
    server.stop()
    assert published(app, customer="acme")["inturn_level"] == common.FALLBACK_LEVEL
    server.start(server.port)
    assert published(app, customer="acme")["inturn_level"] == 1
    server.remove()
    app.close()


def test_publishing_fails_where_that_is_wanted() -> None:
    server = RedisServer()
    server.start()
    url = server.url
    server.remove()
    app = fair(url, raise_errors=True)
    with pytest.raises(StoreError, match="cannot be reached"):
        app.send_task("work", kwargs={"customer": "acme"})
    assert "inturn_level" not in published(app)
    app.close()


def test_a_customer_whose_name_is_no_name_is_published_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    app = fair("memory://")
    assert published(app, customer="a\nb")["inturn_level"] == common.FALLBACK_LEVEL
    assert "control characters" in caplog.text
    assert published(app, customer="acme")["inturn_level"] == 1
    app.close()


def test_two_apps_in_one_process_are_kept_apart() -> None:
    with_inturn, without = fair("memory://"), Celery("plain", broker="memory://", set_as_current=False)
    without.conf.task_default_queue = "other"
    assert "inturn_level" in published(with_inturn, customer="acme")
    assert "inturn_level" not in published(without, customer="acme")
    with_inturn.close()
    without.close()


def test_installing_twice_and_rules_that_are_none_are_refused() -> None:
    app = fair("memory://")
    with pytest.raises(InvalidInputError, match="already"):
        install(app, inturn.open_counters("memory://"), customer="customer")
    rule: Any = 7
    with pytest.raises(InvalidInputError, match="Header"):
        install(Celery("x", set_as_current=False), inturn.open_counters("memory://"), customer=rule)


@pytest.mark.parametrize("library", ["celery", "dramatiq"])
def test_a_missing_library_is_named_with_the_line_to_install(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, f"inturn.integrations.{library}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"pip install 'inturn\[{library}\]'"):
        importlib.import_module(f"inturn.integrations.{library}")
