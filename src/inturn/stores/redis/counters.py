"""Counters in Redis: each customer's in its own hash slot, the policy beside them for all processes to read."""

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
from inturn.model import SECOND, Check
from inturn.policy.priority import Counter, PriorityPolicy
from inturn.store import KEY_KEPT, Operator
from inturn.stores.redis.wire import ClusterWire, Wire, wire_to

COUNTER_KEPT: Final = 7 * 86_400 * SECOND
"""How long a counter is kept beyond its reset: room for clocks that go back and for intervals that are made longer."""
POLICY_SEEN: Final = 5.0
"""Seconds after which a process reads the policy again."""
LATEST: Final = 2**53
"""What a number in Lua holds exactly."""
POLICY_KEY: Final = "inturn:policy"
_SCRIPT: Final = resources.files(__package__).joinpath("check.lua").read_text(encoding="utf-8")
_SHA: Final = hashlib.sha1(_SCRIPT.encode(), usedforsecurity=False).hexdigest()
_ESCAPES: Final = str.maketrans({"%": "%25", "{": "%7B", "}": "%7D"})


def tag(customer: str) -> str:
    """What all keys of a customer begin with: its name is what a cluster finds their slot by."""
    return f"inturn:{{{customer if customer.isalnum() else customer.translate(_ESCAPES)}}}"


class RedisCounters:
    """Counters at `redis://host:6379/0`, `rediss://…`, `unix://…`, or `redis+cluster://any-node:6379`."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self._url = url
        self._errors = Errors(url)
        self._clock = clock
        self._policy: PriorityPolicy | None = None
        self._read_again = 0.0

    def check(self, customer: str, n: int, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        with self._errors:
            policy = self._current_policy()
            given = (n, self._time(now), policy.reset_interval, COUNTER_KEPT)
            counter = f"{tag(customer)}:counter"
            if key is None:
                return _checks(policy, self._begun(1, counter, *given)(), n)
            text = " ".join(map(str, policy.thresholds))
            answer = self._begun(2, counter, f"{tag(customer)}:key:{key}", *given, KEY_KEPT, text)()
        if answer == "conflict":
            raise KeyConflictError(
                f"key {key!r} of {customer!r} was used before for something else; use a new key for new content",
            )
        first, *thresholds = map(int, answer.split())
        return _checks(PriorityPolicy(thresholds=tuple(thresholds)), first, n)

    def begin(self, customer: str) -> Callable[[], Check]:
        with self._errors:
            policy = self._current_policy()
            given = (1, self._time(None), policy.reset_interval, COUNTER_KEPT)
            answer = self._begun(1, f"{tag(customer)}:counter", *given)

        def heard() -> Check:
            with self._errors:
                count = answer()
            return Check(policy.level(count), count)

        return heard

    def counter(self, customer: str) -> Counter | None:
        with self._errors:
            kept: str | None = self._wire.ask("GET", f"{tag(customer)}:counter")
        if kept is None:
            return None
        count, updated_at = kept.split()
        return Counter(int(count), int(updated_at))

    def policy(self) -> PriorityPolicy:
        with self._errors:
            self._read_again = 0.0
            return self._current_policy()

    def set_policy(self, policy: PriorityPolicy, operator: Operator) -> None:
        kept = {
            "reset_interval": policy.reset_interval,
            "thresholds": policy.thresholds,
            "operator": operator.name,
            "why": operator.why,
        }
        with self._errors:
            self._wire.ask("SET", POLICY_KEY, json.dumps(kept))
        self._read_again = 0.0

    def close(self) -> None:
        if "_wire" in self.__dict__:
            self._wire.close()

    @cached_property
    def _wire(self) -> Wire | ClusterWire:
        return wire_to(self._url)

    def _begun(self, *given: str | int) -> Callable[[], Any]:
        """The script is on its way; its answer comes from calling this."""
        answer = self._wire.begin("EVALSHA", _SHA, *given)

        def heard() -> Any:
            try:
                return answer()
            except redis.exceptions.NoScriptError:
                return self._wire.ask("EVAL", _SCRIPT, *given)

        return heard

    def _current_policy(self) -> PriorityPolicy:
        if self._policy is None or time.monotonic() >= self._read_again:
            text: str | None = self._wire.ask("GET", POLICY_KEY)
            kept = json.loads(text) if text else None
            policy = PriorityPolicy(kept["reset_interval"], tuple(kept["thresholds"])) if kept else PriorityPolicy()
            self._policy, self._read_again = policy, time.monotonic() + POLICY_SEEN
        return self._policy

    def _time(self, now: int | None) -> int | str:
        if now is None and self._clock is not None:
            now = self._clock.now()
        if now is not None and not 0 <= now < LATEST:
            raise InvalidInputError(f"Redis counts microseconds from 0 to 2^53, in the year 2255: not {now}")
        return "" if now is None else now


class Errors:
    """Around every call: each error of Redis or of the way to it becomes one of ours."""

    def __init__(self, url: str) -> None:
        self._shown = _shown(url)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(wrong, redis.RedisError | OSError):
            raise _error_of(self._shown, wrong) from wrong


def _checks(policy: PriorityPolicy, first: int, n: int) -> tuple[Check, ...]:
    return tuple([Check(policy.level(count), count) for count in range(first, first - n, -1)])


def _shown(url: str) -> str:
    """For messages: without a password."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _error_of(shown: str, wrong: Exception) -> StoreError:
    said = " ".join(str(wrong).split()) or type(wrong).__name__
    for kinds, error, advice in _MEANING:
        if isinstance(wrong, kinds):
            return error(f"{shown}: {advice} ({said})")
    return StoreError(f"{shown}: {said}; nothing was counted")


_MEANING: Final[tuple[tuple[tuple[type[Exception], ...], type[StoreError], str], ...]] = (
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
    ((redis.exceptions.BusyLoadingError,), StoreBusyError, "Redis is still loading its data; try again"),
    (
        (redis.exceptions.AuthenticationError, redis.exceptions.NoPermissionError),
        StoreReadOnlyError,
        "Redis lets this user not do that: check name, password and rights in the address",
    ),
    (
        (redis.ConnectionError, redis.TimeoutError, OSError),
        StoreError,
        "cannot be reached or broke off; the last check may have been counted, repeat it with its key",
    ),
)
