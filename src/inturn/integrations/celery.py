"""Celery: every task of a customer is published with the priority of its level.

    app = Celery(...)
    install(app, inturn.open_counters("redis://localhost/3"), customer="customer_id")

One published task is one document and one check. What follows from it is the same document, with the same level and no
check: a retry, a replacement, the next task of a chain, a callback, the body of a chord (of the part that ended last).
Each member of a group is a document of its own.

The check is sent before Celery makes the message and heard when the message is ready to go, so that Celery's own work
and the trip to the counters pass at the same time.
"""

import logging
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

try:
    from celery import Celery
    from celery.app.amqp import AMQP
    from celery.signals import celeryd_after_setup
    from kombu.connection import Connection
    from kombu.utils.imports import symbol_by_name
except ImportError as missing:
    raise ImportError("Celery is not installed: pip install 'inturn[celery]'") from missing

from inturn.counters import Counters
from inturn.errors import InvalidInputError
from inturn.integrations.publishing import (
    CUSTOMER,
    HIGHEST,
    LEVEL,
    CustomerRule,
    Customers,
    Header,
    Levels,
    Publish,
)

__all__ = ["Header", "Publish", "install"]

log = logging.getLogger(__name__)

STEPS: Final = list(range(HIGHEST))
"""On Redis each level has its own list; kombu's default of four steps would throw levels together."""
RABBITMQ: Final = "amqp"
REDIS: Final = "redis"
PRIORITIES: Final[Mapping[str, Callable[[int], int]]] = {
    RABBITMQ: lambda level: HIGHEST - level,  # higher first
    REDIS: lambda level: level,  # lower first
}
"""The priority of a level, for the transports that have priorities."""
FANNING_OUT: Final = {"group": "tasks", "chord": "header"}
"""Signatures of many tasks at once, and where these stand."""
OLD: Final = 1
CELERYS_OWN: Final = "celery."
"""How the names of tasks begin that come with Celery."""
BEGUN: Final = "inturn_begun"
"""The option that a document goes by on its way through Celery."""
ANOTHER_QUEUE: Final = (
    "RabbitMQ does not change the arguments of a queue that exists. Give the fleet a queue of another name"
    " (task_default_queue), let the workers read both (-Q old,new) until the old one is empty, then delete it"
)

_installed: WeakKeyDictionary[Celery, "Publisher"] = WeakKeyDictionary()


def install(app: Celery, counters: Counters, *, customer: CustomerRule, raise_errors: bool = False) -> None:
    """Publish this app's tasks in turn, and say at the start of a worker which settings stand against it.

    `customer` is the name of a task argument, `Header(name)`, or a function of a `Publish`. Tasks without a customer
    are left as they are. When the counters cannot be asked, a task goes out with the customer's last level known to
    this process, or the middle one, and a warning is logged; with `raise_errors` publishing fails instead.
    """
    if app in _installed:
        raise InvalidInputError("Inturn is installed in this app already")
    if symbol_by_name(app.amqp_cls) is not AMQP:
        raise InvalidInputError(f"this app publishes by a class of its own ({app.amqp_cls}); Inturn needs Celery's")
    publisher = _installed[app] = Publisher(app, counters, customer, raise_errors=raise_errors)
    app.send_task = partial(publisher.send_task, app.send_task)
    app.amqp_cls = FairAMQP
    app.__dict__.pop("amqp", None)
    if app.configured:
        _prepare_queues(app.conf)
    app.on_after_configure.connect(lambda source, **_: _prepare_queues(source), weak=False)
    celeryd_after_setup.connect(partial(_warn, app), weak=False)


class FairAMQP(AMQP):  # type: ignore[misc]  # Celery has no types
    """Celery's way of publishing, with a word of ours before each task."""

    @cached_property
    def send_task_message(self) -> Callable[..., Any]:
        """What every task of the app is published by, whoever asks for it."""
        send: Callable[..., Any] = super().send_task_message
        publisher = _installed.get(self.app)
        return send if publisher is None else partial(publisher.publish, send)


