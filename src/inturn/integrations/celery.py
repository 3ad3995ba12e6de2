"""Celery: every task of a customer is published with the priority of its level.

    app = Celery(...)
    install(app, inturn.open_counters("redis://localhost/3"), customer="customer_id")

One published task is one document and one check. What follows from it is the same document, with the same level and no
check: a retry, a replacement, the next task of a chain, a callback, the body of a chord (of the part that ended last).
Each member of a group is a document of its own.

The check is sent before Celery builds the message and its reply received when the message is ready to go, so that
Celery's own work and the trip to the counters pass at the same time.
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

__all__ = ["FromHeader", "Publish", "install"]

log = logging.getLogger(__name__)

PRIORITY_STEPS: Final = list(range(MAX_PRIORITY))
"""On Redis each level has its own list; kombu's default of four steps would throw levels together."""
RABBITMQ: Final = "amqp"
REDIS: Final = "redis"
PRIORITY_BY_TRANSPORT: Final[Mapping[str, Callable[[int], int]]] = {
    RABBITMQ: lambda level: MAX_PRIORITY - level,  # higher first
    REDIS: lambda level: level,  # lower first
}
"""The priority of a level, for the transports that have priorities."""
FAN_OUT_PARTS: Final = {"group": "tasks", "chord": "header"}
"""Signatures of many tasks at once, and where these stand."""
PROTOCOL_1: Final = 1
BUILTIN_TASK_PREFIX: Final = "celery."
"""How the names of tasks begin that come with Celery."""
PENDING_CHECK_OPTION: Final = "inturn_begun"
"""The option that a document goes by on its way through Celery."""
QUEUE_ARGUMENTS_HINT: Final = (
    "RabbitMQ does not change the arguments of a queue that exists. Give the fleet a queue of another name"
    " (task_default_queue), let the workers read both (-Q old,new) until the old one is empty, then delete it"
)

_installed: WeakKeyDictionary[Celery, "Publisher"] = WeakKeyDictionary()


def install(app: Celery, counters: Counters, *, customer: CustomerRule, raise_errors: bool = False) -> None:
    """Publish this app's tasks with fair priorities, and log at worker start which settings defeat them.

    `customer` is the name of a task argument, `FromHeader(name)`, or a function of a `Publish`. Tasks without a
    customer
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
    celeryd_after_setup.connect(partial(_warn_about_settings, app), weak=False)


class FairAMQP(AMQP):  # type: ignore[misc]  # Celery has no types
    """Celery's way of publishing, with a word of ours before each task."""

    @cached_property
    def send_task_message(self) -> Callable[..., Any]:
        """Publish a task; every publication of the app passes here."""
        send: Callable[..., Any] = super().send_task_message
        publisher = _installed.get(self.app)
        return send if publisher is None else partial(publisher.publish, send)


class PendingCheck(NamedTuple):
    """A customer's message, with its check under way or made before."""

    customer: str
    level: Callable[[], int]


