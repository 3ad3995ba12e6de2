"""All lines of the memory store, with the documents in them."""

from collections.abc import Iterator
from heapq import heappop, heappush

from inturn.model import CustomerSettings
from inturn.policy import TurnPolicy, rates
from inturn.policy.lanes import DEFAULT_SETTINGS, LaneTracker
from inturn.policy.scheduler import Head, Scheduler
from inturn.stores.memory.rows import RUNNING, WAITING, CustomerRow, MemoryLane, Row, head_of


class Lanes:
    """The customers with their lines, and whose turn it is."""

    def __init__(self, policy: TurnPolicy) -> None:
        self.customers: dict[str, CustomerRow] = {}
        self.scheduler: Scheduler[MemoryLane] = Scheduler(policy)
        self._tracker = LaneTracker(self.scheduler, _find_head)
        self._rate_openings: list[tuple[int, str]] = []
        self._lane_count = 0
        self._sweep_at = 1_000

    def customer(self, name: str) -> CustomerRow:
        """The customer, known from now on."""
        known = self.customers.get(name)
        if known is None:
            known = self.customers[name] = CustomerRow(name)
        return known

    @property
    def has_openings(self) -> bool:
        """Whether any customer is closed by its rate."""
        return bool(self._rate_openings)

    def join(self, row: Row) -> None:
        """A document begins to wait, at the place its seq gives it."""
        customer = self.customers[row.customer]
        self._tracker.joined(customer, self._push(customer, row), head_of(row))

    def release(self, row: Row) -> None:
        """A document that was claimed and not started waits again, at the place its seq gives it."""
        customer = self.customers[row.customer]
        self._tracker.released(customer, self._push(customer, row), head_of(row))

    def _push(self, customer: CustomerRow, row: Row) -> MemoryLane:
        line = customer.lanes.get(row.lane_level)
        if line is None:
            line = self._new_lane(customer, row.lane_level)
        heappush(line.rows, (row.seq, row))
        return line

    def left(self, row: Row, level: int) -> None:
        """A document no longer waits in its line of this level, and was not claimed. Its state says so already."""
        self._tracker.left(self.customers[row.customer].lanes[level], row.seq)

    def take(self, now: int) -> Row | None:
        """The document whose turn it is, out of its line, its customer charged for it."""
        line = self.scheduler.take(now)
        if line is None:
            return None
        row = heappop(line.rows)[1]
        row.state = RUNNING
        customer = self.customers[row.customer]
        self._tracker.started(customer, line, now)
        if customer.rate_closed_until is not None:
            heappush(self._rate_openings, (customer.rate_closed_until, customer.name))
        return row

    def stopped(self, row: Row) -> None:
        """A document of this customer runs no more."""
        customer = self.customers[row.customer]
        if customer.settings is DEFAULT_SETTINGS:
            customer.running -= 1
        else:
            self._tracker.stopped(customer)

    def change(self, customer: CustomerRow, settings: CustomerSettings) -> None:
        """New settings hold for what already waits."""
        self._tracker.change(customer, settings)

    def reopen_due(self, now: int) -> int:
        """Let customers whose rate allows it go on; how many."""
        opened = 0
        while (opening := self._next_opening()) is not None and opening[0] <= now:
            heappop(self._rate_openings)
            self._tracker.rate_reopened(self.customers[opening[1]])
            opened += 1
        return opened

    def clamp_rates(self, now: int) -> int:
        """Bring rates that a clock ahead of this one has charged back to what they may be; how many."""
        names = sorted({name for at, name in self._rate_openings if self.customers[name].rate_closed_until == at})
        bound = [self.customers[name] for name in names if self._tracker.clamp_rate(self.customers[name], now)]
        for customer in bound:
            if customer.rate_closed_until is not None:
                heappush(self._rate_openings, (customer.rate_closed_until, customer.name))
        return len(bound)

    def rates_ahead(self, now: int) -> int:
        """How many rates `clamp_rates` would bring back."""
        return sum(
            customer.settings.rate is not None
            and customer.rate_closed_until is not None
            and rates.clamped_tat(customer.settings.rate, customer.tat, now) < customer.tat
            for customer in self.customers.values()
        )

    def next_opening(self) -> int | None:
        """When a rate limit lets a customer go on next."""
        opening = self._next_opening()
        return None if opening is None else opening[0]

    def all(self) -> Iterator[MemoryLane]:
        """Every line there is."""
        for customer in self.customers.values():
            yield from customer.lanes.values()

    def forget_spent(self, now: int | None = None) -> None:
        """Drop empty lines that remember nothing, those that will not matter from `now` on among them if given."""
        for customer in self.customers.values():
            spent = [level for level, line in customer.lanes.items() if self.scheduler.is_spent(line, now)]
            for level in spent:
                del customer.lanes[level]
            self._lane_count -= len(spent)
        self._sweep_at = 2 * self._lane_count + 1_000

    # -- after a restart --------------------------------------------------------------------------------------------

    def restore(self, customer: CustomerRow, rate_closed_until: int | None, lanes: list[list[int]]) -> None:
        """A customer's lines as they stood, still without their documents."""
        customer.rate_closed_until = rate_closed_until
        if rate_closed_until is not None:
            heappush(self._rate_openings, (rate_closed_until, customer.name))
        for level, turn, stamp, *out_of_turn_at in lanes:
            line = self._new_lane(customer, level)
            line.turn, line.stamp = turn, stamp
            line.out_of_turn_at = out_of_turn_at[0] if out_of_turn_at else 0  # older snapshots have none

    def restore_document(self, row: Row) -> None:
        """A waiting or running document of a line that was restored: no turn changes."""
        customer = self.customers[row.customer]
        if row.state is RUNNING:
            customer.running += 1
            return
        line = customer.lanes[row.lane_level]
        heappush(line.rows, (row.seq, row))
        line.waiting += 1

    def schedule_all(self) -> None:
        """After `stand` for every document: open lines may be taken, each where it stood."""
        for customer in self.customers.values():
            for line in customer.lanes.values():
                line.head = _find_head(line)
                if line.head is not None and customer.is_open:
                    self.scheduler.levels[line.level].open_lanes += 1
                    self.scheduler.schedule(line)

    def _new_lane(self, customer: CustomerRow, level: int) -> MemoryLane:
        if self._lane_count >= self._sweep_at:
            self.forget_spent()
        self._lane_count += 1
        line = customer.lanes[level] = MemoryLane(customer.name, level, customer.settings.weight)
        return line

    def _next_opening(self) -> tuple[int, str] | None:
        heap = self._rate_openings
        while heap:
            at, name = heap[0]
            if self.customers[name].rate_closed_until == at:
                return heap[0]
            heappop(heap)
        return None


def _find_head(lane: MemoryLane) -> Head | None:
    """The head of a line; documents that left are dropped as they come up."""
    rows = lane.rows
    while rows:
        seq, row = rows[0]
        if row.state is WAITING and row.seq == seq and row.lane_level == lane.level:
            return Head(seq, row.ready_at, row.spec.cost)
        heappop(rows)
    return None
