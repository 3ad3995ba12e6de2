"""A Dramatiq fleet: the broker and the actors that tests publish with and that their workers run."""

import json
import os
import time
from pathlib import Path
from typing import Any

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import CurrentMessage, GroupCallbacks
from dramatiq.rate_limits.backends import RedisBackend

import inturn
from inturn.integrations.dramatiq import FairRedisBroker, FromHeader, install


def note(record: str, *fields: Any) -> None:
    message = CurrentMessage.get_current_message()
    assert message is not None
    with Path(record).open("a") as file:
        file.write(json.dumps([message.actor_name, *fields, message.options.get("inturn_level")]) + "\n")


def make(broker: str, counters: str, record: str, queue: str, **settings: Any) -> dramatiq.Broker:
    """With the actors of all tests on it."""
    made = FairRedisBroker(url=broker) if broker.startswith("redis") else RabbitmqBroker(url=broker)
    made.add_middleware(CurrentMessage())
    made.add_middleware(GroupCallbacks(RedisBackend(url=counters)))
    rule = settings.pop("customer", "customer_id")
    install(
        made, inturn.open_counters(counters), customer=FromHeader("tenant") if rule == "option" else rule, **settings
    )

    @dramatiq.actor(broker=made, queue_name=queue)
    def work(customer_id: str, what: Any = None) -> Any:
        note(record, customer_id, what)
        return what

    @dramatiq.actor(broker=made, queue_name=queue)
    def gate(path: str) -> None:
        note(record, "gate")
        while not Path(path).exists():
            time.sleep(0.01)

    @dramatiq.actor(broker=made, queue_name=queue, min_backoff=1, max_backoff=2)
    def stubborn(customer_id: str, times: int) -> None:
        message = CurrentMessage.get_current_message()
        assert message is not None
        retries = message.options.get("retries", 0)
        note(record, customer_id, retries)
        if retries < times:
            raise dramatiq.errors.Retry(delay=1)

    @dramatiq.actor(broker=made, queue_name=queue)
    def step(what: str, before: Any = None) -> Any:
        note(record, what, before)
        return before

    return made


if "INTURN_FLEET" in os.environ:
    dramatiq.set_broker(make(**json.loads(os.environ["INTURN_FLEET"])))
