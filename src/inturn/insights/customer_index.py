"""Index all customers in memory, so that lists of a hundred thousand can be searched, sorted and counted.

The first request reads all customers: 100,000 take less than a second. Later, customers named in an event are read
again. All customers are read again at intervals, because checks for other queues write no event.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from inturn.clock import Clock
from inturn.errors import InturnError, NotFoundError
from inturn.model import Customer
from inturn.policy import PriorityPolicy
from inturn.queue_reader import QueueReader
from inturn.store_types import CustomerFilter, Event
from inturn.values import SECOND

MIN_REFRESH_INTERVAL: Final = 60 * SECOND
REFRESH_DURATION_FACTOR: Final = 20
"""The interval between two full reads is at least this many times the duration of one."""
MAX_STALE_CUSTOMERS: Final = 5_000
"""Above this many stale customers, all are read again."""
MAX_REFRESH_SECONDS: Final = 0.05
"""Time that one request spends on stale customers; the rest is left to the next request."""


class CustomerEntry(NamedTuple):
    """The indexed fields of a customer."""

    name: str
    sort_name: str
    """Its display name in lower case."""
    waiting: int
    running: int
    count: int | None  # type: ignore[assignment]  # a field of this record, not tuple.count
    updated_at: int | None
    paused: bool

    def next_count(self, priority: PriorityPolicy, now: int) -> int:
        """Return the counter after its next check. A lower counter means a worse level."""
        if self.count is None or self.updated_at is None or now - self.updated_at > priority.reset_interval:
            return 0
        return self.count - 1


class CustomerListing(NamedTuple):
    """A page of customer names, and the number of all matches."""

    names: tuple[str, ...]
    total: int


class SortBy(NamedTuple):
    """A sort order: by name, or by a figure. Entries without the figure come last; ties are by name."""

    figure: Callable[[CustomerEntry], float | None] | None = None
    is_descending: bool = False


class CustomerIndex:
    """An entry for each customer. The event poller calls `on_events`; any thread may call `page`."""

    def __init__(self, queue: QueueReader, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock
        self._lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._entries: dict[str, CustomerEntry] | None = None
        self._ordered: list[CustomerEntry] | None = None
        self._stale: set[str] = set()
        self._read_at: int | None = None
        self._read_duration = 0

    def on_events(self, events: Sequence[Event]) -> None:
        """Mark the customers of these events as stale."""
        if self._read_at is not None:
            with self._lock:
                self._stale.update(event.customer for event in events if event.customer is not None)

    def page(self, where: CustomerFilter, sort: SortBy, *, limit: int, after: int) -> CustomerListing:
        """Return a page of matching customers, from offset `after` on."""
        entries = self._refreshed_entries()
        matching = _matching(entries, where)
        if where.text is not None and len(matching) < limit and self._add_unknown(where, limit):
            entries = self._refreshed_entries()
            matching = _matching(entries, where)
        names = [entry.name for entry in _sorted(matching, sort)[after : after + limit]]
        return CustomerListing(tuple(names), len(matching))

    def _refreshed_entries(self) -> list[CustomerEntry]:
        """Return all entries by name, refreshed as far as that is quick."""
        if self._entries is None:
            with self._read_lock:
                if self._entries is None:
                    self._read_all()
        elif self._read_lock.acquire(blocking=False):
            if self._needs_full_read():
                threading.Thread(target=self._refresh_all, name="inturn-customer-index", daemon=True).start()
            else:
                try:
                    self._refresh_stale()
                finally:
                    self._read_lock.release()
        with self._lock:
            if self._ordered is None:
                self._ordered = sorted((self._entries or {}).values(), key=lambda entry: (entry.sort_name, entry.name))
            return self._ordered

    def _add_unknown(self, where: CustomerFilter, limit: int) -> bool:
        """Add matching customers that are new in the store, and return whether there were any.

        A customer that was only checked has no event.
        """
        customers = self._queue.customers(CustomerFilter(where.text), limit=limit).items
        with self._lock:
            known = {} if self._entries is None else self._entries
            new = {customer.name: entry_from_customer(customer) for customer in customers if customer.name not in known}
            if new:
                known.update(new)
                self._ordered = None
        return bool(new)

    def _needs_full_read(self) -> bool:
        interval = max(MIN_REFRESH_INTERVAL, REFRESH_DURATION_FACTOR * self._read_duration)
        return len(self._stale) > MAX_STALE_CUSTOMERS or not 0 <= self._clock.now() - (self._read_at or 0) < interval

    def _refresh_all(self) -> None:
        """Read all customers in a thread of its own; requests meanwhile get the old entries."""
        try:
            self._read_all()
        except InturnError:
            pass  # the next request tries again
        finally:
            self._read_lock.release()

    def _read_all(self) -> None:
        began, before = time.monotonic(), self._read_at
        self._read_at = self._clock.now()  # set before reading, so that no event is missed
        with self._lock:
            self._stale.clear()
        try:
            entries = {summary.name: _entry(*summary) for summary in self._queue.customer_summaries()}
        except InturnError:
            self._read_at = before
            raise
        with self._lock:
            self._entries, self._ordered = entries, None
        self._read_duration = round((time.monotonic() - began) * SECOND)

    def _refresh_stale(self) -> None:
        until = time.monotonic() + MAX_REFRESH_SECONDS
        while self._stale and time.monotonic() < until:
            with self._lock:
                name = self._stale.pop()
            try:
                entry = entry_from_customer(self._queue.customer(name))
            except NotFoundError:
                continue
            with self._lock:
                if self._entries is not None and self._entries.get(name) != entry:
                    self._entries[name] = entry
                    self._ordered = None


def entry_from_customer(customer: Customer) -> CustomerEntry:
    """Return the index entry of a customer."""
    settings, counter = customer.settings, (customer.count, customer.updated_at)
    return _entry(customer.name, settings.display_name, *counter, settings.paused, customer.waiting, customer.running)


def _entry(  # noqa: PLR0913, PLR0917 - the fields of a summary
    name: str,
    display_name: str | None,
    count: int | None,
    updated_at: int | None,
    paused: bool,  # noqa: FBT001
    waiting: int,
    running: int,
) -> CustomerEntry:
    return CustomerEntry._make((name, (display_name or name).lower(), waiting, running, count, updated_at, paused))


def _matching(entries: list[CustomerEntry], where: CustomerFilter) -> list[CustomerEntry]:
    wanted = where._replace(text=None if where.text is None else where.text.lower())
    return [entry for entry in entries if _matches(entry, wanted)]


def _matches(entry: CustomerEntry, where: CustomerFilter) -> bool:
    return (
        (where.text is None or where.text in entry.sort_name or where.text in entry.name.lower())
        and (where.waiting is None or where.waiting == (entry.waiting > 0))
        and (where.paused is None or where.paused == entry.paused)
    )


def _sorted(entries: list[CustomerEntry], sort: SortBy) -> list[CustomerEntry]:
    """Sort entries that are in order of name; the sort is stable."""
    if sort.figure is None:
        return entries[::-1] if sort.is_descending else entries
    known, unknown = [], []
    for entry in entries:
        figure = sort.figure(entry)
        if figure is None:
            unknown.append(entry)
        else:
            known.append((figure, entry))
    known.sort(key=lambda pair: pair[0], reverse=sort.is_descending)
    return [entry for _, entry in known] + unknown
