"""The lines a claim can reach, read from the tables, changed by `LineBook`, written back.

Only claims write lines. Everything else appends a line change, and a claim folds all changes in before it takes.
"""

import json
from collections import Counter as Tally
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from inturn.model import CustomerSettings, plain
from inturn.policy import TurnPolicy
from inturn.policy.lines import LineBook, LinesOf
from inturn.policy.turns import LEVELS, Head, Level, Line, Order, Standing, Turns
from inturn.stores.sqlite.tables import Row, Tables, read_settings

START: Final = json.dumps([1, 0, 0, [[0, 0, 0, 0, 0] for _ in LEVELS]])
"""Where the turns of a new queue are: next stamp, dispatched, rotation; by level V, highest, overdue uses, open."""


class Changes(Protocol):
    """What happens to lines, told either to the line changes or to the book itself."""

    def joined(self, owner: int, level: int, n: int, head: Head) -> None:
        """So many documents came into a line; `head` is the first."""
        ...

    def left(self, owner: int, level: int, seq: int) -> None:
        """A document left a line other than by a claim."""
        ...

    def emptied(self, owner: int, level: int) -> None:
        """All documents of a line are gone."""
        ...

    def stopped(self, owner: int) -> None:
        """A document of a customer with a cap runs no more."""
        ...

    def changed(self, owner: int, settings: CustomerSettings, running: int) -> None:
        """A customer's settings are new, while so many of its documents run."""
        ...

    def give_events(self, n: int) -> int:
        """The last of n new numbers for events."""
        ...


