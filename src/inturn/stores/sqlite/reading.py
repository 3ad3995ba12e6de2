"""What can be seen of a queue in SQLite, read on a connection of its own so that no writer waits for it."""

import json
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final

from inturn.errors import NotFoundError
from inturn.model import ENDED, Customer, Document, Line, ResultFile, Worker, report_of
from inturn.policy.turns import LEVELS, Head
from inturn.store import (
    ATTEMPTS_KEPT,
    Attempt,
    Counts,
    CustomerFilter,
    DocumentFilter,
    DocumentSort,
    Event,
    LineStanding,
    Operator,
    Pace,
    Page,
    PolicyVersion,
    Standings,
)
from inturn.stores._turns import START
from inturn.stores.sqlite.tables import (
    STATES,
    Row,
    Tables,
    attempt_of,
    document_of,
    event_of,
    packed,
    policy_of,
    read_settings,
)

NEVER: Final = 2**63 - 1
LISTS: Final = {DocumentSort.NEWEST: "newest_documents", DocumentSort.OLDEST: "oldest_documents"}
LISTS_OF_A_LINE: Final = {DocumentSort.NEWEST: "newest_documents_of", DocumentSort.OLDEST: "oldest_documents_of"}
_seq: Final = itemgetter(2)


class Reading:
    """Reads; whoever uses it sees to it that one thread does at a time."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def document(self, id_: str) -> Document:
        row = self._tables.one("whole_by_id", id=packed(id_))
        if row is None:
            raise NotFoundError(f"there is no document {id_}")
        return document_of(row)

    def result(self, id_: str) -> str | None:
        row = self._tables.one("result", id=packed(id_))
        if row is None:
            raise NotFoundError(f"there is no document {id_}")
        text: str | None = row[1]
        return text

    def files(self, id_: str) -> tuple[ResultFile, ...]:
        self.document(id_)
        return tuple(ResultFile._make(row) for row in self._tables.all("files", id=packed(id_)))

    def attempts(self, id_: str) -> tuple[Attempt, ...]:
        self.document(id_)
        rows = self._tables.all("attempts", id=packed(id_), kept=ATTEMPTS_KEPT)
        return tuple(attempt_of(row) for row in reversed(rows))

    def unknown_blobs(self, blobs: Sequence[str]) -> frozenset[str]:
        return frozenset(blob for blob in blobs if (self._tables.one("known_blob", blob=blob) or (0,))[0] == 0)

    def workers(self) -> tuple[Worker, ...]:
        return tuple(Worker(report_of(*texts), seen_at) for *texts, seen_at in self._tables.all("workers"))

    def documents(self, where: DocumentFilter, limit: int, after: str | None, sort: DocumentSort) -> Page[Document]:
        begin = 0 if sort is DocumentSort.OLDEST else NEVER
        values = {**self._where(where), "after": begin if after is None else int(after), "limit": limit + 1}
        if where.customer is None:
            rows = self._tables.all(LISTS[sort], **values)
        else:
            query = LISTS_OF_A_LINE[sort]
            rows = [row for line in LEVELS for row in self._tables.all(query, **values, line=line)]
            rows.sort(key=_seq, reverse=sort is DocumentSort.NEWEST)
        shown = tuple(document_of(row) for row in rows[:limit])
        return Page(shown, str(shown[-1].seq) if len(rows) > limit else None)

    def counts(self, where: DocumentFilter) -> Counts:
        states: dict[Any, int] = {}
        waiting: dict[int, int] = {}
        for state, line, n in self._tables.all("counts", **self._where(where)):
            states[STATES[state]] = states.get(STATES[state], 0) + n
            if line is not None:
                waiting[line] = n
        return Counts(states, waiting)

    def _where(self, where: DocumentFilter) -> dict[str, Any]:
        owner = None
        if where.customer is not None:
            found = self._tables.one("customer", name=where.customer)
            owner = -1 if found is None else found[0]
        return {
            "states": None if where.states is None else json.dumps(sorted(where.states)),
            "owner": owner,
            "level": where.level,
            "batch": where.batch,
            "text": None if where.text is None else where.text.lower(),
        }

    def customer(self, name: str) -> Customer:
        found = self._tables.one("customer", name=name)
        if found is None:
            raise NotFoundError(f"there is no customer {name!r}")
        owner, count, updated_at, settings = found
        return self._customers([(owner, name, count, updated_at, settings)])[0]

    def customers(self, where: CustomerFilter, limit: int, after: str | None) -> Page[Customer]:
        rows = self._tables.all(
            "customers",
            after=after,
            text=None if where.text is None else where.text.lower(),
            paused=where.paused,
            waiting=where.waiting,
            limit=limit + 1,
        )
        shown = tuple(self._customers(rows[:limit]))
        return Page(shown, shown[-1].name if len(rows) > limit else None)

    def _customers(self, rows: Sequence[Row]) -> list[Customer]:
        """With what belongs to them, asked for all at once: lists of all customers are read page by page."""
        owners = json.dumps([row[0] for row in rows])
        running: dict[int, int] = dict(self._tables.all("running_by_customer"))
        closed = {owner: read_settings(text).rate for owner, text in self._tables.all("rate_closed", customers=owners)}
        waiting: dict[int, list[tuple[int, int]]] = {}
        for owner, level, n in self._tables.all("waiting_by_line", customers=owners):
            waiting.setdefault(owner, []).append((level, n))
        found = []
        for owner, name, count, updated_at, text in rows:
            settings, runs = read_settings(text), running.get(owner, 0)
            is_rated = owner in closed and closed[owner] == settings.rate
            is_open = not settings.paused and not is_rated and (settings.cap is None or runs < settings.cap)
            lines = tuple(Line(level, n, is_open) for level, n in waiting.get(owner, ()))
            found.append(Customer(name, count, updated_at, settings, runs, lines))
        return found

    def events(self, after: int, limit: int) -> tuple[Event, ...]:
        return tuple(event_of(row) for row in self._tables.all("events", after=after, limit=limit))

    def last_event(self) -> int:
        return int((self._tables.one("last_event") or (0,))[0])

    def by_hand(self, limit: int, before: int | None, customer: str | None) -> tuple[Event, ...]:
        below = NEVER if before is None else before
        if customer is None:
            rows = self._tables.all("events_by_hand", before=below, limit=limit)
        else:
            rows = self._tables.all("events_by_hand_of", customer=customer, before=below, limit=limit)
        return tuple(event_of(row) for row in rows)

    def kept_bytes(self, customer: str) -> int:
        return int((self._tables.one("kept_bytes", customer=customer) or (0,))[0])

    def paused(self) -> Operator | None:
        row = self._tables.one("paused")
        return None if row is None else Operator(*row)

    def policy(self) -> PolicyVersion:
        number = self._tables.one("policy_number")
        if number is None:
            raise AssertionError("the queue has no row")
        return self._tables.policy(number[0])

    def policies(self) -> tuple[PolicyVersion, ...]:
        return tuple(policy_of(row) for row in self._tables.all("policies"))

    def standings(self) -> Standings:
        """As the last claim or fold left them."""
        policy = self.policy().policy.turns
        (turns,) = self._tables.one("turns") or (START,)
        _, dispatched, rotation, levels = json.loads(turns)
        lines = [
            LineStanding(self._tables.name(owner), level, weight, turn, stamp, waiting, Head(*head))
            for owner, level, weight, turn, stamp, waiting, *head in (row[:9] for row in self._tables.all("open_lines"))
        ]
        lines.sort(key=attrgetter("level", "turn", "stamp"))
        return Standings(policy, dispatched, rotation, tuple(level[3] for level in levels), tuple(lines))

    def ahead(self, id_: str) -> int:
        self.document(id_)
        return int((self._tables.one("ahead", id=packed(id_)) or (0,))[0])

    def pace(self, since: int) -> Pace:
        return Pace._make(self._tables.one("pace", since=since) or (0, 0, 0))

    def next_due(self) -> int | None:
        _, *times = self._tables.one("deadlines") or (None,)
        return min((at for at in times if at is not None), default=None)

    def prunable(self, before: int, customer: str | None, up_to: int) -> int:
        if customer is None:
            counts = [
                self._tables.one("count_ended_before", state=state, before=before, up_to=up_to) for state in ENDED
            ]
        else:
            owner, *_ = self._tables.one("customer", name=customer) or (None,)
            if owner is None:
                raise NotFoundError(f"there is no customer {customer!r}")
            counts = [self._tables.one("count_ended_before_of", customer=owner, before=before, up_to=up_to)]
        return sum(count[0] for count in counts if count is not None)

    def may_be_claimed(self, now: int) -> bool:
        """Whether it is worth taking the write lock to claim."""
        (anything,) = self._tables.one("anything_to_claim") or (0,)
        return bool(anything) or any(at is not None and at <= now for at in self._tables.one("deadlines") or ())
