"""The priority system alone, for systems with a queue of their own: one counter a customer, shared by all processes.

`inturn.integrations` uses it inside Celery and Dramatiq fleets; anything else can call `check` itself.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from types import TracebackType
from typing import Final, Protocol, Self

from inturn.clock import Clock
from inturn.errors import NotFoundError
from inturn.model import Check
from inturn.policy.priority import Counter, PriorityPolicy
from inturn.store import Store
from inturn.store_types import Operator
from inturn.stores import REDIS_SCHEMES, open_redis, open_store, require_known_url
from inturn.validation import clean_count, clean_idempotency_key
from inturn.values import clean_text, clean_time


class CounterBackend(Protocol):
    """Where counters are kept. Its arguments are clean."""

    def check(self, customer: str, n: int, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        """S1 and S3 of `inturn.store`."""
        ...

    def begin(self, customer: str) -> Callable[[], Check]:
        """A check of one document by the keeper's own clock, made no later than its answer is called for."""
        ...

    def counter(self, customer: str) -> Counter | None:
        """As it was left by the last check; None when there is none."""
        ...

    def policy(self) -> PriorityPolicy:
        """Interval and thresholds in force."""
        ...

    def set_policy(self, policy: PriorityPolicy, operator: Operator) -> None:
        """Others than they were, for new checks."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


class Counters:
    """Which level a customer's next documents get. Safe to share by threads, and to take along into a fork."""

    def __init__(self, open_backend: Callable[[], CounterBackend]) -> None:
        self._open_backend = open_backend
        self._backend: CounterBackend | None = None
        self._owner_pid = 0
        self._lock = Lock()

    def check(self, customer: str, n: int = 1, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        """Look at a customer for n documents: level and count of each, in order.

        Atomic under concurrent checks. With a `key`, a repeat within 7 days gets the first answer and is not counted.
        """
        customer = clean_text("a customer's name", customer)
        n = clean_count("the number of checks", n)
        if now is not None:
            clean_time("now", now)
        return self._get_backend().check(customer, n, key=clean_idempotency_key(key), now=now)

    def begin(self, customer: str) -> Callable[[], Check]:
        """Begin the check of one document, and go on: the answer comes from calling what this returns, once.

        On Redis the question is under way meanwhile, elsewhere it is asked with the call. One that is never called for
        may have been counted.
        """
        customer = clean_text("a customer's name", customer)
        answer, process = self._get_backend().begin(customer), os.getpid()
        # A fork between leaves the answer to the parent. What the child goes on with is a document of its own.
        return lambda: answer() if os.getpid() == process else self.check(customer)[0]

    def counter(self, customer: str) -> Counter | None:
        """A customer's counter as the last check left it; None before the first."""
        return self._get_backend().counter(clean_text("a customer's name", customer))

    def policy(self) -> PriorityPolicy:
        """Reset interval and thresholds in force."""
        return self._get_backend().policy()

    def set_policy(self, policy: PriorityPolicy, operator: Operator) -> None:
        """Put interval and thresholds in force, for new checks of all processes (on Redis within 5 seconds)."""
        self._get_backend().set_policy(policy, operator)

    def close(self) -> None:
        """Let go of files and connections; the next call opens them again."""
        with self._lock:
            keeper, self._backend = self._backend, None
            if keeper is not None and self._owner_pid == os.getpid():
                keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _get_backend(self) -> CounterBackend:
        keeper = self._backend
        if keeper is not None and self._owner_pid == os.getpid():
            return keeper
        with self._lock:
            if self._backend is None or self._owner_pid != os.getpid():
                if self._backend is not None:
                    _INHERITED_BACKENDS.append(self._backend)
                self._backend = self._open_backend()
                self._owner_pid = os.getpid()
            return self._backend


_INHERITED_BACKENDS: Final[list[CounterBackend]] = []
"""What a fork brought along belongs to the parent: never used, and kept here, since letting go of it might close it."""


class StoreCounters:
    """The counters of a whole store, which submits count on too."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check(self, customer: str, n: int, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        """As the store does."""
        return self._store.check(customer, n, key=key, now=now)

    def begin(self, customer: str) -> Callable[[], Check]:
        """A store is asked when the answer is wanted."""
        return lambda: self._store.check(customer, 1)[0]

    def counter(self, customer: str) -> Counter | None:
        """What the store knows of the customer."""
        try:
            known = self._store.customer(customer)
        except NotFoundError:
            return None
        return None if known.count is None or known.updated_at is None else Counter(known.count, known.updated_at)

    def policy(self) -> PriorityPolicy:
        """The part of the store's policy that checks go by."""
        return self._store.policy().policy.priority

    def set_policy(self, policy: PriorityPolicy, operator: Operator) -> None:
        """A new version of the store's policy, its other parts as they are."""
        version = self._store.policy()
        self._store.set_policy(replace(version.policy, priority=policy), operator, expected=version.number)

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def open_counters(url: str, *, clock: Clock | None = None) -> Counters:
    """Counters at an address: `redis://host/0`, `postgresql://host/database?schema=…`, or a file such as `counters.db`.

    Nothing is opened before the first call, and a forked child opens its own. Redis and PostgreSQL provide the time
    themselves.
    """
    require_known_url(url)
    if url.startswith(REDIS_SCHEMES):
        return Counters(lambda: open_redis(url, clock))
    return Counters(lambda: StoreCounters(open_store(url, clock)))
