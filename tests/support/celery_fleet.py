"""A fleet as somebody would write it: the app that tests publish with and that their workers run."""

import json
import os
import time
from pathlib import Path
from typing import Any

from celery import Celery, Task

import inturn
from inturn.integrations.celery import FromHeader, Publish, install


class RecordingTask(Task):
    """Writes down what it is: name, what it tells, level and priority."""

    abstract = True

    def note(self, *fields: Any) -> None:
        level = (self.request.headers or {}).get("inturn_level")
        line = [self.name, *fields, level, self.request.delivery_info.get("priority")]
        with Path(self.app.record).open("a") as file:
            file.write(json.dumps(line) + "\n")


def work(self: RecordingTask, customer_id: Any, what: Any = None) -> Any:
    self.note(customer_id, what)
    return what


def gate(self: RecordingTask, path: str) -> None:
    self.note("gate")
    while not Path(path).exists():
        time.sleep(0.01)


def stubborn(self: RecordingTask, customer_id: str, times: int) -> None:
    self.note(customer_id, self.request.retries)
    if self.request.retries < times:
        raise self.retry(countdown=0)


def replaced(self: RecordingTask, customer_id: str) -> None:
    self.note(customer_id)
    raise self.replace(self.app.tasks["work"].si(customer_id, "instead"))


def split(self: RecordingTask, customer_id: str, parts: int) -> None:
    self.note(customer_id)
    for part in range(parts):
        self.app.tasks["work"].delay(customer_id, part)


def step(self: RecordingTask, before: Any, what: str) -> Any:
    self.note(before, what)
    return before


def failing(self: RecordingTask, customer_id: str) -> None:
    self.note(customer_id)
    raise ValueError("on purpose")


def tick(self: RecordingTask) -> None:
    self.note()


TASKS = (work, gate, stubborn, replaced, split, step, failing, tick)


def owner(publish: Publish) -> Any:
    return publish.kwargs.get("order", {}).get("owner")


RULES: dict[str, Any] = {"header": FromHeader("tenant"), "function": owner}


def make(broker: str, counters: str, record: str, *, customer: str = "customer_id", **settings: Any) -> Celery:
    """`customer` says where customers come from; the settings are Celery's."""
    app = Celery("fleet", broker=broker, set_as_current=False)
    if broker.startswith("amqp"):  # what was sent is in its queue then, and not still on the way
        app.conf.broker_transport_options = {"confirm_publish": True}
    app.record = record
    app.conf.update(broker_connection_retry_on_startup=True, worker_enable_remote_control=False, **settings)
    # A Celery worker may leave a message that came with the answer before it in its buffer until the next frame comes.
    app.conf.broker_heartbeat = 2
    install(app, inturn.open_counters(counters), customer=RULES.get(customer, customer))
    for function in TASKS:
        app.task(function, name=function.__name__, bind=True, base=RecordingTask, shared=False)
    return app


if "INTURN_FLEET" in os.environ:
    app = make(**json.loads(os.environ["INTURN_FLEET"]))
