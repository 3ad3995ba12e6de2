"""How much one key, one address and one customer may do. Kept in this process: each server counts for itself."""

from collections import OrderedDict
from typing import Final, NamedTuple

from inturn.clock import Clock
from inturn.errors import NotFoundError
from inturn.http.errors import QuotaError, TooManyError
from inturn.http.settings import Limits
from inturn.model import SECOND
from inturn.store import Store

MAX_TRACKED: Final = 10_000
"""Keys, addresses and customers remembered: those not heard of for longest are forgotten first."""
WAITING_CACHE_TTL: Final = 2 * SECOND
STORED_CACHE_TTL: Final = 60 * SECOND
QUOTA_RETRY_AFTER_SECONDS: Final = 60
Bucket = tuple[float, int]
"""What is left, and since when."""


class RateLimiter:
    """So many requests a second for each key, after a first burst. Used on the event loop alone."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._per_second = limits.per_second
        self._burst = limits.burst
        self._clock = clock
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, api_key_id: str) -> None:
        """Count one request, or refuse it."""
        now = self._clock.now()
        left, since = self._buckets.pop(api_key_id, (float(self._burst), now))
        left = min(self._burst, left + max(0, now - since) * self._per_second / SECOND)
        allowed = left >= 1
        self._buckets[api_key_id] = (left - 1 if allowed else left, now)
        if len(self._buckets) > MAX_TRACKED:
            self._buckets.popitem(last=False)
        if not allowed:
            raise TooManyError(
                f"this key may send {self._per_second:g} requests a second; wait a moment and go on",
                (1 - left) / self._per_second,
            )


class FailedLogins:
    """So many wrong keys within a while, for each address and key id: a good key from the same address passes."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._max_failures = limits.failed_logins
        self._window = limits.failed_login_window
        self._clock = clock
        self._failed: OrderedDict[tuple[str, str], list[int]] = OrderedDict()

    def check(self, address: str, api_key_id: str) -> None:
        """Refuse who has failed too often."""
        now = self._clock.now()
        recent = [at for at in self._failed.get((address, api_key_id), ()) if now - at < self._window]
        if len(recent) >= self._max_failures:
            wait = (recent[0] + self._window - now) / SECOND
            raise TooManyError("too many wrong keys came from your address; check the key and try again later", wait)

    def record_failure(self, address: str, api_key_id: str) -> None:
        """One more that failed."""
        now = self._clock.now()
        before = self._failed.pop((address, api_key_id), [])
        self._failed[address, api_key_id] = [*(at for at in before if now - at < self._window), now][
            -self._max_failures :
        ]
        if len(self._failed) > MAX_TRACKED:
            self._failed.popitem(last=False)


class CustomerUsage(NamedTuple):
    """What a customer has in the queue, and since when that is known."""

    waiting: int
    waiting_at: int
    stored: int
    stored_at: int


class Quotas:
    """What one customer may have in the queue. Looked up now and then; in between, what comes in is added."""

    def __init__(self, limits: Limits, store: Store, clock: Clock) -> None:
        self._limits = limits
        self._store = store
        self._clock = clock
        self._usage: OrderedDict[str, CustomerUsage] = OrderedDict()

    def check(self, customer: str, documents: int, size: int) -> None:
        """Refuse what would be too much."""
        used = self._get_usage(customer)
        if used.waiting + documents > self._limits.waiting:
            raise QuotaError(
                f"{self._limits.waiting} documents of a customer may wait at a time; send more when some have started",
                QUOTA_RETRY_AFTER_SECONDS,
            )
        if used.stored + size > self._limits.stored:
            raise QuotaError(
                f"documents of a customer may take up {self._limits.stored:,} bytes; wait until old ones are deleted",
                QUOTA_RETRY_AFTER_SECONDS,
            )

    def add(self, customer: str, documents: int, size: int) -> None:
        """Count what came in."""
        used = self._usage.get(customer)
        if used is not None:
            more = {"waiting": used.waiting + documents, "stored": used.stored + size}
            self._usage[customer] = used._replace(**more)

    def _get_usage(self, customer: str) -> CustomerUsage:
        now = self._clock.now()
        used = self._usage.get(customer) or CustomerUsage(0, -STORED_CACHE_TTL, 0, -STORED_CACHE_TTL)
        if not 0 <= now - used.waiting_at < WAITING_CACHE_TTL:
            used = used._replace(waiting=self._count_waiting(customer), waiting_at=now)
        if not 0 <= now - used.stored_at < STORED_CACHE_TTL or used.stored > self._limits.stored * 0.9:
            used = used._replace(stored=self._store.stored_bytes(customer), stored_at=now)
        self._usage[customer] = used
        self._usage.move_to_end(customer)
        if len(self._usage) > MAX_TRACKED:
            self._usage.popitem(last=False)
        return used

    def _count_waiting(self, customer: str) -> int:
        try:
            return self._store.customer(customer).waiting
        except NotFoundError:
            return 0