class LaterChanges:
    """Appends line changes for the next claim."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def joined(self, owner: int, level: int, n: int, head: Head) -> None:
        self._tables.run("add_change", owner, "joined", level, n, *head, None)

    def left(self, owner: int, level: int, seq: int) -> None:
        self._tables.run("add_change", owner, "left", level, None, seq, None, None, None)

    def emptied(self, owner: int, level: int) -> None:
        self._tables.run("add_change", owner, "emptied", level, None, None, None, None, None)

    def stopped(self, owner: int) -> None:
        self._tables.run("add_change", owner, "stopped", None, None, None, None, None, None)

    def changed(self, owner: int, settings: CustomerSettings, running: int) -> None:
        text = json.dumps(plain(settings._asdict()))
        self._tables.run("add_change", owner, "changed", None, running, None, None, None, text)

    def give_events(self, n: int) -> int:
        return int((self._tables.one("give_events", n=n) or (n,))[0])


@dataclass(slots=True, eq=False)
class SqlLine(Line):
    """A line as it stands in its table."""

    owner: int = 0
    ahead: deque[Head] = field(default_factory=deque)
    """Its next documents, as far as they were read."""
    kept: tuple[Any, ...] | None = None
    """The row as it was read; None for a line that has none."""

    def row(self) -> tuple[Any, ...]:
        """The row as it should be, without its place."""
        head = self.head or (None, None, None)
        return (self.owner, self.level, self.weight, self.turn, self.stamp, self.waiting, *head, int(self.filed))

    def place(self, *, fair: bool) -> tuple[int, int]:
        """What sorts it among the open lines of its level."""
        return (self.turn, self.stamp) if fair else (0 if self.head is None else self.head.seq, 0)


class Book:
    """A claim's view of the lines."""

    def __init__(self, tables: Tables) -> None:
        queue = tables.one("queue")
        if queue is None:
            raise AssertionError("the queue has no row")
        self.fence, self._event, policy, ordered, turns, self.paused_by = queue
        self._tables = tables
        self._kept = (self.fence, self._event, turns)
        self.turns = self._read_turns(tables.policy(policy).policy.turns, turns)
        self._fair = self.turns.policy.order is Order.FAIR
        if ordered != self.turns.policy.order:
            self._order_lines()
        self._book = LineBook(self.turns, self._first)
        self._customers: dict[int, LinesOf[SqlLine]] = {}
        self._limits: dict[int, tuple[Any, ...]] = {}
        self._folding = False
        self._headless: set[SqlLine] = set()
        self._reach = 1
        self._loaded: set[tuple[str, int]] = set()
        self._held: Tally[int] = Tally()
        """How many lines of each level were read."""

    # -- told ---------------------------------------------------------------------------------------------------

    def joined(self, owner: int, level: int, n: int, head: Head) -> None:
        self._book.joined(self.customer(owner), self.line(owner, level), head, n)

    def left(self, owner: int, level: int, seq: int) -> None:
        self._book.left(self.line(owner, level), seq)

    def emptied(self, owner: int, level: int) -> None:
        self._book.emptied(self.line(owner, level))

    def stopped(self, owner: int) -> None:
        self._book.stopped(self.customer(owner))

    def changed(self, owner: int, settings: CustomerSettings, running: int) -> None:
        customer = self.customer(owner)
        self._load_all(owner, customer)
        customer.running = running
        self._limits.setdefault(owner, ())
        self._book.change(customer, settings)

    def rate_allows(self, owner: int, now: int) -> bool:
        """Let a customer go on if its rate closed it until now; a change just folded may have done so already."""
        customer = self.customer(owner)
        if customer.rate_closed_until is None or customer.rate_closed_until > now:
            return False
        self._book.rate_allows(customer)
        return True

    def give_events(self, n: int) -> int:
        """The last of n new numbers for events."""
        self._event += n
        return int(self._event)

    def fold(self) -> None:
        """Tell the book what happened since the last claim, in order; heads are looked up at the end."""
        changes = self._tables.all("changes")
        if not changes:
            return
        self._folding = True
        for owner, kind, level, n, seq, ready_at, cost, settings in changes:
            if kind == "joined":
                self.joined(owner, level, n, Head(seq, ready_at, cost))
            elif kind == "left":
                self.left(owner, level, seq)
            elif kind == "emptied":
                self.emptied(owner, level)
            elif kind == "stopped":
                self.stopped(owner)
            else:
                self.changed(owner, read_settings(settings), n)
        self._folding = False
        self._find_heads()
        self._tables.run("forget_changes")

    # -- taken --------------------------------------------------------------------------------------------------

    def reach(self, k: int, now: int) -> None:
        """Make ready for taking k documents: if an overdue slot may fall among them, read the overdue levels."""
        self._reach = k
        turns = self.turns
        if not self._fair:
            return
        if turns.dispatched // turns.policy.overdue_every == (turns.dispatched + k) // turns.policy.overdue_every:
            return
        since = now - turns.policy.overdue_after
        for level in turns.levels[1:]:
            if level.open_lines and self._is_overdue(level, since):
                self._load("lowest_lines", level.number)
                self._load("oldest_lines", level.number)

    def _is_overdue(self, level: Level[SqlLine], since: int) -> bool:
        """By a line of the table, or by one that this transaction brought."""
        here = level.oldest()
        if here is not None and here.head is not None and here.head.ready_at <= since:
            return True
        kept = self._tables.one("oldest_head", level=level.number)
        return kept is not None and kept[0] is not None and kept[0] <= since

    def take(self, now: int) -> tuple[SqlLine, Head] | None:
        """The line whose head goes next, and that head; its customer is charged."""
        self._load_best_level()
        line = self.turns.take(now)
        if line is None or (head := line.head) is None:
            return None
        self._book.started(self.customer(line.owner), line, now)
        return line, head

    def save(self) -> None:
        """Write back what changed."""
        rows, gone = [], []
        for line in self._lines():
            if self.turns.is_spent(line):
                if line.kept is not None:
                    gone.append((line.owner, line.level))
            elif (row := line.row()) != line.kept:
                rows.append((*row, *line.place(fair=self._fair)))
        if rows:
            self._tables.many("save_line", rows)
        if gone:
            self._tables.many("forget_line", gone)
        for owner, kept in self._limits.items():
            customer = self._customers[owner]
            settings = json.dumps(plain(customer.settings._asdict()))
            row = (owner, settings, customer.running, customer.whole_at, customer.rate_closed_until)
            if row != kept:
                self._tables.run("save_limits", *row)
        turns = self._plain_turns()
        if (self.fence, self._event, turns) != self._kept:
            self._tables.one("save_claim", fence=self.fence, event=self._event, turns=turns)
        self._tables.turns = (turns, self.turns)

    # -- read ---------------------------------------------------------------------------------------------------

    def customer(self, owner: int, *, limited: bool = True) -> LinesOf[SqlLine]:
        """A customer's lines: all of them if it has settings of its own, otherwise those asked for."""
        known = self._customers.get(owner)
        if known is None:
            known = self._customers[owner] = LinesOf(str(owner))
            kept = self._tables.one("limits", customer=owner) if limited else None
            if kept is not None:
                settings, known.running, known.whole_at, known.rate_closed_until = kept
                known.settings = read_settings(settings)
                self._limits[owner] = (owner, *kept)
                self._load_all(owner, known)
        return known

    def line(self, owner: int, level: int) -> SqlLine:
        """A customer's line of a level, read or new."""
        customer = self.customer(owner)
        known = customer.lines.get(level)
        if known is None:
            row = self._tables.one("line", customer=owner, level=level)
            if row is not None:
                return self._read_line(row)
            known = customer.lines[level] = SqlLine(str(owner), level, customer.settings.weight, owner=owner)
        return known

    def _load_all(self, owner: int, customer: LinesOf[SqlLine]) -> None:
        for row in self._tables.all("lines_of", customer=owner):
            if row[1] not in customer.lines:
                self._read_line(row)

    def _load_best_level(self) -> None:
        """Read the lowest lines of the first level that has open ones."""
        for level in self.turns.levels:
            if level.open_lines:
                self._load("lowest_lines", level.number)
                return

    def _load(self, query: str, level: int) -> None:
        if (query, level) in self._loaded:
            return
        self._loaded.add((query, level))
        # The table does not know yet what this transaction did to the lines it holds: look past as many.
        for row in self._tables.all(query, level=level, limit=self._reach + self._held[level]):
            if level not in self.customer(row[0], limited=row[-1]).lines:
                self._read_line(row)

    def _read_line(self, row: Row) -> SqlLine:
        owner, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, _ = row
        head = None if head_seq is None else Head(head_seq, head_ready_at, head_cost)
        line = SqlLine(str(owner), level, weight, turn, stamp, waiting, head, owner=owner, kept=tuple(row[:-1]))
        self.customer(owner).lines[level] = line
        self._held[level] += 1
        if filed:
            self.turns.file(line)
        return line

    def _lines(self) -> Iterator[SqlLine]:
        for customer in self._customers.values():
            yield from customer.lines.values()

    # -- heads --------------------------------------------------------------------------------------------------

    def _first(self, line: SqlLine) -> Head | None:
        """The head of a line whose old one is gone; while folding it is looked up later."""
        if line.waiting <= 0:
            return None
        if self._folding:
            self._headless.add(line)
            return line.head
        after = line.head.seq if line.head is not None else 0
        while line.ahead and line.ahead[0].seq <= after:
            line.ahead.popleft()
        if not line.ahead:
            self._read_ahead(line, after)
        return line.ahead[0] if line.ahead else None

    def _read_ahead(self, line: SqlLine, after: int) -> None:
        open_lines = max(1, self.turns.levels[line.level].open_lines)
        limit = min(line.waiting, 1 + self._reach // open_lines)
        rows = self._tables.all("waiting_in_line", customer=line.owner, level=line.level, after=after, limit=limit)
        line.ahead.extend(Head(*row) for row in rows)

    def _find_heads(self) -> None:
        for line in self._headless:
            if line.waiting > 0:
                rows = self._tables.all("waiting_in_line", customer=line.owner, level=line.level, after=0, limit=1)
                self.turns.change_head(line, Head(*rows[0]) if rows else None)
        self._headless.clear()

    # -- turns --------------------------------------------------------------------------------------------------

    def _read_turns(self, policy: TurnPolicy, text: str) -> Turns[SqlLine]:
        """Where the turns are; as this process left them, if nobody else has claimed since."""
        if self._tables.turns is not None and self._tables.turns[0] == text:
            turns: Turns[SqlLine] = self._tables.turns[1]
            turns.begin(policy)
            return turns
        turns = Turns(policy)
        turns.next_stamp, turns.dispatched, turns.rotation, levels = json.loads(text)
        for level, (turn, stamp, highest, uses, open_lines) in zip(turns.levels, levels, strict=True):
            level.v, level.highest = Standing(turn, stamp), highest
            level.overdue_uses, level.open_lines = uses, open_lines
        return turns

    def _order_lines(self) -> None:
        """The order was changed: sort the lines by the new one."""
        self._tables.one("order_lines", fair=self._fair)
        self._tables.one("ordered", ordered=self.turns.policy.order)

    def _plain_turns(self) -> str:
        turns = self.turns
        levels = [[*level.v, level.highest, level.overdue_uses, level.open_lines] for level in turns.levels]
        return str([turns.next_stamp, turns.dispatched, turns.rotation, levels])
