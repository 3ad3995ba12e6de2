"""All customers in memory, a few figures each, so that lists of a hundred thousand can be searched, sorted and counted.

Everybody is read when somebody first asks: for a hundred thousand that takes a second or a few. From then on whoever
was heard of in an event is read again, and everybody now and then, since checks for queues elsewhere tell no event.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from inturn.clock import Clock
from inturn.errors import InturnError, NotFoundError
from inturn.model import SECOND, Customer
from inturn.policy import PriorityPolicy
from inturn.store import CustomerFilter, Event, Store

PAGE_SIZE: Final = 1_000
MIN_REFRESH_INTERVAL: Final = 60 * SECOND
REFRESH_DURATION_FACTOR: Final = 20
"""The least rest between two readings of everybody, and how many times as long as one takes."""
MAX_STALE_CUSTOMERS: Final = 5_000
"""Customers heard of since they were read, above which everybody is read again."""
MAX_REFRESH_SECONDS: Final = 0.05
"""Seconds that one look spends on customers heard of; the others are left to the next."""


class CustomerEntry(NamedTuple):
    """What is known of a customer between two looks."""

    name: str
    sort_name: str
    """What it is called on screens, in lower case, for sorting."""
    waiting: int
    running: int
    count: int | None  # type: ignore[assignment]  # a field of this record, not tuple.count
    updated_at: int | None
    weight: float
    is_open: bool
    """Whether it has a line that is served: then a share is due to it."""
    paused: bool

    def next_count(self, priority: PriorityPolicy, now: int) -> int:
        """The count that its next check would leave: the lower, the later its level."""
        if self.count is None or self.updated_at is None or now - self.updated_at > priority.reset_interval:
            return 0
        return self.count - 1


class CustomerListing(NamedTuple):
    """Customers in order, how many fit in all, and the weight of everybody with an open line."""

    names: tuple[str, ...]
    total: int
    weight: float


class SortBy(NamedTuple):
    """How to sort: by name, or by a figure. Who has none comes last either way, and equals are in order of name."""

    figure: Callable[[CustomerEntry], float | None] | None = None
    is_descending: bool = False


class CustomerIndex:
    """An entry for each customer. `hear` is called by whoever reads events, `page` by anybody."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._entries: dict[str, CustomerEntry] | None = None
        self._ordered: list[CustomerEntry] | None = None
        self._stale: set[str] = set()
        self._read_at: int | None = None
        self._read_duration = 0

    def on_events(self, events: Sequence[Event]) -> None:
        """Figures of these customers have changed."""
        if self._read_at is not None:
            with self._lock:
                self._stale.update(event.customer for event in events if event.customer is not None)

    def page(self, where: CustomerFilter, sort: SortBy, *, limit: int, after: int) -> CustomerListing:
        """Customers from a place on."""
        everybody = self._refreshed_entries()
        fitting = _matching(everybody, where)
        if where.text is not None and len(fitting) < limit and self._add_unknown(where, limit):
            everybody = self._refreshed_entries()
            fitting = _matching(everybody, where)
        names = [customer_entry.name for customer_entry in _sorted(fitting, sort)[after : after + limit]]
        return CustomerListing(
            tuple(names),
            len(fitting),
            sum(customer_entry.weight for customer_entry in everybody if customer_entry.is_open),
        )

    def _refreshed_entries(self) -> list[CustomerEntry]:
        """Everybody by name, as good as is to be had quickly."""
        if self._entries is None:
            with self._read_lock:
                if self._entries is None:
                    self._read_all()
        elif self._read_lock.acquire(blocking=False):
            if self._needs_full_read():
                threading.Thread(target=self._refresh_all, name="inturn-roster", daemon=True).start()
            else:
                try:
                    self._refresh_stale()
                finally:
                    self._read_lock.release()
        with self._lock:
            if self._ordered is None:
                self._ordered = sorted(
                    (self._entries or {}).values(),
                    key=lambda customer_entry: (customer_entry.sort_name, customer_entry.name),
                )
            return self._ordered

    def _add_unknown(self, where: CustomerFilter, limit: int) -> bool:
        """Whether the store knows somebody of this name who is new: no event tells of one who was only checked."""
        customers = self._store.customers(CustomerFilter(where.text), limit=limit).items
        with self._lock:
            known = {} if self._entries is None else self._entries
            new = {customer.name: entry_from_customer(customer) for customer in customers if customer.name not in known}
            if new:
                known.update(new)
                self._ordered = None
        return bool(new)

    def _needs_full_read(self) -> bool:
        rest = max(MIN_REFRESH_INTERVAL, REFRESH_DURATION_FACTOR * self._read_duration)
        return len(self._stale) > MAX_STALE_CUSTOMERS or not 0 <= self._clock.now() - (self._read_at or 0) < rest

    def _refresh_all(self) -> None:
        """Beside those who ask: they get what is known."""
        try:
            self._read_all()
        except InturnError:
            pass  # who asks next tries again, and hears of it from the store where it must
        finally:
            self._read_lock.release()

    def _read_all(self) -> None:
        began, before = time.monotonic(), self._read_at
        self._read_at = self._clock.now()  # from here on events are heard: none falls between
        with self._lock:
            self._stale.clear()
        result: dict[str, CustomerEntry] = {}
        after: str | None = None
        try:
            while True:
                page = self._store.customers(CustomerFilter(), limit=PAGE_SIZE, after=after)
                result |= {customer.name: entry_from_customer(customer) for customer in page.items}
                after = page.next
                if after is None:
                    break
        except InturnError:
            self._read_at = before
            raise
        with self._lock:
            self._entries, self._ordered = result, None
        self._read_duration = round((time.monotonic() - began) * SECOND)

    def _refresh_stale(self) -> None:
        until = time.monotonic() + MAX_REFRESH_SECONDS
        while self._stale and time.monotonic() < until:
            with self._lock:
                name = self._stale.pop()
            try:
                customer_entry = entry_from_customer(self._store.customer(name))
            except NotFoundError:
                continue
            with self._lock:
                if self._entries is not None and self._entries.get(name) != customer_entry:
                    self._entries[name] = customer_entry
                    self._ordered = None


def entry_from_customer(customer: Customer) -> CustomerEntry:
    """What is kept of a customer."""
    settings = customer.settings
    return CustomerEntry(
        name=customer.name,
        sort_name=(settings.display_name or customer.name).lower(),
        waiting=customer.waiting,
        running=customer.running,
        count=customer.count,
        updated_at=customer.updated_at,
        weight=settings.weight,
        is_open=any(line.is_open and line.waiting > 0 for line in customer.lanes),
        paused=settings.paused,
    )


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
    """Entries come by name; sorting keeps that for equals."""
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
    return [item for _, item in known] + unknown