class Publisher:
    """Gives each task that goes out its level."""

    def __init__(self, app: Celery, counters: Counters, customer: CustomerRule, *, raise_errors: bool) -> None:
        self._app = app
        self._customer_resolver = CustomerResolver(customer, AppTasks(app), log)
        self._level_resolver = LevelResolver(counters, raise_errors=raise_errors, log=log)

    def send_task(
        self,
        send_task: Callable[..., Any],
        name: str,
        args: Any = None,
        kwargs: Any = None,
        *extra_args: Any,
        **options: Any,
    ) -> Any:
        """Begin the check, and let Celery work meanwhile; what it would refuse is not checked."""
        if self._carries_headers and isinstance(args or (), list | tuple) and isinstance(kwargs or {}, Mapping):
            publish = Publish(name, args or (), kwargs or {}, options.get("headers") or {})
            options[PENDING_CHECK_OPTION] = self._begin_check(publish, options)
        return send_task(name, args, kwargs, *extra_args, **options)

    def publish(self, send: Callable[..., Any], producer: Any, name: str, message: Any, **options: Any) -> Any:
        """Receive the level, set the priority, send the message."""
        if self._carries_headers:
            message, options = self._with_level(name, message, options)
        try:
            return send(producer, name, message, **options)
        except Exception as error:
            if getattr(error, "reply_code", None) == 406 and "x-max-priority" in str(error):
                error.add_note(QUEUE_ARGUMENTS_HINT)
            raise

    def _with_level(self, name: str, message: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        args, kwargs, follows = message.body
        headers = options.get("headers") or {}
        document = options.pop(PENDING_CHECK_OPTION, None) or self._begin_check(
            Publish(name, args, kwargs, headers), message.headers
        )
        if document is None:
            return message, options
        level = document.level()
        mark = {LEVEL_HEADER: level, CUSTOMER_HEADER: document.customer}
        options["headers"] = {**headers, **mark}
        if self._priority is not None:
            options["priority"] = self._priority(level)
        if any(follows.values()):
            message = message._replace(body=(args, kwargs, _mark_continuations(follows, mark)))
        return message, options

    def _begin_check(self, publish: Publish, task_options: Mapping[str, Any]) -> PendingCheck | None:
        """Whose document it is, and its check on the way unless it had one."""
        if LEVEL_HEADER not in publish.headers and _continues(task_options):
            publish = publish._replace(headers={**publish.headers, **self._current_task_headers()})
        customer = self._customer_resolver.resolve(publish)
        if customer is None:
            return None
        had = publish.headers.get(LEVEL_HEADER)
        return PendingCheck(customer, self._level_resolver.begin(customer) if had is None else lambda: had)

    @cached_property
    def _carries_headers(self) -> bool:
        """Celery's old protocol does not."""
        return bool(self._app.conf.task_protocol != PROTOCOL_1)

    @cached_property
    def _priority(self) -> Callable[[int], int] | None:
        return PRIORITY_BY_TRANSPORT.get(_transport_driver(self._app.conf))

    def _current_task_headers(self) -> dict[str, Any]:
        task = self._app.current_worker_task
        headers = (task.request.headers or {}) if task else {}
        return {name: headers[name] for name in (LEVEL_HEADER, CUSTOMER_HEADER) if name in headers}

    def check_tasks(self) -> None:
        """Warn if no task has the argument that names the customer."""
        self._customer_resolver.check_tasks()


class AppTasks:
    """An app's tasks, without those that come with Celery."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def names(self) -> list[str]:
        """All that are registered by now."""
        return [name for name in self._app.tasks if not name.startswith(BUILTIN_TASK_PREFIX)]

    def function(self, name: str) -> Callable[..., Any] | None:
        """What a task runs."""
        task = self._app.tasks.get(name)
        function: Callable[..., Any] | None = task.run if task is not None else None
        return function


def _continues(headers: Mapping[str, Any]) -> bool:
    """Whether it is the document that the current task works on: tried again, or replaced."""
    return bool(headers.get("retries") or headers.get("replaced_task_nesting"))


def _mark_continuations(continuations: Mapping[str, Any], mark: Mapping[str, Any]) -> dict[str, Any]:
    """Callbacks, errbacks, the rest of a chain and the body of a chord, as documents that were checked."""
    marked = dict(continuations)
    for kind in ("callbacks", "errbacks", "chain"):
        if marked.get(kind):
            marked[kind] = [_mark_signature(item, mark) for item in marked[kind]]
    if marked.get("chord"):
        marked["chord"] = _mark_signature(marked["chord"], mark)
    return marked


def _mark_signature(signature: Any, mark: Mapping[str, Any]) -> Any:
    """A copy that says whose it is, and which level it has unless it fans out: then each part has its own check."""
    if not isinstance(signature, dict):
        return signature
    kind, owned = signature.get("subtask_type"), {CUSTOMER_HEADER: mark[CUSTOMER_HEADER]}
    if kind in FAN_OUT_PARTS:
        return _map_parts(signature, FAN_OUT_PARTS[kind], lambda item: _mark_signature(item, owned))
    if kind == "chain":
        return _map_parts(signature, "tasks", lambda item: _mark_signature(item, mark))
    options = signature.get("options") or {}
    return {**signature, "options": {**options, "headers": {**(options.get("headers") or {}), **mark}}}


def _map_parts(signature: Any, name: str, mark: Callable[[Any], Any]) -> Any:
    parts = signature["kwargs"][name]
    parts = mark(parts) if isinstance(parts, dict) else [mark(part) for part in parts]
    return {**signature, "kwargs": {**signature["kwargs"], name: parts}}


# -- settings ---------------------------------------------------------------------------------------------------------


def _transport_driver(conf: Any) -> str:
    """What kind of broker the tasks are published to."""
    url = conf.broker_write_url
    driver: str = Connection(url[0] if isinstance(url, list) else url).get_transport_cls().driver_type
    return driver


def _prepare_queues(conf: Any) -> None:
    """Queues in which priorities are real, unless the settings differ."""
    driver = _transport_driver(conf)
    if driver == RABBITMQ and conf.task_queue_max_priority is None and conf.task_default_queue_type != "quorum":
        conf.task_queue_max_priority = MAX_PRIORITY
    if driver == REDIS and "priority_steps" not in conf.broker_transport_options:
        conf.broker_transport_options = {**conf.broker_transport_options, "priority_steps": PRIORITY_STEPS}


def _warn_about_settings(app: Celery, instance: Any, conf: Any, **_: Any) -> None:
    """At the start of a worker of this app: what keeps levels from being levels, and what to change."""
    if instance.app is not app:
        return
    _installed[app].check_tasks()
    driver = _transport_driver(conf)
    if driver not in PRIORITY_BY_TRANSPORT:
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
        _warn_about_priority_steps(conf)
    else:
        _warn_about_queues(app)


def _warn_about_priority_steps(conf: Any) -> None:
    steps = conf.broker_transport_options.get("priority_steps") or []
    if not set(PRIORITY_STEPS[1:]) <= set(steps):
        log.warning(
            "priority_steps is %s: several levels share one list and go by the time they came; set"
            " broker_transport_options = {'priority_steps': list(range(10))} in workers first, then in publishers",
            steps,
        )


def _warn_about_queues(app: Celery) -> None:
    for queue in app.amqp.queues.consume_from.values():
        arguments = queue.queue_arguments or {}
        if arguments.get("x-queue-type", "classic") != "classic":
            log.warning(
                "queue %s is no classic queue: it does not keep nine levels apart; use a classic one", queue.name
            )
        elif (arguments.get("x-max-priority") or queue.max_priority or 0) < MAX_PRIORITY - 1:
            log.warning(
                "queue %s has room for fewer than nine levels; declare it with max_priority=%d. %s",
                queue.name,
                MAX_PRIORITY,
                QUEUE_ARGUMENTS_HINT,
            )
