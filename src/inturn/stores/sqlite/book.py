"""The lines a claim can reach, read from the tables, changed by `LineBook`, written back.

Only claims write lines. Everything else appends a line change, and a claim folds all changes in before it takes. So a
process that claims again, with nobody else in between, finds the lines as it left them and need not read them again:
`queue.version`, read inside the claim's own transaction, tells. Nothing else vouches for what is remembered.
"""

import json
from typing import Any, Final

from inturn.model import CustomerSettings, plain
from inturn.policy.lines import LineBook, LinesOf
from inturn.policy.turns import LEVELS, Head, Level, Order, Turns
from inturn.stores._turns import level_text, turns_of, turns_text
from inturn.stores.sqlite.rows import NEVER, QueueRow, SqlLine, placed
from inturn.stores.sqlite.tables import Row, Tables, read_settings

MAX_REMEMBERED: Final = 5_000
"""Customers whose lines a process remembers between claims."""
MORE: Final = 32
"""Lines read beyond those that a claim needs: whoever claims again will want them."""
AHEAD: Final = 16
"""Documents of a line read at once by a process that claims again and again."""
NOTHING_SEEN: Final = (-1, -1)
ALL_SEEN: Final = (NEVER, 0)


class Book:
    """A claim's view of the lines.

    Of each level it has seen the open lines up to a place, and up to an age: whatever it does not hold lies beyond.
    """

    def __init__(self, tables: Tables, queue: QueueRow) -> None:
        self._tables = tables
        self.turns: Turns[SqlLine] = turns_of(tables.policy(queue.policy).policy.turns, queue.turns)
        self._level_texts = [level_text(level) for level in self.turns.levels]
        self._fair = self.turns.policy.order is Order.FAIR
        if queue.ordered != self.turns.policy.order:
            self._tables.one("order_lines", fair=self._fair)
            self._tables.one("ordered", ordered=self.turns.policy.order)
        self._book = LineBook(self.turns, self._first)
        self._customers: dict[int, LinesOf[SqlLine]] = {}
        self._limits: dict[int, tuple[Any, ...]] = {}
        self._touched: set[SqlLine] = set()
        self._limited: set[int] = set()
        self._folding = False
        self._headless: set[SqlLine] = set()
        self._seen_place = [NOTHING_SEEN for _ in LEVELS]
        self._seen_age = [NOTHING_SEEN for _ in LEVELS]
        self._reach = 1
        self._begin(queue)
        self._is_remembered = False

    @classmethod
    def opened(cls, tables: Tables) -> "Book":
        """This process's book, if no transaction has written lines since; otherwise a new one."""
        row = tables.one("queue")
        if row is None:
            raise AssertionError("the queue has no row")
        queue = QueueRow._make(row)
        book: Book | None = tables.book
        if book is None or (book._version, book._policy) != (queue.version, queue.policy):  # noqa: SLF001 - its own class
            return cls(tables, queue)
        book._begin(queue)  # noqa: SLF001
        return book

    def _begin(self, queue: QueueRow) -> None:
        self.fence = queue.fence
        self.paused_by = queue.paused_by
        self._event = queue.event
        self._version = queue.version
        self._policy = queue.policy
        self._saved = (queue.fence, queue.event, queue.turns)
        self._is_remembered = True
        self.has_changes = bool(queue.has_changes)
        self.has_returned = bool(queue.has_returned)
        self.next_due = queue.next_due
        """Nothing is due before this, as far as the book was told; something may well be due later."""

    # -- told ---------------------------------------------------------------------------------------------------

    def joined(self, owner: int, level: int, n: int, head: Head) -> None:
        line = self._line(owner, level)
        line.begins(head)
        self._join(owner, line, n, head)

    def returned(self, owner: int, level: int, n: int, head: Head) -> None:
        self.has_returned = True
        self._join(owner, self._line(owner, level), n, head)

    def released(self, owner: int, level: int, head: Head) -> None:
        self.has_returned = True
        line = self._line(owner, level)
        line.comes(head)
        self._book.released(self.customer(owner), line, head)

    def _join(self, owner: int, line: SqlLine, n: int, head: Head) -> None:
        line.comes(head)
        self._book.joined(self.customer(owner), line, head, n)

    def left(self, owner: int, level: int, seq: int) -> None:
        line = self._line(owner, level)
        line.ahead.clear()
        self._book.left(line, seq)
        if line.waiting == 0:
            line.ends()

    def emptied(self, owner: int, level: int) -> None:
        """All documents of a line are gone."""
        line = self._line(owner, level)
        line.ends()
        self._book.emptied(line)

    def stopped(self, owner: int) -> None:
        customer = self.customer(owner)
        self._book.stopped(customer)
        self._touch_all(owner, customer)

    def changed(self, owner: int, settings: CustomerSettings, running: int) -> None:
        customer = self.customer(owner)
        self._load_all(owner, customer)
        customer.running = running
        self._limits.setdefault(owner, ())
        self._book.change(customer, settings)
        self._touch_all(owner, customer)

    def rate_allows(self, owner: int, now: int) -> bool:
        """Let a customer go on if its rate closed it until now; a change just folded may have done so already."""
        customer = self.customer(owner)
        if customer.rate_closed_until is None or customer.rate_closed_until > now:
            return False
        self._book.rate_allows(customer)
        self._touch_all(owner, customer)
        return True

    def bound_rate(self, owner: int, now: int) -> None:
        """Bring a closing by rate that a clock ahead of this one has set back to what the rate allows."""
        customer = self.customer(owner)
        if self._book.bound_rate(customer, now):
            self._touch_all(owner, customer)

    def give_events(self, n: int) -> int:
        """The last of n new numbers for events."""
        self._event += n
        return self._event

    def fold(self) -> None:
        """Tell the book what happened since the last claim, in order; heads are looked up at the end."""
        if not self.has_changes:
            return
        self.has_changes = False
        self._folding = True
        for owner, kind, level, n, seq, ready_at, cost, settings in self._tables.all("changes"):
            if kind == "joined":
                self.joined(owner, level, n, Head(seq, ready_at, cost))
            elif kind == "returned":
                self.returned(owner, level, n, Head(seq, ready_at, cost))
            elif kind == "released":
                self.released(owner, level, Head(seq, ready_at, cost))
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

    def reach(self, k: int) -> None:
        """Make ready for taking k documents."""
        self._reach = k

    def take(self, now: int) -> tuple[SqlLine, Head] | None:
        """The line whose head goes next, and that head; its customer is charged."""
        turns = self.turns
        if self._fair and (turns.dispatched + 1) % turns.policy.overdue_every == 0:
            self._see_overdue(now)
        for level in turns.levels:
            if level.open_lines:
                self._see_lowest(level)
                break
        line = turns.take(now)
        if line is None or (head := line.head) is None:
            return None
        customer = self.customer(line.owner)
        self._book.started(customer, line, now)
        line.passed(head)
        self._touched.add(line)
        if line.owner in self._limits:
            self._touch_all(line.owner, customer)
        return line, head

    def save(self) -> None:
        """Write back what changed, and remember the rest."""
        for number in {line.level for line in self._touched}:
            self._level_texts[number] = level_text(self.turns.levels[number])
        self._save_lines()
        if self._limited:
            self._save_limits()
        self._save_queue()
        self._touched.clear()
        self._limited.clear()
        self._tables.book = self if len(self._customers) <= MAX_REMEMBERED else None

    def _save_lines(self) -> None:
        rows, gone = [], []
        for line in self._touched:
            row = line.row()
            if self.turns.is_spent(line):
                self._forget(line)
                if line.kept is not None:
                    gone.append((line.owner, line.level))
            elif row != line.kept:
                rows.append(placed(row, fair=self._fair))
                line.kept = row
        if rows:
            self._tables.many("save_line", rows)
        if gone:
            self._tables.many("forget_line", gone)

    def _forget(self, line: SqlLine) -> None:
        lines = self._customers[line.owner].lines
        del lines[line.level]
        if not lines and line.owner not in self._limits:
            del self._customers[line.owner]

    def _save_limits(self) -> None:
        for owner in self._limited:
            customer = self._customers[owner]
            settings = json.dumps(plain(customer.settings._asdict()))
            row = (owner, settings, customer.running, customer.whole_at, customer.rate_closed_until)
            if row != self._limits[owner]:
                self._tables.run("save_limits", *row)
                self._limits[owner] = row

    def _save_queue(self) -> None:
        state = (self.fence, self._event, turns_text(self.turns, self._level_texts))
        if self._touched or self._limited or state != self._saved:
            self._tables.run("save_claim", *state)
            self._version += 1
            self._saved = state

    # -- read ---------------------------------------------------------------------------------------------------

    def _line(self, owner: int, level: int) -> SqlLine:
        """A customer's line of a level, read or new, which is going to change."""
        customer = self.customer(owner)
        line = customer.lines.get(level)
        if line is None:
            row = self._tables.one("line", customer=owner, level=level)
            if row is None:
                line = customer.lines[level] = SqlLine(str(owner), level, customer.settings.weight, owner=owner)
            else:
                line = self._read_line(row)
        self._touched.add(line)
        return line

    def _touch_all(self, owner: int, customer: LinesOf[SqlLine]) -> None:
        """What concerns a customer with settings of its own may have opened or closed all its lines."""
        self._touched.update(customer.lines.values())
        if owner in self._limits:
            self._limited.add(owner)

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

    def _load_all(self, owner: int, customer: LinesOf[SqlLine]) -> None:
        for row in self._tables.all("lines_of", customer=owner):
            if row[1] not in customer.lines:
                self._read_line(row)

    def _read_line(self, row: Row) -> SqlLine:
        owner, level, weight, turn, stamp, waiting, *head, filed, front, out_of_turn_at, _ = row
        first = None if head[0] is None else Head(*head)
        line = SqlLine(str(owner), level, weight, turn, stamp, waiting, first, owner=owner, front=front, kept=row[:-1])
        line.out_of_turn_at = out_of_turn_at
        self.customer(owner).lines[level] = line
        if filed:
            self.turns.file(line)
        return line

    # -- seen ---------------------------------------------------------------------------------------------------

    def _see_overdue(self, now: int) -> None:
        """An overdue slot may fall now: see the oldest head of each level, and of overdue ones whose turn it is."""
        since = now - self.turns.policy.overdue_after
        for level in self.turns.levels[1:]:
            if level.open_lines:
                self._see_oldest(level)
                oldest = level.oldest()
                if oldest is not None and oldest.head is not None and oldest.head.ready_at <= since:
                    self._see_lowest(level)
                    if level.next_use_is_out_of_turn:
                        self._see_oldest_rested(level, now)

    def _see_lowest(self, level: Level[SqlLine]) -> None:
        """Hold the open line whose turn it is in this level."""
        number = level.number
        while (seen := self._seen_place[number]) is not ALL_SEEN:
            line = level.lowest()
            if line is not None and line.place(fair=self._fair) <= seen:
                return
            row = self._see_more("lowest_lines", number, seen)
            if row is None:
                self._seen_place[number] = ALL_SEEN
            else:
                self._seen_place[number] = (row[3], row[4]) if self._fair else (row[6], 0)

    def _see_oldest(self, level: Level[SqlLine]) -> None:
        """Hold the open line of this level whose head has waited longest."""
        number = level.number
        while (seen := self._seen_age[number]) is not ALL_SEEN:
            line = level.oldest()
            if line is not None and line.head is not None and (line.head.ready_at, line.head.seq) <= seen:
                return
            row = self._see_more("oldest_lines", number, seen)
            self._seen_age[number] = ALL_SEEN if row is None else (row[7], row[6])

    def _see_oldest_rested(self, level: Level[SqlLine], now: int) -> None:
        """Hold the open line whose head has waited longest, of those that may be started out of turn."""
        interval, seen = self.turns.policy.out_of_turn_interval, NOTHING_SEEN
        while True:
            row = self._see_more("oldest_rested_lines", level.number, seen, rested_since=now - interval, now=now)
            line = level.oldest_rested(now, interval)
            if row is None:
                return
            seen = (row[7], row[6])
            if line is not None and line.head is not None and (line.head.ready_at, line.head.seq) <= seen:
                return

    def _see_more(self, query: str, level: int, seen: tuple[int, int], **values: int) -> Row | None:
        """Read the open lines beyond what was seen; the last row, or None when there are no more."""
        limit = self._reach + MORE
        rows = self._tables.all(query, level=level, seen=seen[0], tie=seen[1], limit=limit, **values)
        for row in rows:
            if level not in self.customer(row[0], limited=row[-1]).lines:
                self._read_line(row)
        return rows[-1] if len(rows) == limit else None

    # -- heads --------------------------------------------------------------------------------------------------

    def _first(self, line: SqlLine) -> Head | None:
        """The head of a line whose old one is gone; while folding it is looked up later."""
        if line.waiting <= 0:
            return None
        if self._folding:
            self._headless.add(line)
            return line.head
        if not line.has_ahead():
            self._read_ahead(line)
        return line.ahead[0] if line.ahead else None

    def _read_ahead(self, line: SqlLine) -> None:
        open_lines = max(1, self.turns.levels[line.level].open_lines)
        limit = min(line.waiting, max(1 + self._reach // open_lines, AHEAD if self._is_remembered else 1))
        line.ahead.extend(self._heads(line, 0 if line.head is None else line.head.seq, limit))

    def _heads(self, line: SqlLine, after: int, limit: int) -> list[Head]:
        """Documents behind this one; a document that came back may stand behind the front as well."""
        where = {"customer": line.owner, "level": line.level, "limit": limit}
        found: list[Row] = []
        if line.front is not None:
            found = self._tables.all("waiting_in_line", first=max(after + 1, line.front), **where)
            if not found:
                line.found_none(after)
        if self.has_returned:
            returned = self._tables.all("returned_to_line", first=after + 1, **where)
            found = sorted({row[0]: row for row in (*found, *returned)}.values())[:limit]
        return [Head(*row) for row in found]

    def _find_heads(self) -> None:
        for line in self._headless:
            if line.waiting > 0:
                heads = self._heads(line, 0, 1)
                self.turns.change_head(line, heads[0] if heads else None)
        self._headless.clear()
