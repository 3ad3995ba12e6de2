"""Store counters in Redis, one hash slot a customer, and the policy that all processes share."""

import hashlib
import json
import time
from collections.abc import Callable
from functools import cached_property
from importlib import resources
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import redis

from inturn.clock import Clock
from inturn.errors import (
    InvalidInputError,
    KeyConflictError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
)
from inturn.model import Check
from inturn.policy.priority import Counter, PriorityPolicy
from inturn.store_types import IDEMPOTENCY_KEY_RETENTION, Operator
from inturn.stores.redis.connection import Client, ClusterClient, open_client
from inturn.values import SECOND

COUNTER_RETENTION: Final = 7 * 86_400 * SECOND
"""Microseconds that a counter is kept beyond its reset, for clocks set back and reset intervals made longer."""
POLICY_CACHE_SECONDS: Final = 5.0
"""Seconds after which a process reads the policy again."""
MAX_LUA_INTEGER: Final = 2**53
"""The largest integer that a number in Lua holds exactly."""
POLICY_KEY: Final = "inturn:policy"
_SCRIPT: Final = resources.files(__package__).joinpath("check.lua").read_text(encoding="utf-8")
_SCRIPT_SHA1: Final = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
_ESCAPES: Final = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


def key_prefix(customer: str) -> str:
    """Return the prefix of a customer's keys. Its name is the hash tag, so a cluster keeps them in one slot."""
    return f"inturn:{{{customer if customer.isalnum() else customer.translate(_ESCAPES)}}}"


class RedisCounters:
    """Counters at `redis://host:6379/0`, `rediss://…`, `unix://…`, or `redis+cluster://any-node:6379`."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self._url = url
        self._errors = ErrorTranslator(url)
        self._clock = clock
        self._policy: PriorityPolicy | None = None
        self._policy_expires_at = 0.0

    def check(self, customer: str, n: int, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        with self._errors:
            policy = self._current_policy()
            given = (n, self._time(now), policy.reset_interval, COUNTER_RETENTION)
            counter = f"{key_prefix(customer)}:counter"
            if key is None:
                return _checks(policy, self._start_script(1, counter, *given)(), n)
            text = " ".join(map(str, policy.thresholds))
            answer = self._start_script(
                2, counter, f"{key_prefix(customer)}:key:{key}", *given, IDEMPOTENCY_KEY_RETENTION, text
            )()
        if answer == "conflict":
            raise KeyConflictError(
                f"key {key!r} of {customer!r} was used before for something else; use a new key for new content",
            )
        first, *thresholds = map(int, answer.split())
        return _checks(PriorityPolicy(thresholds=tuple(thresholds)), first, n)

    def begin(self, customer: str) -> Callable[[], Check]:
        with self._errors:
            policy = self._current_policy()
            given = (1, self._time(None), policy.reset_interval, COUNTER_RETENTION)
            answer = self._start_script(1, f"{key_prefix(customer)}:counter", *given)

        def receive_check() -> Check:
            with self._errors:
                count = answer()
            return Check(policy.level(count), count)

        return receive_check

    def counter(self, customer: str) -> Counter | None:
        with self._errors:
            stored: str | None = self._client.execute("GET", f"{key_prefix(customer)}:counter")
        if stored is None:
            return None
        count, updated_at = stored.split()
        return Counter(int(count), int(updated_at))

    def policy(self) -> PriorityPolicy:
        with self._errors:
            self._policy_expires_at = 0.0
            return self._current_policy()

    def set_policy(self, policy: PriorityPolicy, operator: Operator) -> None:
        stored = {
            "reset_interval": policy.reset_interval,
            "thresholds": policy.thresholds,
            "operator": operator.name,
            "why": operator.why,
        }
        with self._errors:
            self._client.execute("SET", POLICY_KEY, json.dumps(stored))
        self._policy_expires_at = 0.0

    def close(self) -> None:
        if "_client" in self.__dict__:
            self._client.close()

    @cached_property
    def _client(self) -> Client | ClusterClient:
        return open_client(self._url)

    def _start_script(self, *arguments: str | int) -> Callable[[], Any]:
        """Send the script; return a function that receives its reply."""
        answer = self._client.begin("EVALSHA", _SCRIPT_SHA1, *arguments)

        def receive_reply() -> Any:
            try:
                return answer()
            except redis.exceptions.NoScriptError:
                return self._client.execute("EVAL", _SCRIPT, *arguments)

        return receive_reply

    def _current_policy(self) -> PriorityPolicy:
        if self._policy is None or time.monotonic() >= self._policy_expires_at:
            text: str | None = self._client.execute("GET", POLICY_KEY)
            stored = json.loads(text) if text else None
            policy = (
                PriorityPolicy(stored["reset_interval"], tuple(stored["thresholds"])) if stored else PriorityPolicy()
            )
            self._policy, self._policy_expires_at = policy, time.monotonic() + POLICY_CACHE_SECONDS
        return self._policy

    def _time(self, now: int | None) -> int | str:
        if now is None and self._clock is not None:
            now = self._clock.now()
        if now is not None and not 0 <= now < MAX_LUA_INTEGER:
            raise InvalidInputError(f"Redis counts microseconds from 0 to 2^53, in the year 2255: not {now}")
        return "" if now is None else now


class ErrorTranslator:
    """Translate errors of Redis and of the connection into store errors; a context around every call."""

    def __init__(self, url: str) -> None:
        self._display_url = _without_password(url)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, redis.RedisError | OSError):
            raise _to_store_error(self._display_url, error) from error


def _checks(policy: PriorityPolicy, first: int, n: int) -> tuple[Check, ...]:
    return tuple([Check(policy.level(count), count) for count in range(first, first - n, -1)])


def _without_password(url: str) -> str:
    """Return the address without user and password, for messages."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _to_store_error(display_url: str, exc: Exception) -> StoreError:
    said = " ".join(str(exc).split()) or type(exc).__name__
    for kinds, error, advice in _ERROR_MAP:
        if isinstance(exc, kinds):
            return error(f"{display_url}: {advice} ({said})")
    return StoreError(f"{display_url}: {said}; nothing was counted")


_ERROR_MAP: Final[tuple[tuple[tuple[type[Exception], ...], type[StoreError], str], ...]] = (
    (
        (redis.exceptions.ReadOnlyError,),
        StoreReadOnlyError,
        "the server is a replica and takes no writes; give the address of the primary",
    ),
    (
        (redis.exceptions.OutOfMemoryError,),
        StoreFullError,
        "Redis has reached maxmemory; nothing was counted: make room, or let it evict",
    ),
    ((redis.exceptions.InvalidResponse,), StoreError, "what answers there is not Redis: check host and port"),
    ((redis.exceptions.BusyLoadingError,), StoreBusyError, "Redis is still loading its data; try again"),
    (
        (redis.exceptions.AuthenticationError, redis.exceptions.NoPermissionError),
        StoreReadOnlyError,
        "the user may not do this: check name and password in the address, and the rights of the user",
    ),
    (
        (redis.ConnectionError, redis.TimeoutError, OSError),
        StoreError,
        (
            "cannot be reached or broke off: check host and port, and that Redis runs; "
            "a check that was sent may have been counted"
        ),
    ),
)