class Document(NamedTuple):
    """Somebody's, its check on the way or made before."""

    customer: str
    level: Callable[[], int]


class Publisher:
    """Gives each task that goes out its level."""

    def __init__(self, app: Celery, counters: Counters, customer: CustomerRule, *, raise_errors: bool) -> None:
        self._app = app
        self._customers = Customers(customer, OwnTasks(app), log)
        self._levels = Levels(counters, raise_errors=raise_errors, log=log)

    def send_task(
        self, send_task: Callable[..., Any], name: str, args: Any = None, kwargs: Any = None, *more: Any, **options: Any
    ) -> Any:
        """Begin the check, and let Celery work meanwhile; what it would refuse is not checked."""
        if self._carries_headers and isinstance(args or (), list | tuple) and isinstance(kwargs or {}, Mapping):
            publish = Publish(name, args or (), kwargs or {}, options.get("headers") or {})
            options[BEGUN] = self._begun(publish, options)
        return send_task(name, args, kwargs, *more, **options)

    def publish(self, send: Callable[..., Any], producer: Any, name: str, message: Any, **options: Any) -> Any:
        """Hear, mark, send."""
        if self._carries_headers:
            message, options = self._marked(name, message, options)
        try:
            return send(producer, name, message, **options)
        except Exception as wrong:
            if getattr(wrong, "reply_code", None) == 406 and "x-max-priority" in str(wrong):
                wrong.add_note(ANOTHER_QUEUE)
            raise

    def _marked(self, name: str, message: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        args, kwargs, follows = message.body
        headers = options.get("headers") or {}
        document = options.pop(BEGUN, None) or self._begun(Publish(name, args, kwargs, headers), message.headers)
        if document is None:
            return message, options
        level = document.level()
        mark = {LEVEL: level, CUSTOMER: document.customer}
        options["headers"] = {**headers, **mark}
        if self._priority is not None:
            options["priority"] = self._priority(level)
        if any(follows.values()):
            message = message._replace(body=(args, kwargs, _marked_follows(follows, mark)))
        return message, options

    def _begun(self, publish: Publish, told: Mapping[str, Any]) -> Document | None:
        """Whose document it is, and its check on the way unless it had one."""
        if LEVEL not in publish.headers and _continues(told):
            publish = publish._replace(headers={**publish.headers, **self._of_current_task()})
        customer = self._customers.of(publish)
        if customer is None:
            return None
        had = publish.headers.get(LEVEL)
        return Document(customer, self._levels.begin(customer) if had is None else lambda: had)

    @cached_property
    def _carries_headers(self) -> bool:
        """Celery's old protocol does not."""
        return bool(self._app.conf.task_protocol != OLD)

    @cached_property
    def _priority(self) -> Callable[[int], int] | None:
        return PRIORITIES.get(_driver(self._app.conf))

    def _of_current_task(self) -> dict[str, Any]:
        task = self._app.current_worker_task
        headers = (task.request.headers or {}) if task else {}
        return {name: headers[name] for name in (LEVEL, CUSTOMER) if name in headers}

    def check_tasks(self) -> None:
        """Warn if no task has the argument that names the customer."""
        self._customers.check_tasks()


class OwnTasks:
    """An app's tasks, without those that come with Celery."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def names(self) -> list[str]:
        """All that are registered by now."""
        return [name for name in self._app.tasks if not name.startswith(CELERYS_OWN)]

    def function(self, name: str) -> Callable[..., Any] | None:
        """What a task runs."""
        task = self._app.tasks.get(name)
        function: Callable[..., Any] | None = task.run if task is not None else None
        return function


def _continues(headers: Mapping[str, Any]) -> bool:
    """Whether it is the document that the current task works on: tried again, or replaced."""
    return bool(headers.get("retries") or headers.get("replaced_task_nesting"))


def _marked_follows(follows: Mapping[str, Any], mark: Mapping[str, Any]) -> dict[str, Any]:
    """Callbacks, errbacks, the rest of a chain and the body of a chord, as documents that were checked."""
    marked = dict(follows)
    for kind in ("callbacks", "errbacks", "chain"):
        if marked.get(kind):
            marked[kind] = [_marked_signature(each, mark) for each in marked[kind]]
    if marked.get("chord"):
        marked["chord"] = _marked_signature(marked["chord"], mark)
    return marked


def _marked_signature(signature: Any, mark: Mapping[str, Any]) -> Any:
    """A copy that says whose it is, and which level it has unless it fans out: then each part has its own check."""
    if not isinstance(signature, dict):
        return signature
    kind, owned = signature.get("subtask_type"), {CUSTOMER: mark[CUSTOMER]}
    if kind in FANNING_OUT:
        return _with_parts(signature, FANNING_OUT[kind], lambda each: _marked_signature(each, owned))
    if kind == "chain":
        return _with_parts(signature, "tasks", lambda each: _marked_signature(each, mark))
    options = signature.get("options") or {}
    return {**signature, "options": {**options, "headers": {**(options.get("headers") or {}), **mark}}}


def _with_parts(signature: Any, name: str, marked: Callable[[Any], Any]) -> Any:
    parts = signature["kwargs"][name]
    parts = marked(parts) if isinstance(parts, dict) else [marked(each) for each in parts]
    return {**signature, "kwargs": {**signature["kwargs"], name: parts}}


# -- settings ---------------------------------------------------------------------------------------------------------


def _driver(conf: Any) -> str:
    """What kind of broker the tasks are published to."""
    url = conf.broker_write_url
    driver: str = Connection(url[0] if isinstance(url, list) else url).get_transport_cls().driver_type
    return driver


def _prepare_queues(conf: Any) -> None:
    """Queues in which priorities are real, where the settings do not say otherwise."""
    driver = _driver(conf)
    if driver == RABBITMQ and conf.task_queue_max_priority is None and conf.task_default_queue_type != "quorum":
        conf.task_queue_max_priority = HIGHEST
    if driver == REDIS and "priority_steps" not in conf.broker_transport_options:
        conf.broker_transport_options = {**conf.broker_transport_options, "priority_steps": STEPS}


def _warn(app: Celery, instance: Any, conf: Any, **_: Any) -> None:
    """At the start of a worker of this app: what keeps levels from being levels, and what to change."""
    if instance.app is not app:
        return
    _installed[app].check_tasks()
    driver = _driver(conf)
    if driver not in PRIORITIES:
        log.warning("the transport %s has no priorities: levels change nothing; use RabbitMQ or Redis", driver)
        return
    if instance.prefetch_multiplier != 1:
        log.warning(
            "worker_prefetch_multiplier is %s: so many documents a process are taken from the queue ahead of time, and"
            " later ones of a better level wait behind them; set worker_prefetch_multiplier = 1",
            instance.prefetch_multiplier,
        )
    if not conf.task_acks_late:
        log.warning(
            "task_acks_late is off: each process takes one more document ahead of time while it works; set"
            " task_acks_late = True if your tasks may run twice after a crash",
        )
    if driver == REDIS:
        _warn_of_steps(conf)
    else:
        _warn_of_queues(app)


def _warn_of_steps(conf: Any) -> None:
    steps = conf.broker_transport_options.get("priority_steps") or []
    if not set(STEPS[1:]) <= set(steps):
        log.warning(
            "priority_steps is %s: several levels share one list and go by the time they came; set"
            " broker_transport_options = {'priority_steps': list(range(10))} in workers first, then in publishers",
            steps,
        )


def _warn_of_queues(app: Celery) -> None:
    for queue in app.amqp.queues.consume_from.values():
        arguments = queue.queue_arguments or {}
        if arguments.get("x-queue-type", "classic") != "classic":
            log.warning(
                "queue %s is no classic queue: it does not keep nine levels apart; use a classic one", queue.name
            )
        elif (arguments.get("x-max-priority") or queue.max_priority or 0) < HIGHEST - 1:
            log.warning(
                "queue %s has room for fewer than nine levels; declare it with max_priority=%d. %s",
                queue.name,
                HIGHEST,
                ANOTHER_QUEUE,
            )
