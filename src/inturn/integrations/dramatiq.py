"""Dramatiq: every message of a customer is enqueued with the priority of its level.

    broker = RabbitmqBroker(url=...)          # or FairRedisBroker(url=...)
    install(broker, inturn.open_counters("redis://localhost/3"), customer="customer_id")

One message is one document and one check, however often it is enqueued. What follows from it is the same document, with
the same level and no check: a retry, the next message of a pipeline, the callback of a group (of the part that ended
last). Each member of a group is a document of its own.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

try:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.middleware import Middleware, MiddlewareError
except ImportError as missing:
    raise ImportError("Dramatiq or redis-py is not installed: pip install 'inturn[dramatiq]'") from missing

from inturn.counters import Counters
from inturn.errors import InvalidInputError, StoreError
from inturn.integrations.common import (
    CUSTOMER_HEADER,
    LEVEL_HEADER,
    MAX_PRIORITY,
    CustomerResolver,
    CustomerRule,
    FromHeader,
    LevelResolver,
    Publish,
)
from inturn.policy.priority import MAX_THRESHOLDS

__all__ = ["FairRedisBroker", "FromHeader", "Publish", "UncheckedError", "install"]

log = logging.getLogger(__name__)

MAX_LEVEL: Final = MAX_THRESHOLDS + 1
DELAY_QUEUE_SUFFIX: Final = ".DQ"
REDIS_ID_OPTION: Final = "redis_message_id"


class UncheckedError(StoreError, MiddlewareError):
    """The counters could not be asked, and nothing may be enqueued without."""

    code = "unchecked"


def install(broker: dramatiq.Broker, counters: Counters, *, customer: CustomerRule, raise_errors: bool = False) -> None:
    """Enqueue this broker's messages with fair priorities, and log at worker start which settings defeat them.

    `customer` is the name of an actor's argument, `FromHeader(name)` for an option of the message, or a function of a
    `Publish`. Messages without a customer are left as they are. When the counters cannot be asked, a message goes out
    with the customer's last level known to this process, or the middle one, and a warning is logged; with
    `raise_errors` enqueuing fails instead.
    """
    if any(isinstance(middleware, PriorityMiddleware) for middleware in broker.middleware):
        raise InvalidInputError("Inturn is installed in this broker already")
    if isinstance(broker, RedisBroker) and not isinstance(broker, FairRedisBroker):
        raise InvalidInputError(
            "Dramatiq's RedisBroker has one list a queue and no priorities; use"
            " inturn.integrations.dramatiq.FairRedisBroker, with the same arguments, in publishers and workers"
        )
    in_turn = PriorityMiddleware(broker, counters, customer, raise_errors=raise_errors)
    if getattr(broker, "max_priority", 0) is None:
        broker.max_priority = MAX_PRIORITY  # type: ignore[attr-defined]  # RabbitmqBroker's; queues are declared later
    broker.add_middleware(in_turn)


class PriorityMiddleware(Middleware):
    """Gives each message that goes out its level."""

    def __init__(
        self, broker: dramatiq.Broker, counters: Counters, customer: CustomerRule, *, raise_errors: bool
    ) -> None:
        self._broker = broker
        self._customer_resolver = CustomerResolver(customer, BrokerActors(broker), log)
        self._level_resolver = LevelResolver(counters, raise_errors=raise_errors, log=log)

    def before_enqueue(self, broker: dramatiq.Broker, message: dramatiq.Message[Any], delay: int | None) -> None:
        """Check once, and mark the message and what follows from it."""
        del broker, delay
        options = message.options
        customer = self._customer_resolver.resolve(Publish(message.actor_name, message.args, message.kwargs, options))
        if customer is None:
            return
        if LEVEL_HEADER not in options:
            try:
                options[LEVEL_HEADER] = self._level_resolver.resolve(customer)
            except StoreError as error:
                raise UncheckedError(str(error)) from error
        options[CUSTOMER_HEADER] = customer
        options["broker_priority"] = MAX_PRIORITY - options[LEVEL_HEADER]  # for RabbitMQ, where higher goes first
        if REDIS_ID_OPTION in options:
            options[REDIS_ID_OPTION] = (
                f"{options[REDIS_ID_OPTION]}@{options[LEVEL_HEADER]}"  # for Redis: see FairRedisBroker
            )
        mark = {LEVEL_HEADER: options[LEVEL_HEADER], CUSTOMER_HEADER: customer}
        if options.get("pipe_target"):
            options["pipe_target"] = _with_options(options["pipe_target"], mark)
        if options.get("group_completion_callbacks"):
            options["group_completion_callbacks"] = [
                _with_options(option, mark) for option in options["group_completion_callbacks"]
            ]

    def before_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        """What keeps levels from being levels, and what to change."""
        del broker
        self._customer_resolver.check_tasks()
        if worker.queue_prefetch > worker.worker_threads:
            log.warning(
                "a worker with %d threads takes %d documents from a queue ahead of time, and later ones of a better"
                " level wait behind them; set the environment variable dramatiq_queue_prefetch=%d",
                worker.worker_threads,
                worker.queue_prefetch,
                worker.worker_threads,
            )
        highest = getattr(self._broker, "max_priority", MAX_PRIORITY)
        if highest < MAX_PRIORITY - 1:
            log.warning(
                "max_priority is %d: there is room for fewer than nine levels; give RabbitmqBroker max_priority=%d,"
                " with queues of another name, because RabbitMQ does not change the arguments of a queue that exists",
                highest,
                MAX_PRIORITY,
            )


class BrokerActors:
    """A broker's actors."""

    def __init__(self, broker: dramatiq.Broker) -> None:
        self._broker = broker

    def names(self) -> list[str]:
        """All that are declared by now."""
        return list(self._broker.actors)

    def function(self, name: str) -> Callable[..., Any] | None:
        """What an actor runs."""
        actor = self._broker.actors.get(name)
        return actor.fn if actor is not None else None


