"""How documents come in: checks, documents, idempotency keys. One write transaction a call."""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, groupby
from typing import Any, Final

import apsw

from inturn.errors import InvalidInputError, KeyConflictError
from inturn.model import Check, DocumentState, NewDocument, Receipt
from inturn.policy import Counter
from inturn.policy.priority import CheckedMany
from inturn.policy.turns import Head
from inturn.store import KEY_KEPT, EventKind, Submission, check_fingerprint
from inturn.stores._given import are_alike, columns_of, receipts_of
from inturn.stores.sqlite.changes import LaterChanges
from inturn.stores.sqlite.moves import Moves
from inturn.stores.sqlite.tables import QUERIES, Tables, packed_all

WAITING: Final = str(DocumentState.WAITING)
DELAYED: Final = str(DocumentState.DELAYED)
_NAME: Final = re.compile(r":(\w+)")
TEN: Final = 10
"""Documents kept by one statement, where there are as many; by one each it takes half as long again."""


class Intake:
    """Checks and submits, inside the writer's transaction."""

    def __init__(self, tables: Tables, later: LaterChanges) -> None:
        self._tables = tables
        self._later = later

    def check(self, customer: str, n: int, key: str | None, now: int) -> tuple[Check, ...]:
        """Look at a customer for n documents that wait elsewhere."""
        fingerprint = check_fingerprint(n)
        owner, counter = self.customer(customer)
        if key is not None and (first := self._repeated(owner, customer, key, fingerprint, now)) is not None:
            return tuple(Check(level, count) for _, level, count in first)
        answer = tuple(Check(level, count) for level, count in self.lower(owner, counter, n, now).each())
        if key is not None:
            self._keep_key(owner, key, fingerprint, now, [("", *each) for each in answer])
        return answer

    def submit(self, submission: Submission, now: int) -> tuple[Receipt, ...]:
        """Take in one call's documents."""
        customer, ids, documents, key, fingerprint = submission
        owner, counter = self.customer(customer)
        if key is not None and (first := self._repeated(owner, customer, key, fingerprint, now)) is not None:
            return tuple(Receipt(*each) for each in first)
        last, number = self._tables.one("give_seqs", n=len(ids)) or (0, 0)
        checked = self.lower(owner, counter, len(ids), now, number)
        receipts = receipts_of(ids, checked)
        kept = packed_all(ids)
        documents = self._tables.policy(number).policy.costs.applied(documents)
        self._insert(owner, last - len(ids) + 1, kept, checked, documents, now)
        moves = Moves(self._tables, self._later, now)
        moves.note(EventKind.SUBMITTED, customer, kept)
        moves.write()
        if key is not None:
            self._keep_key(owner, key, fingerprint, now, receipts)
        return receipts

    def _insert(
        self, owner: int, first: int, ids: bytes, checked: CheckedMany, documents: Sequence[NewDocument], now: int
    ) -> None:
        given = columns_of(documents)
        given["level"] = levels = checked.level_of_each()
        try:
            self._keep(owner, first, ids, checked.counter.count + len(levels) - 1, given, now)
        except apsw.ConstraintError as wrong:
            raise InvalidInputError("a document with one of these ids exists already; ids are given once") from wrong
        delays, costs = given["delay"], given["cost"]
        waiting = [at for at, delay in enumerate(delays) if not delay] if any(delays) else range(len(levels))
        for level, run in groupby(waiting, key=levels.__getitem__):
            several = list(run)
            self._later.joined(owner, level, len(several), Head(first + several[0], now, costs[several[0]]))

    def _keep(self, owner: int, first: int, ids: bytes, count: int, given: dict[str, list[Any]], now: int) -> None:
        """By statements of ten documents, as far as that goes; what all have alike is given to each only once."""
        n = len(given["name"])
        alike = [name for name, values in given.items() if n > 1 and are_alike(values)]
        common = [given[name][0] for name in alike]
        names = tuple(name for name in given if name not in alike)
        each = [ids[at : at + 16] for at in range(0, 16 * n, 16)], *[given[name] for name in names]
        flat = list(chain.from_iterable(zip(*each, strict=True)))
        width, tens = len(each), n - n % TEN
        for places, rows in ((range(0, tens, TEN), TEN), (range(tens, n), 1)):
            self._tables.connection.executemany(
                _statement(tuple(alike), names, rows),
                [
                    (first + at, owner, count - at, now, *common, *flat[width * at : width * (at + rows)])
                    for at in places
                ],
            )

    def lower(self, owner: int, counter: Counter | None, n: int, now: int, version: int | None = None) -> CheckedMany:
        """Lower a customer's counter n times."""
        if version is None:
            version = (self._tables.one("policy_number") or (0,))[0]
        checked = self._tables.policy(version).policy.priority.check_many(counter, now, n)
        count, updated_at = checked.counter
        self._tables.one("set_counter", id=owner, count=count, updated_at=updated_at)
        return checked

    def customer(self, name: str) -> tuple[int, Counter | None]:
        """A customer's id and counter; known from now on."""
        found = self._tables.one("customer", name=name)
        if found is None:
            return (self._tables.one("add_customer", name=name) or (0,))[0], None
        owner, count, updated_at, _ = found
        return owner, None if count is None else Counter(count, updated_at)

    def _repeated(self, owner: int, customer: str, key: str, fingerprint: str, now: int) -> list[Any] | None:
        found = self._tables.one("key", customer=owner, key=key)
        if found is None or now - found[1] > KEY_KEPT:
            return None
        if found[0] != fingerprint:
            raise KeyConflictError(
                f"key {key!r} of {customer!r} was used before for something else; use a new key for new content",
            )
        answer: list[Any] = json.loads(found[2])
        return answer

    def _keep_key(self, owner: int, key: str, fingerprint: str, now: int, answer: Sequence[Sequence[Any]]) -> None:
        text = json.dumps(answer)
        self._tables.one("keep_key", customer=owner, key=key, fingerprint=fingerprint, at=now, answer=text)


@lru_cache(maxsize=100)
def _statement(alike: tuple[str, ...], names: tuple[str, ...], rows: int) -> str:
    """What keeps so many documents: their first seq, owner, first count, the time, what is alike, then by document."""
    common = {name: f"?{at}" for at, name in enumerate(("seq", "owner", "count", "now", *alike), start=1)}
    insert, values, row = QUERIES["add_document"].partition("VALUES ")
    each, texts = ("id", *names), []
    for at in range(rows):
        own = {name: f"?{number}" for number, name in enumerate(each, start=1 + len(common) + at * len(each))}
        place = {"seq": f"{common['seq']} + {at}", "count": f"{common['count']} - {at}"}
        known = {**common, **own, **place}
        texts.append(_NAME.sub(lambda found: known[found[1]], row))  # noqa: B023 - used at once
    return insert + values + ", ".join(texts)
