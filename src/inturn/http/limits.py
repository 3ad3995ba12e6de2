"""Limit the requests of keys, the failed logins of addresses and the documents of customers, in this process."""

from collections import OrderedDict
from typing import Final, NamedTuple

from inturn.clock import Clock
from inturn.errors import NotFoundError
from inturn.http.errors import QuotaError, TooManyError
from inturn.http.settings import Limits
from inturn.queue_reader import QueueReader
from inturn.values import SECOND

MAX_TRACKED: Final = 10_000
"""Entries of each table; the least recently used is dropped first."""
WAITING_CACHE_TTL: Final = 2 * SECOND
STORED_CACHE_TTL: Final = 60 * SECOND
QUOTA_RETRY_AFTER_SECONDS: Final = 60
Bucket = tuple[float, int]
"""The tokens left, and the time of that count."""


class RateLimiter:
    """A token bucket for each API key. Runs on the event loop only."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._per_second = limits.per_second
        self._burst = limits.burst
        self._clock = clock
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, api_key_id: str) -> None:
        """Take a token for one request, or refuse the request."""
        now = self._clock.now()
        tokens, since = self._buckets.pop(api_key_id, (float(self._burst), now))
        tokens = min(self._burst, tokens + max(0, now - since) * self._per_second / SECOND)
        allowed = tokens >= 1
        self._buckets[api_key_id] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > MAX_TRACKED:
            self._buckets.popitem(last=False)
        if not allowed:
            raise TooManyError(
                f"this API key may send {self._per_second:g} requests a second; wait a moment and try again",
                (1 - tokens) / self._per_second,
            )


class FailedLogins:
    """Count wrong keys by address and key id, so that a valid key from the same address still works."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._max_failures = limits.failed_logins
        self._window = limits.failed_login_window
        self._clock = clock
        self._failed: OrderedDict[tuple[str, str], list[int]] = OrderedDict()

    def check(self, address: str, api_key_id: str) -> None:
        """Refuse an address that has sent too many wrong keys with this id."""
        now = self._clock.now()
        recent = [at for at in self._failed.get((address, api_key_id), ()) if now - at < self._window]
        if len(recent) >= self._max_failures:
            wait = (recent[0] + self._window - now) / SECOND
            raise TooManyError(
                "too many wrong API keys came from your address; check the API key and try again later", wait
            )

    def record_failure(self, address: str, api_key_id: str) -> None:
        """Count one wrong key."""
        now = self._clock.now()
        recent = [at for at in self._failed.pop((address, api_key_id), []) if now - at < self._window]
        self._failed[address, api_key_id] = [*recent, now][-self._max_failures :]
        if len(self._failed) > MAX_TRACKED:
            self._failed.popitem(last=False)


class CustomerUsage(NamedTuple):
    """Waiting documents and stored bytes of a customer, with the times of these readings."""

    waiting: int
    waiting_at: int
    stored: int
    stored_at: int


class Quotas:
    """Limit the waiting documents and stored bytes of each customer.

    Figures are read from the store now and then; in between, submissions are added to them.
    """

    def __init__(self, limits: Limits, queue: QueueReader, clock: Clock) -> None:
        self._limits = limits
        self._queue = queue
        self._clock = clock
        self._usage: OrderedDict[str, CustomerUsage] = OrderedDict()

    def check(self, customer: str, documents: int, size: int) -> None:
        """Refuse documents that would exceed a quota."""
        usage = self._get_usage(customer)
        if usage.waiting + documents > self._limits.waiting:
            raise QuotaError(
                f"{self._limits.waiting} documents of a customer may wait at a time; send more after some have started",
                QUOTA_RETRY_AFTER_SECONDS,
            )
        if usage.stored + size > self._limits.stored:
            raise QuotaError(
                f"documents of a customer may take up {self._limits.stored:,} bytes; wait until old ones are deleted",
                QUOTA_RETRY_AFTER_SECONDS,
            )

    def add(self, customer: str, documents: int, size: int) -> None:
        """Add submitted documents to the cached figures."""
        usage = self._usage.get(customer)
        if usage is not None:
            self._usage[customer] = usage._replace(waiting=usage.waiting + documents, stored=usage.stored + size)

    def _get_usage(self, customer: str) -> CustomerUsage:
        now = self._clock.now()
        usage = self._usage.get(customer) or CustomerUsage(0, -STORED_CACHE_TTL, 0, -STORED_CACHE_TTL)
        if not 0 <= now - usage.waiting_at < WAITING_CACHE_TTL:
            usage = usage._replace(waiting=self._count_waiting(customer), waiting_at=now)
        if not 0 <= now - usage.stored_at < STORED_CACHE_TTL or usage.stored > self._limits.stored * 0.9:
            usage = usage._replace(stored=self._queue.stored_bytes(customer), stored_at=now)
        self._usage[customer] = usage
        self._usage.move_to_end(customer)
        if len(self._usage) > MAX_TRACKED:
            self._usage.popitem(last=False)
        return usage

    def _count_waiting(self, customer: str) -> int:
        try:
            return self._queue.customer(customer).waiting
        except NotFoundError:
            return 0