def _with_options(message: Mapping[str, Any], mark: Mapping[str, Any]) -> dict[str, Any]:
    """A copy: the user may run the same pipeline again."""
    return {**message, "options": {**message["options"], **mark}}


class FairRedisBroker(RedisBroker):
    """Dramatiq's broker on Redis with a list for each level of a queue, the best one emptied first.

    Messages without a level go before all of them, through the list that Dramatiq itself uses; delayed ones wait in one
    list until they are due. A message's level is stored by its id in Redis, so that it is acknowledged in its list.
    """

    def do_enqueue(self, queue_name: str, id: str, data: bytes) -> Any:
        """Into the list of its level."""
        return self._dispatch("enqueue")(_redis_list(queue_name, id), id, data)

    def do_fetch(self, queue_name: str, limit: int) -> list[bytes]:
        """Up to so many, level by level."""
        fetch = self._dispatch("fetch")
        result: list[bytes] = []
        for name in _redis_lists(queue_name):
            result += fetch(name, limit - len(result))
            if len(result) == limit:
                break
        return result

    def do_ack(self, queue_name: str, id: str) -> Any:
        """In the list that it came from."""
        return self._dispatch("ack")(_redis_list(queue_name, id), id)

    def do_nack(self, queue_name: str, id: str) -> Any:
        """In the list that it came from; the dead letters of each level are kept apart."""
        return self._dispatch("nack")(_redis_list(queue_name, id), id)

    def do_requeue(self, queue_name: str, *ids: str) -> None:
        """Each back into its list."""
        for id_ in ids:
            self._dispatch("requeue")(_redis_list(queue_name, id_), id_)

    def do_purge(self, queue_name: str) -> None:
        """All lists of a queue."""
        for name in _redis_lists(queue_name):
            self._dispatch("purge")(name)

    def do_qsize(self, queue_name: str) -> int:
        """How many messages a queue has, whatever their level."""
        return sum(self._dispatch("qsize")(name) for name in _redis_lists(queue_name))


def _redis_list(queue_name: str, id: str) -> str:
    _, at, level = id.partition("@")
    return queue_name if not at or queue_name.endswith(DELAY_QUEUE_SUFFIX) else f"{queue_name}@{level}"


def _redis_lists(queue_name: str) -> list[str]:
    levels = () if queue_name.endswith(DELAY_QUEUE_SUFFIX) else range(1, MAX_LEVEL + 1)
    return [queue_name, *(f"{queue_name}@{level}" for level in levels)]
