"""The lines a claim can reach, read from the tables, changed by `LineBook`, written back.

Only claims write lines. Everything else appends a line change, and a claim folds all changes in before it takes. So a
process that claims again, with nobody else in between, finds the lines as it left them and need not read them again:
`queue.version` tells. If nobody wrote anything at all, it need not even look.

Of a line that was only taken from, what changed is kept in the queue's row at first, which is written anyway; its own
row follows when there are too many such lines, or when another process comes to read it.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from inturn.model import CustomerSettings, plain
from inturn.policy.lines import LineBook, LinesOf
from inturn.policy.turns import LEVELS, Head, Level, Order, Turns
from inturn.stores._turns import level_text, turns_of, turns_text
from inturn.stores.sqlite.rows import NEVER, QueueRow, SqlLine, placed, row_text
from inturn.stores.sqlite.tables import Row, Tables, read_settings

MAX_REMEMBERED: Final = 5_000
"""Customers whose lines a process remembers between claims."""
MORE: Final = 32
"""Lines read beyond those that a claim needs: whoever claims again will want them."""
AHEAD: Final = 16
"""Documents of a line read at once by a process that claims again and again."""
MAX_UNSAVED: Final = 32
"""Lines kept in the queue's row: it has to fit a page."""
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
        self._unsaved: dict[SqlLine, str] = {}
        """Lines of which the queue's row says more than their own, as it says it."""
        self._save_rows(json.loads(queue.unsaved))
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
        self._left_at = -1
        self._begin(queue)
        self._is_remembered = False

    @classmethod
    def opened(cls, tables: Tables, now: int = NEVER) -> "Book":
        """This process's book, if nobody else has claimed since; otherwise a new one.

        Where nothing at all was written since and nothing is due by `now`, the queue is as this book left it.
        """
        left: Book | None = tables.book
        if left is not None and left.next_due > now and tables.is_as_left(left._left_at):  # noqa: SLF001 - its own class
            left._is_remembered = True  # noqa: SLF001
            return left
        found = tables.one("queue")
        if found is None:
            raise AssertionError("the queue has no row")
        queue = QueueRow._make(found)
        if left is None or (left._version, left._policy) != (queue.version, queue.policy):  # noqa: SLF001
            return cls(tables, queue)
        left._begin(queue)  # noqa: SLF001
        return left

    def _begin(self, queue: QueueRow) -> None:
        self.fence = queue.fence
        self.paused_by = queue.paused_by
        self._event = queue.event
        self._version = queue.version
        self._policy = queue.policy
        self._saved = (queue.fence, queue.event, queue.turns, queue.unsaved)
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
            self._see_overdue(now - turns.policy.overdue_after)
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

    def save(self, *, whole: bool = False) -> None:
        """Write back what changed, `whole` if every line's own row has to tell, and remember the rest."""
        for number in {line.level for line in self._touched}:
            self._level_texts[number] = level_text(self.turns.levels[number])
        self._save_lines(whole=whole or len(self._touched) > MAX_UNSAVED)
        if self._limited:
            self._save_limits()
        self._save_queue()
        if self._limited or self.has_returned:
            self.next_due = 0  # look again: a rate may have closed somebody, and what had returned may be gone
        self._touched.clear()
        self._limited.clear()
        self._left_at = self._tables.connection.total_changes()
        self._tables.book = self if len(self._customers) <= MAX_REMEMBERED else None

    def _save_lines(self, *, whole: bool) -> None:
        rows, gone, unsaved = [], [], self._unsaved
        for line in self._touched:
            row = line.row()
            if not whole and row != line.kept and line.may_stay_unsaved():
                unsaved[line] = row_text(row)
                continue
            unsaved.pop(line, None)
            if self.turns.is_spent(line):
                self._forget(line)
                if line.kept is not None:
                    gone.append((line.owner, line.level))
            elif row != line.kept:
                rows.append(row)
                line.kept = row
        if unsaved and (whole or len(unsaved) > MAX_UNSAVED):
            for line in unsaved:
                line.kept = row = line.row()
                rows.append(row)
            unsaved.clear()
        self._save_rows(rows)
        if gone:
            self._tables.many("forget_line", gone)

    def _save_rows(self, rows: Sequence[Row]) -> None:
        """Write rows of lines, each with its place."""
        if rows:
            self._tables.many("save_line", [placed(row, fair=self._fair) for row in rows])

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
        turns, unsaved = turns_text(self.turns, self._level_texts), f"[{', '.join(self._unsaved.values())}]"
        now = (self.fence, self._event, turns, unsaved)
        if self._touched or self._limited or now != self._saved:
            self._tables.run("save_claim", *now)
            self._version += 1
            self._saved = now

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
        owner, level, weight, turn, stamp, waiting, head_seq, head_ready_at, head_cost, filed, front, _ = row
        head = None if head_seq is None else Head(head_seq, head_ready_at, head_cost)
        line = SqlLine(str(owner), level, weight, turn, stamp, waiting, head, owner=owner, front=front, kept=row[:-1])
        self.customer(owner).lines[level] = line
        if filed:
            self.turns.file(line)
        return line

    # -- seen ---------------------------------------------------------------------------------------------------

    def _see_overdue(self, since: int) -> None:
        """An overdue slot may fall now: see the oldest head of each level, and of overdue ones whose turn it is."""
        for level in self.turns.levels[1:]:
            if level.open_lines:
                self._see_oldest(level)
                oldest = level.oldest()
                if oldest is not None and oldest.head is not None and oldest.head.ready_at <= since:
                    self._see_lowest(level)

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

    def _see_more(self, query: str, level: int, seen: tuple[int, int]) -> Row | None:
        """Read the open lines beyond what was seen; the last row, or None when there are no more."""
        limit = self._reach + MORE
        rows = self._tables.all(query, level=level, seen=seen[0], tie=seen[1], limit=limit)
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
