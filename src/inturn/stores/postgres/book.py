"""The lines a claim can reach, read from the tables, changed by `LineBook`, written back.

Only claims write lines. Everything else appends a line change, and a claim folds all changes in before it takes. So a
process that claims again, with nobody else in between, finds the lines as it left them and need not read them again:
`turns.version` tells. A claim is one snapshot, so that the documents it sees are those whose changes it has folded in.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from inturn.model import CustomerSettings, plain
from inturn.policy import TurnPolicy
from inturn.policy.lines import LineBook, LinesOf
from inturn.policy.turns import LEVELS, Head, Level, Order, Turns
from inturn.stores._turns import level_text, turns_of, turns_text
from inturn.stores.postgres.bounds import NEVER, Bounds
from inturn.stores.postgres.lines import COLUMNS, OLD, SqlLine
from inturn.stores.postgres.rows import read_settings
from inturn.stores.postgres.standing import QueueRow, Work
from inturn.stores.postgres.tables import Row, Tables, columns

MAX_REMEMBERED: Final = 5_000
"""Customers whose lines a process remembers between claims."""
MORE: Final = 32
"""Lines read beyond those that a claim needs: whoever claims again will want them."""
AHEAD: Final = 500
"""Documents of a level read at once, a share of each line, by a process that claims again and again."""
FENCES: Final = 100_000
"""Fences reserved at a time, by a commit that waits for the disk; all others need not."""
NOTHING_SEEN: Final = (-1, -1)
ALL_SEEN: Final = (2**63, 0)


class Book:
    """A claim's view of the lines.

    Of each level it has seen the open lines up to a place, and up to an age: whatever it does not hold lies beyond.
    """

    def __init__(self, tables: Tables, queue: QueueRow, policy: TurnPolicy) -> None:
        self.tables = tables
        self.turns: Turns[SqlLine] = turns_of(policy, queue.standing)
        self._fair = policy.order is Order.FAIR
        if queue.ordered != policy.order:
            tables.run("order_lines", fair=self._fair)
        self._book = LineBook(self.turns, self._first)
        self._customers: dict[int, LinesOf[SqlLine]] = {}
        self._looked: set[tuple[int, int]] = set()
        """Customers and levels whose lines are here, if there are any."""
        self._limits: dict[int, tuple[Any, ...]] = {}
        self._touched: set[SqlLine] = set()
        self._limited: set[int] = set()
        self._folding = False
        self._headless: set[SqlLine] = set()
        self.bounds = Bounds.read(queue.bounds)
        self._seen_place = [(level.v.turn, -1) if self._fair else NOTHING_SEEN for level in self.turns.levels]
        self._seen_age = [(ready_at, seq - 1) for ready_at, seq in self.bounds.oldest]
        self._reach = 1
        self.is_remembered = False
        self.begin(tables, queue)

    def begin(self, tables: Tables, queue: QueueRow, changes: list[Row] | None = None) -> None:
        """A claim begins, on this connection; the line changes may have been taken out already."""
        self.tables = tables
        self.queue = queue
        self._changes = changes
        self._folded = False
        self.fence = queue.fence if queue.alive else queue.reserved

    def is_current(self, queue: QueueRow) -> bool:
        """Whether nobody else has claimed since; after a crash, other fences are reserved before a version returns."""
        mine = self.queue
        return queue.alive and (mine.version, mine.reserved, mine.policy, mine.ordered) == (
            queue.version,
            queue.reserved,
            queue.policy,
            queue.ordered,
        )

    # -- told ---------------------------------------------------------------------------------------------------

    def joined(self, owner: int, level: int, n: int, head: Head) -> None:
        line = self._line(owner, level)
        line.begins(head)
        self._join(owner, line, n, head)

    def returned(self, owner: int, level: int, n: int, head: Head) -> None:
        self._join(owner, self._line(owner, level), n, head)

    def released(self, owner: int, level: int, head: Head) -> None:
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
        self._load(_all_of([owner]))
        customer = self.customer(owner)
        customer.running = running
        self._limits.setdefault(owner, ())
        self._book.change(customer, settings)
        self._touch_all(owner, customer)

    def falls_due(self, owner: int, kind: str, at: int) -> None:
        del owner
        self.bounds.lower(kind, at)

    def write(self, tables: Tables) -> None:
        """Nothing is left for later."""

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

    def fold(self, *, everything: bool = False) -> None:
        """Tell the book what happened since the last claim, in order; heads are looked up at the end."""
        rows, is_taken_out = self._changes or [], self._changes is not None
        if everything or self.queue.is_foreign:
            rows = [*rows, *self.tables.all("fold_all")]
        elif self.queue.has_changes and not is_taken_out:
            rows = self.tables.all("fold")
        elif not rows:
            return
        self._folded = True
        self._know({row[1] for row in rows})
        self._load([(row[1], row[3]) for row in rows if row[3] is not None])
        self._folding = True
        for _, *change in sorted(rows):
            self._fold_one(*change)
        self._folding = False
        self._find_heads()

    def _fold_one(self, owner: int, kind: str, level: int, n: int, seq: int, *more: Any) -> None:
        ready_at, cost, settings = more
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
        elif kind == "changed":
            self.changed(owner, read_settings(settings), n)
        else:
            self.falls_due(owner, kind, ready_at)

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

    def save(self, work: Work, *, is_last: bool = False) -> list[Row]:
        """Write back what changed, and what the claim did besides; the documents started.

        `is_last`: nothing more is asked in this transaction, so that it may be committed with this.
        """
        rows, old = [], []
        for line in self._touched:
            if line.filed and line.head is not None:
                self.bounds.head(line.level, line.head)
            row, kept = line.row(), line.kept
            is_spent = self.turns.is_spent(line)
            if kept is not None and (is_spent or row != kept):
                old.append(line.key())
            if is_spent:
                self._forget(line)
            elif row != kept:
                rows.append((*row, *line.place(fair=self._fair)))
                line.kept, line.version, line.at = row, self.queue.version + 1, None
        if self._limited:
            self._save_limits()
        started = self._save_queue(work, {**columns(COLUMNS, rows), **columns(OLD, old)}, is_last=is_last)
        self._touched.clear()
        self._limited.clear()
        self.is_remembered = True
        return started

    @property
    def is_small(self) -> bool:
        """Whether it may be remembered."""
        return len(self._customers) <= MAX_REMEMBERED

    def _forget(self, line: SqlLine) -> None:
        lines = self._customers[line.owner].lines
        del lines[line.level]
        if not lines and line.owner not in self._limits:
            del self._customers[line.owner]
            self._looked.difference_update([(line.owner, level) for level in LEVELS])

    def _save_limits(self) -> None:
        for owner in self._limited:
            customer = self._customers[owner]
            settings = json.dumps(plain(customer.settings._asdict()))
            row = (settings, customer.running, customer.whole_at, customer.rate_closed_until)
            if customer.rate_closed_until is not None:
                self.bounds.lower("rate", customer.rate_closed_until)
            if row != self._limits[owner]:
                names = ("settings", "running", "whole_at", "rate_closed_until")
                self.tables.run("save_limits", customer=owner, **dict(zip(names, row, strict=True)))
                self._limits[owner] = row

    def _save_queue(self, work: Work, lines: dict[str, list[Any]], *, is_last: bool) -> list[Row]:
        """Write it all in one statement, if anything changed. Fences that are reserved have to be on the disk."""
        bounds, queue = self.bounds.text(), self.queue
        standing = turns_text(self.turns, [level_text(level) for level in self.turns.levels])
        reserved, reserves = queue.reserved, not queue.alive or self.fence > queue.reserved
        if reserves:
            reserved = self.fence + FENCES
            self.tables.run("live")
            self.tables.run("commit_surely")
        order = str(self.turns.policy.order)
        changed = self._folded or reserves or queue.ordered != order or self._touched or self._limited or work.news
        if not changed and (self.fence, standing, bounds) == (queue.fence, queue.standing, queue.bounds):
            return []
        started = (self.tables.last if is_last else self.tables.all)(
            "save_claim",
            **work.values(),
            **lines,
            version=queue.version,
            ordered=order,
            standing=standing,
            bounds=bounds,
            last_fence=self.fence,
            reserved=reserved,
            folds=self._folded,
        )
        self.queue = queue._replace(version=queue.version + 1, reserved=reserved, ordered=order, alive=True)
        self._folded = False
        return started

    # -- read ---------------------------------------------------------------------------------------------------

    def _line(self, owner: int, level: int) -> SqlLine:
        """A customer's line of a level, read or new, which is going to change."""
        customer = self.customer(owner)
        line = customer.lines.get(level)
        if line is None:
            self._load([(owner, level)])
            line = customer.lines.get(level)
        if line is None:
            line = customer.lines[level] = SqlLine(str(owner), level, customer.settings.weight, owner=owner)
        self._touched.add(line)
        return line

    def _touch_all(self, owner: int, customer: LinesOf[SqlLine]) -> None:
        """What concerns a customer with settings of its own may have opened or closed all its lines."""
        self._touched.update(customer.lines.values())
        if owner in self._limits:
            self._limited.add(owner)

    def customer(self, owner: int) -> LinesOf[SqlLine]:
        """A customer's lines: all of them if it has settings of its own, otherwise those asked for."""
        if owner not in self._customers:
            self._know([owner])
        return self._customers[owner]

    def _know(self, owners: Iterable[int]) -> None:
        """Hold these customers' settings, and all lines of those that have any of their own."""
        new = [owner for owner in owners if owner not in self._customers]
        if not new:
            return
        for owner in new:
            self._customers[owner] = LinesOf(str(owner))
        limited = self.tables.all("limits_of", customers=new) if self.queue.has_limits else []
        for owner, *kept in limited:
            known = self._customers[owner]
            settings, known.running, known.whole_at, known.rate_closed_until = kept
            known.settings = read_settings(settings)
            self._limits[owner] = tuple(kept)
        if limited:
            self._load(_all_of([owner for owner, *_ in limited]))

    def _load(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Hold the lines of these customers and levels."""
        new = list(dict.fromkeys(each for each in wanted if each not in self._looked))
        if new:
            self._looked.update(new)
            self._read_lines(self.tables.all("lines_of", **columns(("customer", "level"), new)))

    def _read_lines(self, rows: list[Row]) -> None:
        self._know(dict.fromkeys(row[0] for row in rows))
        for row in rows:
            owner, level, weight, turn, stamp, waiting, *head, filed, front, out_of_turn_at, version, at = row
            lines = self._customers[owner].lines
            if level not in lines:
                first = None if head[0] is None else Head(*head)
                stands = (str(owner), level, weight, turn, stamp, waiting, first)
                lines[level] = SqlLine(*stands, owner=owner, front=front, kept=row[:-2], version=version, at=at)
                lines[level].out_of_turn_at = out_of_turn_at
                if filed:
                    self.turns.file(lines[level])

    # -- seen ---------------------------------------------------------------------------------------------------

    def _see_overdue(self, now: int) -> None:
        """An overdue slot may fall now: see the oldest head of each level, and of overdue ones whose turn it is."""
        since = now - self.turns.policy.overdue_after
        for level in self.turns.levels[1:]:
            if level.open_lines and self._may_be_overdue(level, since):
                self._see_oldest(level)
                oldest = level.oldest()
                if oldest is not None and oldest.head is not None and oldest.head.ready_at <= since:
                    self._see_lowest(level)
                    if level.next_use_is_out_of_turn:
                        self._see_oldest_rested(level, now)

    def _may_be_overdue(self, level: Level[SqlLine], since: int) -> bool:
        """Lines changed in this claim are held, all others are bounded."""
        oldest = level.oldest()
        held = NEVER if oldest is None or oldest.head is None else oldest.head.ready_at
        return min(held, self.bounds.oldest[level.number][0]) <= since

    def _see_lowest(self, level: Level[SqlLine]) -> None:
        """Hold the open line whose turn it is in this level."""
        number = level.number
        while (seen := self._seen_place[number]) is not ALL_SEEN:
            line = level.lowest()
            if line is not None and line.place(fair=self._fair) <= seen:
                return
            rows = self._see_more("lowest_lines", number, seen)
            if len(rows) < self._reach + MORE:
                self._seen_place[number] = ALL_SEEN
            else:
                self._seen_place[number] = (rows[-1][3], rows[-1][4]) if self._fair else (rows[-1][6], 0)

    def _see_oldest(self, level: Level[SqlLine]) -> None:
        """Hold the open line of this level whose head has waited longest."""
        number = level.number
        while (seen := self._seen_age[number]) is not ALL_SEEN:
            line = level.oldest()
            if line is not None and line.head is not None and (line.head.ready_at, line.head.seq) <= seen:
                return
            rows = self._see_more("oldest_lines", number, seen)
            if seen < self.bounds.oldest[number]:
                self.bounds.oldest[number] = (rows[0][7], rows[0][6]) if rows else (NEVER, 0)
            all_seen = len(rows) < self._reach + MORE
            self._seen_age[number] = ALL_SEEN if all_seen else (rows[-1][7], rows[-1][6])

    def _see_oldest_rested(self, level: Level[SqlLine], now: int) -> None:
        """Hold the open line whose head has waited longest, of those that may be started out of turn."""
        interval, (ready_at, seq) = self.turns.policy.out_of_turn_interval, self.bounds.oldest[level.number]
        seen = (ready_at, seq - 1)
        while True:
            rows = self._see_more("oldest_rested_lines", level.number, seen, rested_since=now - interval, now=now)
            line = level.oldest_rested(now, interval)
            if len(rows) < self._reach + MORE:
                return
            seen = (rows[-1][7], rows[-1][6])
            if line is not None and line.head is not None and (line.head.ready_at, line.head.seq) <= seen:
                return

    def _see_more(self, query: str, level: int, seen: tuple[int, int], **values: int) -> list[Row]:
        """Read the open lines beyond what was seen."""
        limit = self._reach + MORE
        rows = self.tables.all(query, level=level, seen=seen[0], tie=seen[1], limit=limit, **values)
        self._read_lines(rows)
        return rows

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
        """Read on in this line, and in those of its level that will be next."""
        level = self.turns.levels[line.level]
        open_lines = max(1, level.open_lines)
        at_once = 1 + max(self._reach, AHEAD if self.is_remembered else 0) // open_lines
        lines = {line: None}
        for *_, other in level.by_turn[: self._reach]:
            if other.filed and other.waiting > 1 and not other.has_ahead():
                lines[other] = None
        self._read_heads(list(lines), {each: each.head.seq if each.head else 0 for each in lines}, at_once)

    def _read_heads(self, lines: list[SqlLine], after: dict[SqlLine, int], limit: int) -> None:
        """Documents behind these; a document that came back may stand behind the front as well."""
        rows = self.tables.all(
            "waiting_in_lines",
            customer=[line.owner for line in lines],
            level=[line.level for line in lines],
            after=[after[line] for line in lines],
            front=[NEVER if line.front is None else line.front for line in lines],
            limit=limit,
        )
        found: dict[tuple[int, int], dict[int, Head]] = {}
        for owner, level, seq, ready_at, cost, _ in sorted(rows):
            found.setdefault((owner, level), {})[seq] = Head(seq, ready_at, cost)
        any_new = {(owner, level) for owner, level, *_, is_new in rows if is_new}
        for line in lines:
            key = line.owner, line.level
            line.ahead.extend(islice(found.get(key, {}).values(), limit))
            if key not in any_new:
                line.found_none(after[line])

    def _find_heads(self) -> None:
        """Of lines whose head has left: none of their documents stands before the one that was known."""
        lines = [line for line in self._headless if line.waiting > 0]
        self._headless.clear()
        if lines:
            for line in lines:
                line.ahead.clear()
            self._read_heads(lines, {line: line.head.seq - 1 if line.head else 0 for line in lines}, 1)
            for line in lines:
                self.turns.change_head(line, line.ahead[0] if line.ahead else None)


def _all_of(owners: Iterable[int]) -> Iterator[tuple[int, int]]:
    """All levels of these customers."""
    return ((owner, level) for owner in owners for level in LEVELS)
